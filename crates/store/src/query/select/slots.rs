//! What functions have seen of the windows of a group.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::batch::Batch;
use super::feeds::Feed;
use super::plan::{Base, CallPlan};
use super::points::Point;
use super::timeline::{Slot, Timeline};
use crate::query::functions::Column;
use crate::query::functions::aggregate::{self, Aggregate, Kind};
use crate::query::window::Windows;
use crate::value::Value;

/// Bytes that a window of a call takes, about.
const SLOT_BYTES: usize = 160;

/// Which values of columns beside a selector must be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    /// No columns are selected beside it.
    None,
    /// Those of the point that a window holds.
    One,
    /// Those of all points, until it is known which are chosen.
    All,
}

/// The calls of a statement that work on windows, of the same times.
#[derive(Clone, Debug)]
pub(super) struct Windowed {
    calls: Vec<(usize, CallPlan)>,
    columns: Vec<usize>,
    beside: Beside,
    /// The windows of all calls.
    pub(super) windows: Windows,
}

/// The windows of some groups, as one task found them.
#[derive(Debug, Default)]
pub(super) struct Slots {
    groups: BTreeMap<usize, Timeline>,
    /// What stood beside the points, by the tokens given to them.
    rows: Vec<Vec<Arc<[Value]>>>,
    task: usize,
}

/// What stands beside the points of all windows: InfluxDB's auxiliary fields.
#[derive(Debug, Default)]
pub(super) struct AuxiliaryRows(Vec<Vec<Arc<[Value]>>>);

impl AuxiliaryRows {
    fn row(&self, token: u64) -> Option<Arc<[Value]>> {
        let task = usize::try_from(token >> 40).ok()?;
        let row = usize::try_from(token & ((1 << 40) - 1)).ok()?;
        self.0.get(task)?.get(row).cloned()
    }
}

impl Windowed {
    /// For calls (with their places) and the columns beside them.
    pub(super) fn new(
        calls: Vec<(usize, CallPlan)>,
        columns: Vec<usize>,
        windows: Windows,
    ) -> Self {
        let beside = match calls.as_slice() {
            _ if columns.is_empty() => Beside::None,
            [(_, CallPlan { base: Base::Aggregate(one), .. })]
                if one.kind().is_many() || matches!(one.kind(), Kind::Percentile(_)) =>
            {
                Beside::All
            }
            _ => Beside::One,
        };
        Self { calls, columns, beside, windows }
    }

    /// Whether there is no call.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether all times are one window.
    pub(super) fn is_one_window(&self) -> bool {
        self.windows.interval_ns() == 0
    }

    /// What the calls do with their points.
    pub(super) fn bases(&self) -> impl Iterator<Item = &Base> {
        self.calls.iter().map(|(_, call)| &call.base)
    }

    /// The aggregates among the calls, with their places.
    pub(super) fn aggregates(&self) -> impl Iterator<Item = (usize, Aggregate)> {
        let aggregate = |(at, base): (usize, &Base)| match base {
            Base::Aggregate(aggregate) => Some((at, *aggregate)),
            _ => None,
        };
        self.bases().enumerate().filter_map(aggregate)
    }

    /// The column that all calls read, with an aggregate that does.
    pub(super) fn only_column(&self) -> Option<(usize, Aggregate)> {
        let column = self.calls.first()?.1.column;
        let same = self.calls.iter().all(|(_, call)| call.column == column);
        same.then(|| Some((column, self.aggregates().next()?.1))).flatten()
    }

    /// Notes points of a group that a `count()` need not see.
    pub(super) fn add_count(
        &self,
        slots: &mut Slots,
        group: usize,
        call: usize,
        time: i64,
        count: u64,
    ) {
        let mut timeline = slots.groups.entry(group).or_default().filling();
        let slot = timeline.slot(self.windows.of(time).start, || self.slot());
        if let Some(call) = slot.first.iter_mut().chain(&mut slot.others).nth(call) {
            call.add_count(count);
        }
        timeline.done();
    }

