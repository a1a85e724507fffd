//! The durable log between the front ends and the backends. It never looks into a payload and
//! never speaks a protocol.
//!
//! The one path: a worker's [`Appender`] copies a record into the worker's own open buffer; the
//! journal thread takes all buffers as one group, writes it, syncs it, and tells the workers, who
//! tell their clients. Each backend's [`Consumer`] then gets the records in order, from memory or
//! from the segment files, and moves its persisted cursor as they are done with. Segments behind
//! all cursors are used again.
#![warn(missing_docs)]

// Where it is decided (files below this folder, or below `crates` where a crate is named first):
//   a write becomes durable: commit/writer.rs: Writer::commit writes the group, syncs it, then
//     tells those who wait
//   what goes when the journal is full: housekeeping/prepare.rs: nothing (when-full = "reject"),
//     or the oldest segment
//   a crash's torn tail is told from damage: recovery/mod.rs

// Two words of its own: a `gate` is Seastar's, entered before work begins and closed at the end;
// the `tail` is what operators size as `memory-tail`, for consumers that read at the log's end.

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   journal
//   inspect
//   recovery
//   housekeeping
//   appender, commit, consumer
//   owners
//   acks, cursors
//   log
//   instruments
//   status
//   error
//   settings
//   format
//   buffers, outcome, position, threads

mod acks;
mod appender;
mod buffers;
mod commit;
mod consumer;
mod cursors;
mod error;
mod format;
mod housekeeping;
pub mod inspect;
mod instruments;
mod journal;
mod log;
mod outcome;
mod owners;
mod position;
mod recovery;
#[cfg(test)]
mod scenarios;
mod settings;
mod status;
mod threads;

pub use appender::tickets::Tickets;
pub use appender::{Appender, Ticket};
pub use consumer::Consumer;
pub use cursors::Start;
pub use cursors::chunk::{Chunk, Record};
pub use cursors::settled::Pin;
pub use error::{AckError, AppendAndWaitError, AppendError, ConsumeError, CursorError, OpenError};
pub use journal::{Journal, Mark, forget};
pub use outcome::Outcome;
pub use position::{Counts, Position};
pub use recovery::{Recovery, TornTail};
pub use settings::{Ack, Settings, SettingsError, WhenFull};
pub use status::{Backlog, CursorStatus, Damage, Status};
