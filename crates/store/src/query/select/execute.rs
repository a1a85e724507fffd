//! A planned statement, executed group by group.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use rayon::iter::{IntoParallelIterator, ParallelIterator};

use wire::influxql::ast::Cast;

use super::feeds::{Feed, Feeds, Key, Origin};
use super::frame::Frame;
use super::merged::{Reading, Row, Rows, merged};
use super::plan::{Base, CallPlan, Plan};
use super::points::{Point, follow};
use super::rows::{Scanner, limited};
use super::slots::{Slots, Windowed};
use crate::query::context::{Cancel, Context};
use crate::query::functions::aggregate::{Aggregate, Kind};
use crate::query::functions::integral::Integral;
use crate::query::results::{QueryError, Value};
use crate::scan::TimeRange;

/// Groups that are computed at once.
const GROUPS_AT_ONCE: usize = 8192;
/// Groups of one series each of which the first or last points are looked for one by one; the
/// points of more of them are all read together.
const EDGES: usize = 1024;
/// Series for which a thread is worth its while.
const SERIES_PER_TASK: usize = 8;

/// What is done with the rows of a group, which has a place among all.
pub(super) type EachGroup<'a> =
    &'a mut dyn FnMut(&Key, usize, Rows<'_>) -> Result<ControlFlow<()>, QueryError>;

/// Executes a statement: `each` gets the groups in the order of the answer, with their rows.
///
/// # Errors
/// Of the query, and those of `each`.
pub(super) fn execute(
    frame: &Frame<'_>,
    context: &Context,
    each: EachGroup<'_>,
) -> Result<(), QueryError> {
    let plan = Plan::of(frame)?;
    if plan.is_raw() {
        raw(frame, &plan, context, each)
    } else {
        calls(frame, &plan, context, each)
    }
}

/// A statement without functions of several points.
fn raw(
    frame: &Frame<'_>,
    plan: &Plan,
    context: &Context,
    each: EachGroup<'_>,
) -> Result<(), QueryError> {
    if plan.kinds.iter().all(Option::is_none) {
        return Ok(());
    }
    let feeds = Feeds::find(frame, &plan.columns, frame.range, context)?;
    let reading = Reading {
        tables: &feeds.tables,
        range: frame.range,
        descending: frame.descending(),
        beside: &plan.beside,
        driver: None,
        context,
    };
    let mut groups: Vec<(&Key, &Vec<Feed>)> = feeds.groups.iter().collect();
    if frame.descending() {
        groups.reverse();
    }
    for (key, feeds) in groups {
        let select = &frame.of.select;
        let order = feeds.iter().map(|feed| feed.order).min().unwrap_or_default();
        let rows = limited(merged(feeds, reading), select.limit, select.offset);
        let mut scanner = Scanner::new(plan, frame.fill);
        let rows = rows.map(|row| row.map(|row| scanner.raw(plan, row)));
        if each(key, order, Box::new(rows))?.is_break() {
            break;
        }
    }
    Ok(())
}

/// The calls that read the same times.
struct Pass {
    range: TimeRange,
    feeds: Feeds,
    windowed: Windowed,
    /// Calls that take one point after the other, with their places.
    sequential: Vec<(usize, CallPlan)>,
}

fn passes(frame: &Frame<'_>, plan: &Plan, context: &Context) -> Result<Vec<Pass>, QueryError> {
    let mut ranges: Vec<TimeRange> = Vec::new();
    for call in plan.calls.iter().flatten() {
        if !ranges.contains(&call.range) {
            ranges.push(call.range);
        }
    }
    let pass = |range: TimeRange| {
        let feeds = Feeds::find(frame, &plan.columns, range, context)?;
        let many = feeds.groups.len() > EDGES && feeds.groups.len() == feeds.len();
        let of_range = plan.calls.iter().enumerate().filter_map(|(at, call)| {
            let mut call = call.clone().filter(|call| call.range == range)?;
            if let (true, Base::Edge(aggregate)) = (many, &call.base) {
                call.base = Base::Aggregate(*aggregate);
            }
            Some((at, call))
        });
        let windows = |(_, call): &(usize, CallPlan)| {
            matches!(call.base, Base::Aggregate(_) | Base::Ranking { .. })
        };
        let (windowed, sequential): (Vec<_>, Vec<_>) = of_range.partition(windows);
        let windowed = Windowed::new(windowed, plan.beside.clone(), frame.windows(range));
        Ok(Pass { range, feeds, windowed, sequential })
    };
    ranges.into_iter().map(pass).collect()
}

