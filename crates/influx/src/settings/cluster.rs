//! The tables of a cluster: which backends are copies of each other, and which of these sets has
//! which points. Each field's comment is its entry in the reference.

use std::time::Duration as Span;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Duration, Size};

/// `[influx.cluster]`: backends that share the points out among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ClusterSettings {
    /// The name of the cluster. It stands on each member with all that follows, so that no point is
    /// ever looked for elsewhere than where it was put; it cannot be changed.
    pub name: String,
    /// How old what was read of a member's table may be while the member is given points and asked;
    /// it is read twice as often. `weir placement apply` waits for so long, so it is the same in
    /// all gateways.
    pub check_interval: Duration,
    /// How many points a query may read of all sets together, where none has a part of its answer
    /// and Weir has to compute it. More are an error that says what makes the query smaller.
    pub rows_max: u64,
    /// How many points of all sets together a query of points as they are holds, to put those of
    /// one time in the order that one server gives them. Where there are more, and they are of one
    /// measurement and without `SLIMIT`, they pass through as they come, and `rows-max` does not
    /// count for them.
    pub held_rows: u64,
    /// How much memory such a query may take.
    pub query_memory: Size,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            check_interval: Span::from_secs(10).into(),
            rows_max: 10_000_000,
            held_rows: 100_000,
            query_memory: Size::from_mib(256),
        }
    }
}

/// `[[influx.set]]`: backends that are copies of each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SetSettings {
    /// The name of the set; it cannot be changed.
    pub name: String,
    /// The names of its backends, each of which has every point of the set.
    pub members: Vec<String>,
}

/// `[[influx.placement]]`: how points are shared out over a period of their time. Periods follow
/// each other; one that is in force stays as it is for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlacementSettings {
    /// The first time of the period, as in `"2026-12-07T00:00:00Z"`; none in the first period. That
    /// of a period that is added lies further ahead than `future-max` when it is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The sets that the points are shared out over, in this order.
    pub sets: Vec<String>,
    /// How long a group of points is that share their sets. Groups begin at multiples of it since
    /// the year 1, as InfluxDB's shards do.
    #[serde(default = "week")]
    pub span: Duration,
    /// How many sets share the points of a group; all of them by default. The next group begins
    /// with the next set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<usize>,
    /// What decides about the set within a group: `"series"`, `"measurement"`, `"point"` (series
    /// and time), or a list of tags. The points of one group for which it is the same are together.
    #[serde(default)]
    pub split_by: SplitSetting,
    /// How far ahead of the clock points of this period may lie. Those further ahead are refused.
    #[serde(default = "day")]
    pub future_max: Duration,
    /// Databases and measurements that are shared out otherwise; the first that fits counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rule: Vec<RuleSettings>,
}

/// `[[influx.placement.rule]]`: how points of some databases or measurements are shared out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RuleSettings {
    /// A regular expression for the database; every one where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// A regular expression for the measurement; every one where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measurement: Option<String>,
    /// How many sets share the points of a group; as the period says by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<usize>,
    /// What decides about the set; as the period says by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_by: Option<SplitSetting>,
}

/// What decides which of the sets of a group a point is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SplitSetting {
    /// One of the words.
    By(SplitWord),
    /// The values of these tags, and the measurement.
    Tags(Vec<String>),
}

/// What decides, where it is not some tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SplitWord {
    /// The measurement and all tags.
    Series,
    /// The measurement and nothing else.
    Measurement,
    /// The measurement, all tags and the time.
    Point,
}

impl Default for SplitSetting {
    fn default() -> Self {
        Self::By(SplitWord::Series)
    }
}

fn week() -> Duration {
    Span::from_secs(7 * 24 * 60 * 60).into()
}

fn day() -> Duration {
    Span::from_secs(24 * 60 * 60).into()
}
