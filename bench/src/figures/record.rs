//! A line of `bench/figures.jsonl`.

use serde::{Deserialize, Serialize};

use super::versions::Versions;
use crate::report::shown;

/// One figure of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The row of the bench, as `--only` names it.
    pub row: String,
    /// What was measured. The same words are the same figure.
    pub figure: String,
    /// When the run began, in UTC; only the day where no more is on record.
    pub date: String,
    pub machine: Machine,
    /// The versions of Weir and of what it stood beside, by name.
    pub versions: Versions,
    /// How long one round of one way took; absent where a row does not measure by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_seconds: Option<f64>,
    /// What `value` is in: `ratio`, `requests/s`, `statements/s`, `lines/s`, `MB/s`, `MiB`, `KiB`,
    /// `s`, `ms`, `us`.
    pub unit: String,
    /// What the run came to: as a rule the median of its rounds. Absent where it came to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// What it has to be; absent where nothing is asked of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<FigureTarget>,
    /// `reached`, `missed`, `no peer`, `void`, `failed`, or `beside` where nothing is asked.
    pub verdict: String,
    /// Why it is void, failed or without a peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How many clients there were, where that is what figures of the row differ in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<usize>,
    /// Every round of every way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// Only of runs from before this file: where they are told, and how many they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<QuotedRuns>,
    pub command: String,
}

/// A miss by no more than this share counts as reached: two runs differ by more.
const TOLERANCE: f64 = 0.05;

/// What a figure has to be, and what would be better still.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureTarget {
    /// It has to be so much or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// It has to be so much or less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// What would be better still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<f64>,
    /// A miss by a little is a miss, too: it is a count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
}

impl FigureTarget {
    const NONE: Self = Self { at_least: None, at_most: None, beyond: None, exact: false };

    /// So much or more.
    pub const fn at_least(least: f64, beyond: f64) -> Self {
        Self { at_least: Some(least), beyond: Some(beyond), ..Self::NONE }
    }

    /// So much or more, and no more is asked.
    pub const fn no_less(least: f64) -> Self {
        Self { at_least: Some(least), ..Self::NONE }
    }

    /// So much or less.
    pub const fn at_most(most: f64, beyond: f64) -> Self {
        Self { at_most: Some(most), beyond: Some(beyond), ..Self::NONE }
    }

    /// So much or less, and no more is asked.
    pub const fn within(most: f64) -> Self {
        Self { at_most: Some(most), ..Self::NONE }
    }

    /// Of a share, the whole: nothing may be missing.
    pub const fn whole() -> Self {
        Self { at_least: Some(1.0), exact: true, ..Self::NONE }
    }

    /// Whether a figure is what it has to be, or misses that by 5 % at most.
    pub fn is_met(&self, value: f64) -> bool {
        let tolerance = if self.exact { 0.0 } else { TOLERANCE };
        self.at_least.is_none_or(|least| value >= least * (1.0 - tolerance))
            && self.at_most.is_none_or(|most| value <= most * (1.0 + tolerance))
    }

    /// What it has to be, in words.
    pub fn least(&self, unit: &str) -> String {
        let least = self.at_least.map(|least| format!("at least {}", round(least, unit)));
        let most = self.at_most.map(|most| format!("at most {}", round(most, unit)));
        least.into_iter().chain(most).collect::<Vec<_>>().join(", ")
    }

    /// The same with what would be better still.
    pub fn shown(&self, unit: &str) -> String {
        let beyond = self.beyond.map(|beyond| format!(", beyond {}", round(beyond, unit)));
        self.least(unit) + &beyond.unwrap_or_default()
    }
}

/// A round number with its unit: without zeros that a measured figure has behind its point.
fn round(value: f64, unit: &str) -> String {
    let text = shown(value, unit);
    let (number, unit) = text.split_once(' ').map_or((text.as_str(), None), |(n, u)| (n, Some(u)));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    unit.map_or_else(|| number.to_owned(), |unit| format!("{number} {unit}"))
}

/// The machine of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    pub cpu: String,
    /// How many CPUs the bench may use; client, servers and Weir share them.
    pub cores: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// What the files of the servers lie on.
    pub file_system: String,
    /// What tells it from others like it, where its figures were told before this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What was seen of one way, round by round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Through what: `Weir`, `direct`, a peer.
    pub way: String,
    /// What the values are in, as [`Record::unit`].
    pub unit: String,
    /// A value for each round, in their order.
    pub rounds: Vec<f64>,
    /// What is on record where the rounds are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Span>,
}

impl Series {
    /// What was measured of a way.
    pub fn new(way: impl Into<String>, unit: &str, rounds: &[f64]) -> Self {
        Self { way: way.into(), unit: unit.to_owned(), rounds: rounds.to_vec(), told: None }
    }
}

/// A median and a range whose single values are not on record.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// One or more runs of which a page told before there was this file. [`Record::value`] is their
/// median.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotedRuns {
    /// The page, or the commit, and what else it says of the conditions.
    pub by: String,
    /// How many runs the line stands for.
    pub runs: usize,
    /// The least of them, where they are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The most of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// How many of them are what they have to be, where that is on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<usize>,
}
