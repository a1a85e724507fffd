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
pub(in crate::session) struct Relay {
    /// What the two are in the middle of.
    pub(in crate::session) lease: Lease,
    /// The round that goes out message by message, in front of what is in the inbox.
    pub(super) sending: Option<OutgoingRound>,
    /// The first round, which is to be asked of the primary: nothing more goes to this server.
    pub(super) elsewhere: Option<Round>,
    /// What the client's next message is, where it is long.
    pub(super) study: Study,
    /// A channel that is to be joined for the client.
    pub(super) joins: Option<Box<str>>,
    /// The channel that is joined, while nobody knows whether a server listens there.
    pub(super) confirming: Option<Confirming>,
    /// When messages of the client went out last.
    pub(super) fed_at: Instant,
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
    /// Of a client whose first round wants a server since `wanted`.
    pub(super) fn new(
        lease: Lease,
        wanted: Instant,
        server: &Connection,
        latencies: Rc<BackendLatencies>,
    ) -> Self {
        let tally = Tally {
            wanted: Some(wanted),
            on_replica: server.backend.standing() == Standing::Replica,
            latencies: Some(latencies),
        };
        Self {
            lease,
            sending: None,
            elsewhere: None,
            study: Study::Nothing,
            joins: None,
            confirming: None,
            fed_at: wanted,
            unsettled: None,
            tally,
        }
    }

    /// The round that is to be looked at once more, if there is one.
    pub(super) fn left_over(self) -> Option<Round> {
        self.elsewhere.or_else(|| self.sending?.into_rest())
    }

    /// Whether the client's next message may go out before what went out is answered.
    pub(super) fn takes_more(&self, server: &Connection) -> bool {
        self.lease.takes_more(server.script.takes_data())
    }
}
