//! A compiled statement meets the schema: names find their types, `*` and regular expressions
//! what they stand for (`SelectStatement.RewriteFields` in InfluxDB's `influxql/ast.go`).

use std::collections::{BTreeMap, BTreeSet};

use wire::influxql::ast::{
    Cast, Dimension, Expr, Field, Measurement, MeasurementName, Select, Source, WildcardKind,
};

use super::compile::{Compiled, Interval};
use super::expressions::{column_names, each_reference, field_name, ranking_columns, walk};
use super::types::{self, Type, Types};
use crate::go_regex;
use crate::query::context::Context;
use crate::query::functions::text;
use crate::query::timezone::Zone;
use crate::refusal::QueryError;
use crate::scan::TimeRange;
use crate::snapshot::Snapshot;
use crate::view::PolicyView;

/// A statement that can be executed.
#[derive(Clone, Debug)]
pub(super) struct PreparedSelect {
    /// The statement: no wildcards any more, all references with their types.
    pub(super) select: Select,
    /// The times asked for.
    pub(super) time: TimeRange,
    /// The windows of `GROUP BY time()`.
    pub(super) interval: Interval,
    /// The time zone, where one is set.
    pub(super) zone: Option<Zone>,
    /// The measurements and sub-queries of `FROM`.
    pub(super) sources: Vec<Input>,
    /// The tags of `GROUP BY`, as written.
    pub(super) dimensions: Vec<String>,
    /// The names of all columns, the time's first.
    pub(super) columns: Vec<String>,
}

/// One source of `FROM`.
#[derive(Clone, Debug)]
pub(super) enum Input {
    /// Measurements of a policy.
    Measurements {
        /// The data of the policy.
        view: PolicyView,
        /// The measurements' names, sorted.
        names: Vec<String>,
    },
    /// A sub-query, prepared as well.
    Subquery(Box<PreparedSelect>),
}

/// Resolves a compiled statement.
///
/// # Errors
/// When a database or policy is not known, or types do not fit.
pub(super) fn prepare(
    snapshot: &Snapshot,
    compiled: &Compiled,
    context: &Context,
) -> Result<PreparedSelect, QueryError> {
    prepare_within(snapshot, compiled, compiled.times_read(), context)
}

/// Resolves a statement, where those around it and itself read `times`.
fn prepare_within(
    snapshot: &Snapshot,
    compiled: &Compiled,
    times: TimeRange,
    context: &Context,
) -> Result<PreparedSelect, QueryError> {
    let pairs = compiled.select.sources.iter().zip(&compiled.subqueries);
    let sources = pairs.map(|(source, inner)| match (source, inner) {
        (Source::Measurement(one), _) => resolve(snapshot, one, context),
        (Source::Subquery(_), Some(inner)) => {
            prepare_within(snapshot, inner, times, context).map(Box::new).map(Input::Subquery)
        }
        (Source::Subquery(_), None) => Err(QueryError("sub-query was not compiled".to_owned())),
    });
    let sources = sources.collect::<Result<Vec<_>, _>>()?;

    let mut select = compiled.select.clone();
    for field in &mut select.fields {
        give_types(&mut field.expr, &sources)?;
    }
    expand(&mut select, &sources, times)?;
    let known = Types { of_name: &|_| Ok(None) };
    for field in &select.fields {
        known.of(&field.expr)?;
    }

    let dimensions = select.dimensions.iter().filter_map(|dimension| match dimension {
        Dimension::Tag(name) => Some(name.clone()),
        _ => None,
    });
    Ok(PreparedSelect {
        dimensions: dimensions.collect(),
        columns: column_names(&select, Some(&compiled.time_name)),
        select,
        time: compiled.time,
        interval: compiled.interval,
        zone: compiled.zone.clone(),
        sources,
    })
}

/// The database and policy a measurement is looked for in, empty where none is named.
///
/// # Errors
/// When no database is named at all.
pub(super) fn place<'a>(
    of: &'a Measurement,
    context: &'a Context,
) -> Result<(&'a str, Option<&'a str>), QueryError> {
    let db = of.db.as_deref().filter(|db| !db.is_empty()).unwrap_or(&context.db);
    if db.is_empty() {
        return Err(QueryError("database name required".to_owned()));
    }
    let policy = of.policy.as_deref().unwrap_or(&context.rp);
    Ok((db, Some(policy).filter(|policy| !policy.is_empty())))
}

fn resolve(
    snapshot: &Snapshot,
    measurement: &Measurement,
    context: &Context,
) -> Result<Input, QueryError> {
    let (db, policy) = place(measurement, context)?;
    let view = snapshot.policy(db, policy).map_err(|error| QueryError(error.to_string()))?;
    let names = match &measurement.name {
        MeasurementName::Name(name) => vec![name.clone()],
        MeasurementName::Regex(pattern) => {
            let pattern = go_regex::compile(&pattern.0)?;
            let matching = |name: &String| pattern.is_match(name.as_bytes());
            view.measurements().into_iter().filter(matching).collect()
        }
        MeasurementName::Same => Vec::new(),
    };
    Ok(Input::Measurements { view, names })
}

