//! A client's answers, in the order of its requests, whoever gives them.
//!
//! Each request has a place in a [`Line`]. A place is filled by a lane, by a lease, by the gateway
//! itself, or by parts from several lanes, which are joined. What fills the place at the head goes
//! on at once and is not copied; the rest waits, up to a limit. A place can be given up: then the
//! gateway's words go out in its turn, and what comes for it later reaches nobody. A request can be
//! taken back to be asked again, and with it all that were asked behind it. A client may not want
//! its answers: then they are thrown away in their turn. What answers change for the gateway, it is
//! told in the order of the requests.
//!
//! It knows no protocol, and no socket: what is to be sent is handed to a function.

mod line;
mod noted;
mod seat;
#[cfg(test)]
mod tests;

use std::rc::Rc;

pub use line::Line;
pub use noted::NotedAnswer;

use crate::lane::Fate;

/// Makes one answer of those of all parts, in their order. Called at most once.
pub type Join = Rc<dyn Fn(&[Vec<u8>]) -> Vec<u8>>;

/// Where a piece of an answer belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnswerPlace {
    /// The request's number: requests of a client are counted from 0.
    pub request: u64,
    /// Which of its parts; 0 where it has one.
    pub part: u32,
}

/// What became of a piece of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// It was sent, or waits for its turn.
    Taken,
    /// Its place was given up, so nobody hears of it.
    Late,
    /// Nobody hears of it: a request before it was [taken back](Line::take_back).
    Held,
    /// More waits than may: the client is to be ended.
    Over,
    /// The parts of one answer alone are more than may wait: it is to be given up.
    TooLarge,
}

/// Part of the answer was sent, so nothing else can be told in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a part of the answer was sent")]
pub struct Begun;

/// More messages wait than may: the client is to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more waits for the client than may")]
pub struct Over;

/// What is to become of a request whose connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is asked again, in its place.
    Again,
    /// It was not sent, and is not sent again.
    NotSent,
    /// The server may have run it, and nobody will ever know.
    MayHaveRun,
    /// A part of its answer was sent: the client can only be closed.
    Close,
    /// Its place was given up before.
    Late,
}

impl Verdict {
    /// What is to become of a request by itself. `is_told`: a part of its answer was sent;
    /// `repeats`: it may be asked again although a server may have run it.
    #[inline]
    const fn of(fate: Fate, is_told: bool, repeats: bool) -> Self {
        match fate {
            _ if is_told => Self::Close,
            Fate::Sent | Fate::Answered if !repeats => Self::MayHaveRun,
            Fate::Unsent | Fate::Sent | Fate::Answered => Self::Again,
        }
    }
}
