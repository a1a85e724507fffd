//! Whose the last values of sequences are: what is asked of the server for that.

use std::time::{Duration, Instant};

use wire::postgres::backend::Status;

use super::Relay;
use crate::connection::Connection;
use crate::pipeline::lease::drawn::LastValues;
use crate::plan::Plan;
use crate::session::Session;
use crate::settings::Mode;

/// What makes the values of others unknown.
const FORGET: &str = "DISCARD SEQUENCES";

impl Session {
    /// Where whatever a client asks for is to be its own, it is from the start.
    pub(super) fn own_from_start(&self, relay: &mut Relay, server: &mut Connection) {
        let is_sole =
            self.pinned || self.options.mode == Mode::Session || self.options.keeps_last_values;
        if server.drew && (is_sole || self.database.may_ask_last_values()) {
            forget(relay, server);
        }
        relay.lease.drawn.begin(!server.drew);
    }

    /// A client that keeps its connection for good has its own values from now on.
    pub(super) fn own_once_pinned(&self, relay: &mut Relay, server: &mut Connection) {
        if self.pinned && relay.lease.drawn.forgets_once_pinned() {
            forget(relay, server);
        }
    }

    /// What becomes of a statement that is about to be run.
    pub(super) fn last_values(&self, relay: &Relay, plan: &Plan, status: Status) -> LastValues {
        if status == Status::Failed {
            return LastValues::Own;
        }
        let is_sole = self.pinned || self.options.mode == Mode::Session;
        relay.lease.drawn.decide(plan, &relay.lease.rounds, is_sole, relay.lease.sway.is_swayed())
    }

    /// Puts in front of a statement that is about to be run what makes the values of others
    /// unknown: in front of a Query, or within a round of the extended protocol.
    pub(super) fn forget_drawn(&self, relay: &mut Relay, server: &mut Connection, is_query: bool) {
        if is_query && !relay.lease.rounds.is_within() {
            return forget(relay, server);
        }
        self.composer(relay, server, |composer, out, script| {
            composer.own(FORGET.as_bytes(), out, script);
        });
        relay.lease.round().forgets_drawn = true;
    }
}

/// How long the client still keeps its connection without a transaction, for what it has drawn.
pub(super) fn kept(relay: &Relay) -> Option<Duration> {
    let left = relay.lease.drawn.kept_until()?.saturating_duration_since(Instant::now());
    Some(left).filter(|left| !left.is_zero())
}

fn forget(relay: &mut Relay, server: &mut Connection) {
    server.ask(FORGET);
    server.drew = false;
    relay.lease.drawn.begin(true);
}
