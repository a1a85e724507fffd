//! A client beside its server connection: what the two are in the middle of, and what that takes
//! beside messages.

use std::rc::Rc;
use std::time::Instant;

use crate::backends::Standing;
use crate::catalogue::Unsettled;
use crate::connection::Connection;
use crate::metrics::BackendLatencies;
use crate::pipeline::lease::machine::Lease;
use crate::pipeline::round::{OutgoingRound, Round};
use crate::pipeline::study::Study;
use crate::session::listen::Confirming;

/// A client beside its server connection.
#[derive(Debug, Default)]
pub(in crate::session) struct Relay {
    /// What the two are in the middle of.
    pub(in crate::session) lease: Lease,
    /// The round that goes out message by message, in front of what is in the inbox.
    pub(super) sending: Option<OutgoingRound>,
    /// The first round, which is to be asked of the primary: nothing more goes to this server.
    pub(super) elsewhere: Option<Round>,
    /// What the client's next message is, where it is long.
    pub(super) study: Study,
    /// A LISTEN that the server does not get.
    pub(in crate::session) confirming: Confirming,
    /// A statement that changes the catalogue went out, and its transaction has not ended.
    pub(super) unsettled: Option<Unsettled>,
    /// What the client's rounds are counted by.
    pub(super) tally: Tally,
}

/// What the rounds of a client on a server connection are counted by.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Since when the first round wants a server, until it is answered.
    pub(super) wanted: Option<Instant>,
    /// The server is a replica.
    pub(super) on_replica: bool,
    /// How long rounds take there.
    pub(super) latencies: Option<Rc<BackendLatencies>>,
}

impl Relay {
    /// Of a client whose first round wants a server since `wanted`, and could be asked elsewhere as
    /// `request`.
    pub(super) fn new(
        request: Option<Round>,
        wanted: Instant,
        server: &Connection,
        latencies: Rc<BackendLatencies>,
    ) -> Self {
        let tally = Tally {
            wanted: Some(wanted),
            on_replica: server.backend.standing() == Standing::Replica,
            latencies: Some(latencies),
        };
        Self { lease: Lease::new(request), tally, ..Self::default() }
    }

    /// Whether a round is going out, in front of what is in the inbox.
    pub(in crate::session) fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// The round that is to be looked at once more, if there is one.
    pub(super) fn left_over(self) -> Option<Round> {
        self.elsewhere.or_else(|| self.sending?.into_rest())
    }

    /// Whether the client's next message may go out before what went out is answered.
    pub(super) fn takes_more(&self, pinned: bool, server: &Connection) -> bool {
        self.lease.takes_more(pinned, server.script.takes_data())
    }
}
