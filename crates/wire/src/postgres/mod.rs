//! PostgreSQL's frontend/backend protocol, versions 3.0 and 3.2, as pure functions over bytes.
//!
//! It parses what a gateway must look at and builds what a gateway says, on both sides. It never
//! does I/O, never decides anything, and no bytes make it panic. Parsing borrows; nothing of it
//! allocates but what is read once per connection ([`startup::options`]).
//!
//! The path: [`startup::parse`] reads a client's first packet, [`frame::next`] cuts what follows
//! into messages, [`frontend`] and [`backend`] read their bodies and build answers, and
//! [`reply::Scanner`] finds where each reply ends in a server's stream.
//!
//! Sections named in comments are of the manual's chapter "Frontend/Backend Protocol".

pub mod backend;
pub mod frame;
pub mod frontend;
mod read;
pub mod refusal;
pub mod reply;
pub mod startup;

#[cfg(test)]
mod tests;

pub use read::{Malformed, message};
pub use refusal::{Refusal, Severity, sqlstate};

/// The highest minor version of protocol 3 that is spoken here.
pub const MINOR_MAX: u16 = 2;

/// Lengths of a cancel key's secret in protocol 3.2, in bytes ("Message Formats",
/// BackendKeyData); 3.0 has the shortest.
pub const SECRET_BYTES: std::ops::RangeInclusive<usize> = 4..=256;
