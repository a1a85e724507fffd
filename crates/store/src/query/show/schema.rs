//! What several retention policies hold, seen as one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::condition::{Filter, RowFilter, TagReading, TimeBounds};
use crate::predicate::TagPredicate;
use crate::refusal::QueryError;
use crate::scan::{ScanError, TimeRange};
use crate::series::{Series, SeriesSet};
use crate::snapshot::{NameError, Snapshot};
use crate::view::PolicyView;

/// The schema of a database, or of one of its policies; of all times, or of the partitions that
/// some times touch.
pub(super) struct Schema {
    views: Vec<PolicyView>,
    /// The times whose partitions are seen; `None` is all.
    time: Option<TimeRange>,
}

/// The tags of a series.
pub(super) type Tags = Arc<[(Arc<str>, Arc<str>)]>;

impl Schema {
    /// All policies of a database.
    pub(super) fn database(snapshot: &Snapshot, db: &str) -> Result<Self, NameError> {
        let policies = snapshot.policies(db)?;
        let views = policies.iter().map(|policy| snapshot.policy(db, Some(&policy.name)));
        Ok(Self { views: views.collect::<Result<_, _>>()?, time: None })
    }

    /// One policy of a database; `None` is the default one.
    pub(super) fn policy(
        snapshot: &Snapshot,
        db: &str,
        policy: Option<&str>,
    ) -> Result<Self, NameError> {
        Ok(Self { views: vec![snapshot.policy(db, policy)?], time: None })
    }

    /// Only what has points in the partitions that these times touch.
    pub(super) fn within(mut self, time: TimeBounds) -> Self {
        self.time = (time != TimeBounds::default()).then(|| time.range());
        self
    }

    pub(super) fn views(&self) -> impl Iterator<Item = &PolicyView> {
        self.views.iter()
    }

    pub(super) fn measurements(&self) -> BTreeSet<String> {
        let names_of = |view: &PolicyView| {
            let mut names = view.measurements();
            names.retain(|name| self.time.is_none_or(|time| view.is_within(name, time)));
            names
        };
        self.views().flat_map(names_of).collect()
    }

    /// # Errors
    /// When a file can't be read, of which a time asks.
    pub(super) fn tag_keys(&self, measurement: &str) -> Result<BTreeSet<String>, QueryError> {
        let mut keys = BTreeSet::new();
        for view in self.views() {
            keys.extend(match self.time {
                None => view.tag_keys(measurement),
                Some(time) => view.tag_keys_within(measurement, time).map_err(broken)?,
            });
        }
        Ok(keys)
    }

    /// The values of some tags over the series that match.
    ///
    /// # Errors
    /// When a file can't be read, of which a time asks.
    pub(super) fn tag_values(
        &self,
        measurement: &str,
        keys: &BTreeSet<String>,
        of: &TagPredicate,
    ) -> Result<BTreeMap<String, BTreeSet<String>>, QueryError> {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for view in self.views() {
            let within = self.series_within(view, measurement)?;
            for key in keys {
                let values = view.tag_values(measurement, key, of, within.as_ref());
                // An absent tag is not a value.
                let values = values.into_iter().filter(|value| !value.is_empty());
                all.entry(key.clone()).or_default().extend(values);
            }
        }
        Ok(all)
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
    ///
    /// # Errors
    /// When a file can't be read, of which a time asks.
    pub(super) fn series(
        &self,
        measurement: &str,
        filter: &Filter,
        fields: bool,
    ) -> Result<BTreeMap<Tags, Series>, QueryError> {
        let mut all = BTreeMap::new();
        for view in self.views() {
            let within = self.series_within(view, measurement)?;
            for series in view.series(measurement, &filter.tags) {
                if within.as_ref().is_some_and(|set| !set.has(series.id)) {
                    continue;
                }
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
        Ok(all)
    }

    /// The series of a measurement that a time leaves; `None` is all.
    fn series_within(
        &self,
        view: &PolicyView,
        measurement: &str,
    ) -> Result<Option<SeriesSet>, QueryError> {
        let Some(time) = self.time else { return Ok(None) };
        view.series_within(measurement, time).map_err(broken)
    }
}

fn broken(error: ScanError) -> QueryError {
    QueryError(error.to_string())
}
