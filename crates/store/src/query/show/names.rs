//! `SHOW MEASUREMENTS`, and which measurements a condition or a `FROM` names.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::regex::bytes::Regex;
use wire::influxql::ast::{Expr, Measurement, MeasurementName, Op, ShowClauses, Source};

use super::super::context::Context;
use super::super::results::Sink;
use super::schema::Schema;
use super::{columns, give_in_parts, limited, table, text};
use crate::condition::{Constants, has_time, reduce};
use crate::go_regex;
use crate::predicate::TagPredicate;
use crate::refusal::QueryError;
use crate::snapshot::Snapshot;

/// A measurement by name or regular expression.
#[derive(Clone, Debug)]
pub(super) enum NameMatcher {
    /// Every name matches it.
    All,
    /// Only this name matches it.
    Name(String),
    /// Names that the regular expression matches.
    Regex(Arc<Regex>),
}

impl NameMatcher {
    pub(super) fn of(measurement: &Measurement) -> Result<Self, QueryError> {
        Ok(match &measurement.name {
            MeasurementName::Name(name) => Self::Name(name.clone()),
            MeasurementName::Regex(pattern) => Self::Regex(go_regex::compile(&pattern.0)?),
            MeasurementName::Same => Self::All,
        })
    }

    pub(super) fn is(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Name(known) => known == name,
            Self::Regex(regex) => regex.is_match(name.as_bytes()),
        }
    }
}

/// The measurements of a `FROM`; the parser takes no sub-queries here.
pub(super) fn measurements(sources: &[Source]) -> impl Iterator<Item = &Measurement> {
    sources.iter().filter_map(|source| match source {
        Source::Measurement(measurement) => Some(measurement),
        Source::Subquery(_) => None,
    })
}

/// Which of the measurements a `FROM` names; all where there is none.
pub(super) fn named(sources: &[Source]) -> Result<Vec<NameMatcher>, QueryError> {
    if sources.is_empty() {
        return Ok(vec![NameMatcher::All]);
    }
    measurements(sources).map(NameMatcher::of).collect()
}

pub(super) async fn show(
    snapshot: &Snapshot,
    db: &str,
    clauses: &ShowClauses,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    if clauses.condition.as_ref().is_some_and(has_time) {
        let text = "SHOW MEASUREMENTS doesn't support time in WHERE clause";
        return Err(QueryError(text.to_owned()));
    }
    // A database that is not there has no measurements, and is not an error here.
    let Ok(schema) = Schema::database(snapshot, db) else { return Ok(()) };
    let named = named(&clauses.sources)?;
    let mut names = match &clauses.condition {
        None => schema.measurements(),
        Some(condition) => matching(&schema, condition)?,
    };
    names.retain(|name| named.iter().any(|one| one.is(name)));
    let names = limited(names.into_iter().collect(), clauses);
    if !names.is_empty() {
        let values = names.iter().map(|name| vec![text(name)]).collect();
        let table = table("measurements", &columns(&["name"]), values);
        let _ = give_in_parts(sink, table, context).await;
    }
    Ok(())
}

/// The measurements that a condition on names and tags chooses (`measurementNamesByExpr`).
pub(super) fn matching(schema: &Schema, condition: &Expr) -> Result<BTreeSet<String>, QueryError> {
    let error = |text: String| Err(QueryError(text));
    match condition {
        Expr::Binary { op: op @ (Op::And | Op::Or), left, right } => {
            let (left, right) = (matching(schema, left)?, matching(schema, right)?);
            Ok(if *op == Op::Or { &left | &right } else { &left & &right })
        }
        Expr::Binary { op, left, right } => {
            let regex = match op {
                Op::Equal | Op::NotEqual => false,
                Op::EqualRegex | Op::NotEqualRegex => true,
                _ => return error("invalid tag comparison operator".to_owned()),
            };
            let Expr::Reference { name: key, .. } = &**left else {
                return error(format!("left side of '{op}' must be a tag key"));
            };
            let value = match &**right {
                Expr::Regex(pattern) if regex => NameMatcher::Regex(go_regex::compile(&pattern.0)?),
                Expr::String(value) if !regex => NameMatcher::Name(value.clone()),
                _ if regex => {
                    return error(format!("right side of '{op}' must be a regular expression"));
                }
                _ => return error(format!("right side of '{op}' must be a tag value string")),
            };
            let equal = matches!(op, Op::Equal | Op::EqualRegex);
            by_comparison(schema, key, equal, &value)
        }
        Expr::Paren(inner) => matching(schema, inner),
        Expr::Boolean(value) => error(format!("&influxql.BooleanLiteral{{Val:{value}}}")),
        Expr::Reference { name, .. } => error(format!("&influxql.VarRef{{Val:{name:?}, Type:0}}")),
        other => error(format!("invalid condition expression: {other}")),
    }
}

