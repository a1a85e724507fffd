//! Points that were read from other servers, as something that can be queried: the store's own
//! executor runs on them, in memory, and nothing of it is ever a file.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use wire::line::Value;

use crate::catalogue::{Catalogue, Ids, Policy};
use crate::data::{PolicyData, State};
use crate::partition::Partitions;
use crate::schema::FieldType;
use crate::snapshot::Snapshot;

/// There are more series, tags or fields than can be numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are too many series")]
pub struct TooManySeriesError;

/// Points of several servers. What it takes of memory is told with each point.
#[derive(Debug, Default)]
pub struct Gathered {
    catalogue: Catalogue,
    policies: HashMap<u64, PolicyData>,
}

/// A series that points are added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatheredSeries {
    policy: u64,
    measurement: u32,
    series: u32,
}

impl Gathered {
    /// Adds a retention policy with the length of its partitions, unless it is there.
    pub fn add_policy(&mut self, db: &str, name: &str, partition_ns: i64, default: bool) {
        let id = self.policies.len() as u64 + 1;
        let databases = self.catalogue.databases.len() as u64 + 1;
        let database = self.catalogue.databases.entry(db.to_owned()).or_default();
        if database.id == 0 {
            database.id = databases;
        }
        if database.policy(Some(name)).is_some_and(|known| known.name == name) {
            return;
        }
        let name = name.to_owned();
        let policy = Policy { id, name, duration_ns: 0, partition_ns, replication: 1, default };
        database.policies.push(policy);
        let ids = Ids { db: database.id, policy: id };
        self.policies.insert(id, PolicyData::new(ids, partition_ns));
    }

    /// What a database and a policy stand for; empty is the default one.
    pub fn policy(&self, db: &str, policy: &str) -> Option<u64> {
        self.catalogue.resolve(db, policy).map(|target| target.ids.policy)
    }

    /// Adds a field of a measurement, and gives its number and its type; where it is there, it
    /// keeps its type.
    ///
    /// # Errors
    /// When there are too many measurements.
    pub fn add_field(
        &mut self,
        policy: u64,
        measurement: &str,
        (name, of): (&str, FieldType),
    ) -> Result<(u32, FieldType), TooManySeriesError> {
        let number = self.measurement(policy, measurement)?;
        let policy = self.policies.get_mut(&policy).ok_or(TooManySeriesError)?;
        let fields = Arc::make_mut(&mut policy.measurement_mut(number).fields);
        Ok(fields.find(name).unwrap_or_else(|| (fields.add(name, of), of)))
    }

    /// The number and the type of a field, where it was added.
    pub fn field(&self, policy: u64, measurement: &str, name: &str) -> Option<(u32, FieldType)> {
        let policy = self.policies.get(&policy)?;
        let index = policy.index.read().unwrap_or_else(PoisonError::into_inner);
        let number = index.measurement(measurement)?;
        policy.measurements.get(number as usize)?.fields.find(name)
    }

    /// Adds a tag key of a measurement that no series at hand may have.
    ///
    /// # Errors
    /// When there are too many measurements.
    pub fn add_tag_key(
        &mut self,
        policy: u64,
        measurement: &str,
        key: &str,
    ) -> Result<(), TooManySeriesError> {
        let number = self.measurement(policy, measurement)?;
        let policy = self.policies.get_mut(&policy).ok_or(TooManySeriesError)?;
        let mut index = policy.index.write().unwrap_or_else(PoisonError::into_inner);
        index.note_key(number, key);
        Ok(())
    }

    fn measurement(&mut self, policy: u64, name: &str) -> Result<u32, TooManySeriesError> {
        let policy = self.policies.get_mut(&policy).ok_or(TooManySeriesError)?;
        let number = {
            let mut index = policy.index.write().unwrap_or_else(PoisonError::into_inner);
            index.measurement_or_new(name).map_err(|_| TooManySeriesError)?
        };
        policy.measurement_mut(number);
        Ok(number)
    }

    /// A series by its measurement and its tags, which are sorted by key and none of them empty.
    ///
    /// # Errors
    /// When there are too many of them.
    pub fn series(
        &mut self,
        policy: u64,
        measurement: &str,
        tags: &[(&str, &str)],
    ) -> Result<GatheredSeries, TooManySeriesError> {
        let data = self.policies.get_mut(&policy).ok_or(TooManySeriesError)?;
        let found = {
            let mut index = data.index.write().unwrap_or_else(PoisonError::into_inner);
            let found = index.add(measurement, tags).map_err(|_| TooManySeriesError)?;
            data.series_bound = index.bound();
            found
        };
        data.measurement_mut(found.measurement);
        Ok(GatheredSeries { policy, measurement: found.measurement, series: found.series })
    }