fn calls(
    frame: &Frame<'_>,
    plan: &Plan,
    context: &Context,
    each: EachGroup<'_>,
) -> Result<(), QueryError> {
    let passes = passes(frame, plan, context)?;
    let keys: BTreeSet<&Key> = passes.iter().flat_map(|pass| pass.feeds.groups.keys()).collect();
    let mut keys: Vec<&Key> = keys.into_iter().collect();
    if frame.descending() {
        keys.reverse();
    }
    let mut order = 0;
    for keys in keys.chunks(GROUPS_AT_ONCE) {
        context.check()?;
        let mut account = Account { cancel: &context.cancel, bytes: 0 };
        let mut slots = Vec::with_capacity(passes.len());
        for pass in &passes {
            let (found, bytes) = windows_of(pass, keys, context)?;
            account.bytes += bytes;
            slots.push(found);
        }
        for (at, key) in keys.iter().enumerate() {
            let mut points = vec![Vec::new(); plan.calls.len()];
            for (pass, slots) in passes.iter().zip(&mut slots) {
                let found = pass.windowed.finish(slots, at, frame.descending());
                let sequential = sequential_of(frame, plan, pass, key, context)?;
                for (call, base) in found.into_iter().chain(sequential) {
                    let Some(Some(steps)) = plan.calls.get(call) else { continue };
                    let windows = frame.windows(steps.range);
                    let (steps, descending) = (&steps.steps, frame.descending());
                    let held = &mut account.bytes;
                    let done = follow(base, steps, &windows, descending, context, held)?;
                    if let Some(place) = points.get_mut(call) {
                        *place = done;
                    }
                }
            }
            let select = &frame.of.select;
            for points in &mut points {
                cut(points, select.limit, select.offset);
            }
            if points.iter().all(Vec::is_empty) {
                continue;
            }
            let mut scanner = Scanner::new(plan, frame.fill);
            let mut sequences: Vec<_> =
                points.into_iter().map(|points| points.into_iter().peekable()).collect();
            let descending = frame.descending();
            let rows =
                std::iter::from_fn(|| scanner.next(plan, &mut sequences, descending).map(Ok));
            order += 1;
            if each(key, order, Box::new(rows))?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Memory that is given back in the end.
struct Account<'a> {
    cancel: &'a Cancel,
    bytes: usize,
}

impl Drop for Account<'_> {
    fn drop(&mut self) {
        self.cancel.release(self.bytes);
    }
}

/// `LIMIT` and `OFFSET` of the points of one call.
fn cut(points: &mut Vec<Point>, limit: u64, offset: u64) {
    if offset > 0 {
        let skip = usize::try_from(offset).unwrap_or(usize::MAX).min(points.len());
        points.drain(..skip);
    }
    if limit > 0 {
        points.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
}

/// The windows of some groups, and the memory reserved for them.
fn windows_of(pass: &Pass, keys: &[&Key], context: &Context) -> Result<(Slots, usize), QueryError> {
    if pass.windowed.is_empty() {
        return Ok((Slots::default(), 0));
    }
    let mut feeds: Vec<(usize, &Feed)> = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        feeds.extend(pass.feeds.groups.get(*key).into_iter().flatten().map(|feed| (at, feed)));
    }
    feeds.sort_by_key(|(_, feed)| feed.order);

    let threads = context.pool.as_ref().map_or(1, |pool| pool.current_num_threads());
    let tasks = tasks(pass, &feeds, threads);
    let work = |(task, (feeds, range)): (usize, Task<'_, '_>)| {
        let mut slots = Slots::of_task(task);
        let mut held = 0;
        super::batch::read(
            &pass.feeds.tables,
            feeds,
            range,
            context,
            &mut |group, feed, batch| {
                let bytes = pass.windowed.take(&mut slots, group, feed, &batch);
                context.cancel.reserve(bytes)?;
                held += bytes;
                Ok(())
            },
        )?;
        Ok((slots, held))
    };
    let tasks: Vec<_> = tasks.into_iter().enumerate().collect();
    let done: Result<Vec<(Slots, usize)>, QueryError> = match &context.pool {
        Some(pool) if tasks.len() > 1 => pool.install(|| tasks.into_par_iter().map(work).collect()),
        _ => tasks.into_iter().map(work).collect(),
    };
    let (slots, bytes): (Vec<_>, Vec<_>) = done?.into_iter().unzip();
    Ok((Slots::join(slots), bytes.into_iter().sum()))
}

/// A share of the work: some feeds over some time.
type Task<'a, 'b> = (&'a [(usize, &'b Feed)], TimeRange);

/// Divides feeds among threads: by series where there are many, else by time.
fn tasks<'a, 'b>(pass: &Pass, feeds: &'a [(usize, &'b Feed)], threads: usize) -> Vec<Task<'a, 'b>> {
    let range = pass.range;
    if feeds.is_empty() {
        return Vec::new();
    }
    if threads < 2 {
        return vec![(feeds, range)];
    }
    if feeds.len() >= threads * SERIES_PER_TASK {
        let size = feeds.len().div_ceil(threads * 4).max(SERIES_PER_TASK);
        return feeds.chunks(size).map(|feeds| (feeds, range)).collect();
    }
    let table = feeds.iter().find_map(|(_, feed)| match feed.origin {
        Origin::Series(table, _) => pass.feeds.tables.get(table),
        Origin::Held(_) => None,
    });
    let all_series = feeds.iter().all(|(_, feed)| matches!(feed.origin, Origin::Series(..)));
    match table {
        Some(table) if all_series => {
            let spans = table.view.split(&table.name, range, threads * 2);
            spans.into_iter().map(|span| (feeds, span)).collect()
        }
        _ => vec![(feeds, range)],
    }
}

/// The points of the calls that take one point after the other.
fn sequential_of(
    frame: &Frame<'_>,
    plan: &Plan,
    pass: &Pass,
    key: &Key,
    context: &Context,
) -> Result<Vec<(usize, Vec<Point>)>, QueryError> {
    let Some(feeds) = pass.feeds.groups.get(key).filter(|_| !pass.sequential.is_empty()) else {
        return Ok(Vec::new());
    };
    let reading = Reading {
        tables: &pass.feeds.tables,
        range: pass.range,
        descending: frame.descending(),
        beside: &plan.beside,
        driver: None,
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
        let reading = Reading { driver: Some(call.column), ..reading };
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
    reading: Reading<'_>,
) -> Result<Vec<Point>, QueryError> {
    let last = aggregate.kind() == Kind::Last;
    let of_series = feeds.iter().all(|feed| matches!(feed.origin, Origin::Series(..)));
    let mut held = aggregate.start();
    let mut chosen: Option<Point> = None;
    let mut rows_seen = 0;
    for row in merged(feeds, Reading { descending: last, ..reading }) {
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
