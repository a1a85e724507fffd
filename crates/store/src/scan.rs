//! What the executor asks of the store, and what it gets: the meeting point of storage and query.

use arrow_array::ArrayRef;
use arrow_buffer::ScalarBuffer;
use serde::{Deserialize, Serialize};

use crate::series::SeriesId;

/// A span of time in nanoseconds since 1970, both ends inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TimeRange {
    /// The first nanosecond that is inside.
    pub min: i64,
    /// The last nanosecond that is inside.
    pub max: i64,
}

impl TimeRange {
    /// All times that a point can have.
    pub const ALL: Self = Self { min: i64::MIN, max: i64::MAX };

    /// Whether nothing is inside.
    pub fn is_empty(self) -> bool {
        self.min > self.max
    }

    /// What is in both.
    pub fn intersect(self, other: Self) -> Self {
        Self { min: self.min.max(other.min), max: self.max.min(other.max) }
    }

    /// From the first time of both to the last one.
    pub fn hull(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Whether spans leave nothing of it.
    pub fn is_covered_by(mut self, mut spans: Vec<Self>) -> bool {
        spans.sort_unstable();
        for span in spans {
            if span.min <= self.min && self.min <= span.max {
                match span.max.checked_add(1) {
                    Some(next) => self.min = next,
                    None => return true,
                }
            }
        }
        self.is_empty()
    }

    /// Whether `time` is inside.
    pub fn contains(self, time: i64) -> bool {
        self.min <= time && time <= self.max
    }
}

/// What a scan reads of the series it is given.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// The measurement of the series.
    pub measurement: String,
    /// Only points of these times.
    pub time: TimeRange,
    /// The fields, in the order of [`Chunk::columns`]. Names that are no fields give `None`. A
    /// point that has none of them is left out; no fields at all give the times of all points.
    pub fields: Vec<String>,
    /// Newest first, within each series.
    pub descending: bool,
}

/// Points of one series, sorted by time, one for each time.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The series that the points are of.
    pub series: SeriesId,
    /// The times; never empty.
    pub times: ScalarBuffer<i64>,
    /// A column for each field asked for: `Float64Array`, `Int64Array`, `UInt64Array`,
    /// `BooleanArray` or `StringArray`, as long as `times`; `None` when all are null.
    pub columns: Vec<Option<ArrayRef>>,
}

/// Why a scan broke off.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// A file cannot be read.
    #[error("store file {file}: {what}")]
    File {
        /// The file's name in its directory.
        file: String,
        /// What is wrong with the file.
        what: String,
    },
}
