//! A client with a server connection of its own, until nothing holds the two together.
//!
//! Messages go to the server as they come, under Weir's names for statements; what the server says
//! goes to the client, less what Weir asked for itself. The connection is given back when no
//! transaction is open, every round is answered and no state of the session is left on it.

mod feed;
mod hear;
mod last_values;
mod state;

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::AsyncWrite as _;
use wire::postgres::{Refusal, Severity, sqlstate};

use super::patience::{Limit, idle_in_transaction_timeout, idle_timeout, read_timeout};
use super::{End, Session};
use crate::backends::Standing;
use crate::client::AHEAD_MAX;
use crate::connection::{Connection, gives_rights, is_refused_for_good, refusal_of};
use crate::pipeline::lease::expectation::Expectation;
use crate::pipeline::lease::loss::Loss;
use crate::pipeline::lease::pause::Pause;
use crate::pipeline::lease::restore::RestoreStep;
use crate::pipeline::lease::sending::Composing;
use crate::pipeline::lease::transaction::Transaction;
use crate::pipeline::round::{OutgoingRound, Round, ends_within};
use crate::pipeline::settings::Setting;
use crate::pipeline::study::Study;
use crate::settings::{Mode, Route};
use last_values::kept;
pub(super) use state::Relay;

/// Turns in a row before the worker's other clients have theirs.
const IN_A_ROW_MAX: u32 = 4;

/// What a client hears whose statement may have changed data.
pub(super) const OUTCOME_UNKNOWN: &str = "the server connection broke before the statement was \
    answered: whether it took effect is not known";

/// What came of a turn.
enum Turn {
    Heard,
    Read,
    ClientGone,
    ServerGone(Option<io::Error>),
}

impl Session {
    /// Serves the client on `server`, with this round first, until the two can part. A round comes
    /// back that a replica could not answer, or that the server did not get.
    pub(super) async fn relay(
        &mut self,
        server: &mut Connection,
        mut round: Round,
    ) -> Result<Option<Round>, End> {
        let latencies = self.front.latencies(&server.backend);
        let request = self.replayable(server, &mut round);
        let mut relay = Relay::new(request, round.came, server, latencies);
        self.own_from_start(&mut relay, server);
        if let Some(begun) = self.begun.take() {
            if self.client.has_failed() {
                server.ask(&begun.sql);
                server.ask_to_fail();
            } else if self.is_change(&mut round) {
                // In one answer with the statement's, for which the server is woken once.
                let with = Composing { fresh: &mut relay.lease.fresh, may_have_failed: false };
                self.composer(with, server, |composer, out, script| {
                    composer.own(begun.sql.as_bytes(), out, script);
                });
            } else {
                server.ask(&begun.sql);
                if begun.has_read && !self.takes_snapshot(&mut round) {
                    // Its first query took a snapshot elsewhere.
                    server.ask("SELECT");
                }
            }
            relay.lease.transaction = Transaction::begun(begun.since);
        }
        relay.sending = OutgoingRound::new(round);
        let end = self.turns(&mut relay, server).await;
        // A round without its Sync is undone with its connection, and kept by any next message.
        server.broken |= end.is_err() && !relay.lease.is_quiet();
        end.map(|()| relay.left_over())
    }

