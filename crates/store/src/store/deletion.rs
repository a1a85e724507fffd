//! `DELETE`, `DROP SERIES` and `DROP MEASUREMENT`: memtables are edited at once, files get a
//! tombstone.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};

use wire::influxql::ast::{MeasurementName, Selection, Source, Statement};

use super::Store;
use crate::catalogue::Database;
use crate::condition::{self, Condition, Constants, Filter, RowFilter, TagReading, has_time};
use crate::data::{PolicyData, State};
use crate::predicate::TagPredicate;
use crate::refusal::QueryError;
use crate::scan::TimeRange;
use crate::schema::FieldSet;
use crate::series::{Series, SeriesIndex};
use crate::tombstone::{Active, Tombstone};
use crate::{go_regex, overreach};

/// What is deleted of one measurement of one policy.
#[derive(Debug)]
struct Deletion {
    policy: u64,
    number: u32,
    /// The numbers of the series, ascending.
    ids: Vec<u32>,
    tombstone: Tombstone,
}

impl Store {
    /// Runs a statement that deletes points.
    pub(super) fn delete(
        &self,
        end: u64,
        statement: &Statement,
        db: &str,
        now_ns: i64,
    ) -> Result<(), QueryError> {
        let catalogue = self.catalogue.load_full();
        let database = catalogue.database(db);
        let database = database.ok_or_else(|| QueryError(format!("database not found: {db}")))?;
        let mut state = self.lock();
        let deletions = match statement {
            Statement::DropMeasurement(name) => {
                let which = Which::Names(vec![name.clone()]);
                plan(&state, database, end, &which, &Condition::default())?
            }
            Statement::Delete(selection) | Statement::DropSeries(selection) => {
                overreach::refuse(statement, now_ns)?;
                let mut of = selection.condition.clone();
                match statement {
                    // InfluxDB folds the whole condition before it looks for times in it.
                    Statement::Delete(_) => {
                        let known = Constants { now_ns: Some(now_ns), zone: None };
                        of = of.map(|of| condition::reduce(&of, known));
                    }
                    _ if of.as_ref().is_some_and(has_time) => {
                        let text = "DROP SERIES doesn't support time in WHERE clause";
                        return Err(QueryError(text.to_owned()));
                    }
                    _ => {}
                }
                let condition = condition::split(of.as_ref(), now_ns, None)?;
                plan(&state, database, end, &Which::of(selection)?, &condition)?
            }
            _ => return Err(QueryError("the statement changes nothing".to_owned())),
        };
        for deletion in deletions {
            self.carry_out(&mut state, deletion);
        }
        drop(state);
        self.forget_spellings();
        Ok(())
    }

    fn carry_out(&self, state: &mut State, deletion: Deletion) {
        let version = Arc::clone(&state.version);
        let Some(policy) = Arc::make_mut(&mut state.policies).get_mut(&deletion.policy) else {
            return;
        };
        let policy = Arc::make_mut(policy);
        let Deletion { number, ids, tombstone, .. } = deletion;
        let (name, time) = (tombstone.measurement.clone().unwrap_or_default(), tombstone.time);
        edit(policy, number, &ids, time);
        // A pattern that has just been matched with is one.
        if let Ok(active) = Active::new(tombstone) {
            Arc::make_mut(&mut policy.tombstones).push(active);
        }
        let all = time == TimeRange::ALL;
        let gone = if all { ids } else { policy.without_points(&version, number, &name, ids) };
        let mut index = policy.index.write().unwrap_or_else(PoisonError::into_inner);
        if index.remove(number, &gone).is_some() {
            drop(index);
            policy.forget_measurement(number);
            self.claims.drop_stored(deletion.policy, &name);
        }
    }
}

/// Takes points out of the memtables of a measurement.
fn edit(policy: &mut PolicyData, number: u32, ids: &[u32], time: TimeRange) {
    let Some(measurement) = policy.measurements.get_mut(number as usize) else { return };
    let measurement = Arc::make_mut(measurement);
    let ids: HashSet<u32> = ids.iter().copied().collect();
    for tables in [&mut measurement.live, &mut measurement.frozen] {
        for table in tables.values_mut() {
            let touched = table.extent().is_some_and(|of| !of.intersect(time).is_empty());
            let deleted = |series: u32, at: i64| time.contains(at) && ids.contains(&series);
            if let Some(rest) = touched.then(|| table.without(deleted)).flatten() {
                *table = Arc::new(rest);
            }
        }
        tables.retain(|_, table| table.rows() > 0);
    }
}

/// The measurements that a statement deletes from.
enum Which {
    All,
    Names(Vec<String>),
    Matching(Vec<Arc<regex::bytes::Regex>>, Vec<String>),
}

