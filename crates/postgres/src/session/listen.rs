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
use wire::postgres::{Refusal, sqlstate};

use super::lease::GONE_TURN;
use super::{End, Session};
use crate::notify::{Confirmed, Joined, Listener};
use crate::pipeline::lease::listening::{DivertedChange, ListenChange, leaves};
use crate::pipeline::round::Round;
use crate::plan::{Discard, Kind, Plan};

/// What became of waiting for a LISTEN.
enum Waited {
    Confirmed,
    /// Weir can't listen there.
    Refused,
    Late,
}

/// A channel that is joined for a client that has a server connection.
pub(super) struct Confirming {
    /// What tells, in time, that a server listens there.
    answer: Pin<Box<Timeout<oneshot::Receiver<Confirmed>>>>,
    /// The client did not listen to the channel before.
    joined: bool,
}

impl Confirming {
    /// Ready when it waits no longer: whether a server listens there, and whether the client did
    /// not listen to the channel before.
    pub fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<(bool, bool)> {
        let answered = ready!(self.answer.as_mut().poll(cx));
        Poll::Ready((matches!(answered, Ok(Ok(Ok(())))), self.joined))
    }
}

/// What came of joining a channel for a client that has a server connection.
pub(super) enum ChannelJoin {
    /// It is known at once.
    Ended {
        /// A server listens there.
        confirmed: bool,
        /// The client did not listen to the channel before.
        joined: bool,
    },
    /// It is not confirmed that a server listens there.
    Waits(Confirming),
}

/// What was kept from the server holds from now on, or was undone with its round.
pub(super) fn end_diverted(
    listener: &mut Option<Box<Listener>>,
    changes: &[DivertedChange],
    holds: bool,
) {
    let Some(listener) = listener.as_mut().filter(|_| !changes.is_empty()) else { return };
    for channel in listener.channels() {
        if leaves(changes, &channel, holds) {
            listener.leave(&channel);
        }
    }
}

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

    /// Joins a channel for a client that has a server connection.
    pub(super) fn join(&mut self, channel: &str) -> ChannelJoin {
        let deadline = self.options.patience.deadline(Instant::now()).into();
        let listener = self.listener();
        let joined = !listener.has(channel);
        match listener.join(channel) {
            Ok(Joined::Now) => ChannelJoin::Ended { confirmed: true, joined },
            Ok(Joined::Soon(answer)) => {
                let answer = Box::pin(tokio::time::timeout_at(deadline, answer));
                ChannelJoin::Waits(Confirming { answer, joined })
            }
            Err(_) => ChannelJoin::Ended { confirmed: false, joined },
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
