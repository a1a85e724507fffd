//! Commits whose answers wait for one mark that many share.
//!
//! A server that commits asynchronously answers before the commit is durable. The answer is held
//! back here until a later request to the same server, the *mark*, has been answered: the server
//! answers that once everything before it is durable. What a mark is, and whether an answer
//! confirms it, is the gateway's business; no protocol and no socket is known here, and times are
//! given by the caller.
//!
//! The one path: [`Barrier::commit`] says whether a request may commit asynchronously, before the
//! first of its bytes is sent; [`Barrier::keep`] takes what is held back of its answer, and
//! [`Barrier::hold`] its end; [`Barrier::mark`] says that a mark is to be handed to the socket;
//! [`Barrier::confirmed`] releases what was held before that. A connection that ends
//! ([`Barrier::broken`]) leaves all that is held unproven: the server may have crashed, and what a
//! new connection hears proves nothing of what was committed before it was logged in.
//!
//! All of this holds only where requests and marks reach the same server. The caller sees to that
//! where an address may lead to another one meanwhile.
//!
//! A read may tell of commits that no mark has covered yet. [`Barrier::read`] and
//! [`Barrier::tells`] say whether its answer can go out at once; otherwise it is held like a
//! commit's.

mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use state::{Barrier, Request};

/// How much waits for marks, and for how long before no more is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Requests under way and answers held, together.
    pub answers: usize,
    /// Bytes of answers that are kept; the end of each answer is kept beyond it.
    pub bytes: usize,
    /// While the mark under way is older, requests that may commit wait.
    pub age: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { answers: 4096, bytes: 16 * 1024 * 1024, age: Duration::from_secs(1) }
    }
}

/// How a request that may commit is to commit.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// Asynchronously: its answer is held until a mark has covered it.
    Shared(Request),
    /// Synchronously, at the server's own level: its answer needs no mark.
    Own,
    /// Not yet: the mark under way is late, and so would be every other commit.
    Wait,
}

/// What becomes of a piece of an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Keeping {
    /// It is kept with the answer.
    Retained,
    /// There is no room for it: it goes out now, behind these bytes, which were kept before.
    PassedOn(Vec<u8>),
}

/// An answer that a mark has covered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoveredAnswer<T> {
    /// Who asked, as [`Barrier::hold`] was told.
    pub ticket: T,
    /// What was held back of the answer, its end included.
    pub bytes: Vec<u8>,
}

/// No mark can cover this answer any more: whether its commit lasts is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unproven<T>(pub T);

/// A mark was confirmed that was not under way: the connection is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server confirmed a mark that it was not sent")]
pub struct UnaskedConfirmation;
