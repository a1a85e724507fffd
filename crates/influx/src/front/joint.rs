//! Queries that several sets of a cluster answer together: what each is asked, and how their
//! answers become one.

mod fold;
mod rows;
mod schema;

use serde_json::Value;
use wire::influxql::ast::{
    Dimension, Expr, Field, Fill, MeasurementName, Op, Select, Show, Source, TimeOffset,
};

use self::fold::{Fold, columns};
use self::rows::Rows;
use self::schema::SchemaQuery;
use super::metrics::QueryWay;
use crate::placement::{QueryScope, Table};

/// The unit of the times of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epoch {
    /// RFC 3339 text, as without `epoch`.
    Text,
    /// Whole units of so many nanoseconds.
    Units(i64),
}

impl Epoch {
    /// As a request's `epoch` says (`services/httpd/handler.go`); `None` is a unit there is not.
    pub fn read(text: &str) -> Option<Self> {
        Some(match text {
            "" => Self::Text,
            "n" | "ns" => Self::Units(1),
            "u" | "µ" => Self::Units(1_000),
            "ms" => Self::Units(1_000_000),
            "s" => Self::Units(1_000_000_000),
            "m" => Self::Units(60_000_000_000),
            "h" => Self::Units(3_600_000_000_000),
            _ => return None,
        })
    }
}

/// A query that several sets answer together.
#[derive(Clone, Debug, PartialEq)]
pub struct JointQuery {
    /// What each set is asked, without the limits that hold for all of them together. Times come
    /// in nanoseconds.
    pub text: String,
    merging: Merging,
}

#[derive(Clone, Debug, PartialEq)]
enum Merging {
    Schema(SchemaQuery),
    /// Each group lies in one set.
    Joined(Rows),
    /// Each set has partial results of a group.
    Folded(Rows, Vec<Fold>),
}

impl JointQuery {
    /// What becomes of the sets' answers.
    pub fn becomes(&self) -> &'static str {
        match self.merging {
            Merging::Schema(_) => "united",
            Merging::Joined(_) => "joined",
            Merging::Folded(..) => "merged from partial results",
        }
    }

    /// As what it counts.
    pub fn way(&self) -> QueryWay {
        match self.merging {
            Merging::Schema(_) => QueryWay::United,
            Merging::Joined(_) => QueryWay::Joined,
            Merging::Folded(..) => QueryWay::Merged,
        }
    }

    /// Of a statement about the schema; `None` where it is about something else.
    pub fn of_schema(show: &Show) -> Option<Self> {
        let (text, query) = SchemaQuery::of(show)?;
        Some(Self { text, merging: Merging::Schema(query) })
    }

    /// Of a `SELECT` whose points can be in several sets.
    ///
    /// # Errors
    /// What of it needs more than the answers of sets, in words.
    pub fn of_select(
        table: &Table,
        select: &Select,
        scope: QueryScope<'_>,
    ) -> Result<Self, &'static str> {
        if select.sources.iter().any(|source| matches!(source, Source::Subquery(_))) {
            return Err("its sub-query has points of several sets");
        }
        let is_one = match &select.sources[..] {
            [Source::Measurement(of)] => matches!(of.name, MeasurementName::Name(_)),
            _ => false,
        };
        if !is_one {
            return Err("the types of its fields depend on all of its measurements");
        }
        let mut asked = select.clone();
        (asked.series_limit, asked.series_offset) = (0, 0);
        let has_wildcard = select.fields.iter().any(|field| has_wildcard(&field.expr));
        let is_wildcard = matches!(&select.fields[..], [field] if is_wildcard(&field.expr));
        if has_wildcard && !is_wildcard {
            return Err("what `*` or a pattern stands for within it depends on all sets");
        }
        if table.has_whole_groups(select, scope) {
            let merging = Merging::Joined(Rows::of(select));
            return Ok(Self { text: asked.to_string(), merging });
        }
        let is_windowed = select.dimensions.iter().any(is_window);
        let folds = columns(&select.fields)?;
        if is_windowed && table.has_clock_change(select, scope) {
            return Err("the clocks of its time zone are changed within its windows");
        }
        if !is_windowed && !matches!(select.fill, Fill::Null | Fill::None) {
            return Err("what fill() gives without windows depends on the types of its fields");
        }
        let is_limited = select.limit > 0 || select.offset > 0;
        if is_windowed && is_limited && folds.len() > 1 && select.fill == Fill::None {
            return Err("LIMIT takes so many windows of each column, and not all have each");
        }
        // A window that is among the first of all is among the first of each set that has it.
        (asked.limit, asked.offset) = match select.limit {
            0 => (0, 0),
            limit => (limit.saturating_add(select.offset), 0),
        };
        if is_windowed && select.fill != Fill::None {
            check_fill(table, select, scope, &folds)?;
            asked.fill = Fill::Null;
            until(&mut asked, scope.now_ns);
        }
        let partials = folds.iter().flat_map(Fold::partials);
        asked.fields = partials
            .enumerate()
            .map(|(n, expr)| Field { expr, alias: Some(format!("p{n}")) })
            .collect();
        Ok(Self { text: asked.to_string(), merging: Merging::Folded(Rows::of(select), folds) })
    }

    /// The answer, of those of all sets.
    pub fn answer(&self, parts: Vec<Value>, epoch: Epoch) -> Value {
        match &self.merging {
            Merging::Schema(query) => query.answer(parts),
            Merging::Joined(rows) => rows.joined(parts, epoch),
            Merging::Folded(rows, folds) => rows.folded(parts, folds, epoch),
        }
    }
}