/// The type of a name over all sources.
pub(super) fn type_of(name: &str, sources: &[Input]) -> Result<Type, QueryError> {
    let mut of: Type = None;
    for source in sources {
        match source {
            Input::Measurements { view, names } => {
                for measurement in names {
                    of = types::wider(of, type_in(name, view, measurement));
                }
            }
            Input::Subquery(inner) => {
                if let Some(expr) = find_field(inner, name) {
                    let of_name = |name: &str| type_of(name, &inner.sources);
                    let inner = Types { of_name: &of_name };
                    of = types::wider(of, inner.of(expr)?);
                }
                if of.is_none() && inner.dimensions.iter().any(|dimension| dimension == name) {
                    of = Some(Cast::Tag);
                }
            }
        }
    }
    Ok(of)
}

fn type_in(name: &str, view: &PolicyView, measurement: &str) -> Type {
    if let Some(of) = view.field(measurement, name) {
        return Some(types::of_field(of));
    }
    view.tag_keys(measurement).iter().any(|key| key == name).then_some(Cast::Tag)
}

/// The expression behind a column of a sub-query.
fn find_field<'a>(inner: &'a PreparedSelect, name: &str) -> Option<&'a Expr> {
    inner.select.fields.iter().find_map(|field| {
        if field_name(field) == name {
            return Some(&field.expr);
        }
        ranking_columns(&field.expr)
            .iter()
            .find(|one| matches!(one, Expr::Reference { name: added, .. } if added == name))
    })
}

/// Gives references their types, where none is written.
fn give_types(expr: &mut Expr, sources: &[Input]) -> Result<(), QueryError> {
    let mut failed = None;
    each_reference(expr, &mut |name, cast| {
        if !matches!(cast, None | Some(Cast::AnyField)) {
            return;
        }
        match type_of(name, sources) {
            Ok(Some(Cast::Tag)) if *cast == Some(Cast::AnyField) => {}
            Ok(of) => *cast = of,
            Err(error) => failed = Some(error),
        }
    });
    failed.map_or(Ok(()), Err)
}

/// Whether what it names is known only once it is seen what there is.
pub(super) fn is_wild(expr: &Expr) -> bool {
    let mut found = false;
    walk(expr, &mut |inner| {
        found |= matches!(inner, Expr::Wildcard(_) | Expr::Regex(_));
        true
    });
    found
}

/// The same of what is grouped by.
pub(super) fn is_wild_dimension(dimension: &Dimension) -> bool {
    matches!(dimension, Dimension::Wildcard(_) | Dimension::Regex(_))
}

/// Puts in what `*` and regular expressions stand for, in fields and in `GROUP BY`: what there is
/// in the partitions that some times touch.
fn expand(select: &mut Select, sources: &[Input], times: TimeRange) -> Result<(), QueryError> {
    let wild_fields = select.fields.iter().any(|field| is_wild(&field.expr));
    let wild_dimensions = select.dimensions.iter().any(is_wild_dimension);
    if !wild_fields && !wild_dimensions {
        return Ok(());
    }
    let (fields, mut tags) = columns_of(sources, times)?;
    if !wild_dimensions {
        for dimension in &select.dimensions {
            if let Dimension::Tag(name) = dimension {
                tags.remove(name);
            }
        }
    }
    if wild_fields {
        let mut columns: Vec<(String, Type)> = fields.into_iter().collect();
        if !columns.is_empty() && !wild_dimensions {
            columns.extend(tags.iter().map(|name| (name.clone(), Some(Cast::Tag))));
        }
        columns.sort_by(|a, b| (&a.0, types::order(a.1)).cmp(&(&b.0, types::order(b.1))));
        let mut expanded = Vec::with_capacity(columns.len());
        for field in std::mem::take(&mut select.fields) {
            expand_field(field, &columns, &mut expanded)?;
        }
        select.fields = expanded;
    }
    if wild_dimensions {
        let mut expanded = Vec::with_capacity(tags.len());
        for dimension in std::mem::take(&mut select.dimensions) {
            match dimension {
                Dimension::Wildcard(_) => expanded.extend(tags.iter().cloned().map(Dimension::Tag)),
                Dimension::Regex(pattern) => {
                    let pattern = go_regex::compile(&pattern.0)?;
                    let matching = tags.iter().filter(|tag| pattern.is_match(tag.as_bytes()));
                    expanded.extend(matching.cloned().map(Dimension::Tag));
                }
                other => expanded.push(other),
            }
        }
        select.dimensions = expanded;
    }
    Ok(())
}