    fn slot(&self) -> Slot {
        let start = |(_, call): &(usize, CallPlan)| match &call.base {
            Base::Aggregate(aggregate) => Some(aggregate.start()),
            _ => None,
        };
        let mut calls = self.calls.iter().filter_map(start);
        let first = calls.next();
        Slot { first, others: calls.collect(), chosen: None, ranked: BTreeMap::new() }
    }

    /// Takes a batch of a group; gives the bytes that are held for it in addition, about.
    pub(super) fn take(
        &self,
        slots: &mut Slots,
        group: usize,
        feed: &Feed,
        batch: &Batch,
    ) -> usize {
        let arrays: Vec<_> = self.calls.iter().map(|(_, call)| batch.array(call.column)).collect();
        let columns: Vec<Option<Column<'_>>> =
            arrays.iter().map(|array| Column::of(array.as_deref()?)).collect();
        let collects = self.calls.iter().any(|(_, call)| collects(&call.base));
        let mut bytes = if collects { batch.times.len() * 24 } else { 0 };
        let Slots { groups, rows, task } = slots;
        let timeline = groups.entry(group).or_default();
        let before = timeline.len();
        let mut timeline = timeline.filling();
        for (window, run) in self.windows.runs(&batch.times) {
            let slot = timeline.slot(window.start, || self.slot());
            if let [(_, CallPlan { base: Base::Ranking { pick, tags, .. }, .. })] =
                self.calls.as_slice()
            {
                if let Some(Some(column)) = columns.first() {
                    self.rank(slot, pick, tags, feed, batch, column, run);
                }
                continue;
            }
            let token = match self.beside {
                Beside::All => {
                    bytes += run.len() * (24 + 32 * self.columns.len());
                    self.keep(rows, *task, batch, run.clone())
                }
                _ => 0,
            };
            let held = slot.first.iter_mut().chain(&mut slot.others);
            for (column, call) in columns.iter().zip(held) {
                let Some(column) = column else { continue };
                let row = call.update(&batch.times, column, run.clone(), token);
                if let (Beside::One, Some(row)) = (self.beside, row) {
                    slot.chosen = Some(self.beside_row(batch, row));
                }
            }
        }
        bytes += (timeline.done() - before) * SLOT_BYTES * self.calls.len();
        bytes
    }

    /// Keeps what stands beside some rows; gives the token of the batch's row 0.
    fn keep(
        &self,
        rows: &mut Vec<Vec<Arc<[Value]>>>,
        task: usize,
        batch: &Batch,
        run: std::ops::Range<usize>,
    ) -> u64 {
        if rows.is_empty() {
            rows.push(Vec::new());
        }
        let first = run.start;
        let Some(kept) = rows.first_mut() else { return 0 };
        let base = token(task, kept.len());
        kept.extend(run.map(|row| self.beside_row(batch, row)));
        base.wrapping_sub(first as u64)
    }

    fn beside_row(&self, batch: &Batch, row: usize) -> Arc<[Value]> {
        let value = |at: &usize| batch.columns.get(*at).map_or(Value::Null, |one| one.value(row));
        self.columns.iter().map(value).collect()
    }

    #[expect(clippy::too_many_arguments, reason = "all of it is needed for one run of rows")]
    fn rank(
        &self,
        slot: &mut Slot,
        pick: &Aggregate,
        tags: &[String],
        feed: &Feed,
        batch: &Batch,
        column: &Column<'_>,
        run: std::ops::Range<usize>,
    ) {
        let key = tags.iter().map(|tag| Arc::from(feed.tags().tag(tag))).collect();
        let (held, chosen) = slot.ranked.entry(key).or_insert_with(|| (pick.start(), None));
        if let Some(row) = held.update(&batch.times, column, run, 0)
            && self.beside == Beside::One
        {
            *chosen = Some(self.beside_row(batch, row));
        }
    }

