//! The `[journal]` table of the configuration.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Duration, Size};

use crate::format::segment::HEADER_LEN;

/// When a client hears that its write is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ack {
    /// After the group with the write has been through `fdatasync`. Nothing acknowledged is lost
    /// when the process or the machine dies.
    #[default]
    Durable,
    /// After the group has been handed to the operating system. Nothing is lost when the process
    /// dies, up to `flush-interval` of writes when the machine dies.
    Written,
    /// As soon as the write is in the open group. Up to one group is lost when the process dies,
    /// and up to `flush-interval` more when the machine dies.
    Memory,
}

impl Ack {
    /// The name as it is written in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Ack::Durable => "durable",
            Ack::Written => "written",
            Ack::Memory => "memory",
        }
    }
}

/// What happens to new writes when the journal has reached `max-size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// New writes are refused until a backend has caught up.
    #[default]
    Reject,
    /// The oldest segment is given up; what a backend had not yet received from it is counted
    /// and logged.
    DropOldest,
}

/// The journal: where it is, when it acknowledges and how large it may become.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// The directory of the journal; made when it is missing. One process may use it at a time.
    pub dir: PathBuf,
    /// When a client hears that its write is safe: `durable`, `written` or `memory`.
    pub ack: Ack,
    /// How much disk the segments may take together. At least three segments.
    pub max_size: Size,
    /// What happens to new writes at `max-size`: `reject` or `drop-oldest`.
    pub when_full: WhenFull,
    /// The size of one segment file. Space is won back by whole segments.
    pub segment_size: Size,
    /// How long a client waits for its acknowledgement before it is told to come again.
    pub ack_timeout: Duration,
    /// How often `written` and `memory` journals are synced to the disk.
    pub flush_interval: Duration,
    /// How many bytes may wait to be written as the next group; more is refused at once. Never
    /// more than fits into a segment.
    pub group_max: Size,
    /// How much of the newest records is kept in memory for backends that are not far behind.
    pub memory_tail: Size,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            dir: PathBuf::from("weir-data/journal"),
            ack: Ack::Durable,
            max_size: Size::from_gib(10),
            when_full: WhenFull::Reject,
            segment_size: Size::from_mib(64),
            ack_timeout: Duration::from_secs(5),
            flush_interval: Duration::from_millis(200),
            group_max: Size::from_mib(64),
            memory_tail: Size::from_mib(16),
        }
    }
}

/// A setting that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Segments below or above what the format can hold.
    #[error("journal.segment-size is {given}; write a size from {SEGMENT_MIN} to {SEGMENT_MAX}")]
    SegmentSize {
        /// The size that is configured.
        given: Size,
    },
    /// Too few segments to have one written, one ready and one being read.
    #[error("journal.max-size is {given}; write at least three segments, {least}")]
    MaxSize {
        /// The size that is configured.
        given: Size,
        /// The least that works with this segment size.
        least: Size,
    },
    /// A time of zero.
    #[error("journal.{key} must not be 0")]
    Zero {
        /// The key of the setting.
        key: &'static str,
    },
}

/// The smallest segment: room for the header and some groups.
pub const SEGMENT_MIN: Size = Size::from_kib(64);
/// The largest segment; the length of a group has 32 bits.
pub const SEGMENT_MAX: Size = Size::from_gib(2);

impl Settings {
    /// Whether the settings can work together.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let segment = self.segment_size;
        if segment < SEGMENT_MIN || segment > SEGMENT_MAX {
            return Err(SettingsError::SegmentSize { given: segment });
        }
        let least = Size::from_bytes(segment.bytes() * 3);
        if self.max_size < least {
            return Err(SettingsError::MaxSize { given: self.max_size, least });
        }
        for (key, zero) in [
            ("ack-timeout", self.ack_timeout.get().is_zero()),
            ("flush-interval", self.flush_interval.get().is_zero()),
            ("group-max", self.group_max.is_empty()),
        ] {
            if zero {
                return Err(SettingsError::Zero { key });
            }
        }
        Ok(())
    }

    /// The bytes of groups one segment holds: whole pages, the header's page apart.
    pub(crate) fn segment_capacity(&self) -> u64 {
        let page = HEADER_LEN;
        (self.segment_size.bytes() / page) * page - page
    }

    /// The bytes of records one group may hold.
    pub(crate) fn group_capacity(&self) -> u64 {
        let fits = self.segment_capacity() - crate::format::group::HEADER_LEN as u64;
        self.group_max.bytes().min(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::{Settings, SettingsError};
    use units::Size;

    #[test]
    fn the_defaults_can_work() {
        assert_eq!(Settings::default().validate(), Ok(()));
    }

    #[test]
    fn fewer_than_three_segments_are_refused() {
        let settings = Settings { max_size: Size::from_mib(100), ..Settings::default() };
        assert!(matches!(settings.validate(), Err(SettingsError::MaxSize { .. })));
    }
}
