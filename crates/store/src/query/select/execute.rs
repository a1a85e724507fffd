//! A planned statement, executed group by group.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use rayon::iter::{IntoParallelIterator, ParallelIterator};

use wire::influxql::ast::Fill;

use super::feeds::{Feed, Feeds, Key, Origin};
use super::frame::Frame;
use super::merged::{MergeOptions, Row, Rows, SharedScan, merged};
use super::plan::{Base, CallPlan, Plan};
use super::points::{Following, Point, Points};
use super::rows::{Scanner, limited};
use super::sequential::sequential_of;
use super::slots::{AuxiliaryRows, Slots, Windowed};
use super::timeline::Timeline;
use crate::query::context::{Cancel, Context};
use crate::refusal::QueryError;
use crate::scan::TimeRange;
use crate::value::Value;

/// Groups that are computed at once.
const GROUPS_AT_ONCE: usize = 8192;
/// Groups of one series each of which the first or last points are looked for one by one; the
/// points of more of them are all read together.
const EDGES: usize = 1024;
/// Calls that each look for the first or last points, likewise: each reads all columns.
const EDGE_CALLS: usize = 64;
/// Rows of a group that may be filled before any is sent.
const ROWS_AT_ONCE: u64 = 65_536;
/// Series for which a thread is worth its while.
const SERIES_PER_TASK: usize = 8;

/// What takes the groups of a statement.
pub(super) trait EachGroup: Send {
    /// Takes the rows of a group, which has a place among all; `Break` where no more are wanted.
    fn group(
        &mut self,
        key: &Key,
        order: usize,
        rows: Rows<'_>,
    ) -> impl Future<Output = Result<ControlFlow<()>, QueryError>> + Send;
}

/// Executes a statement: `each` gets the groups in the order of the answer, with their rows.
///
/// # Errors
/// Of the query, and those of `each`.
pub(super) async fn execute(
    frame: &Frame<'_>,
    context: &Context,
    each: &mut impl EachGroup,
) -> Result<(), QueryError> {
    let plan = Plan::of(frame)?;
    if plan.is_raw() {
        raw(frame, &plan, context, each).await
    } else {
        calls(frame, &plan, context, each).await
    }
}

/// A statement without functions of several points.
async fn raw(
    frame: &Frame<'_>,
    plan: &Plan,
    context: &Context,
    each: &mut impl EachGroup,
) -> Result<(), QueryError> {
    if plan.kinds.iter().all(Option::is_none) {
        return Ok(());
    }
    let feeds = Feeds::find(frame, &plan.columns, frame.range, context)?;
    let reading = MergeOptions {
        tables: &feeds.tables,
        range: frame.range,
        descending: frame.descending(),
        beside: &plan.beside,
        driver: None,
        shared: None,
        context,
    };
    let mut groups: Vec<(&Key, &Vec<Feed>)> = feeds.groups.iter().collect();
    if frame.descending() {
        groups.reverse();
    }
    let select = &frame.of.select;
    // With a limit each series is left before its end, which one scan would read all the same.
    let whole = groups.len() > 1 && select.limit == 0;
    let shared = if whole { SharedScan::of(&groups, &reading) } else { None };
    let reading = MergeOptions { shared: shared.as_ref(), ..reading };
    for (key, feeds) in groups {
        let order = feeds.iter().map(|feed| feed.order).min().unwrap_or_default();
        let rows = limited(merged(feeds, reading), select.limit, select.offset);
        let mut scanner = Scanner::new(plan, frame.fill);
        let rows = rows.map(|row| row.map(|row| scanner.raw(plan, row)));
        if each.group(key, order, Box::new(rows)).await?.is_break() {
            break;
        }
    }
    Ok(())
}

/// The calls that read the same times.
pub(super) struct Pass {
    /// The times that all of them read.
    pub(super) range: TimeRange,
    /// The series and sub-queries that are read.
    pub(super) feeds: Feeds,
    /// Calls that work on windows.
    pub(super) windowed: Windowed,
    /// Calls that take one point after the other, with their places.
    pub(super) sequential: Vec<(usize, CallPlan)>,
}

