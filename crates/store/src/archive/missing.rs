//! What is missing from answers, in words for who asks.

use std::sync::Arc;

use jiff::Timestamp;

use crate::manifest::DamagedFile;
use crate::scan::TimeRange;

/// Points that a damaged file no longer gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The number of the file.
    pub file: u64,
    /// The measurement that the points are of.
    pub measurement: String,
    /// None of them is outside of these times.
    pub time: TimeRange,
    /// How many they are, or of how many a field is missing.
    pub points: u64,
    /// Whether the names of series are missing, too.
    pub nameless: bool,
    /// All of it in words.
    pub text: Arc<str>,
}

impl Missing {
    pub(super) fn of(damaged: &DamagedFile) -> Self {
        let DamagedFile { info, what, fields, nameless, .. } = damaged;
        let (points, time) = (damaged.points(), damaged.time());
        let of = match fields.as_slice() {
            [] => String::new(),
            fields => format!("fields {} of ", fields.join(", ")),
        };
        let names = if *nameless { " and the names of their series" } else { "" };
        let text = format!(
            "{of}{points} points of measurement {}{names} are missing, between {} and {}, and \
             older values may stand in their place: store file {} is damaged: {what}",
            info.measurement,
            shown(time.min),
            shown(time.max),
            info.name(),
        );
        let (file, measurement) = (info.number, info.measurement.clone());
        Self { file, measurement, time, points, nameless: *nameless, text: text.into() }
    }

    /// Whether an answer of some times of a measurement may lack them.
    pub fn is_of(&self, measurement: &str, time: TimeRange) -> bool {
        self.measurement == measurement && !self.time.intersect(time).is_empty()
    }
}

fn shown(time: i64) -> String {
    Timestamp::from_nanosecond(i128::from(time))
        .map_or_else(|_| time.to_string(), |time| time.to_string())
}