fn is_window(dimension: &Dimension) -> bool {
    matches!(dimension, Dimension::Time { .. })
}

/// Whether an expression stands for columns alone.
fn is_wildcard(expr: &Expr) -> bool {
    matches!(expr, Expr::Wildcard(_) | Expr::Regex(_))
}

/// Whether what an expression stands for depends on which fields there are.
fn has_wildcard(expr: &Expr) -> bool {
    match expr {
        Expr::Call { arguments, .. } => arguments.iter().any(has_wildcard),
        Expr::Binary { left, right, .. } => has_wildcard(left) || has_wildcard(right),
        Expr::Paren(inner) => has_wildcard(inner),
        other => is_wildcard(other),
    }
}

fn is_every_tag(dimension: &Dimension) -> bool {
    matches!(dimension, Dimension::Wildcard(_) | Dimension::Regex(_))
}

/// Whether windows without points can be filled behind the merging as one server fills them.
fn check_fill(
    table: &Table,
    select: &Select,
    scope: QueryScope<'_>,
    folds: &[Fold],
) -> Result<(), &'static str> {
    if !table.has_lower_bound(select, scope) {
        return Err("without a first time its windows begin at each set's first point; say \
                    `time >= ...` or `fill(none)`");
    }
    let is_moved = |of: &Dimension| matches!(of, Dimension::Time { offset: TimeOffset::Now, .. });
    if select.dimensions.iter().any(is_moved) {
        return Err("its windows begin at now()");
    }
    match select.fill {
        Fill::Linear => Err("fill(linear) needs the points of all sets"),
        Fill::Previous if select.descending => {
            Err("fill(previous) in descending order needs the points of all sets")
        }
        Fill::Number(value)
            if value.fract() != 0.0 && folds.iter().any(|fold| !fold.is_float()) =>
        {
            Err("fill() of a fraction depends on the type of the field")
        }
        _ => Ok(()),
    }
}

/// Says the end of time that a query with windows has where it says none: all sets have the same.
fn until(select: &mut Select, now_ns: i64) {
    if select.condition.as_ref().is_some_and(has_upper_bound) {
        return;
    }
    let time = Expr::Reference { name: "time".to_owned(), cast: None };
    let end = Expr::Binary {
        op: Op::LessOrEqual,
        left: Box::new(time),
        right: Box::new(Expr::Time(now_ns)),
    };
    select.condition = Some(match select.condition.take() {
        None => end,
        Some(condition) => Expr::Binary {
            op: Op::And,
            left: Box::new(Expr::Paren(Box::new(condition))),
            right: Box::new(end),
        },
    });
}

fn has_upper_bound(condition: &Expr) -> bool {
    let split = store::condition::split(Some(condition), 0, None);
    split.is_ok_and(|condition| condition.time.max.is_some())
}

#[cfg(test)]
mod tests;