fn passes(frame: &Frame<'_>, plan: &Plan, context: &Context) -> Result<Vec<Pass>, QueryError> {
    let mut ranges: Vec<TimeRange> = Vec::new();
    for call in plan.calls.iter().flatten() {
        if !ranges.contains(&call.range) {
            ranges.push(call.range);
        }
    }
    let is_edge = |call: &&CallPlan| matches!(call.base, Base::Edge(_));
    let edges = plan.calls.iter().flatten().filter(is_edge).count();
    let pass = |range: TimeRange| {
        let feeds = Feeds::find(frame, &plan.columns, range, context)?;
        let many = feeds.groups.len() > EDGES || edges > EDGE_CALLS;
        let many = many && feeds.groups.len() == feeds.len();
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

async fn calls(
    frame: &Frame<'_>,
    plan: &Plan,
    context: &Context,
    each: &mut impl EachGroup,
) -> Result<(), QueryError> {
    let passes = passes(frame, plan, context)?;
    let keys: BTreeSet<&Key> = passes.iter().flat_map(|pass| pass.feeds.groups.keys()).collect();
    let mut keys: Vec<&Key> = keys.into_iter().collect();
    if frame.descending() {
        keys.reverse();
    }
    let following = |call: &Option<CallPlan>| {
        let call = call.clone()?;
        let windows = frame.windows(call.range);
        let (beside, descending) = (!plan.beside.is_empty(), frame.descending());
        Some(Following { call, windows, beside, descending })
    };
    let calls: Vec<Option<Following>> = plan.calls.iter().map(following).collect();
    let answering = Answering { frame, plan, passes: &passes, calls: &calls, context };
    let mut order = 0;
    for keys in keys.chunks(GROUPS_AT_ONCE) {
        context.check()?;
        let mut account = Account { cancel: &context.cancel, bytes: 0 };
        let (mut slots, mut kept) = (Vec::new(), Vec::new());
        for pass in &passes {
            let (mut found, bytes) = windows_of(pass, keys, context)?;
            account.bytes += bytes;
            kept.push(found.take_kept());
            slots.push(found);
        }
        let numbered: Vec<(usize, &Key)> = keys.iter().copied().enumerate().collect();
        for part in numbered.chunks(answering.groups_at_once()) {
            let mut jobs: Vec<Job<'_>> = Vec::with_capacity(part.len());
            for (at, key) in part {
                let found = slots.iter_mut().map(|slots| slots.take_group(*at));
                jobs.push((*key, found.collect()));
            }
            let (done, bytes) = answering.groups(jobs, &kept)?;
            account.bytes += bytes;
            for (key, rows) in done {
                order += 1;
                if each.group(key, order, rows).await?.is_break() {
                    return Ok(());
                }
                // Filled windows end early where the query does.
                context.check()?;
            }
        }
    }
    Ok(())
}

/// A group with the windows that each pass found for it.
type Job<'a> = (&'a Key, Vec<Timeline>);

/// What makes rows of windows.
#[derive(Clone, Copy)]
struct Answering<'a> {
    frame: &'a Frame<'a>,
    plan: &'a Plan,
    passes: &'a [Pass],
    calls: &'a [Option<Following>],
    context: &'a Context,
}

impl<'a> Answering<'a> {
    /// Rows that `fill()` may give a group, at most.
    fn filled_rows(&self) -> u64 {
        let select = &self.frame.of.select;
        let (range, interval) = (self.frame.range, self.frame.interval.duration);
        if self.frame.fill == Fill::None || interval == 0 {
            return 0;
        }
        let span = i128::from(range.max) - i128::from(range.min);
        let windows = u64::try_from(span / i128::from(interval)).unwrap_or(u64::MAX);
        match select.limit {
            0 => windows,
            limit => windows.min(limit.saturating_add(select.offset)),
        }
    }

    fn groups_at_once(&self) -> usize {
        if self.filled_rows() > ROWS_AT_ONCE {
            return 1;
        }
        let threads = self.context.pool.as_ref().map_or(1, |pool| pool.current_num_threads());
        let sequential = self.passes.iter().any(|pass| !pass.sequential.is_empty());
        match threads {
            1 => 1,
            _ if sequential => threads * 4,
            _ => threads * 64,
        }
    }

