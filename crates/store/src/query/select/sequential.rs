//! Calls that take one point after the other rather than windows of them.

use wire::influxql::ast::Cast;

use super::execute::Pass;
use super::feeds::{Feed, Key, Origin};
use super::frame::Frame;
use super::merged::{MergeOptions, Row, Rows, merged};
use super::plan::{Base, CallPlan, Plan};
use super::points::Point;
use crate::query::context::Context;
use crate::query::functions::aggregate::{Aggregate, Kind};
use crate::query::functions::integral::Integral;
use crate::refusal::QueryError;
use crate::value::Value;

/// The points of the calls that take one point after the other.
pub(super) fn sequential_of(
    frame: &Frame<'_>,
    plan: &Plan,
    pass: &Pass,
    key: &Key,
    context: &Context,
) -> Result<Vec<(usize, Vec<Point>)>, QueryError> {
    let Some(feeds) = pass.feeds.groups.get(key).filter(|_| !pass.sequential.is_empty()) else {
        return Ok(Vec::new());
    };
    let reading = MergeOptions {
        tables: &pass.feeds.tables,
        range: pass.range,
        descending: frame.descending(),
        beside: &plan.beside,
        driver: None,
        shared: None,
        context,
    };
    let of_series = feeds.iter().all(|feed| matches!(feed.origin, Origin::Series(..)));
    let mut answer = Vec::with_capacity(pass.sequential.len());
    for (at, call) in &pass.sequential {
        let column = plan.columns.get(call.column);
        // Functions see no tags, but those by which a sub-query groups.
        if of_series && column.is_some_and(|column| column.of == Some(Cast::Tag)) {
            continue;
        }
        let reading = MergeOptions { driver: Some(call.column), ..reading };
        let points = match &call.base {
            Base::Edge(aggregate) => edge(plan, call, aggregate, feeds, reading)?,
            _ => one_after_another(frame, call, merged(feeds, reading))?,
        };
        answer.push((*at, points));
    }
    Ok(answer)
}

/// The first or last point.
fn edge(
    plan: &Plan,
    call: &CallPlan,
    aggregate: &Aggregate,
    feeds: &[Feed],
    reading: MergeOptions<'_>,
) -> Result<Vec<Point>, QueryError> {
    let last = aggregate.kind() == Kind::Last;
    let of_series = feeds.iter().all(|feed| matches!(feed.origin, Origin::Series(..)));
    let mut held = aggregate.start();
    let mut chosen: Option<Point> = None;
    let mut rows_seen = 0;
    for row in merged(feeds, MergeOptions { descending: last, ..reading }) {
        let (time, values) = row?;
        let Some(value) = values.get(call.column) else { continue };
        rows_seen += 1;
        if held.push(time, value, 0) {
            let of = |at: &usize| values.get(*at).cloned().unwrap_or(Value::Null);
            let beside = Some(plan.beside.iter().map(of).collect());
            chosen = Some(Point { time, value: value.clone(), beside });
        }
        // InfluxDB's limit of one lets two points through, of which the greater one counts where
        // they have the same time.
        if of_series && rows_seen == 2 {
            break;
        }
    }
    Ok(chosen.into_iter().collect())
}

fn one_after_another(
    frame: &Frame<'_>,
    call: &CallPlan,
    rows: Rows<'_>,
) -> Result<Vec<Point>, QueryError> {
    let mut points = Vec::new();
    let mut add = |(time, value)| points.push(Point { time, value, beside: None });
    let mut values = rows.map(|row| {
        row.map(|(time, mut values): Row| {
            let at = call.column;
            let value = if at < values.len() { values.swap_remove(at) } else { Value::Null };
            (time, value)
        })
    });
    match &call.base {
        Base::Integral { unit_ns, kind } => {
            let windows = frame.windows(call.range);
            let mut integral = Integral::new(*unit_ns, *kind, windows, frame.descending())?;
            for row in &mut values {
                let (time, value) = row?;
                if let Some(point) = integral.push(time, &value) {
                    add(point);
                }
            }
            if let Some(point) = integral.finish() {
                add(point);
            }
        }
        _ => {
            for row in values {
                add(row?);
            }
        }
    }
    Ok(points)
}