    async fn turns(&mut self, relay: &mut Relay, server: &mut Connection) -> Result<(), End> {
        let mut in_a_row = 0;
        loop {
            self.goes_on_restoring(relay, server);
            if self.mail_may_go_beside(relay, server) {
                self.tell_mail()?;
            }
            if relay.lease.may_part() && server.is_free() && !self.is_ending(server) {
                if server.settings.as_ref() != Some(&self.environment.applied) {
                    // Under another search_path a text may mean something else.
                    server.prepared.next_epoch();
                    server.settings = Some(self.environment.applied.clone());
                }
                if !self.stays(server) && (kept(relay).is_none() || server.broken) {
                    return Ok(());
                }
                self.own_once_pinned(relay, server);
            }
            if relay.elsewhere.is_some() && server.script.is_idle() {
                return Ok(());
            }
            if !relay.lease.incoming.is_within() && !self.is_ending(server) {
                server.settle_copy();
            }
            self.feed(relay, server)?;
            while let Study::Wanted(len) = relay.study {
                relay.study = self.study(len).await?;
                self.feed(relay, server)?;
            }
            self.ends_with_client(relay, server);
            self.answer_invented(relay, server);
            let is_sent = server.unsent() == 0;
            let limit = self.limit(relay, is_sent);
            let rests = relay.lease.rounds.is_empty() && is_sent;
            let kept_for = kept(relay).filter(|_| !self.pinned && !relay.lease.is_open() && rests);
            let turn = poll_fn(|cx| {
                let turn = self.poll_turn(relay, server, cx);
                in_a_row = if turn.is_pending() { 0 } else { in_a_row + 1 };
                turn
            });
            let turn = match limit {
                _ if let Some(kept_for) = kept_for => {
                    let turn = tokio::time::timeout(kept_for, turn).await;
                    turn.unwrap_or(Turn::Read)
                }
                None => turn.await,
                Some((limit, refusal)) => {
                    tokio::time::timeout(limit, turn).await.map_err(|_| End::Refused(refusal()))?
                }
            };
            match turn {
                Turn::Heard | Turn::Read => {}
                Turn::ClientGone => return Err(End::Gone),
                // It was told that nothing more comes, and has answered what it would.
                Turn::ServerGone(_) if self.is_ending(server) => return Err(End::Gone),
                Turn::ServerGone(error) => return self.server_gone(relay, server, error),
            }
            self.check(relay, server)?;
            if server.not_restored.is_some() && self.parts_unrestored(relay, server)? {
                return Ok(());
            }
            if in_a_row == IN_A_ROW_MAX {
                in_a_row = 0;
                // A stream that is always ready would keep the worker from its other sockets.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Asks for what is to be brought back next; behind the last of it the client hears what was
    /// held.
    fn goes_on_restoring(&self, relay: &mut Relay, server: &mut Connection) {
        match relay.lease.restore.next() {
            // The round that resets has not failed, so neither has its transaction.
            Some(RestoreStep::Ask(begun)) => server.ask_to_restore(begun, relay.lease.is_open()),
            Some(RestoreStep::Tell(held)) => self.client.outlet.send(&held),
            None => {}
        }
    }

    /// Where a client sends nothing more and the server waits for more of it, as amid a COPY, it is
    /// to hear so behind all that was sent, and ends that.
    fn ends_with_client(&self, relay: &Relay, server: &mut Connection) {
        let waits = relay.lease.rounds.is_within()
            || relay.lease.incoming.is_within()
            || server.script.takes_data();
        server.broken |= self.has_ended && waits && self.has_gone_out(relay, server);
    }

    /// Whether the server was told that nothing more comes: all that it says to that, behind its
    /// last answer, too, is for the client.
    fn is_ending(&self, server: &Connection) -> bool {
        self.has_ended && server.broken
    }

    /// Whether all that the client has sent went out: what is left is no whole message.
    fn has_gone_out(&self, relay: &Relay, server: &Connection) -> bool {
        let goes_on = relay.takes_more(self.pinned, server) && relay.lease.pause == Pause::Nothing;
        goes_on || self.has_sent_all(relay)
    }

    /// Answers what no server is asked, where that comes first.
    fn answer_invented(&mut self, relay: &mut Relay, server: &mut Connection) {
        let (script, mut known) = server.parts();
        script.answer_invented(&mut |heard| self.hear(relay, &mut known, heard));
    }

    /// The server has not brought back something of what the session began with, and has reset to:
    /// one by one it tells what that is, and the session has it no longer. Whether the two part.
    fn parts_unrestored(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
    ) -> Result<bool, End> {
        let Some((begun, body)) = server.not_restored.take() else { return Ok(false) };
        let refusal = refusal_of(&body);
        if !is_refused_for_good(&refusal) && !relay.lease.is_open() && !self.pinned {
            // An error of the moment: it is given the settings on its next connection.
            server.broken = true;
            self.client.outlet.send(&relay.lease.restore.take_held());
            return Ok(true);
        }
        let mut fatal = !is_refused_for_good(&refusal);
        if relay.lease.is_open() && !fatal {
            // What the client asks next waits for that, as for what restores.
            relay.lease.restore.ask();
            server.ask_to_undo_restore();
        }
        if !fatal && let Some(Setting { name, .. }) = relay.lease.restore.refuse(begun) {
            fatal = gives_rights(&name);
            match relay.lease.is_open() {
                true => self.environment.settings.not_begun_with(&name),
                false => drop(self.environment.settings.refused(&name)),
            }
            self.tell_refused(vec![(name, refusal.clone())]);
        }
        if fatal {
            server.broken = true;
            return Err(End::Refused(Refusal { severity: Severity::Fatal, ..refusal }));
        }
        Ok(false)
    }

    /// What ends the two at once.
    fn check(&mut self, relay: &mut Relay, server: &mut Connection) -> Result<(), End> {
        if relay.lease.rounds.is_empty() {
            relay.lease.reply.is_over();
        }
        if let Some(body) = server.own_error.take() {
            // What the client sent behind it has run without it, or not at all.
            server.broken = true;
            let refusal = refusal_of(&body);
            return Err(End::Refused(Refusal { severity: Severity::Fatal, ..refusal }));
        }
        let may_part = relay.lease.rounds.is_empty() && !relay.lease.is_open();
        match self.client.killed().or_else(|| self.client.parting().filter(|_| may_part)) {
            Some(refusal) => Err(End::Refused(refusal)),
            None => Ok(()),
        }
    }

    /// The round, where a replica is to answer it and the primary could as well.
    fn replayable(&self, server: &Connection, round: &mut Round) -> Option<Round> {
        let only_there = self.route == Some(Route::Replica) || self.pinned || self.begun.is_some();
        if only_there || server.backend.standing() != Standing::Replica || !self.is_read(round) {
            return None;
        }
        Some(round.clone())
    }

    /// Whether the client keeps its server connection. Nobody stays on a replica, where nothing
    /// could be written.
    fn stays(&mut self, server: &mut Connection) -> bool {
        if self.pinned
            && self.options.mode == Mode::Transaction
            && self.route != Some(Route::Replica)
            && server.backend.standing() != Standing::Primary
        {
            self.pinned = false;
            server.broken = true;
        }
        self.pinned
    }

    /// How long the next thing may take to happen.
    fn limit(&self, relay: &mut Relay, is_sent: bool) -> Limit {
        let patience = &self.options.patience;
        let next: Limit = match relay.lease.expects(is_sent, || ends_within(&self.inbox)) {
            Expectation::Rest => patience.read.map(|limit| (limit, read_timeout as _)),
            Expectation::Answer(asked) => patience.query.map(|limit| {
                let ran = asked.map_or(Duration::ZERO, |asked| asked.elapsed());
                (limit.saturating_sub(ran), query_timeout as fn() -> Refusal)
            }),
            Expectation::Round { in_transaction: true } => {
                patience.idle_in_transaction.map(|limit| (limit, idle_in_transaction_timeout as _))
            }
            Expectation::Round { in_transaction: false } => {
                patience.idle.map(|limit| (limit, idle_timeout as _))
            }
        };
        match relay.lease.transaction.since(Instant::now) {
            Some(since) => patience.in_transaction(since, next),
            None => next,
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
            let (scratch, client) = (self.front.scratch.clone(), self.client.clone());
            let heard = client.outlet.gathered(|| {
                server.poll_hear(cx, &scratch, &mut |known, heard| self.hear(relay, known, heard))
            });
            match heard {
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
            Poll::Ready(Ok(())) if relay.lease.pause.has_room() => {
                return Poll::Ready(Turn::Heard);
            }
            _ => {}
        }
        let has_mail = self.client.poll_mail(cx) && self.mail_may_go_beside(relay, server);
        let may_part = relay.lease.rounds.is_empty() && !relay.lease.is_open();
        if self.client.poll_killed(cx, may_part).is_ready() || has_mail {
            return Poll::Ready(Turn::Read);
        }
        if relay.confirming.poll_ended(cx).is_ready() {
            return Poll::Ready(Turn::Read);
        }
        if self.has_ended {
            return self.poll_answered(relay, server, cx);
        }
        if !relay.lease.leaving && server.unsent() < AHEAD_MAX && self.inbox_has_room(relay, server)
        {
            return match self.poll_fill(cx) {
                Poll::Ready(Ok(true)) => Poll::Ready(Turn::Read),
                Poll::Pending => Poll::Pending,
                // It may still read what it has asked for.
                Poll::Ready(Ok(false)) if server.unsent() > 0 || !relay.lease.is_quiet() => {
                    self.has_ended = true;
                    Poll::Ready(Turn::Read)
                }
                // What it has sent is still sent on.
                Poll::Ready(_) if server.unsent() > 0 => {
                    relay.lease.leaving = true;
                    Poll::Pending
                }
                Poll::Ready(_) => Poll::Ready(Turn::ClientGone),
            };
        }
        // Behind the last answer there is only a goodbye, or a message that will never be whole.
        let is_done = self.has_sent_all(relay)
            || (relay.lease.rounds.is_empty() && !relay.lease.pause.is_for_answers());
        if relay.lease.leaving && server.unsent() == 0 && is_done {
            return Poll::Ready(Turn::ClientGone);
        }
        Poll::Pending
    }

    /// Waits until a client that sends nothing more has had all its answers.
    fn poll_answered(
        &self,
        relay: &Relay,
        server: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Turn> {
        if server.unsent() > 0 {
            return Poll::Pending;
        }
        if server.broken {
            // Where it fails the server is gone, which is heard next.
            let _ = server.socket().poll_shutdown(cx);
            return Poll::Pending;
        }
        let is_answered = relay.lease.is_quiet() || server.script.is_answered();
        if is_answered && self.has_gone_out(relay, server) || self.client.outlet.is_closed() {
            return Poll::Ready(Turn::ClientGone);
        }
        Poll::Pending
    }

    /// What waits for its turn is read no further than this; a client that goes away meanwhile is
    /// noticed when its answer is written.
    fn inbox_has_room(&self, relay: &Relay, server: &Connection) -> bool {
        let goes_on = relay.takes_more(self.pinned, server) && !relay.lease.pause.is_for_answers();
        goes_on || self.inbox.len() < AHEAD_MAX
    }

    /// The server is gone, or said what it was not asked.
    fn server_gone(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        error: Option<io::Error>,
    ) -> Result<(), End> {
        server.broken = true;
        self.client.names().undo_all();
        let why = error.map_or_else(|| "it closed the connection".to_owned(), |e| e.to_string());
        tracing::warn!(backend = server.backend.name(), why, "a server connection is gone");
        let wrote = relay.lease.may_have_written();
        let (code, what) = match wrote && !relay.lease.rounds.is_empty() {
            true => (sqlstate::OUTCOME_UNKNOWN, OUTCOME_UNKNOWN),
            false => (sqlstate::CONNECTION_FAILURE, "the server connection broke"),
        };
        let loss = relay.lease.lose(self.pinned);
        if wrote && !matches!(loss, Loss::HandOver(_)) {
            self.last_write = self.front.backends.note_write();
        }
        match loss {
            Loss::HandOver(round) => self.hand_over(&mut relay.elsewhere, round),
            Loss::Unnoticed => {}
            Loss::Dismissed => return Err(End::Gone),
            Loss::Closed => return Err(End::Refused(Refusal::fatal(code, what))),
            Loss::Failed(rounds) => {
                (0..rounds).for_each(|_| self.refuse(&Refusal::error(code, what)));
            }
        }
        Ok(())
    }
}

fn query_timeout() -> Refusal {
    Refusal::fatal(sqlstate::QUERY_CANCELED, "terminating connection due to query timeout")
}
