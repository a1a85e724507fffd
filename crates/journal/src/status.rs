//! What is seen of the journal from outside.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::position::{Counts, Position};
use crate::settings::{Ack, WhenFull};

/// The state of the whole journal at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// When writes are acknowledged.
    pub ack: Ack,
    /// What happens at `bytes_max`.
    pub when_full: WhenFull,
    /// Why nothing is acknowledged any more, once a sync has failed.
    pub poisoned: Option<String>,
    /// Whether writes are refused because the journal has reached `bytes_max`.
    pub full: bool,
    /// Whether writes are refused because the file system has no room for another segment.
    pub disk_full: bool,
    /// Bytes of all segment files, prepared ones included.
    pub bytes_used: u64,
    /// The configured `max-size` in bytes.
    pub bytes_max: u64,
    /// Segment files, prepared ones included.
    pub segments: u64,
    /// Bytes waiting in memory to be written as the next group.
    pub pending_bytes: u64,
    /// Bytes of groups kept in memory for consumers.
    pub tail_bytes: u64,
    /// The end of what has been handed to the operating system.
    pub written_end: Position,
    /// The end of what has been synced.
    pub synced_end: Position,
    /// The end of what consumers may see.
    pub released_end: Position,
    /// What went in up to `released_end`, since the journal was made.
    pub accepted: Counts,
    /// Bytes of records a second that went in, averaged over the last ten seconds or so.
    pub appended_bytes_per_second: f64,
    /// Bytes a second by which the space that cannot be given free yet grows, averaged; zero or
    /// below when consumers keep up.
    pub bytes_per_second: f64,
    /// How long until the journal is full at `bytes_per_second`; absent when it does not grow.
    #[serde(rename = "until_full_seconds", serialize_with = "in_seconds")]
    pub until_full: Option<Duration>,
    /// Damaged places found since the journal was opened, the first hundred of them.
    pub damage: Vec<Damage>,
}

/// A span as one number, which is what readers of JSON expect.
fn in_seconds<S: Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    span.map(|span| span.as_secs_f64()).serialize(serializer)
}

/// A place of the journal that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Where the damage begins.
    pub from: Position,
    /// Where the next intact record begins.
    pub to: Position,
    /// The file and the offset in it, or what is missing.
    pub place: String,
    /// What was lost there, as far as the counts around it tell.
    pub lost: Counts,
}

/// What one consumer has still to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Backlog {
    /// Items that were released and not yet committed.
    pub items: u64,
    /// Control records that were released and not yet committed.
    pub controls: u64,
    /// Bytes of records that were released and not yet committed.
    pub bytes: u64,
    /// How long ago the oldest of them was accepted; never too short, by up to one group too long.
    #[serde(rename = "oldest_age_seconds", serialize_with = "in_seconds")]
    pub oldest_age: Option<Duration>,
}

/// What became of everything a cursor has to account for. At any time, over restarts too:
/// `accepted = delivered + dead_lettered + dropped + dropped_oldest + dropped_damaged + elsewhere +
/// waiting`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CursorStatus {
    /// The name of the consumer.
    pub name: String,
    /// Everything before this place is done with.
    pub position: Position,
    /// Up to where that is on disk.
    pub persisted: Position,
    /// Whether a consumer has it at this moment.
    pub in_use: bool,
    /// Items since the cursor was made.
    pub accepted: u64,
    /// Items the consumer reported as delivered.
    pub delivered: u64,
    /// Items the consumer reported as dead letters.
    pub dead_lettered: u64,
    /// Items the consumer reported as dropped.
    pub dropped: u64,
    /// Items the consumer reported as not meant for it.
    pub elsewhere: u64,
    /// Items given up by `when-full = "drop-oldest"`.
    pub dropped_oldest: u64,
    /// Items lost by damage on the disk.
    pub dropped_damaged: u64,
    /// Control records given up or lost, counted apart from items.
    pub dropped_controls: u64,
    /// What is still to be received.
    pub waiting: Backlog,
}

impl CursorStatus {
    /// Every item that was given up, for whatever reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped + self.dropped_oldest + self.dropped_damaged
    }
}
