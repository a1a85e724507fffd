//! A client beside its server connection: what the two are in the middle of, and what that takes
//! beside messages.

use std::rc::Rc;
use std::time::Instant;

use super::commit::CommitUnderWay;
use crate::backends::BackendState;
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
    /// The round in front of all that the client has sent behind it.
    pub(super) in_front: RoundInFront,
    /// What the client's next message is, where it is long.
    pub(super) study: Study,
    /// A channel that is to be joined for the client.
    pub(super) joins: Option<Box<str>>,
    /// The channel that is joined, while nobody knows whether a server listens there.
    pub(super) confirming: Option<Confirming>,
    /// When messages of the client went out last.
    pub(super) fed_at: Instant,
    /// A COMMIT that is told once it is confirmed.
    pub(super) commit: Option<CommitUnderWay>,
    /// A statement that changes the catalogue went out, and its transaction has not ended.
    pub(super) unsettled: Option<Unsettled>,
    /// What the client's rounds are counted by.
    pub(super) tally: Tally,
}

/// The round in front of all that the client has sent behind it.
#[derive(Debug, Default)]
pub(super) enum RoundInFront {
    /// What comes next stands in the session's queue or in its inbox.
    #[default]
    Nothing,
    /// The round goes out, message by message.
    GoesOut(OutgoingRound),
    /// The round is to be asked of the primary: nothing more goes to this server.
    HandedOver(Round),
}

impl RoundInFront {
    /// Of the round that has the connection; one that goes out as it comes is in the inbox.
    pub fn new(round: Round) -> Self {
        OutgoingRound::new(round).map_or(Self::Nothing, Self::GoesOut)
    }

    /// Whether it is asked of another server.
    pub fn is_handed_over(&self) -> bool {
        matches!(self, Self::HandedOver(_))
    }

    /// The one that goes out.
    pub fn outgoing(&self) -> Option<&OutgoingRound> {
        match self {
            Self::GoesOut(round) => Some(round),
            Self::Nothing | Self::HandedOver(_) => None,
        }
    }

    /// Takes the one that goes out, in whose place there is nothing.
    pub fn take_outgoing(&mut self) -> Option<OutgoingRound> {
        match std::mem::take(self) {
            Self::GoesOut(round) => Some(round),
            Self::Nothing => None,
            handed_over @ Self::HandedOver(_) => {
                *self = handed_over;
                None
            }
        }
    }

    /// What is to be looked at once more: the round that another server is asked, or what of it has
    /// not gone out.
    pub fn into_rest(self) -> Option<Round> {
        match self {
            Self::Nothing => None,
            Self::GoesOut(round) => round.into_rest(),
            Self::HandedOver(round) => Some(round),
        }
    }
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
            on_replica: server.backend.standing() == BackendState::Replica,
            latencies: Some(latencies),
        };
        Self {
            lease,
            in_front: RoundInFront::Nothing,
            study: Study::Nothing,
            joins: None,
            confirming: None,
            fed_at: wanted,
            commit: None,
            unsettled: None,
            tally,
        }
    }

    /// Whether the client's next message may go out before what went out is answered.
    pub(super) fn takes_more(&self, server: &Connection) -> bool {
        self.lease.takes_more(server.script.takes_data())
    }
}
