//! One server connection shared by many clients, with requests of several in flight at once.
//!
//! A lane knows no protocol beyond what [`Protocol`] tells it, which is where a reply ends. It
//! never waits to fill up, and never lets a request's bytes go anywhere but behind those pushed
//! before it: replies go to the requests by their order alone.
//!
//! The one path: [`Handle::push`] puts a request's ticket at the end of the line and its bytes
//! into the outgoing buffer, and wakes the lane's task once; the task ([`Driver`]) runs after the
//! tasks that are ready already, writes all that has gathered with one write, reads, and hands
//! each piece of a reply to the ticket at the head ([`Owner::reply`]). When the connection ends,
//! the tickets that are left are [`Orphan`]s. [`Lane`] is all of this without the sockets.
//!
//! Equal reads that wait together may be asked once ([`Handle::push_or_join`]): all of them had
//! come before the one was sent, so each hears what it could have heard alone.

mod drive;
mod handle;
mod patience;
mod sharing;
mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use drive::{Driver, LaneEnd, Owner, Why, start};
pub use handle::Handle;
pub use state::Lane;

/// What an owner's protocol knows of replies: where one ends. It keeps in mind what it must
/// between two calls, as how much of a message it has let through is still to come.
pub trait Protocol {
    /// Looks at what came from the server; `bytes` is never empty. Say as much as can be said at
    /// once: pieces of one reply are joined again, but each step costs a call.
    fn scan(&mut self, bytes: &[u8]) -> Step;
}

/// The next piece of what a server sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// How many bytes it is about. 0: more are wanted before anything can be said, and these come
    /// again with more behind them.
    pub len: usize,
    /// What the bytes are, which says to whom they go.
    pub what: What,
}

/// What a piece of a server's bytes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Of the reply to the request at the head, which goes on.
    Part,
    /// Ends one reply to the request at the head.
    End,
    /// Belongs to no request. The protocol decides so; for a lane without a request in flight,
    /// anything else is a fault.
    Aside,
    /// The connection must not be used any more, with the reason. These bytes reach nobody.
    Broken(&'static str),
}

/// How much there may be on a lane at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests that are not answered yet.
    pub depth: usize,
    /// Bytes not yet sent from which on no request is taken. One request may go beyond it, however
    /// large: its size is not known before it is written.
    pub unsent: usize,
    /// Bytes of a reply that the protocol wants to see at once. More break the lane.
    pub unread: usize,
    /// For how long others wait behind a reply that is not taken as fast as it comes, in all; then
    /// it is read on, for its owner to keep. Of what reaches nobody they wait for the end as long
    /// again at most: the lane ends where that does not come. Zero reads on whatever happens to it.
    /// Where nobody but its own client waits behind it there is no limit, so with a patience no
    /// request is put behind a reply that is seen to be large.
    pub patience: Duration,
    /// The same of a reply that is [larger](Owner::is_too_large) than its owner may keep, whose
    /// client loses it then. No shorter than `patience`.
    pub patience_with_large: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 64,
            unsent: 256 * 1024,
            unread: 1024 * 1024,
            patience: Duration::ZERO,
            patience_with_large: Duration::ZERO,
        }
    }
}

/// What a lane did with a request that it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// It is sent by itself, and equal ones may join it until then.
    Pushed,
    /// An equal one of another client waits, and is sent for both.
    Joined,
}

/// A lane took no request: it is at a limit, in quarantine or has ended. The ticket comes back.
#[derive(Debug, PartialEq, Eq)]
pub struct Full<T>(pub T);

/// The server said what it must not have said, or the protocol gave the connection up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server's connection is broken: {0}")]
pub struct ProtocolError(pub &'static str);

/// Something a server sent, and for whom.
#[derive(Debug)]
pub enum Event<'b, 't, T> {
    /// A piece of a reply, up to all of it.
    Reply {
        /// Of the request at the head.
        ticket: &'t mut T,
        /// The piece, as it came.
        bytes: &'b [u8],
        /// With the last piece: how long the server had the request to itself, from when it had
        /// been sent and those before it were answered.
        last: Option<Duration>,
    },
    /// The whole reply to a request, for one that had joined it.
    Shared {
        /// Of the one that had joined.
        ticket: &'t mut T,
        /// The reply, as it came.
        bytes: &'b [u8],
        /// How long the server had the request to itself.
        ran: Duration,
    },
    /// A request had joined one whose reply is too long to be kept: it is to be asked by itself.
    /// Nothing of it was sent, and nothing of a reply was handed over.
    Apart(T),
    /// A message that answers no request, such as a notice.
    Aside(&'b [u8]),
}

/// A request whose connection ended before its reply did.
#[derive(Debug, PartialEq, Eq)]
pub struct Orphan<T> {
    /// What the request was pushed with.
    pub ticket: T,
    /// What is known of it.
    pub fate: Fate,
}

/// How far a request got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The server saw nothing of it.
    Unsent,
    /// Some or all of it left this process. Whether the server ran it is unknown.
    Sent,
    /// A part of its reply was handed over.
    Answered,
}
