//! What of a member's points is copied at once: a measurement of a policy within a shard group,
//! where each field has one type. Pure.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::influxql::{quote_identifier, rfc3339_short};

use crate::catalogue::Listing;

/// What a policy drops within this time is not copied.
const DROPPED_WITHIN_NS: i64 = 86_400_000_000_000;

/// A measurement of a policy within a span of time; in the order in which slices are copied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Slice {
    pub db: String,
    pub policy: String,
    pub span: TimeSpan,
    pub measurement: String,
}

/// Times from one on, before another, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TimeSpan {
    pub from_ns: i64,
    pub to_ns: i64,
}

/// A shard group as InfluxDB lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardGroup {
    db: String,
    policy: String,
    span: TimeSpan,
    expires_ns: i64,
}

impl TimeSpan {
    /// All times that there are.
    pub const ALL: Self = Self { from_ns: i64::MIN, to_ns: i64::MAX };

    /// The times that are in both.
    fn within(self, other: Self) -> Option<Self> {
        let from_ns = self.from_ns.max(other.from_ns);
        let to_ns = self.to_ns.min(other.to_ns);
        (from_ns < to_ns).then_some(Self { from_ns, to_ns })
    }
}

impl Slice {
    /// Database, policy and measurement as a statement names them.
    pub fn place(&self) -> String {
        [&self.db, &self.policy, &self.measurement].map(|name| quote_identifier(name)).join(".")
    }

    /// Whether all of it is copied once `last` is, and all before that in the order of the member
    /// that it was copied from. Another one may have other shard groups, so a slice that is partly
    /// before the last one counts as not copied.
    pub fn is_copied_with(&self, last: &Slice) -> bool {
        let Slice { db, policy, span, measurement } = last;
        match (&self.db, &self.policy).cmp(&(db, policy)) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => {
                let is_within = self.span.within(*span) == Some(self.span);
                self.span.to_ns <= span.from_ns || (is_within && self.measurement <= *measurement)
            }
        }
    }

    /// `FROM` and `WHERE` of a statement about its points.
    pub fn source(&self) -> String {
        let TimeSpan { from_ns, to_ns } = self.span;
        let from = (from_ns > i64::MIN).then(|| format!("time >= {from_ns}"));
        let to = (to_ns < i64::MAX).then(|| format!("time < {to_ns}"));
        let bounds: Vec<String> = from.into_iter().chain(to).collect();
        let bounds = match bounds.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", bounds.join(" AND ")),
        };
        format!("FROM {}{bounds}", self.place())
    }
}

impl std::fmt::Display for Slice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.span.from_ns {
            i64::MIN => f.write_str(&self.place()),
            from_ns => write!(f, "{} from {}", self.place(), rfc3339_short(from_ns)),
        }
    }
}

/// The shard groups in the answer to `SHOW SHARD GROUPS`.
pub fn read_groups(answer: &Value) -> Vec<ShardGroup> {
    let series = answer.pointer("/results/0/series/0");
    let columns = series.and_then(|of| of.get("columns")).and_then(Value::as_array);
    let rows = series.and_then(|of| of.get("values")).and_then(Value::as_array);
    let (Some(columns), Some(rows)) = (columns, rows) else { return Vec::new() };
    let group = |row: &Value| {
        let text = |name: &str| row.get(columns.iter().position(|of| of == name)?)?.as_str();
        let time = |name: &str| {
            let time: Timestamp = text(name)?.parse().ok()?;
            i64::try_from(time.as_nanosecond()).ok()
        };
        Some(ShardGroup {
            db: text("database")?.to_owned(),
            policy: text("retention_policy")?.to_owned(),
            // The first and the last group may reach beyond the times that there are.
            span: TimeSpan {
                from_ns: time("start_time").unwrap_or(i64::MIN),
                to_ns: time("end_time").unwrap_or(i64::MAX),
            },
            expires_ns: time("expiry_time").unwrap_or(i64::MAX),
        })
    };
    rows.iter().filter_map(group).collect()
}

/// The slices of a member's points within `wanted`, in order, but for what its policies drop soon
/// after `now_ns`. A Weir lists no shard groups: there a field has one type at all times, and a
/// policy drops all that is older than it keeps points.
pub fn slices(
    listing: &Listing,
    measurements: &BTreeMap<String, Vec<String>>,
    groups: &[ShardGroup],
    (wanted, now_ns): (TimeSpan, i64),
) -> Vec<Slice> {
    let mut slices = Vec::new();
    for (db, policies) in &listing.databases {
        for (policy, described) in &policies.policies {
            let is_kept = |group: &&ShardGroup| {
                let is_dropped = group.expires_ns <= now_ns.saturating_add(DROPPED_WITHIN_NS);
                described.is_for_ever() || !is_dropped
            };
            let oldest_ns = described.duration_ns().map_or(i64::MIN, |keeps_ns| {
                now_ns.saturating_sub(keeps_ns).saturating_add(DROPPED_WITHIN_NS)
            });
            let of = groups.iter().filter(|group| group.db == *db && group.policy == *policy);
            let spans: Vec<TimeSpan> = match groups.is_empty() {
                true => vec![TimeSpan { from_ns: oldest_ns, ..TimeSpan::ALL }],
                false => of.filter(is_kept).map(|group| group.span).collect(),
            };
            for span in spans.into_iter().filter_map(|span| span.within(wanted)) {
                let names = measurements.get(db).into_iter().flatten();
                slices.extend(names.map(|measurement| Slice {
                    db: db.clone(),
                    policy: policy.clone(),
                    span,
                    measurement: measurement.clone(),
                }));
            }
        }
    }
    slices.sort();
    slices
}