    /// Adds a point of a series: numbers and values of its fields, each of the type that
    /// [`add_field`](Self::add_field) gave. Returns about how many bytes it takes.
    pub fn push(
        &mut self,
        series: GatheredSeries,
        time_ns: i64,
        fields: &[(u32, Value<'_>)],
    ) -> usize {
        let Some(policy) = self.policies.get_mut(&series.policy) else { return 0 };
        let partition = Partitions::new(policy.partition_ns).start(time_ns);
        let typed: Vec<_> =
            fields.iter().map(|(number, of)| (*number, FieldType::of(*of), *of)).collect();
        let measurement = policy.measurement_mut(series.measurement);
        let memtable = measurement.live.entry(partition).or_default();
        Arc::make_mut(memtable).open().push(series.series, time_ns, &typed)
    }

    /// What is there now, for a query.
    pub fn snapshot(self) -> Snapshot {
        let policies = self.policies.into_iter().map(|(id, policy)| (id, Arc::new(policy)));
        Snapshot::new(State {
            catalogue: Arc::new(self.catalogue),
            policies: Arc::new(policies.collect()),
            version: Arc::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use wire::influxql::ast::Statement;

    use super::*;
    use crate::query::context::Context;
    use crate::query::results::{Message, Rows, Sink};
    use crate::query::select;
    use crate::value;

    #[derive(Default)]
    struct Collected(Vec<Rows>);

    impl Sink for Collected {
        fn rows(&mut self, rows: Rows) -> ControlFlow<()> {
            self.0.push(rows);
            ControlFlow::Continue(())
        }
        fn message(&mut self, _: Message) {}
    }

    fn ask(of: Gathered, sql: &str) -> Vec<Rows> {
        let parsed = wire::influxql::parse(sql, &wire::influxql::Params::default()).unwrap();
        let Some(Statement::Select(select)) = parsed.first() else { panic!("{sql}") };
        let mut found = Collected::default();
        select::run(&of.snapshot(), select, &Context::new("db", 0), &mut found).unwrap();
        found.0
    }

    fn gathered() -> Gathered {
        let mut all = Gathered::default();
        all.add_policy("db", "autogen", 3600, true);
        all.add_policy("db", "autogen", 3600, true);
        let policy = all.policy("db", "").unwrap();
        let (v, of) = all.add_field(policy, "m", ("v", FieldType::Integer)).unwrap();
        assert_eq!(of, FieldType::Integer);
        assert_eq!(all.add_field(policy, "m", ("v", FieldType::Float)).unwrap(), (v, of));
        // Of two servers, of which each has what it has in its own order.
        for (host, time, value) in [("a", 7200, 3), ("a", 1, 1), ("b", 5, 2), ("b", 2, 4)] {
            let series = all.series(policy, "m", &[("host", host)]).unwrap();
            assert!(all.push(series, time, &[(v, Value::Integer(value))]) > 8);
        }
        all
    }

    #[test]
    fn points_of_several_servers_are_one_sequence_in_time() {
        let rows = ask(gathered(), "SELECT v, host FROM m LIMIT 3");
        let rows: Vec<(i64, value::Value)> = (rows[0].values.iter())
            .map(|row| match &row[..] {
                [value::Value::Time(time), value, _] => (*time, value.clone()),
                other => panic!("{other:?}"),
            })
            .collect();
        let integer = value::Value::Integer;
        assert_eq!(rows, [(1, integer(1)), (2, integer(4)), (5, integer(2))]);
        let median = ask(gathered(), "SELECT median(v) FROM m GROUP BY host");
        assert_eq!(median.len(), 2);
    }

    #[test]
    fn a_tag_key_that_no_point_has_is_a_column() {
        let mut all = gathered();
        let policy = all.policy("db", "autogen").unwrap();
        all.add_tag_key(policy, "m", "rack").unwrap();
        let rows = ask(all, "SELECT * FROM m");
        assert_eq!(*rows[0].columns, ["time", "host", "rack", "v"].map(str::to_owned));
    }
}
