//! What a client's own connections want done, and by whom it is asked.

use super::super::dispatch::StepEffect;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::session) enum Action {
    /// The client takes a connection to this place for itself.
    Take(usize),
    /// The client gives the connection to this place back.
    Release(usize),
    /// Something is asked by the client's own connection.
    Ask(OwnRequest),
    /// All servers are asked the same, each by the client's own connection.
    AskAll(OwnQuestion),
    /// The client hears this.
    Say(Reply),
    /// The client is closed.
    Close(Closing),
}

/// What is asked by a client's own connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::session) struct OwnRequest {
    /// The number of the place.
    pub(in crate::session) place: usize,
    pub(in crate::session) words: RequestWords,
    pub(in crate::session) bond: Bond,
    /// By which the machine is told what becomes of it, if it is to be.
    pub(in crate::session) mark: Option<u64>,
    /// The client hears the answer.
    pub(in crate::session) is_heard: bool,
}

impl OwnRequest {
    /// A step that the client hears the answer to, and nobody else.
    pub(super) fn step(place: usize, words: RequestWords, effect: StepEffect) -> Self {
        Self { place, words, bond: Bond::Step(effect), mark: None, is_heard: true }
    }

    /// The command at hand, of which the client hears the answer, and nobody else.
    pub(super) fn at_hand(place: usize, bond: Bond) -> Self {
        Self { place, words: RequestWords::Command, bond, mark: None, is_heard: true }
    }
}

/// How a request belongs to what its client has asked before by the same connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Bond {
    /// As a step of a transaction that does this: nothing is asked in its place.
    Step(StepEffect),
    /// Not at all: it has the connection since it would keep others waiting.
    None,
    /// It waits for what others do, not at all bound to what was asked before.
    Waits,
    /// It waits for what others do, where keys are watched.
    WaitsAmidWatch,
}

/// What is asked of all servers that a client tracks keys at: it hears the first error, or else the
/// first answer, behind all that any of them has said before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::session) struct OwnQuestion {
    /// The numbers of the places.
    pub(in crate::session) places: Vec<usize>,
    pub(in crate::session) words: RequestWords,
    /// By which the machine is told what becomes of it, if it is to be.
    pub(in crate::session) mark: Option<u64>,
    /// The client hears the answer.
    pub(in crate::session) is_heard: bool,
}

/// The words of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::session) enum RequestWords {
    /// The command at hand, as it came.
    Command,
    /// The name of a command alone.
    Name(&'static str),
    /// A whole command of Weir's own.
    Whole(Vec<u8>),
    /// `MULTI` and these commands behind it, in one piece; the answer is that to the last.
    FromMulti(Vec<Vec<u8>>),
}

/// What a client hears of its own gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Reply {
    Ok,
    Queued,
    /// The answer to an `EXEC` of nothing.
    NothingRun,
}

/// Why a client is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::session) enum Closing {
    /// Nobody would tell it of keys any more, or not of all: at once, whatever it waits for.
    TrackingLost,
    /// A server has answered this to what the client has its answer to already: behind what it
    /// waits for.
    Refused(Vec<u8>),
}
