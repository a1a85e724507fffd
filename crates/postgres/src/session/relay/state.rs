//! What a client and its server connection are in the middle of.

use std::rc::Rc;
use std::time::Instant;

use crate::backends::Standing;
use crate::catalogue::Unsettled;
use crate::connection::Connection;
use crate::metrics::BackendLatencies;
use crate::pipeline::lease::drawn::Drawn;
use crate::pipeline::lease::incoming::Incoming;
use crate::pipeline::lease::listening::DivertedChange;
use crate::pipeline::lease::pause::Pause;
use crate::pipeline::lease::portals::Portals;
use crate::pipeline::lease::reply::Reply;
use crate::pipeline::lease::restore::Restore;
use crate::pipeline::lease::rounds::{PendingRound, Rounds};
use crate::pipeline::lease::sway::Sway;
use crate::pipeline::lease::transaction::Transaction;
use crate::session::listen::Confirming;
use crate::session::study::Study;

/// What a client and its server connection are in the middle of.
#[derive(Debug, Default)]
pub(in crate::session) struct Relay {
    /// Rounds that are not answered, the last one perhaps not whole.
    pub(super) rounds: Rounds,
    /// What the client's next message is, where it is long.
    pub(super) study: Study,
    /// How the bytes are taken that the client sends next.
    pub(super) incoming: Incoming,
    /// Statements whose Parse went out in this round.
    pub(super) fresh: Vec<u64>,
    /// What ends with the transaction.
    pub(super) transaction: Transaction,
    /// Whether what is sent may be read in another way than outside of it, which outlives it.
    pub(super) sway: Sway,
    /// A LISTEN that the server does not get.
    pub(in crate::session) confirming: Confirming,
    /// The client did not listen to its channel before.
    pub(in crate::session) joined: bool,
    /// What stands in the client's portals.
    pub(in crate::session) portals: Portals,
    /// How much of the reply under way the client has been told.
    pub(super) reply: Reply,
    /// Something went out.
    pub(super) begun: bool,
    /// Why what the client sends goes no further for now.
    pub(super) pause: Pause,
    /// The client has said goodbye, and is still to have its answers.
    pub(super) leaving: bool,
    /// What the client has drawn from sequences.
    pub(super) drawn: Drawn,
    /// A statement was sent that forgets all prepared statements: until all is answered nobody
    /// knows which names there are.
    pub(super) forgets: bool,
    /// How far the server is with getting back what the session began with.
    pub(super) restore: Restore,
    /// A statement that changes the catalogue went out, and its transaction has not ended.
    pub(super) unsettled: Option<Unsettled>,
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
        request: Option<Rc<[u8]>>,
        wanted: Instant,
        server: &Connection,
        latencies: Rc<BackendLatencies>,
    ) -> Self {
        Self {
            reply: Reply::new(request),
            wanted: Some(wanted),
            on_replica: server.backend.standing() == Standing::Replica,
            latencies: Some(latencies),
            ..Self::default()
        }
    }

    /// Whether the server connection could serve somebody else.
    pub(super) fn is_over(&self, server: &Connection) -> bool {
        self.is_quiet() && server.is_free()
    }

    /// Whether the client's next message may go out before what went out is answered.
    pub(super) fn takes_more(&self, pinned: bool, server: &Connection) -> bool {
        self.rounds.is_within()
            || self.incoming.is_within()
            || server.script.takes_data()
            || self.restore.lets_pass(self.rounds.is_empty(), self.is_open() || pinned)
    }

    /// Whether the client has asked for nothing that is not answered.
    pub(in crate::session) fn is_quiet(&self) -> bool {
        self.rounds.is_empty() && !self.incoming.is_within()
    }

    /// Whether a transaction may be open that fails, or has failed, by a round under way.
    pub(super) fn may_have_failed(&self) -> bool {
        !self.rounds.is_first() && (self.is_open() || self.rounds.may_begin())
    }

    /// Whether all rounds but the one that goes on are answered.
    pub(in crate::session) fn has_first_round(&self) -> bool {
        self.rounds.is_first()
    }

    /// Whether the round that goes on has run a statement.
    pub(in crate::session) fn has_run(&self) -> bool {
        self.rounds.open().is_some_and(|round| !round.plans.is_empty())
    }

    /// Whether a transaction is open.
    pub(in crate::session) fn is_open(&self) -> bool {
        self.transaction.is_open()
    }

    /// Whether the transaction goes on behind the round that was sent last, whatever becomes of
    /// that, or has failed.
    pub(super) fn goes_on(&self) -> bool {
        self.is_open() && !self.rounds.may_end()
    }

    /// A change of what the client listens to is Weir's own matter, and holds if the round does.
    pub(in crate::session) fn diverts(&mut self, change: DivertedChange) {
        self.round().diverted.push(change);
    }

    /// The round that goes on; where none does, a new one begins.
    pub(super) fn round(&mut self) -> &mut PendingRound {
        self.begun = true;
        if !self.rounds.is_within() {
            self.drawn.begin_round();
        }
        self.rounds.current()
    }
}
