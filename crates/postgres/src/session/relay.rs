//! A client with a server connection of its own, until nothing holds the two together.
//!
//! Messages go to the server as they come, under Weir's names for statements; what the server says
//! goes to the client, less what Weir asked for itself. The connection is given back when no
//! transaction is open, every round is answered and no state of the session is left on it.

mod feed;
mod state;

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use wire::postgres::backend::{Fields, Status};
use wire::postgres::{Refusal, Severity, message, sqlstate};

use super::patience::{idle_in_transaction_timeout, idle_timeout, read_timeout};
use super::round::{Cut, cut, ends_within};
use super::script::Heard;
use super::{End, Session, effect};
use crate::backends::Standing;
use crate::lanes::is_for_another;
use crate::plan::{Kind, Plan, Unsettles};
use crate::server::Connection;
use crate::settings::{Mode, Route};
use crate::worker::Slow;
pub(super) use state::Relay;
use state::Round;

/// While so much waits to be sent to one side, nothing is read from the other.
const AHEAD_MAX: usize = 256 * 1024;
/// Turns in a row before the worker's other clients have theirs.
const IN_A_ROW_MAX: u32 = 4;
const HEADER: usize = 5;
/// After these errors what is prepared on a server is closed and prepared again before it is used:
/// it is not there, is there already, or its result has changed.
const DOUBTFUL: [&[u8]; 3] = [b"26000", b"42P05", b"0A000"];

/// What came of a turn.
enum Turn {
    Heard,
    Read,
    ClientGone,
    ServerGone(Option<io::Error>),
}

impl Session {
    /// Serves the client on `server` until the two can part. What the client has sent already is
    /// in `self.inbox`.
    pub(super) async fn relay(
        &mut self,
        server: &mut Connection,
        wanted: Instant,
    ) -> Result<(), End> {
        let latencies = self.front.latencies(&server.backend);
        let mut relay = Relay::new(self.replayable(server), wanted, server, latencies);
        if let Some(begin) = self.begin.take() {
            server.ask(&begin);
            relay.open = true;
        }
        let end = self.turns(&mut relay, server).await;
        // A round without its Sync is undone with its connection, and kept by any next message.
        server.broken |= end.is_err() && !relay.is_quiet();
        end
    }

    async fn turns(&mut self, relay: &mut Relay, server: &mut Connection) -> Result<(), End> {
        let mut in_a_row = 0;
        loop {
            let restores = std::mem::take(&mut relay.restores);
            if !restores.is_empty() && server.status != Status::Failed {
                relay.restoring = true;
                server.ask(&restores);
            }
            if self.mail_may_go_beside(relay, server) {
                self.tell_mail()?;
            }
            if relay.begun && relay.is_over(server) && !relay.open {
                if std::mem::take(&mut relay.forgets) {
                    server.prepared.doubt_all();
                }
                if server.settings.as_ref() != Some(&self.applied) {
                    // Under another search_path a text may mean something else.
                    server.prepared.doubt_all();
                    server.settings = Some(self.applied.clone());
                }
                if !self.stays(server) {
                    return Ok(());
                }
            }
            self.feed(relay, server)?;
            let client = &self.client;
            server.script.answer_invented(&mut |heard| {
                if let Heard::Bytes(bytes) = heard {
                    client.outlet.send(bytes);
                }
            });
            let waits = relay.rounds.is_empty() && server.unsent() == 0;
            let limit = self.limit(relay, waits);
            let turn = poll_fn(|cx| {
                let turn = self.poll_turn(relay, server, cx);
                in_a_row = if turn.is_pending() { 0 } else { in_a_row + 1 };
                turn
            });
            let turn = match limit {
                None => turn.await,
                Some((limit, refusal)) => {
                    tokio::time::timeout(limit, turn).await.map_err(|_| End::Refused(refusal()))?
                }
            };
            match turn {
                Turn::Heard | Turn::Read => {}
                Turn::ClientGone => return Err(End::Gone),
                Turn::ServerGone(error) => return self.server_gone(relay, server, error),
            }
            self.check(relay, server)?;
            if in_a_row == IN_A_ROW_MAX {
                in_a_row = 0;
                // A stream that is always ready would keep the worker from its other sockets.
                tokio::task::yield_now().await;
            }
        }
    }

