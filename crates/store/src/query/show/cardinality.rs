//! `SHOW ... CARDINALITY`: exact also where InfluxDB estimates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::influxql::ast::{Cardinality, Dimension, ShowClauses};

use super::super::context::Context;
use super::super::results::{Rows, Sink};
use super::super::select::dimensions;
use super::present::Present;
use super::schema::{Schema, Tags};
use super::tags::Keys;
use super::{columns, database, give, places, table};
use crate::condition::{Condition, Filter, TagReading, has_time, split};
use crate::go_regex;
use crate::predicate::TagPredicate;
use crate::refusal::QueryError;
use crate::snapshot::Snapshot;
use crate::value::Value;
use crate::view::PolicyView;

/// A `SHOW ... CARDINALITY` statement with its clauses.
pub(super) struct CardinalityQuery<'a> {
    pub(super) what: Cardinality,
    pub(super) exact: bool,
    pub(super) clauses: &'a ShowClauses,
    pub(super) dimensions: &'a [Dimension],
}

impl CardinalityQuery<'_> {
    /// Whether InfluxDB would answer an estimate for the whole database.
    pub(super) fn is_estimate(&self) -> bool {
        let ShowClauses { sources, condition, limit, offset, .. } = self.clauses;
        let plain = sources.is_empty() && condition.is_none() && self.dimensions.is_empty();
        let estimated = matches!(self.what, Cardinality::Series | Cardinality::Measurement);
        estimated && !self.exact && plain && *limit == 0 && *offset == 0
    }

    fn check_time(&self) -> Result<bool, QueryError> {
        let timed = self.clauses.condition.as_ref().is_some_and(has_time);
        let name = match self.what {
            _ if !timed => return Ok(false),
            Cardinality::TagValues => return Ok(true),
            Cardinality::Series => "SERIES EXACT",
            Cardinality::Measurement => "MEASUREMENT EXACT",
            Cardinality::TagKey => "TAG KEY EXACT",
            Cardinality::FieldKey => "FIELD KEY",
        };
        let text = format!("SHOW {name} CARDINALITY doesn't support time in WHERE clause");
        Err(QueryError(text))
    }
}

pub(super) async fn show(
    snapshot: &Snapshot,
    asked: &CardinalityQuery<'_>,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    if asked.is_estimate() {
        let db = database(asked.clauses.db.as_deref(), context)?;
        let count = match Schema::database(snapshot, &db) {
            Ok(schema) => whole(&schema, asked.what)?,
            Err(_) => 0,
        };
        let columns = columns(&["cardinality estimation"]);
        let _ = give(sink, table("", &columns, vec![vec![integer(count)]]));
        return Ok(());
    }
    let timed = asked.check_time()?;
    let condition = split(asked.clauses.condition.as_ref(), context.now_ns, None)?;
    let time = condition.time;
    let groups = counted(snapshot, asked, condition, context)?;
    let columns = columns(&["count"]);
    // InfluxDB takes each series for a point at 1970, and finds none in a time without that.
    if timed && !time.range().contains(0) || asked.clauses.offset > 0 {
        return Ok(());
    }
    for ((name, tags), counted) in groups {
        if counted.is_empty() {
            continue;
        }
        let rows = table(&name, &columns, vec![vec![integer(counted.len())]]);
        if give(sink, Rows { tags, ..rows }).is_break() {
            break;
        }
        context.room().await;
    }
    Ok(())
}

/// How much there is of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// How many measurements it has.
    pub measurements: usize,
    /// Its series, those of each policy: to tell which are the same would take as long as there
    /// are series.
    pub series: usize,
}

impl Figures {
    /// Of a database; `None` where there is none of that name.
    pub fn of(snapshot: &Snapshot, db: &str) -> Option<Self> {
        let schema = Schema::database(snapshot, db).ok()?;
        let names = schema.measurements();
        let of_policy = |view: &PolicyView| -> usize {
            names.iter().map(|name| view.series_count(name, &TagPredicate::All)).sum()
        };
        Some(Self { measurements: names.len(), series: schema.views().map(of_policy).sum() })
    }
}

