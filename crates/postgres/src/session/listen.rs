//! `LISTEN` of a client that has no server connection: answered here once the connection that
//! listens for everyone in the database has it confirmed.
//!
//! Drivers that wait for the description of a statement before they run it (with a Flush) have a
//! server connection by then: there Bind and Execute are kept from the server and answered the same
//! way.
//!
//! Within a transaction, and in a text of several statements, `LISTEN` goes to the server and binds
//! the client to it, which then tells it what is notified.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::sync::oneshot;
use tokio::time::Timeout;
use wire::postgres::backend::Status;
use wire::postgres::frame::Frame;
use wire::postgres::frontend::Execute;
use wire::postgres::{Refusal, sqlstate};

use super::lease::GONE_TURN;
use super::relay::Relay;
use super::{End, Session};
use crate::connection::Connection;
use crate::notify::{Confirmed, Joined, Listener};
use crate::pipeline::lease::listening::{DivertedChange, ListenChange, leaves};
use crate::pipeline::lease::portals::DivertedExecute;
use crate::pipeline::round::Round;
use crate::pipeline::script::{Expect, Why};
use crate::plan::{Deallocate, Discard, Kind, Plan};

/// What became of waiting for a LISTEN.
enum Waited {
    Confirmed,
    /// Weir can't listen there.
    Refused,
    Late,
}

/// What becomes of a client's message.
pub(super) enum Diverted {
    /// The server gets it.
    No,
    /// It waits for a channel to be listened to.
    Waits,
    /// Weir does it; what the client hears.
    Done(Expect),
    /// The client hears why it is not done.
    Refused(Why),
}

/// The Bind of a LISTEN of a client that has a server connection.
#[derive(Debug, Default)]
pub(super) enum Confirming {
    /// No LISTEN is waited for.
    #[default]
    Nothing,
    /// It is not confirmed.
    Waits(Pin<Box<Timeout<oneshot::Receiver<Confirmed>>>>),
    /// It was, or was not in time.
    Ended(bool),
}

impl Confirming {
    /// Ready when it waits no longer.
    pub fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self::Waits(answer) = self else { return Poll::Pending };
        let answered = ready!(answer.as_mut().poll(cx));
        *self = Self::Ended(matches!(answered, Ok(Ok(Ok(())))));
        Poll::Ready(())
    }
}

/// As Describe and Close have it.
const UNNAMED_PORTAL: &[u8] = b"P\0";
const BIND_COMPLETE: &[u8] = b"2\0\0\0\x04";
const NO_DATA: &[u8] = b"n\0\0\0\x04";
const DEALLOCATE: &[u8] = b"C\0\0\0\x0fDEALLOCATE\0";

impl Session {
    /// What a statement outside a transaction changes that Weir can change itself.
    pub(super) fn listening(&self, plan: &Plan) -> Option<ListenChange> {
        match &plan.kind {
            Kind::Listen(channel) if self.can_listen(channel) => {
                Some(ListenChange::To(channel.clone()))
            }
            Kind::Unlisten(channel) => Some(ListenChange::NotTo(channel.clone())),
            Kind::Discard(Discard::All) if self.environment.settings.is_as_begun() => {
                Some(ListenChange::Discard)
            }
            _ => None,
        }
    }

    /// Whether Weir hears a channel under the name, and its payloads in the encoding, that the
    /// client uses.
    fn can_listen(&self, channel: &str) -> bool {
        let reported = |name: &str| {
            self.environment
                .told
                .begun
                .iter()
                .find(|(known, _)| &**known == name)
                .map_or("", |(_, value)| value)
        };
        let is_utf8 = |encoding: &str| {
            let plain = encoding.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
            matches!(plain.to_ascii_uppercase().as_str(), "UTF8" | "UNICODE")
        };
        let client = self.environment.settings.value("client_encoding");
        !channel.is_empty()
            && is_utf8(client.unwrap_or_else(|| reported("client_encoding")))
            && (channel.is_ascii() || is_utf8(reported("server_encoding")))
    }

    /// Changes what the client listens to, as a round asks.
    pub(super) async fn change_listening(
        &mut self,
        what: ListenChange,
        round: Round,
    ) -> Result<Option<Round>, End> {
        match what {
            ListenChange::To(channel) => return self.listen(&channel, round).await,
            ListenChange::NotTo(channel) => {
                self.no_longer(channel.as_deref());
                // What came before the answer is heard before it.
                self.tell_mail()?;
                self.answer("UNLISTEN", Status::Idle, &round);
            }
            ListenChange::Discard => {
                self.no_longer(None);
                self.tell_mail()?;
                self.answer("DISCARD ALL", Status::Idle, &round);
                self.client.names().clear();
            }
        }
        Ok(None)
    }

