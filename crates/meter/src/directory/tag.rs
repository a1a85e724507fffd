//! What the lines of a log of histograms are of.

use std::fmt;

use crate::recorder::{Correction, Kind, Measure, Results, Times};

/// What a histogram of the log is of the times of its operation and kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistogramPart {
    /// The times as they were measured.
    Measured,
    /// Those of them that would not be there without the injector's pauses and lateness.
    Without,
    /// Those that would be there instead.
    Instead,
}

/// What a line of the log is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// The number of the operation.
    pub operation: usize,
    /// How its requests ended.
    pub kind: Kind,
    /// Which times of theirs.
    pub measure: Measure,
    /// What of these times.
    pub part: HistogramPart,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measure = match self.measure {
            Measure::Latency => "latency",
            Measure::Service => "service",
        };
        let part = match self.part {
            HistogramPart::Measured => "",
            HistogramPart::Without => ".without",
            HistogramPart::Instead => ".instead",
        };
        write!(f, "{}.{}.{measure}{part}", self.operation, self.kind.name())
    }
}

impl Tag {
    /// Adds times of a log to the results that they are of; where they are of a correction, that.
    pub fn add(self, times: &Times, results: &mut Results) -> Option<Correction> {
        let Self { operation, kind, measure, part } = self;
        if part == HistogramPart::Measured {
            results.add_times(operation, kind, measure, times);
            return None;
        }
        let mut correction = Correction::default();
        correction.add_side(times, part == HistogramPart::Instead);
        results.correct(operation, kind, measure, &correction);
        Some(correction)
    }

    /// What a tag says; nothing where it is none of this version's.
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let operation = parts.next()?.parse().ok()?;
        let name = parts.next()?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name)?;
        let measure = match parts.next()? {
            "latency" => Measure::Latency,
            "service" => Measure::Service,
            _ => return None,
        };
        let part = match (parts.next(), parts.next()) {
            (None, None) => HistogramPart::Measured,
            (Some("without"), None) => HistogramPart::Without,
            (Some("instead"), None) => HistogramPart::Instead,
            _ => return None,
        };
        Some(Self { operation, kind, measure, part })
    }
}