fn integer(count: usize) -> Value {
    Value::Integer(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Series or measurements of a whole database.
fn whole(schema: &Schema, what: Cardinality) -> Result<usize, QueryError> {
    let names = schema.measurements();
    if what == Cardinality::Measurement {
        return Ok(names.len());
    }
    let one = schema.views().count() == 1;
    let all = TagPredicate::All;
    let count = |name: &String| match one {
        true => Ok(schema.views().map(|view| view.series_count(name, &all)).sum()),
        false => {
            let filter = schema.filter(name, None, TagReading::Value)?;
            Ok(schema.series(name, &filter, true)?.len())
        }
    };
    names.iter().map(count).sum()
}

/// Name and tags of a group.
type Group = (String, Vec<(String, String)>);

/// What there is of each group, once each.
fn counted(
    snapshot: &Snapshot,
    asked: &CardinalityQuery<'_>,
    Condition { time, rest }: Condition,
    context: &Context,
) -> Result<BTreeMap<Group, BTreeSet<String>>, QueryError> {
    let wanted = Keys::of(asked.clauses.key.as_ref())?;
    let of_values = asked.what == Cardinality::TagValues;
    // Values are counted of the tags that a series has, which all that is said must hold of.
    let present = rest.as_ref().filter(|_| of_values).map(Present::new).transpose()?;
    let mut groups: BTreeMap<Group, BTreeSet<String>> = BTreeMap::new();
    for (db, policy, named) in places(asked.clauses, context)? {
        let schema = Schema::policy(snapshot, &db, policy.as_deref());
        let schema = schema.map_err(|error| QueryError(error.to_string()))?.within(time);
        for name in schema.measurements().into_iter().filter(|name| named.is(name)) {
            context.check()?;
            let of_series = rest.as_ref().filter(|_| !of_values);
            let filter = schema.filter(&name, of_series, TagReading::Value)?;
            let by = grouped_by(&schema, &name, asked.dimensions)?;
            let fields = fields(&schema, &name, asked.what);
            for tags in matching(&schema, &name, &filter)? {
                let group = (shown(&name, asked.what), group(&tags, &by));
                let into = groups.entry(group).or_default();
                match asked.what {
                    Cardinality::Series => {
                        into.insert(super::series::key(&name, &tags));
                    }
                    Cardinality::Measurement => {
                        into.insert(name.clone());
                    }
                    Cardinality::TagKey => into.extend(tags.iter().map(|(key, _)| key.to_string())),
                    Cardinality::TagValues => {
                        let all = tags.iter().filter(|(key, _)| wanted.has(key));
                        match &present {
                            Some(present) => into.extend(present_values(present, &tags, all)),
                            None => into.extend(all.map(|(_, value)| value.to_string())),
                        }
                    }
                    Cardinality::FieldKey => into.extend(fields.iter().cloned()),
                }
            }
        }
    }
    Ok(groups)
}

/// The tags of the series that match by their tags alone.
fn matching(schema: &Schema, name: &str, filter: &Filter) -> Result<Vec<Tags>, QueryError> {
    Ok(schema.series(name, filter, false)?.into_keys().collect())
}

/// Those of the values of a series for which a condition holds; it may name the key of each as
/// `_tagKey`.
fn present_values<'a>(
    present: &Present,
    tags: &'a Tags,
    wanted: impl Iterator<Item = &'a (Arc<str>, Arc<str>)>,
) -> Vec<String> {
    let holds = |key: Option<&Arc<str>>| {
        present.holds(|name| match name {
            "_tagKey" => key.map(Arc::clone),
            _ => {
                tags.iter().find(|(known, _)| **known == *name).map(|(_, value)| Arc::clone(value))
            }
        })
    };
    let each = present.names("_tagKey");
    if !each && !holds(None) {
        return Vec::new();
    }
    let held = wanted.filter(|(key, _)| !each || holds(Some(key)));
    held.map(|(_, value)| value.to_string()).collect()
}

/// Measurements are counted over all names.
fn shown(name: &str, what: Cardinality) -> String {
    if what == Cardinality::Measurement { String::new() } else { name.to_owned() }
}

fn fields(schema: &Schema, name: &str, what: Cardinality) -> BTreeSet<String> {
    if what != Cardinality::FieldKey {
        return BTreeSet::new();
    }
    schema.views().flat_map(|view| view.fields(name).into_keys()).collect()
}

/// The tag keys of `GROUP BY`, sorted.
fn grouped_by(
    schema: &Schema,
    name: &str,
    said: &[Dimension],
) -> Result<BTreeSet<String>, QueryError> {
    let mut keys = BTreeSet::new();
    for dimension in said {
        let read = match dimension {
            Dimension::Other(expr) => dimensions::other(expr)?,
            other => other.clone(),
        };
        match &read {
            Dimension::Tag(key) if key.eq_ignore_ascii_case("time") => {
                return Err(dimensions::without_arguments());
            }
            Dimension::Tag(key) => {
                keys.insert(key.clone());
            }
            Dimension::Wildcard(_) => keys.extend(schema.tag_keys(name)?),
            Dimension::Regex(pattern) => {
                let regex = go_regex::compile(&pattern.0)?;
                let known = schema.tag_keys(name)?.into_iter();
                keys.extend(known.filter(|key| regex.is_match(key.as_bytes())));
            }
            Dimension::Time { .. } | Dimension::Other(_) => {}
        }
    }
    Ok(keys)
}

fn group(tags: &Tags, by: &BTreeSet<String>) -> Vec<(String, String)> {
    let value = |key: &str| tags.iter().find(|(known, _)| **known == *key).map(|(_, value)| value);
    let pair = |key: &String| (key.clone(), value(key).map_or("", |value| value).to_owned());
    by.iter().map(pair).collect()
}
