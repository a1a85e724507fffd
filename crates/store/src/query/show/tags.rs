//! `SHOW TAG KEYS` and `SHOW TAG VALUES`.

use std::collections::{BTreeMap, BTreeSet};

use wire::influxql::ast::{Expr, KeyMatch, ShowClauses};

use super::super::context::Context;
use super::super::results::Sink;
use super::present::Present;
use super::schema::Schema;
use super::{Listed, columns, give_in_parts, limited, names, table, text, value_bytes};
use crate::condition::{Filter, TagReading, split};
use crate::go_regex;
use crate::refusal::QueryError;
use crate::snapshot::Snapshot;
use crate::value::Value;

/// A measurement, and which of its series; `None` is all.
type Chosen = (String, Option<Filter>);

/// The measurements that `FROM` and `WHERE` choose, each with the filter of its series.
fn chosen(
    snapshot: &Snapshot,
    db: &str,
    clauses: &ShowClauses,
    context: &Context,
) -> Result<(Schema, Vec<Chosen>), QueryError> {
    let schema = Schema::database(snapshot, db).map_err(|error| QueryError(error.to_string()))?;
    let condition = split(clauses.condition.as_ref(), context.now_ns, None)?;
    let schema = schema.within(condition.time);
    let (of_names, of_tags) = names::apart(condition.rest.as_ref());
    let named = names::named(&clauses.sources)?;
    let mut names = match &of_names {
        None => schema.measurements(),
        Some(condition) => names::matching(&schema, condition)?,
    };
    names.retain(|name| named.iter().any(|one| one.is(name)));
    let mut chosen = Vec::with_capacity(names.len());
    for name in names {
        let filter = match &of_tags {
            None => None,
            Some(_) => Some(schema.filter(&name, of_tags.as_ref(), TagReading::Presence)?),
        };
        chosen.push((name, filter));
    }
    Ok((schema, chosen))
}

/// The values of some tags of a measurement, over the series that match.
fn values_of(
    schema: &Schema,
    name: &str,
    keys: &BTreeSet<String>,
    filter: Option<&Filter>,
) -> Result<BTreeMap<String, BTreeSet<String>>, QueryError> {
    let by_index = filter.is_none_or(Filter::is_of_tags);
    let all = crate::predicate::TagPredicate::All;
    let predicate = filter.map_or(&all, |filter| &filter.tags);
    let mut of: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    if by_index {
        of = schema.tag_values(name, keys, predicate)?;
    } else if let Some(filter) = filter {
        let series = schema.series(name, filter, true)?;
        for (key, value) in series.keys().flat_map(|tags| tags.iter()) {
            if keys.contains(&**key) {
                of.entry(key.to_string()).or_default().insert(value.to_string());
            }
        }
    }
    of.retain(|_, values| !values.is_empty());
    Ok(of)
}

pub(super) async fn keys(
    snapshot: &Snapshot,
    db: &str,
    clauses: &ShowClauses,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let columns = columns(&["tagKey"]);
    let rest = split(clauses.condition.as_ref(), context.now_ns, None)?.rest;
    rest.as_ref().map_or(Ok(()), names::no_two_names)?;
    let of_values = NameCondition::of(names::apart(rest.as_ref()).1.as_ref(), "value")?;
    let (schema, chosen) = chosen(snapshot, db, clauses, context)?;
    for (name, filter) in chosen {
        context.check()?;
        let mut keys = schema.tag_keys(&name)?;
        if filter.is_some() {
            let mut values = values_of(&schema, &name, &keys, filter.as_ref())?;
            values.retain(|_, values| values.iter().any(|value| of_values.holds(value)));
            keys = values.into_keys().collect();
        }
        let keys = limited(keys.into_iter().collect(), clauses);
        if keys.is_empty() {
            continue;
        }
        let values = keys.iter().map(|key| vec![text(key)]).collect();
        if give_in_parts(sink, table(&name, &columns, values), context).await.is_break() {
            break;
        }
    }
    Ok(())
}

pub(super) async fn values(
    snapshot: &Snapshot,
    db: &str,
    clauses: &ShowClauses,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let columns = columns(&["key", "value"]);
    let wanted = Keys::of(clauses.key.as_ref())?;
    let (schema, chosen) = chosen(snapshot, db, clauses, context)?;
    let rest = split(clauses.condition.as_ref(), context.now_ns, None)?.rest;
    if let Some(rest) = &rest {
        names::no_two_names(rest)?;
        if !chosen.is_empty() {
            names::named_left(rest)?;
        }
    }
    let of_keys = NameCondition::of(rest.as_ref(), "_tagKey")?;
    let of_values = NameCondition::of(names::apart(rest.as_ref()).1.as_ref(), "value")?;
    for (name, filter) in chosen {
        context.check()?;
        let mut keys = schema.tag_keys(&name)?;
        keys.retain(|key| wanted.has(key) && of_keys.holds(key));
        let mut values = values_of(&schema, &name, &keys, filter.as_ref())?;
        values.values_mut().for_each(|values| values.retain(|value| of_values.holds(value)));
        let pairs = values.iter().flat_map(|(key, values)| values.iter().map(move |v| (key, v)));
        let rows: Vec<Vec<Value>> =
            pairs.map(|(key, value)| vec![text(key), text(value)]).collect();
        let rows = limited(rows, clauses);
        if rows.is_empty() {
            continue;
        }
        let bytes = rows.iter().flatten().map(|value| 40 + value_bytes(value)).sum();
        let _listed = Listed::new(context, bytes);
        if give_in_parts(sink, table(&name, &columns, rows), context).await.is_break() {
            break;
        }
    }
    Ok(())
}

/// What a condition says of one name alone: of `_tagKey`, which is the key of each tag, and of
/// `value`, its value.
struct NameCondition {
    name: &'static str,
    condition: Option<Present>,
}

impl NameCondition {
    fn of(condition: Option<&Expr>, name: &'static str) -> Result<Self, QueryError> {
        let part = condition.and_then(|whole| names::part(whole, name));
        Ok(Self { name, condition: part.as_ref().map(Present::new).transpose()? })
    }

    fn holds(&self, value: &str) -> bool {
        let of = |name: &str| (name == self.name).then(|| value.into());
        self.condition.as_ref().is_none_or(|condition| condition.holds(of))
    }
}

/// `WITH KEY`.
pub(super) enum Keys<'a> {
    All,
    Said(&'a KeyMatch),
    Regex(std::sync::Arc<::regex::bytes::Regex>, bool),
}

impl<'a> Keys<'a> {
    pub(super) fn of(said: Option<&'a KeyMatch>) -> Result<Self, QueryError> {
        Ok(match said {
            None => Self::All,
            Some(KeyMatch::Regex(pattern)) => Self::Regex(go_regex::compile(&pattern.0)?, true),
            Some(KeyMatch::NotRegex(pattern)) => Self::Regex(go_regex::compile(&pattern.0)?, false),
            Some(said) => Self::Said(said),
        })
    }

    pub(super) fn has(&self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Regex(regex, yes) => regex.is_match(key.as_bytes()) == *yes,
            Self::Said(KeyMatch::Equal(one)) => key == one,
            Self::Said(KeyMatch::NotEqual(one)) => key != one,
            Self::Said(KeyMatch::In(some)) => some.iter().any(|one| one == key),
            Self::Said(KeyMatch::Regex(_) | KeyMatch::NotRegex(_)) => false,
        }
    }
}