    /// The points of each call for a group, with the places of the calls; windows in the order of
    /// the answer.
    pub(super) fn finish(
        &self,
        timeline: Timeline,
        kept: &AuxiliaryRows,
        descending: bool,
    ) -> Vec<(usize, Vec<Point>)> {
        let mut windows = timeline.into_slots();
        if descending {
            windows.reverse();
        }
        let mut answer: Vec<(usize, Vec<Point>)> =
            self.calls.iter().map(|(at, _)| (*at, Vec::with_capacity(windows.len()))).collect();
        let mut found = Vec::new();
        for (start, slot) in windows {
            if let [(_, CallPlan { base: Base::Ranking { rank, keeps_tags, .. }, .. })] =
                self.calls.as_slice()
            {
                if let Some((_, points)) = answer.first_mut() {
                    self.ranked(slot, rank, *keeps_tags, points);
                }
                continue;
            }
            let held = slot.first.into_iter().chain(slot.others);
            for (call, (_, points)) in held.zip(&mut answer) {
                call.finish(&mut found);
                for aggregate::Point { time, value, token } in found.drain(..) {
                    let beside = match self.beside {
                        Beside::None => None,
                        Beside::One => slot.chosen.clone(),
                        Beside::All => kept.row(token),
                    };
                    points.push(Point { time: time.unwrap_or(start), value, beside });
                }
            }
        }
        answer
    }

    /// The best of the points of each combination of tags.
    fn ranked(&self, slot: Slot, rank: &Aggregate, keeps_tags: bool, points: &mut Vec<Point>) {
        let mut best = rank.start();
        let mut rows = Vec::new();
        let mut found = Vec::new();
        for (tags, (pick, chosen)) in slot.ranked {
            pick.finish(&mut found);
            for point in found.drain(..) {
                best.push(point.time.unwrap_or_default(), &point.value, rows.len() as u64);
            }
            rows.push((tags, chosen));
        }
        best.finish(&mut found);
        for aggregate::Point { time, value, token } in found {
            let beside = match usize::try_from(token).ok().and_then(|at| rows.get(at)) {
                Some((tags, chosen)) if keeps_tags => Some(self.with_tags(chosen.as_deref(), tags)),
                row => row.and_then(|(_, chosen)| chosen.clone()),
            };
            points.push(Point { time: time.unwrap_or_default(), value, beside });
        }
    }

    /// What stands beside a point, and then the values of the tags by which it was ranked.
    fn with_tags(&self, chosen: Option<&[Value]>, tags: &[Arc<str>]) -> Arc<[Value]> {
        let mut row = chosen.unwrap_or_default().to_vec();
        row.resize(self.columns.len(), Value::Null);
        row.extend(tags.iter().cloned().map(Value::String));
        row.into()
    }
}

/// Whether the points themselves are held until the end.
fn collects(base: &Base) -> bool {
    let kind = match base {
        Base::Aggregate(aggregate) => aggregate.kind(),
        _ => return false,
    };
    matches!(
        kind,
        Kind::Median
            | Kind::Mode
            | Kind::Percentile(_)
            | Kind::Stddev
            | Kind::Distinct
            | Kind::CountDistinct
    )
}

/// Tokens of different tasks are different.
fn token(task: usize, row: usize) -> u64 {
    ((task as u64) << 40) + row as u64
}

impl Slots {
    /// Of the task with this number.
    pub(super) fn of_task(task: usize) -> Self {
        Self { task, ..Self::default() }
    }

    /// The point that a selector holds of a group that has one window.
    pub(super) fn held(&self, group: usize, call: usize) -> Option<(Value, i64)> {
        let slot = self.groups.get(&group)?.first()?;
        slot.first.iter().chain(&slot.others).nth(call)?.held()
    }

    /// Takes the windows of a group out.
    pub(super) fn take_group(&mut self, group: usize) -> Timeline {
        self.groups.remove(&group).unwrap_or_default()
    }

    /// Takes out what stands beside the points.
    pub(super) fn take_kept(&mut self) -> AuxiliaryRows {
        AuxiliaryRows(std::mem::take(&mut self.rows))
    }

    /// Takes over what the next tasks have found, in their order.
    pub(super) fn join(tasks: Vec<Self>) -> Self {
        let mut all = Self::default();
        for mut task in tasks {
            all.rows.push(task.rows.pop().unwrap_or_default());
            for (group, timeline) in task.groups {
                all.groups.entry(group).or_default().merge(timeline);
            }
        }
        all
    }
}