/// All fields with their types, and all tags, over all sources.
fn columns_of(
    sources: &[Input],
    times: TimeRange,
) -> Result<(BTreeMap<String, Type>, BTreeSet<String>), QueryError> {
    let mut fields: BTreeMap<String, Type> = BTreeMap::new();
    let mut tags = BTreeSet::new();
    for source in sources {
        match source {
            Input::Measurements { view, names } => {
                for measurement in names {
                    let columns = view.columns_within(measurement, times);
                    let columns = columns.map_err(|error| QueryError(error.to_string()))?;
                    for (name, of) in columns.0 {
                        let known = fields.entry(name).or_default();
                        *known = types::wider(*known, Some(types::of_field(of)));
                    }
                    tags.extend(columns.1);
                }
            }
            Input::Subquery(inner) => {
                for field in &inner.select.fields {
                    let of_name = |name: &str| type_of(name, &inner.sources);
                    let of = Types { of_name: &of_name }.of(&field.expr);
                    let known = fields.entry(field_name(field)).or_default();
                    *known = types::wider(*known, of.unwrap_or_default());
                }
                tags.extend(inner.dimensions.iter().cloned());
            }
        }
    }
    Ok((fields, tags))
}

fn expand_field(
    field: Field,
    columns: &[(String, Type)],
    into: &mut Vec<Field>,
) -> Result<(), QueryError> {
    let plain = |(name, of): &(String, Type)| Field {
        expr: Expr::Reference { name: name.clone(), cast: *of },
        alias: None,
    };
    match &field.expr {
        Expr::Wildcard(kind) => {
            let wanted = |(_, of): &&(String, Type)| match kind {
                None => true,
                Some(WildcardKind::Tag) => *of == Some(Cast::Tag),
                Some(WildcardKind::Field) => *of != Some(Cast::Tag),
            };
            into.extend(columns.iter().filter(wanted).map(plain));
        }
        Expr::Regex(pattern) => {
            let pattern = go_regex::compile(&pattern.0)?;
            let wanted = |(name, _): &&(String, Type)| pattern.is_match(name.as_bytes());
            into.extend(columns.iter().filter(wanted).map(plain));
        }
        Expr::Call { .. } => return expand_call(field, columns, into),
        Expr::Binary { .. } if is_wild(&field.expr) => {
            let mut star = false;
            walk(&field.expr, &mut |inner| {
                star |= matches!(inner, Expr::Wildcard(_));
                true
            });
            let what = if star { "wildcard" } else { "regex field" };
            return Err(QueryError(format!(
                "unsupported expression with {what}: {}",
                text(&field.expr)
            )));
        }
        _ => into.push(field),
    }
    Ok(())
}

/// `mean(*)`: one column for each field of a fitting type.
fn expand_call(
    field: Field,
    columns: &[(String, Type)],
    into: &mut Vec<Field>,
) -> Result<(), QueryError> {
    let (pattern, function) = match innermost(&field.expr) {
        Some((Expr::Wildcard(Some(WildcardKind::Tag)), function)) => {
            return Err(QueryError(format!("unable to use tag wildcard in {function}()")));
        }
        Some((Expr::Wildcard(_), function)) => (None, function.to_owned()),
        Some((Expr::Regex(pattern), function)) => {
            (Some(go_regex::compile(&pattern.0)?), function.to_owned())
        }
        _ => {
            into.push(field);
            return Ok(());
        }
    };
    let prefix = field_name(&field);
    for (name, of) in columns {
        if !takes(&function, *of)
            || pattern.as_ref().is_some_and(|pattern| !pattern.is_match(name.as_bytes()))
        {
            continue;
        }
        let mut expr = field.expr.clone();
        replace_innermost(&mut expr, Expr::Reference { name: name.clone(), cast: *of });
        into.push(Field { expr, alias: Some(format!("{prefix}_{name}")) });
    }
    Ok(())
}

/// The first argument of the innermost call, and that call's name.
fn innermost(expr: &Expr) -> Option<(&Expr, &str)> {
    let Expr::Call { name, arguments } = expr else { return None };
    match arguments.first()? {
        inner @ Expr::Call { arguments, .. } if !arguments.is_empty() => innermost(inner),
        Expr::Call { .. } => None,
        other => Some((other, name)),
    }
}

fn replace_innermost(expr: &mut Expr, by: Expr) {
    if let Expr::Call { arguments, .. } = expr
        && let Some(first) = arguments.first_mut()
    {
        if matches!(first, Expr::Call { .. }) {
            replace_innermost(first, by);
        } else {
            *first = by;
        }
    }
}

/// Whether `function(*)` takes in fields of a type.
fn takes(function: &str, of: Type) -> bool {
    match of {
        Some(Cast::Float | Cast::Integer) => true,
        Some(Cast::Unsigned) => !function.starts_with("holt_winters"),
        Some(Cast::Boolean) => matches!(
            function,
            "count" | "first" | "last" | "distinct" | "elapsed" | "mode" | "sample" | "min" | "max"
        ),
        Some(Cast::String) => matches!(
            function,
            "count" | "first" | "last" | "distinct" | "elapsed" | "mode" | "sample"
        ),
        _ => false,
    }
}