    /// The groups that have rows, and the memory reserved for them.
    #[expect(clippy::type_complexity, reason = "keys with their rows")]
    fn groups(
        self,
        jobs: Vec<Job<'a>>,
        kept: &[AuxiliaryRows],
    ) -> Result<(Vec<(&'a Key, Rows<'a>)>, usize), QueryError> {
        let mut answer: Vec<(&Key, Rows<'_>)> = Vec::with_capacity(jobs.len());
        let pool = self.context.pool.as_ref().filter(|_| jobs.len() > 1);
        let Some(pool) = pool else {
            for (key, timelines) in jobs {
                let mut rows = self.rows(self.points(key, timelines, kept)?).peekable();
                if rows.peek().is_some() {
                    answer.push((key, Box::new(rows.map(Ok))));
                }
            }
            return Ok((answer, 0));
        };
        let work = |(key, timelines): Job<'a>| {
            let points = self.points(key, timelines, kept)?;
            let rows: Vec<Row> = self.rows(points).collect();
            let bytes = rows.len() * (40 + 24 * self.plan.outputs.len());
            self.context.cancel.reserve(bytes)?;
            Ok((key, rows, bytes))
        };
        let done: Result<Vec<_>, QueryError> =
            pool.install(|| jobs.into_par_iter().map(work).collect());
        let mut held = 0;
        for (key, rows, bytes) in done? {
            held += bytes;
            if !rows.is_empty() {
                answer.push((key, Box::new(rows.into_iter().map(Ok))));
            }
        }
        Ok((answer, held))
    }

    /// The points of each call for a group.
    fn points(
        self,
        key: &Key,
        timelines: Vec<Timeline>,
        kept: &[AuxiliaryRows],
    ) -> Result<Vec<Points<'a>>, QueryError> {
        let Self { frame, plan, passes, context, .. } = self;
        let mut bases: Vec<Vec<Point>> = vec![Vec::new(); self.calls.len()];
        for ((pass, timeline), kept) in passes.iter().zip(timelines).zip(kept) {
            let found = pass.windowed.finish(timeline, kept, frame.descending());
            let sequential = sequential_of(frame, plan, pass, key, context)?;
            for (call, points) in found.into_iter().chain(sequential) {
                if let Some(base) = bases.get_mut(call) {
                    *base = points;
                }
            }
        }
        let select = &frame.of.select;
        let follow = |(call, base): (&'a Option<Following>, Vec<Point>)| match call {
            Some(call) if plan.written_tags > 0 => {
                let points = call.follow(base, context);
                cut_each(points, plan.written_tags, select.limit, select.offset)
            }
            Some(call) => cut(call.follow(base, context), select.limit, select.offset),
            None => Box::new(std::iter::empty()),
        };
        Ok(self.calls.iter().zip(bases).map(follow).collect())
    }

    fn rows(self, points: Vec<Points<'a>>) -> impl Iterator<Item = Row> + 'a {
        let mut scanner = Scanner::new(self.plan, self.frame.fill);
        let mut calls: Vec<_> = points.into_iter().map(Iterator::peekable).collect();
        let descending = self.frame.descending();
        std::iter::from_fn(move || scanner.next(self.plan, &mut calls, descending))
    }
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
fn cut(points: Points<'_>, limit: u64, offset: u64) -> Points<'_> {
    let skip = usize::try_from(offset).unwrap_or(usize::MAX);
    match usize::try_from(limit).unwrap_or(usize::MAX) {
        0 if skip == 0 => points,
        0 => Box::new(points.skip(skip)),
        take => Box::new(points.skip(skip).take(take)),
    }
}

/// `LIMIT` and `OFFSET` of each series among the points of one call, which end with the values of
/// so many tags.
fn cut_each(points: Points<'_>, tags: usize, limit: u64, offset: u64) -> Points<'_> {
    let end = if limit == 0 { u64::MAX } else { offset.saturating_add(limit) };
    if offset == 0 && end == u64::MAX {
        return points;
    }
    let mut seen: HashMap<Vec<Arc<str>>, u64> = HashMap::new();
    Box::new(points.filter(move |point| {
        let row = point.beside.as_deref().unwrap_or_default();
        let values = row.get(row.len().saturating_sub(tags)..).unwrap_or_default();
        let value = |value: &Value| match value {
            Value::String(text) => Arc::clone(text),
            _ => Arc::from(""),
        };
        let place = seen.entry(values.iter().map(value).collect()).or_default();
        *place += 1;
        (offset + 1..=end).contains(place)
    }))
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

    if let Some(found) = super::spared::windows(pass, &feeds, context)? {
        return Ok(found);
    }
    let threads = context.pool.as_ref().map_or(1, |pool| pool.current_num_threads());
    read_tasks(pass, tasks(pass, &feeds, threads), context)
}

/// What is found in shares of the work, and the memory reserved for it.
pub(super) fn read_tasks(
    pass: &Pass,
    tasks: Vec<Task<'_, '_>>,
    context: &Context,
) -> Result<(Slots, usize), QueryError> {
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
pub(super) type Task<'a, 'b> = (&'a [(usize, &'b Feed)], TimeRange);

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