    /// What ends the two at once.
    fn check(&mut self, relay: &mut Relay, server: &mut Connection) -> Result<(), End> {
        if let Some(body) = self.own_failed.take() {
            // What the client sent behind it has run without it, or not at all.
            server.broken = true;
            let refusal = match Fields::read(&body) {
                Ok(fields) => Refusal::of_server(&fields),
                Err(_) => Refusal::error(sqlstate::INTERNAL_ERROR, "the server refused"),
            };
            return Err(End::Refused(Refusal { severity: Severity::Fatal, ..refusal }));
        }
        let may_part = relay.rounds.is_empty() && !relay.open;
        match self.client.killed().or_else(|| self.client.parting().filter(|_| may_part)) {
            Some(refusal) => Err(End::Refused(refusal)),
            None => Ok(()),
        }
    }

    /// The round at the start of the inbox, where a replica is to answer it and the primary could
    /// as well.
    fn replayable(&self, server: &Connection) -> Option<Rc<[u8]>> {
        let only_there = self.route == Some(Route::Replica) || self.pinned || self.begin.is_some();
        if only_there || server.backend.standing() != Standing::Replica || !self.begins_with_read()
        {
            return None;
        }
        match cut(&self.inbox, usize::MAX) {
            Cut::Query(len) | Cut::Extended(len) => Some(self.inbox[..len].into()),
            _ => None,
        }
    }

    /// Whether the client keeps its server connection. Nobody stays on a replica, where nothing
    /// could be written.
    fn stays(&mut self, server: &mut Connection) -> bool {
        if self.pinned
            && self.mode == Mode::Transaction
            && self.route != Some(Route::Replica)
            && server.backend.standing() != Standing::Primary
        {
            self.pinned = false;
            server.broken = true;
        }
        self.pinned
    }

    /// How long the next thing may take to happen, and what the client hears then.
    fn limit(&self, relay: &mut Relay, waits: bool) -> Option<(Duration, fn() -> Refusal)> {
        let patience = &self.patience;
        let next: Option<(Duration, fn() -> Refusal)> = match (waits, relay.open) {
            _ if relay.through > 0 || (waits && ends_within(&self.inbox)) => {
                patience.read.map(|limit| (limit, read_timeout as _))
            }
            (false, _) => patience.query.map(|limit| (limit, query_timeout as fn() -> Refusal)),
            (true, true) => {
                patience.idle_in_transaction.map(|limit| (limit, idle_in_transaction_timeout as _))
            }
            (true, false) => patience.idle.map(|limit| (limit, idle_timeout as _)),
        };
        let Some(whole) = patience.transaction.filter(|_| relay.open) else {
            relay.since = None;
            return next;
        };
        let since = *relay.since.get_or_insert_with(Instant::now);
        let left = whole.saturating_sub(since.elapsed());
        match next {
            Some((limit, refusal)) if limit < left => Some((limit, refusal)),
            _ => Some((left, transaction_timeout)),
        }
    }