    fn no_longer(&mut self, channel: Option<&str>) {
        match (&mut self.listener, channel) {
            (Some(listener), Some(channel)) => listener.leave(channel),
            (Some(listener), None) => listener.leave_all(),
            (None, _) => {}
        }
    }

    fn listener(&mut self) -> &mut Listener {
        let (front, client, database) = (&self.front, &self.client, &self.database);
        self.listener.get_or_insert_with(|| {
            let hub = front.shared.notifier.hub(&database.name_there);
            Box::new(Listener::new(hub, client.id, client.mailbox()))
        })
    }

    async fn listen(&mut self, channel: &str, mut round: Round) -> Result<Option<Round>, End> {
        let listener = self.listener();
        let is_new = !listener.has(channel);
        let waited = match listener.join(channel) {
            Ok(Joined::Now) => Waited::Confirmed,
            Ok(Joined::Soon(answer)) => self.wait_for(answer).await?,
            Err(_) => {
                let what = "too many channels are listened to";
                let refusal = Refusal::error(sqlstate::PROGRAM_LIMIT, what);
                let refusal = refusal.hint(
                    "a client may listen to 1,000 channels, all clients of a database to 10,000",
                );
                return self.refuse_round(&round, refusal).map(|()| None);
            }
        };
        if !matches!(waited, Waited::Confirmed) && is_new {
            self.no_longer(Some(channel));
        }
        match waited {
            Waited::Confirmed => self.answer("LISTEN", Status::Idle, &round),
            // Where Weir's own user may not log in the client's still may.
            Waited::Refused => {
                round.came = Instant::now();
                return Box::pin(self.lease(round, false)).await;
            }
            Waited::Late => {
                let what = "no server has confirmed the LISTEN within \
                            postgres.timeouts.query-wait";
                let refusal = Refusal::error(sqlstate::CANNOT_CONNECT, what);
                self.refuse_round(&round, refusal)?;
            }
        }
        Ok(None)
    }

    async fn wait_for(&self, mut answer: oneshot::Receiver<Confirmed>) -> Result<Waited, End> {
        let confirmed = std::future::poll_fn(|cx| {
            if let Poll::Ready(answered) = Pin::new(&mut answer).poll(cx) {
                let confirmed = matches!(answered, Ok(Ok(())));
                return Poll::Ready(Ok(if confirmed {
                    Waited::Confirmed
                } else {
                    Waited::Refused
                }));
            }
            match self.client.poll_called(cx) {
                Poll::Ready(()) => Poll::Ready(match self.client.parting() {
                    Some(refusal) => Err(End::Refused(refusal)),
                    None => Err(End::Gone),
                }),
                Poll::Pending => Poll::Pending,
            }
        });
        let probe = self.environment.told.probe();
        let late = tokio::time::sleep_until(self.options.patience.deadline(Instant::now()).into());
        tokio::select! {
            biased;
            confirmed = confirmed => confirmed,
            () = late => Ok(Waited::Late),
            () = self.client.outlet.broken(GONE_TURN, &probe) => Err(End::Gone),
        }
    }

    /// What becomes of a message of a client that has a server connection: LISTEN, UNLISTEN and
    /// DEALLOCATE are kept from the server from their Bind on.
    pub(super) fn divert(
        &mut self,
        relay: &mut Relay,
        status: Status,
        message: Frame<'_>,
    ) -> Diverted {
        match (message.tag, relay.lease.portals.is_diverted(b"")) {
            // Of the unnamed portal, which the next Bind of it and the end of the transaction end.
            (b'B', _) => {
                if message.body.first() == Some(&0)
                    && !matches!(relay.confirming, Confirming::Waits(_))
                {
                    self.divert_no_more(relay);
                }
                self.divert_bind(relay, status, message.body)
            }
            (b'D', true) if message.body == UNNAMED_PORTAL => Diverted::Done(Expect::Say(NO_DATA)),
            (b'E', true) => self.divert_execute(relay, message.body),
            (b'C', true) if message.body == UNNAMED_PORTAL => {
                self.divert_no_more(relay);
                Diverted::No
            }
            (b'S' | b'Q', _) => {
                self.divert_no_more(relay);
                Diverted::No
            }
            _ => Diverted::No,
        }
    }

    fn divert_execute(&self, relay: &mut Relay, body: &[u8]) -> Diverted {
        let Ok(run) = Execute::read(body) else { return Diverted::No };
        match relay.lease.portals.execute_diverted(run.portal) {
            Some(DivertedExecute::HasRun) => Diverted::Refused(Why::HasRun),
            Some(DivertedExecute::Listen(change)) => {
                let completed = change.what.completed();
                relay.lease.round().diverted.push(change);
                Diverted::Done(Expect::Say(completed))
            }
            Some(DivertedExecute::Deallocate(name)) => {
                self.client.names().change(name.as_bytes(), None);
                Diverted::Done(Expect::Deallocate(DEALLOCATE))
            }
            None => Diverted::No,
        }
    }

