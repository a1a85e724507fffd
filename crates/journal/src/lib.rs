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
//   a write becomes durable: writer.rs: Writer::commit writes the group, syncs it, then tells
//     those who wait
//   what goes when the journal is full: prepare.rs: nothing (when-full = "reject"), or the
//     oldest segment
//   a crash's torn tail is told from damage: recovery.rs

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   journal
//   inspect, open
//   directory, keeper, tickets
//   appender, consumer, prepare, report
//   pump, reader, syncer, writer
//   core
//   ledger, recovery
//   scan, status
//   inlet, shelf, window
//   gate, identity, instruments, tail
//   error
//   settings
//   segment
//   chunk, cursor, group, settled
//   outcome, position, rates, record, threads, urgency, waiters

mod appender;
mod chunk;
mod consumer;
mod core;
mod cursor;
mod directory;
mod error;
mod gate;
mod group;
mod identity;
mod inlet;
pub mod inspect;
mod instruments;
mod journal;
mod keeper;
mod ledger;
mod open;
mod outcome;
mod position;
mod prepare;
mod pump;
mod rates;
mod reader;
mod record;
mod recovery;
mod report;
mod scan;
#[cfg(test)]
mod scenarios;
mod segment;
mod settings;
mod settled;
mod shelf;
mod status;
mod syncer;
mod tail;
mod threads;
mod tickets;
mod urgency;
mod waiters;
mod window;
mod writer;

pub use appender::{Appender, Ticket};
pub use chunk::{Chunk, Record};
pub use consumer::{Consumer, Start};
pub use error::{AckError, AppendAndWaitError, AppendError, ConsumeError, CursorError, OpenError};
pub use journal::{Journal, Mark, forget};
pub use outcome::Outcome;
pub use position::{Counts, Position};
pub use recovery::{Recovery, TornTail};
pub use settings::{Ack, Settings, SettingsError, WhenFull};
pub use settled::Pin;
pub use status::{Backlog, CursorStatus, Damage, Status};
pub use tickets::Tickets;
