//! What several retention policies hold, seen as one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::condition::{Filter, RowFilter, TagReading, TimeBounds};
use crate::predicate::TagPredicate;
use crate::refusal::QueryError;
use crate::scan::TimeRange;
use crate::series::Series;
use crate::snapshot::{NameError, Snapshot};
use crate::view::PolicyView;

/// Seconds from the year 1, from which Go counts, to 1970.
const ZERO_TIME_S: i128 = 62_135_596_800;

/// A policy, and the span of its partitions.
struct PolicySchema {
    view: PolicyView,
    partition_ns: i64,
}

/// The schema of a database, or of one of its policies.
pub(super) struct Schema {
    parts: Vec<PolicySchema>,
}

/// The tags of a series.
pub(super) type Tags = Arc<[(Arc<str>, Arc<str>)]>;

impl Schema {
    /// All policies of a database.
    pub(super) fn database(snapshot: &Snapshot, db: &str) -> Result<Self, NameError> {
        let mut parts = Vec::new();
        for policy in snapshot.policies(db)? {
            let view = snapshot.policy(db, Some(&policy.name))?;
            parts.push(PolicySchema { view, partition_ns: policy.partition_ns });
        }
        Ok(Self { parts })
    }

    /// One policy of a database; `None` is the default one.
    pub(super) fn policy(
        snapshot: &Snapshot,
        db: &str,
        policy: Option<&str>,
    ) -> Result<Self, NameError> {
        let view = snapshot.policy(db, policy)?;
        Ok(Self { parts: vec![PolicySchema { view, partition_ns: 0 }] })
    }

    /// Only the policies with a partition that has points and reaches into these times. As in
    /// InfluxDB's index in memory, such a policy is seen whole.
    pub(super) fn within(mut self, time: TimeBounds) -> Self {
        if time != TimeBounds::default() {
            let range = time.range();
            self.parts.retain(|part| {
                let range = part.whole_partitions(range);
                let names = part.view.measurements();
                names.iter().any(|name| part.view.extent(name, range).is_some())
            });
        }
        self
    }

    pub(super) fn views(&self) -> impl Iterator<Item = &PolicyView> {
        self.parts.iter().map(|part| &part.view)
    }

    pub(super) fn measurements(&self) -> BTreeSet<String> {
        self.views().flat_map(PolicyView::measurements).collect()
    }

    pub(super) fn tag_keys(&self, measurement: &str) -> BTreeSet<String> {
        self.views().flat_map(|view| view.tag_keys(measurement)).collect()
    }

    pub(super) fn tag_values(
        &self,
        measurement: &str,
        key: &str,
        of: &TagPredicate,
    ) -> BTreeSet<String> {
        let all = self.views().flat_map(|view| view.tag_values(measurement, key, of));
        // An absent tag is not a value.
        all.filter(|value| !value.is_empty()).collect()
    }

    /// A condition without time, for one measurement.
    pub(super) fn filter(
        &self,
        measurement: &str,
        condition: Option<&wire::influxql::ast::Expr>,
        reading: TagReading,
    ) -> Result<Filter, QueryError> {
        let mut fields = BTreeSet::new();
        if condition.is_some() {
            fields = self.views().flat_map(|view| view.fields(measurement).into_keys()).collect();
        }
        Filter::of(measurement, condition, reading, &|name| fields.contains(name))
    }

    /// The series of a measurement that match, once each. What a condition says of fields is for
    /// `fields` to judge: `true` takes the series as if it matched.
    pub(super) fn series(
        &self,
        measurement: &str,
        filter: &Filter,
        fields: bool,
    ) -> BTreeMap<Tags, Series> {
        let mut all = BTreeMap::new();
        for view in self.views() {
            for series in view.series(measurement, &filter.tags) {
                let matches = match filter.series(&series) {
                    RowFilter::All => true,
                    RowFilter::None => false,
                    RowFilter::Some(_) => fields,
                };
                if matches {
                    all.insert(Arc::clone(&series.tags), series);
                }
            }
        }
        all
    }
}

impl PolicySchema {
    /// A range, widened to the ends of partitions.
    fn whole_partitions(&self, range: TimeRange) -> TimeRange {
        let span = i128::from(self.partition_ns.max(1));
        let zero = ZERO_TIME_S * 1_000_000_000;
        let start = |time: i64| {
            let since = i128::from(time) + zero;
            since - since.rem_euclid(span) - zero
        };
        let clamp =
            |time: i128| i64::try_from(time).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX });
        TimeRange { min: clamp(start(range.min)), max: clamp(start(range.max) + span - 1) }
    }
}