fn by_comparison(
    schema: &Schema,
    key: &str,
    equal: bool,
    value: &NameMatcher,
) -> Result<BTreeSet<String>, QueryError> {
    let mut names = schema.measurements();
    if key == "_name" {
        names.retain(|name| value.is(name) == equal);
        return Ok(names);
    }
    if is_system(key) {
        return Ok(BTreeSet::new());
    }
    let key = BTreeSet::from([key.to_owned()]);
    let mut chosen = BTreeSet::new();
    for name in names {
        let values = schema.tag_values(&name, &key, &TagPredicate::All)?;
        let mut values = values.values().flatten().peekable();
        // A measurement without the tag is chosen by nothing that is said of it.
        if values.peek().is_some() && values.any(|one| value.is(one)) == equal {
            chosen.insert(name);
        }
    }
    Ok(chosen)
}

/// Names that InfluxDB keeps for itself (`influxql.IsSystemName`).
fn is_system(name: &str) -> bool {
    matches!(name, "_fieldKeys" | "_measurements" | "_name" | "_series" | "_tagKey" | "_tagKeys")
        || name == "_tags"
}

/// A condition in two parts: what it says of measurements' names, and what of tags and fields
/// (`Store.TagKeys`). Comparisons by order stay in both.
pub(super) fn apart(condition: Option<&Expr>) -> (Option<Expr>, Option<Expr>) {
    let of_name = |expr: &Expr| matches!(expr, Expr::Reference { name, .. } if name == "_name");
    let of_system = |expr: &Expr| match expr {
        Expr::Reference { name, .. } => is_system(name),
        _ => true,
    };
    let none = Constants { now_ns: None, zone: None };
    let part = |keep: &dyn Fn(&Expr) -> bool| {
        condition.and_then(|whole| kept(whole, keep)).map(|part| reduce(&part, none))
    };
    (part(&of_name), part(&|left| !of_system(left)))
}

/// What a condition says of one name; comparisons by order stay.
pub(super) fn part(condition: &Expr, name: &str) -> Option<Expr> {
    let of_name =
        |expr: &Expr| matches!(expr, Expr::Reference { name: known, .. } if known == name);
    kept(condition, &of_name).map(|part| reduce(&part, Constants { now_ns: None, zone: None }))
}

/// Whether no name is compared with another one, as happens where a text is in double quotes
/// (`isBadQuoteTagValueClause`).
///
/// # Errors
/// When one is.
pub(super) fn no_two_names(condition: &Expr) -> Result<(), QueryError> {
    match condition {
        Expr::Binary { op: Op::Equal | Op::NotEqual, left, right } => match (&**left, &**right) {
            (Expr::Reference { name, .. }, Expr::Reference { .. }) if !is_system(name) => {
                Err(QueryError(format!(
                    "bad WHERE clause for metaquery; one term must be a string literal tag value \
                     within single quotes: {condition}"
                )))
            }
            _ => Ok(()),
        },
        Expr::Binary { op: Op::And | Op::Or, left, right } => {
            no_two_names(left).and_then(|()| no_two_names(right))
        }
        Expr::Paren(inner) => no_two_names(inner),
        _ => Ok(()),
    }
}

/// Whether every comparison has a name on its left side, and one of `_tagKey` a text on the other,
/// which the index of tag keys wants.
///
/// # Errors
/// When one has not.
pub(super) fn named_left(condition: &Expr) -> Result<(), QueryError> {
    match condition {
        Expr::Binary { op: Op::And | Op::Or, left, right } => {
            named_left(left).and_then(|()| named_left(right))
        }
        Expr::Binary { op, left, .. } if !matches!(**left, Expr::Reference { .. }) => {
            Err(QueryError(format!("left side of '{op}' must be a tag key")))
        }
        Expr::Binary { op: op @ (Op::Equal | Op::NotEqual), left, right }
            if matches!(&**left, Expr::Reference { name, .. } if name == "_tagKey")
                && !matches!(**right, Expr::String(_)) =>
        {
            Err(QueryError(format!("right side of '{op}' must be a tag value string")))
        }
        Expr::Paren(inner) => named_left(inner),
        _ => Ok(()),
    }
}

/// An expression without the comparisons of which `keep` says no, given their left side.
fn kept(expr: &Expr, keep: &dyn Fn(&Expr) -> bool) -> Option<Expr> {
    match expr {
        Expr::Binary { op: Op::Equal | Op::NotEqual, left, .. }
        | Expr::Binary { op: Op::EqualRegex | Op::NotEqualRegex, left, .. } => {
            keep(left).then(|| expr.clone())
        }
        Expr::Binary { op: op @ (Op::And | Op::Or), left, right } => {
            match (kept(left, keep), kept(right, keep)) {
                (Some(left), Some(right)) => {
                    Some(Expr::Binary { op: *op, left: Box::new(left), right: Box::new(right) })
                }
                (one, other) => one.or(other),
            }
        }
        Expr::Paren(inner) => kept(inner, keep).map(|inner| Expr::Paren(Box::new(inner))),
        other => Some(other.clone()),
    }
}