    /// Sends, hears the server, reads the client: whatever can be done.
    fn poll_turn(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Turn> {
        let sent = server.poll_send(cx);
        if self.client.outlet.spilled() < AHEAD_MAX {
            let client = self.client.clone();
            match client.outlet.gathered(|| self.poll_hear(relay, server, cx)) {
                Poll::Ready(Ok(true)) => return Poll::Ready(Turn::Heard),
                Poll::Ready(Ok(false)) => return Poll::Ready(Turn::ServerGone(None)),
                Poll::Ready(Err(error)) => return Poll::Ready(Turn::ServerGone(Some(error))),
                Poll::Pending => {}
            }
        } else if self.client.outlet.poll_drained(cx, AHEAD_MAX / 2).is_ready() {
            cx.waker().wake_by_ref();
        }
        match sent {
            Poll::Ready(Err(error)) => return Poll::Ready(Turn::ServerGone(Some(error))),
            // There is room again for what had to wait.
            Poll::Ready(Ok(())) if std::mem::take(&mut relay.full) => {
                return Poll::Ready(Turn::Heard);
            }
            _ => {}
        }
        let has_mail = self.client.poll_mail(cx) && self.mail_may_go_beside(relay, server);
        let may_part = relay.rounds.is_empty() && !relay.open;
        if self.client.poll_killed(cx, may_part).is_ready() || has_mail {
            return Poll::Ready(Turn::Read);
        }
        if relay.confirming.poll_ended(cx).is_ready() {
            return Poll::Ready(Turn::Read);
        }
        if server.unsent() < AHEAD_MAX && self.inbox_has_room(relay) && !relay.leaving {
            return match self.poll_fill(cx) {
                Poll::Ready(Ok(true)) => Poll::Ready(Turn::Read),
                Poll::Pending => Poll::Pending,
                // What it has sent is still sent on.
                Poll::Ready(_) if server.unsent() > 0 => {
                    relay.leaving = true;
                    Poll::Pending
                }
                Poll::Ready(_) => Poll::Ready(Turn::ClientGone),
            };
        }
        if relay.leaving && server.unsent() == 0 && self.inbox.is_empty() {
            return Poll::Ready(Turn::ClientGone);
        }
        Poll::Pending
    }

    /// What waits for its turn is read no further than this; a client that goes away meanwhile is
    /// noticed when its answer is written.
    fn inbox_has_room(&self, relay: &Relay) -> bool {
        let goes_on = relay.takes_more(self.pinned) && !relay.confirming.waits();
        goes_on || self.inbox.len() < AHEAD_MAX
    }

    fn poll_hear(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<bool>> {
        let client = self.client.clone();
        let scratch = self.front.scratch.clone();
        let session = self;
        server.poll_hear(cx, &scratch, &mut |known, heard| match heard {
            Heard::Bytes(_) if relay.withheld => {}
            Heard::Bytes(bytes) => {
                relay.told = true;
                client.outlet.send(bytes);
            }
            Heard::Parameter(body) if relay.restoring => {
                let mut out = Vec::with_capacity(body.len() + HEADER);
                message(&mut out, b'S', |out| out.extend_from_slice(body));
                client.outlet.send(&out);
            }
            Heard::Ready { swallowed: true, .. } => relay.restoring = false,
            Heard::Completed(tag) => relay.committed |= tag == b"COMMIT",
            Heard::CopyIn { reopens } => {
                relay.copying = true;
                relay.within |= reopens;
            }
            Heard::Failed { body, swallowed } => {
                relay.copying = false;
                let code = Fields::read(body).map(|fields| fields.code());
                relay.withheld |= !swallowed
                    && !relay.told
                    && relay.request.is_some()
                    && code.is_ok_and(|code| is_for_another(code, true));
                if let Some(round) = relay.rounds.front_mut() {
                    round.failed = true;
                }
                if Fields::read(body).is_ok_and(|fields| DOUBTFUL.contains(&fields.code())) {
                    known.prepared.doubt_all();
                }
                if swallowed {
                    session.own_failed = Some(body.into());
                }
            }
            Heard::Ready { status, swallowed: false } => {
                relay.copying = false;
                session.answered(relay, status);
                relay.told = false;
            }
            _ => {}
        })
    }

    /// A round was answered: what it changed holds from now on.
    fn answered(&mut self, relay: &mut Relay, status: Status) {
        let round = relay.rounds.pop_front().unwrap_or_default();
        if let Some(request) = relay.request.take()
            && std::mem::take(&mut relay.withheld)
        {
            self.put_back(&request);
            self.only_primary = true;
            return;
        }
        self.front.gateway.metrics.leased.inc();
        let was_open = relay.open;
        relay.open = status != Status::Idle;
        self.count(relay, &round);
        relay.wrote |= round.plans.iter().any(|plan| effect::may_write(plan)) || round.unknown;
        for plan in &round.plans {
            self.database.catalogue_changed(effect::unsettles(plan));
            if effect::unpins(plan) && !round.failed {
                self.pinned = self.mode == Mode::Session;
                self.names.clear();
            }
        }
        relay.tangled |= round.plans.len() > 1
            || round.failed
            || round.plans.iter().any(|plan| effect::tangles(plan));
        if !round.failed {
            let begun = round.changes.iter().map(|change| self.settings.begun_with(change));
            relay.restores.extend(begun);
            relay.pending.extend(round.changes);
            relay.listens.extend(round.listens);
        }
        if relay.open {
            return;
        }
        let committed = std::mem::take(&mut relay.committed);
        let unsettles = |plan: &Rc<Plan>| effect::unsettles(plan) == Unsettles::Changes;
        if !relay.rounds.iter().any(|round| round.plans.iter().any(unsettles)) {
            relay.unsettled = None;
        }
        if round.plans.iter().any(|plan| effect::forgets(plan)) {
            relay.forgets = true;
        }
        if std::mem::take(&mut relay.tangled) && !relay.pending.is_empty() {
            // What holds now only the server knows: the client keeps it.
            self.pinned = true;
            relay.pending.clear();
        }
        let holds = if was_open { committed } else { !round.failed };
        if holds {
            for change in relay.pending.drain(..) {
                self.settings.change(change);
            }
            self.settings_changed();
            relay.listens.drain(..).for_each(|plan| self.listening_changed(&plan));
        }
        relay.pending.clear();
        relay.listens.clear();
        if std::mem::take(&mut relay.wrote) {
            self.last_write = self.front.backends.note_write();
        }
    }

    /// Learns how long a round ran, and counts it.
    fn count(&self, relay: &mut Relay, round: &Round) {
        let Some(asked) = round.asked else { return };
        let ran = asked.elapsed();
        let queued = relay.wanted.take().map(|wanted| asked.saturating_duration_since(wanted));
        let begun = *relay.begun_at.get_or_insert(asked);
        let ended = (!relay.open).then(|| {
            relay.begun_at = None;
            asked.saturating_duration_since(begun) + ran
        });
        self.database.count(|totals| {
            totals.queries += 1;
            totals.query_time += ran;
            totals.replica_queries += u64::from(relay.on_replica);
            if let Some(took) = ended {
                totals.transactions += 1;
                totals.transaction_time += took;
            }
        });
        let seen = self.client.seen();
        seen.prepared.set(self.names.len());
        seen.pinned.set(self.pinned_by());
        if let Some(latencies) = &relay.latencies {
            latencies.lease.observe(queued.unwrap_or_default(), ran);
            self.front.slow.note(ran, || Slow {
                database: &self.database,
                user: &self.user,
                backend: &latencies.backend,
                way: "lease",
                plans: &round.plans,
            });
        }
        if let ([plan], false) = (&round.plans[..], round.failed) {
            plan.note(ran);
            if matches!(plan.kind, Kind::Read) {
                self.front.norm.note(ran);
            }
        }
    }

    /// Why the client keeps its server connection beyond a transaction; empty where it doesn't.
    fn pinned_by(&self) -> &'static str {
        match (self.pinned, self.mode) {
            (false, _) => "",
            (true, Mode::Session) => "mode",
            (true, Mode::Transaction) => "state",
        }
    }

    /// The server is gone, or said what it was not asked.
    fn server_gone(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        error: Option<io::Error>,
    ) -> Result<(), End> {
        server.broken = true;
        let why = error.map_or_else(|| "it closed the connection".to_owned(), |e| e.to_string());
        tracing::warn!(backend = server.backend.name(), why, "a server connection is gone");
        let wrote = relay.wrote
            || relay.rounds.iter().any(|round| {
                round.unknown || round.plans.iter().any(|plan| effect::may_write(plan))
            });
        let code = if wrote && !relay.rounds.is_empty() {
            sqlstate::OUTCOME_UNKNOWN
        } else {
            sqlstate::CONNECTION_FAILURE
        };
        let what = if code == sqlstate::OUTCOME_UNKNOWN {
            "the server connection broke before the statement was answered: whether it took effect \
             is not known"
        } else {
            "the server connection broke"
        };
        if let Some(request) = relay.request.take().filter(|_| !relay.told && !relay.within) {
            self.put_back(&request);
            self.only_primary = true;
            return Ok(());
        }
        if wrote {
            self.last_write = self.front.backends.note_write();
        }
        // A client in a transaction, or within an answer, could not be told otherwise.
        if relay.open || relay.within || relay.told || self.pinned || relay.rounds.is_empty() {
            return Err(End::Refused(Refusal::fatal(code, what)));
        }
        for _ in 0..relay.rounds.len() {
            self.client.refuse(&Refusal::error(code, what));
        }
        Ok(())
    }
}

fn query_timeout() -> Refusal {
    Refusal::fatal(sqlstate::QUERY_CANCELED, "terminating connection due to query timeout")
}

fn transaction_timeout() -> Refusal {
    let what = "terminating connection due to transaction timeout";
    Refusal::fatal(sqlstate::TRANSACTION_TIMEOUT, what)
}
