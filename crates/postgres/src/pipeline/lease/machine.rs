//! What a client and its server connection are in the middle of.

use super::drawn::Drawn;
use super::incoming::{ClientStream, Incoming};
use super::listening::ChannelRequest;
use super::pause::Pause;
use super::portals::Portals;
use super::reply::Reply;
use super::restore::Restore;
use super::rounds::{PendingRound, Rounds};
use super::sway::Sway;
use super::transaction::Transaction;
use crate::pipeline::round::Round;

/// What was configured for a client.
#[derive(Debug, Default, Clone, Copy)]
pub struct LeaseOptions {
    /// The client keeps its connection whatever it has done there.
    pub is_pinned_by_mode: bool,
    /// The client keeps its connection for a while after it may have drawn from a sequence.
    pub keeps_last_values: bool,
}

/// What a client and its server connection are in the middle of.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct Lease {
    /// What was configured for the client.
    pub options: LeaseOptions,
    /// The client keeps its server connection beyond the transaction.
    pub is_pinned: bool,
    /// Rounds that are not answered, the last one perhaps not whole.
    pub rounds: Rounds,
    /// How the bytes are taken that the client sends next.
    pub incoming: Incoming,
    /// Why what the client sends goes no further for now.
    pub pause: Pause,
    /// Statements whose Parse went out in this round.
    pub fresh: Vec<u64>,
    /// What stands in the client's portals.
    pub portals: Portals,
    /// What ends with the transaction.
    pub transaction: Transaction,
    /// Whether what is sent may be read in another way than outside of it, which outlives it.
    pub sway: Sway,
    /// How much of the reply under way the client has been told.
    pub reply: Reply,
    /// How far the server is with getting back what the session began with.
    pub restore: Restore,
    /// What the client has drawn from sequences.
    pub drawn: Drawn,
    /// The channel that is joined for a Bind of LISTEN.
    pub channel: ChannelRequest,
    /// A statement was sent that forgets all prepared statements: until all is answered nobody
    /// knows which names there are.
    pub forgets: bool,
    /// Something was asked, or answered here.
    pub begun: bool,
    /// What is still to come of the client.
    pub client: ClientStream,
}

impl Lease {
    /// Of a client whose first round could be asked elsewhere as `request`.
    pub fn new(request: Option<Round>) -> Self {
        Self { reply: Reply::new(request), ..Self::default() }
    }

    /// Whether the client's next message may go out before what went out is answered; `takes_data`:
    /// the server reads the data of a COPY.
    pub fn takes_more(&self, takes_data: bool) -> bool {
        self.rounds.is_within()
            || self.incoming.is_within()
            || takes_data
            || self.restore.lets_pass(self.rounds.is_empty(), self.is_open() || self.is_pinned)
    }

    /// What came of joining a channel for the client; `joined`: it did not listen to it before.
    pub fn joined(&mut self, confirmed: bool, joined: bool) {
        self.channel = ChannelRequest::Answered { confirmed, joined };
    }

    /// Whether the client has asked for nothing that is not answered.
    pub fn is_quiet(&self) -> bool {
        self.rounds.is_empty() && !self.incoming.is_within()
    }

    /// Whether the client may part from its server connection as far as messages go: something was
    /// asked, and nothing is under way.
    pub fn may_part(&self) -> bool {
        self.begun && self.is_quiet() && !self.is_open()
    }

    /// Whether a transaction may be open that fails, or has failed, by a round under way.
    pub fn may_have_failed(&self) -> bool {
        !self.rounds.is_first() && (self.is_open() || self.rounds.may_begin())
    }

    /// Whether the round that goes on has run a statement.
    pub fn has_run(&self) -> bool {
        self.rounds.open().is_some_and(|round| !round.plans.is_empty())
    }

    /// Whether a transaction is open, as of the last ReadyForQuery.
    pub fn is_open(&self) -> bool {
        self.transaction.is_open()
    }

    /// Whether the transaction goes on behind the round that was sent last, whatever becomes of
    /// that, or has failed.
    pub fn goes_on(&self) -> bool {
        self.is_open() && !self.rounds.may_end()
    }

    /// The round that goes on; where none does, a new one begins.
    pub fn round(&mut self) -> &mut PendingRound {
        self.begun = true;
        if !self.rounds.is_within() {
            self.drawn.begin_round();
        }
        self.rounds.current()
    }
}