impl Which {
    fn of(selection: &Selection) -> Result<Self, QueryError> {
        let (mut names, mut patterns) = (Vec::new(), Vec::new());
        for source in &selection.sources {
            match source {
                Source::Measurement(of) => match &of.name {
                    MeasurementName::Name(name) => names.push(name.clone()),
                    MeasurementName::Regex(of) => patterns.push(go_regex::compile(&of.0)?),
                    MeasurementName::Same => {}
                },
                Source::Subquery(_) => {
                    return Err(QueryError("a subquery can't be deleted from".to_owned()));
                }
            }
        }
        Ok(match (selection.sources.is_empty(), patterns.is_empty()) {
            (true, _) => Self::All,
            (false, true) => Self::Names(names),
            (false, false) => Self::Matching(patterns, names),
        })
    }

    fn holds(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|known| known == name),
            Self::Matching(patterns, names) => {
                names.iter().any(|known| known == name)
                    || patterns.iter().any(|of| of.is_match(name.as_bytes()))
            }
        }
    }
}

/// InfluxDB begins with the number of the shard that says so; a store is one shard here.
const FIELDS_IN_WHERE: &str = "shard 1: fields not supported in WHERE clause during deletion";

/// What a statement deletes in all policies of a database. Nothing is changed yet, so that a
/// statement that is refused for one measurement leaves all others alone.
fn plan(
    state: &State,
    database: &Database,
    end: u64,
    which: &Which,
    condition: &Condition,
) -> Result<Vec<Deletion>, QueryError> {
    let bounds = condition.time;
    let all = bounds.min.is_none() && bounds.max.is_none();
    let time = if all { TimeRange::ALL } else { bounds.range() };
    let fields = fields(state, database, which);
    let mut deletions = Vec::new();
    for policy in &database.policies {
        let Some(data) = state.policies.get(&policy.id) else { continue };
        let index = data.index.read().unwrap_or_else(PoisonError::into_inner);
        for (name, number) in index.names().filter(|(name, _)| which.holds(name)) {
            let of_name = fields.get(name).map_or(&[][..], Vec::as_slice);
            let is_field = |field: &str| of_name.iter().any(|of| of.find(field).is_some());
            let rest = condition.rest.as_ref();
            let filter = Filter::of(name, rest, TagReading::Presence, &is_field)?;
            let (ids, matching) = select(&index, number, &filter)?;
            if ids.is_empty() {
                continue;
            }
            let tombstone = Tombstone {
                position: end,
                measurement: Some(name.to_string()),
                matching: (&matching).into(),
                time,
            };
            deletions.push(Deletion { policy: policy.id, number, ids, tombstone });
        }
    }
    Ok(deletions)
}

/// The fields of each measurement in all policies of a database: what is a field in one of them is
/// no tag in another, where it would be absent and so unlike every text.
fn fields(
    state: &State,
    database: &Database,
    which: &Which,
) -> HashMap<Arc<str>, Vec<Arc<FieldSet>>> {
    let mut fields: HashMap<Arc<str>, Vec<Arc<FieldSet>>> = HashMap::new();
    let policies = database.policies.iter().filter_map(|policy| state.policies.get(&policy.id));
    for data in policies {
        let index = data.index.read().unwrap_or_else(PoisonError::into_inner);
        for (name, number) in index.names().filter(|(name, _)| which.holds(name)) {
            if let Some(of) = data.measurements.get(number as usize) {
                fields.entry(Arc::clone(name)).or_default().push(Arc::clone(&of.fields));
            }
        }
    }
    fields
}

/// The series that a condition on tags holds for, and a predicate that says just that.
///
/// # Errors
/// When it is not for the tags of some series to say whether it holds.
fn select(
    index: &SeriesIndex,
    number: u32,
    filter: &Filter,
) -> Result<(Vec<u32>, TagPredicate), QueryError> {
    let candidates = index.matching(number, u32::MAX, &filter.tags);
    let mut found: Vec<Series> = Vec::new();
    for series in candidates.iter().filter_map(|&id| index.series(id)) {
        match filter.series(&series) {
            RowFilter::All => found.push(series),
            RowFilter::None => {}
            RowFilter::Some(_) => return Err(QueryError(FIELDS_IN_WHERE.to_owned())),
        }
    }
    if found.len() == candidates.len() {
        return Ok((candidates, filter.tags.clone()));
    }
    let keys = index.tag_keys(number);
    let each: Vec<TagPredicate> = found
        .iter()
        .map(|series| {
            let equal = |key: &String| TagPredicate::Equal(key.clone(), series.tag(key).to_owned());
            joined(keys.iter().map(equal).collect(), TagPredicate::And)
        })
        .collect();
    Ok((found.iter().map(|series| series.id.0).collect(), joined(each, TagPredicate::Or)))
}

/// Joins predicates as a tree of little depth.
fn joined(
    mut of: Vec<TagPredicate>,
    join: fn(Box<TagPredicate>, Box<TagPredicate>) -> TagPredicate,
) -> TagPredicate {
    match of.len() {
        0 => TagPredicate::All,
        1 => of.swap_remove(0),
        len => {
            let rest = of.split_off(len / 2);
            join(Box::new(joined(of, join)), Box::new(joined(rest, join)))
        }
    }
}
