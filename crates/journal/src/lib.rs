//! The durable log between the front ends and the backends. It never looks into a payload and
//! never speaks a protocol.
//!
//! The one path: a worker's [`Appender`] copies a record into the worker's own open buffer; the
//! journal thread takes all buffers as one group, writes it, syncs it, and tells the workers, who
//! tell their clients. Each backend's [`Consumer`] then gets the records in order, from memory or
//! from the segment files, and moves its persisted cursor as they are done with. Segments behind
//! all cursors are used again.
#![allow(unused, clippy::todo, dead_code)]

mod appender;
mod chunk;
mod consumer;
mod cursor;
mod error;
mod group;
pub mod inspect;
mod journal;
mod position;
mod recovery;
mod segment;
mod settings;
mod status;

pub use appender::{Appender, Ticket};
pub use chunk::{Chunk, Record};
pub use consumer::{Consumer, Done, Start};
pub use error::{
    AckError, AppendAndWaitError, AppendError, ConsumeError, CursorError, FileError, OpenError,
};
pub use journal::{Journal, forget};
pub use position::{Counts, Position};
pub use recovery::{Cut, Recovery};
pub use settings::{Ack, Settings, SettingsError, WhenFull};
pub use status::{Backlog, CursorStatus, Damage, Status};