    /// The unnamed portal is gone: what was not run is not done.
    fn divert_no_more(&mut self, relay: &mut Relay) {
        if let Some(change) = relay.lease.portals.close_unnamed() {
            self.divert_ended(&[change], false);
        }
    }

    /// What was kept from the server holds from now on, or was undone with its round.
    pub(super) fn divert_ended(&mut self, changes: &[DivertedChange], holds: bool) {
        let Some(listener) = self.listener.as_mut().filter(|_| !changes.is_empty()) else { return };
        for channel in listener.channels() {
            if leaves(changes, &channel, holds) {
                listener.leave(&channel);
            }
        }
    }

    fn divert_bind(&mut self, relay: &mut Relay, status: Status, body: &[u8]) -> Diverted {
        // Of the unnamed portal, which is run or forgotten.
        let plan = self.bound(body).filter(|_| body.first() == Some(&0));
        let Some((plan, _)) = plan else { return Diverted::No };
        if let Kind::Deallocate(Deallocate::Name(name)) = &plan.kind {
            return self.divert_deallocate(relay, status, name);
        }
        if self.pinned || relay.lease.is_open() || relay.lease.has_run() {
            return Diverted::No;
        }
        let Some(what) = self.listening(&plan) else { return Diverted::No };
        match &what {
            ListenChange::Discard => return Diverted::No,
            ListenChange::NotTo(_) => {}
            ListenChange::To(channel) => {
                if matches!(relay.confirming, Confirming::Nothing) {
                    relay.joined = !self.listener().has(channel);
                    relay.confirming = self.join(channel);
                }
                match std::mem::take(&mut relay.confirming) {
                    waits @ Confirming::Waits(_) => {
                        relay.confirming = waits;
                        return Diverted::Waits;
                    }
                    Confirming::Ended(true) => {}
                    // The server is to listen itself.
                    Confirming::Ended(false) | Confirming::Nothing => {
                        self.no_longer(Some(channel));
                        return Diverted::No;
                    }
                }
            }
        }
        let joined = std::mem::take(&mut relay.joined);
        relay.lease.portals.divert_listen(DivertedChange { what, joined });
        Diverted::Done(Expect::Say(BIND_COMPLETE))
    }

    fn divert_deallocate(&self, relay: &mut Relay, status: Status, name: &str) -> Diverted {
        if !relay.lease.rounds.is_first() {
            return Diverted::Waits;
        }
        if status == Status::Failed || self.client.names().get(name.as_bytes()).is_none() {
            return Diverted::No;
        }
        relay.lease.portals.divert_deallocate(name);
        Diverted::Done(Expect::Say(BIND_COMPLETE))
    }

    fn join(&mut self, channel: &str) -> Confirming {
        let deadline = self.options.patience.deadline(Instant::now()).into();
        match self.listener().join(channel) {
            Ok(Joined::Now) => Confirming::Ended(true),
            Ok(Joined::Soon(answer)) => {
                Confirming::Waits(Box::pin(tokio::time::timeout_at(deadline, answer)))
            }
            Err(_) => Confirming::Ended(false),
        }
    }

    /// Whether notifications may be sent now: nothing is in flight, and no transaction is open,
    /// within which PostgreSQL sends none. More of them than may wait are always told of.
    pub(super) fn mail_may_go(&self) -> bool {
        self.client.in_flight() == 0 && (self.begun.is_none() || self.client.is_overrun())
    }

    /// Sends the notifications that wait, if they may be sent now.
    pub(super) fn tell_mail(&self) -> Result<(), End> {
        if !self.client.has_mail() || !self.mail_may_go() {
            return Ok(());
        }
        self.client.tell_mail().map_err(|_| {
            let what = "too many notifications wait for this client";
            let refusal = Refusal::fatal(sqlstate::CONFIGURATION_LIMIT, what);
            End::Refused(refusal.hint(
                "up to 10,000 of them, and 8MiB, are kept while a transaction is open or a reply \
                 under way",
            ))
        })
    }

    /// As [`mail_may_go`](Self::mail_may_go), of a client that has a server connection.
    pub(super) fn mail_may_go_beside(&self, relay: &Relay, server: &Connection) -> bool {
        relay.lease.is_quiet()
            && server.script.is_between()
            && (!relay.lease.is_open() || self.client.is_overrun())
    }

    /// The server has done this: what the client listens to there Weir leaves alone.
    pub(super) fn listening_changed(&mut self, plan: &Plan) {
        match &plan.kind {
            Kind::Listen(channel) => self.no_longer(Some(channel)),
            Kind::Unlisten(channel) => self.no_longer(channel.as_deref()),
            Kind::Discard(Discard::All) => self.no_longer(None),
            _ => {}
        }
    }
}
