//! A client with a server connection of its own, until nothing holds the two together.
//!
//! Messages go to the server as they come, under Weir's names for statements; what the server says
//! goes to the client, less what Weir asked for itself. The connection is given back when no
//! transaction is open, every round is answered and no state of the session is left on it. What
//! each message, answer and end means is decided by the [lease](crate::pipeline::lease).

mod commit;
mod ends;
mod feed;
mod hear;
mod last_values;
mod state;
mod turn;

use std::time::Instant;

use wire::postgres::backend::Status;

use super::{End, Session};
use crate::backends::BackendState;
use crate::connection::Connection;
use crate::pipeline::compose::{Composer, StatementUse};
use crate::pipeline::lease::incoming::ClientStream;
use crate::pipeline::lease::machine::Lease;
use crate::pipeline::lease::restore::RestoreStep;
use crate::pipeline::lease::transaction::Transaction;
use crate::pipeline::round::Round;
use crate::pipeline::study::Study;
use crate::settings::{Mode, Route};
pub(super) use ends::OUTCOME_UNKNOWN;
use last_values::kept;
pub(super) use state::Relay;
use state::RoundInFront;
use turn::Turn;

/// Turns in a row before the worker's other clients have theirs.
const IN_A_ROW_MAX: u32 = 4;

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
        let lease = Lease {
            options: self.options.lease(),
            // The lease's own matter as long as there is one.
            is_pinned: std::mem::take(&mut self.pinned),
            client: if self.has_ended { ClientStream::Ended } else { ClientStream::Open },
            ..Lease::new(request)
        };
        let mut relay = Relay::new(lease, round.came, server, latencies);
        self.own_from_start(&mut relay, server);
        self.begin_there(&mut relay, server, &mut round);
        relay.in_front = RoundInFront::new(round);
        let end = self.turns(&mut relay, server).await;
        self.pinned = relay.lease.is_pinned;
        self.has_ended = relay.lease.client == ClientStream::Ended;
        // A round without its Sync is undone with its connection, and kept by any next message.
        server.broken |= end.is_err() && !relay.lease.is_quiet();
        end.map(|()| relay.in_front.into_rest())
    }

    /// The server hears of the transaction that the client has begun, in front of its round.
    fn begin_there(&mut self, relay: &mut Relay, server: &mut Connection, round: &mut Round) {
        let Some(begun) = self.begun.take() else { return };
        if self.client.has_failed() {
            server.ask(&begun.sql);
            server.ask_to_fail();
        } else if self.is_change(round) {
            // In one answer with the statement's, for which the server is woken once.
            self.ask_in_round(&begun.sql, &mut relay.lease.fresh, server);
        } else {
            server.ask(&begun.sql);
            if begun.has_read && !self.takes_snapshot(round) {
                // Its first query took a snapshot elsewhere.
                server.ask("SELECT");
            }
        }
        relay.lease.transaction = Transaction::begun(begun.since);
    }

    async fn turns(&mut self, relay: &mut Relay, server: &mut Connection) -> Result<(), End> {
        let mut in_a_row = 0;
        loop {
            self.goes_on_restoring(relay, server);
            let is_between = self.unconfirmed.is_none() && server.script.is_between();
            if relay.lease.tells_mail(is_between, self.client.is_overrun()) {
                self.tell_mail()?;
            }
            if self.has_parted(relay, server) {
                return Ok(());
            }
            self.confirmed().await?;
            if !relay.lease.incoming.is_within() && !relay.lease.is_ending(server.broken) {
                server.settle_copy();
            }
            self.feed(relay, server)?;
            while let Study::Wanted(len) = relay.study {
                relay.study = self.study(len).await?;
                self.feed(relay, server)?;
            }
            server.broken |= relay.lease.ends_amid_round(&self.progress(relay, server));
            self.answer_invented(relay, server);
            let turn = self.turn(relay, server, &mut in_a_row).await?;
            // Whatever ends the two now, the client is still to hear of its COMMIT.
            self.hold_commit(relay);
            match turn {
                Turn::Heard | Turn::Read => {}
                Turn::ClientGone => return Err(End::Gone),
                // It was told that nothing more comes, and has answered what it would.
                Turn::ServerGone(_) if relay.lease.is_ending(server.broken) => {
                    return Err(End::Gone);
                }
                Turn::ServerGone(error) => return self.server_gone(relay, server, error),
            }
            self.check(relay, server)?;
            if self.parts_unrestored(relay, server)? {
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

    /// Whether nothing holds the client and its server connection together any more.
    fn has_parted(&self, relay: &mut Relay, server: &mut Connection) -> bool {
        let is_free = server.is_free() && !relay.lease.is_ending(server.broken);
        if relay.lease.may_part() && is_free {
            if server.settings.as_ref() != Some(&self.environment.applied) {
                // Under another search_path a text may mean something else.
                server.prepared.next_epoch();
                server.settings = Some(self.environment.applied.clone());
            }
            if !self.stays(relay, server) && (kept(relay).is_none() || server.broken) {
                return true;
            }
            self.own_once_pinned(relay, server);
        }
        relay.in_front.is_handed_over() && server.script.is_idle()
    }

    /// Answers what no server is asked, where that comes first.
    fn answer_invented(&mut self, relay: &mut Relay, server: &mut Connection) {
        if server.script.has_invented() {
            let (script, mut known) = server.parts(Instant::now());
            script.answer_invented(&mut |heard| self.hear(relay, &mut known, heard));
        }
    }

    /// Appends a statement of Weir's own to the round that goes out next.
    fn ask_in_round(&self, sql: &str, fresh: &mut Vec<u64>, server: &mut Connection) {
        let mut composer = Composer {
            names: &mut self.client.names(),
            statements: &self.front.statements,
            prepared: &mut server.prepared,
            fresh,
            changes: self.database.changes(),
            has_failed: server.status == Status::Failed,
            may_have_failed: false,
            found: StatementUse::default(),
        };
        composer.own(sql.as_bytes(), &mut server.out, &mut server.script);
        self.database.count_found(&composer.found);
    }

    /// The round, where a replica is to answer it and the primary could as well.
    fn replayable(&self, server: &Connection, round: &mut Round) -> Option<Round> {
        let only_there = self.route == Some(Route::Replica) || self.pinned || self.begun.is_some();
        if only_there || server.backend.standing() != BackendState::Replica || !self.is_read(round)
        {
            return None;
        }
        Some(round.clone())
    }

    /// Whether the client keeps its server connection. Nobody stays on a replica, where nothing
    /// could be written.
    fn stays(&self, relay: &mut Relay, server: &mut Connection) -> bool {
        if relay.lease.is_pinned
            && self.options.mode == Mode::Transaction
            && self.route != Some(Route::Replica)
            && server.backend.standing() != BackendState::Primary
        {
            relay.lease.is_pinned = false;
            server.broken = true;
        }
        relay.lease.is_pinned
    }
}
