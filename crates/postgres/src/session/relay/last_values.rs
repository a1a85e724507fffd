//! Whose the last values of sequences are: what is asked of the server for that, apart from
//! statements that ask for one.

use std::time::{Duration, Instant};

use super::Relay;
use crate::connection::Connection;
use crate::pipeline::lease::gate::FORGET_DRAWN;
use crate::session::Session;
use crate::settings::Mode;

impl Session {
    /// Where whatever a client asks for is to be its own, it is from the start.
    pub(super) fn own_from_start(&self, relay: &mut Relay, server: &mut Connection) {
        let is_sole = relay.lease.is_pinned
            || self.options.mode == Mode::Session
            || self.options.keeps_last_values;
        if server.drew && (is_sole || self.database.may_ask_last_values()) {
            forget(relay, server);
        }
        relay.lease.drawn.begin(!server.drew);
    }

    /// A client that keeps its connection for good has its own values from now on.
    pub(super) fn own_once_pinned(&self, relay: &mut Relay, server: &mut Connection) {
        if relay.lease.is_pinned && relay.lease.drawn.forgets_once_pinned() {
            forget(relay, server);
        }
    }
}

/// How long the client still keeps its connection without a transaction, for what it has drawn.
pub(super) fn kept(relay: &Relay) -> Option<Duration> {
    let left = relay.lease.drawn.kept_until()?.saturating_duration_since(Instant::now());
    Some(left).filter(|left| !left.is_zero())
}

fn forget(relay: &mut Relay, server: &mut Connection) {
    server.ask(FORGET_DRAWN);
    server.drew = false;
    relay.lease.drawn.begin(true);
}
