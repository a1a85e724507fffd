//! Memtables as a source of a scan.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_select::filter::filter;

use super::merge::{JOINED_ROWS, joined, merge, reversed};
use super::{Memtable, Run, Sealed};
use crate::file::merge::Ranked;
use crate::scan::{Chunk, ScanError, TimeRange};
use crate::series::SeriesId;

/// Series up to which each is looked for in each block; more are gathered by going over all runs.
const SERIES_SEARCHED_MAX: usize = 64;

/// The place of each series in the list that is scanned.
#[derive(Debug)]
pub(crate) enum Ranks {
    /// The list.
    Few(Vec<u32>),
    /// The place by the series' number; `u32::MAX` for those that are not in the list.
    Many(Vec<u32>),
}

impl Ranks {
    pub(crate) fn new(series: &[SeriesId]) -> Self {
        if series.len() <= SERIES_SEARCHED_MAX {
            return Self::Few(series.iter().map(|series| series.0).collect());
        }
        let bound = series.iter().map(|series| series.0 as usize + 1).max().unwrap_or(0);
        let mut ranks = vec![u32::MAX; bound];
        for (series, rank) in series.iter().zip(0..) {
            ranks[series.0 as usize] = rank;
        }
        Self::Many(ranks)
    }
}

/// What is read of memtables.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) time: TimeRange,
    /// The numbers of the fields; `None` for a name that is no field.
    pub(crate) fields: Vec<Option<u32>>,
    pub(crate) descending: bool,
}

/// The points of some series in some memtables: by the place of the series, then by time. Blocks
/// are read one by one, so that a query which wants the first points reads no more than these.
#[derive(Debug)]
pub(crate) struct MemorySource {
    blocks: Vec<Arc<Sealed>>,
    /// Place of the series, block and run, sorted.
    runs: Vec<(u32, u32, Run)>,
    /// The next of `runs`.
    at: usize,
    wanted: Wanted,
    /// The series at hand.
    lane: Option<Lane>,
    ready: VecDeque<Ranked>,
}

/// One series on its way through the blocks that have it.
#[derive(Debug)]
struct Lane {
    rank: u32,
    descending: bool,
    /// Bound of the times, block and run; those whose points come last stand first.
    rest: Vec<(i64, u32, Run)>,
    /// What was read and shares times with what comes next, with the number of its block.
    pending: Vec<(u32, Chunk)>,
    /// What is next to be given out.
    out: Vec<Chunk>,
}

impl MemorySource {
    /// Prepares the scan of memtables, given with the older ones of the same times first.
    pub(crate) fn new(tables: &[Arc<Memtable>], ranks: &Ranks, wanted: Wanted) -> Self {
        let blocks: Vec<Arc<Sealed>> = tables
            .iter()
            .flat_map(|table| table.blocks().cloned())
            .filter(|block| !block.extent().intersect(wanted.time).is_empty())
            .collect();
        let mut runs = Vec::new();
        for (block, at) in blocks.iter().zip(0..) {
            match ranks {
                Ranks::Few(series) => {
                    let found = series.iter().zip(0..);
                    let found = found.filter_map(|(&id, rank)| Some((rank, at, block.run(id)?)));
                    runs.extend(found);
                }
                Ranks::Many(ranks) => runs.extend(block.runs().iter().filter_map(|run| {
                    let rank = *ranks.get(run.series as usize)?;
                    (rank != u32::MAX).then_some((rank, at, *run))
                })),
            }
        }
        runs.sort_unstable_by_key(|&(rank, block, _)| (rank, block));
        Self { blocks, runs, at: 0, wanted, lane: None, ready: VecDeque::new() }
    }

    /// The next series; `None` at the end.
    fn next_lane(&mut self) -> Option<Lane> {
        let rest = self.runs.get(self.at..).unwrap_or_default();
        let rank = rest.first()?.0;
        let runs = &rest[..rest.partition_point(|run| run.0 == rank)];
        self.at += runs.len();
        let descending = self.wanted.descending;
        let bounds = runs.iter().filter_map(|&(_, at, run)| {
            let span = self.blocks.get(at as usize)?.span(run);
            let within = span.intersect(self.wanted.time);
            let bound = if descending { within.max } else { within.min };
            (!within.is_empty()).then_some((bound, at, run))
        });
        let mut rest: Vec<(i64, u32, Run)> = bounds.collect();
        rest.sort_unstable_by_key(|&(bound, at, _)| (bound, at));
        if !descending {
            rest.reverse();
        }
        Some(Lane { rank, descending, rest, pending: Vec::new(), out: Vec::new() })
    }

    /// Makes points of the series at hand ready, or goes on to the next one; false at the end.
    fn advance(&mut self) -> bool {
        let Some(mut lane) = self.lane.take().or_else(|| self.next_lane()) else { return false };
        let Wanted { time, fields, descending } = &self.wanted;
        while let Some((bound, at, run)) = lane.rest.pop() {
            lane.emit(|chunk| before(chunk, bound, *descending));
            let read = self.blocks.get(at as usize).and_then(|b| b.chunk(run, *time, fields));
            lane.pending.extend(read.map(|chunk| (at, chunk)));
            if lane.out.iter().map(|chunk| chunk.times.len()).sum::<usize>() >= JOINED_ROWS {
                break;
            }
        }
        if lane.rest.is_empty() {
            lane.emit(|chunk| chunk.times.len());
        }
        if *descending {
            lane.out.reverse();
        }
        let rank = lane.rank;
        let chunks = joined(std::mem::take(&mut lane.out)).into_iter().filter_map(with_values);
        if *descending {
            let chunks: Vec<Chunk> = chunks.collect();
            self.ready.extend(chunks.iter().rev().map(|c| Ranked { rank, chunk: reversed(c) }));
        } else {
            self.ready.extend(chunks.map(|chunk| Ranked { rank, chunk }));
        }
        self.lane = (!lane.rest.is_empty()).then_some(lane);
        true
    }
}

impl Lane {
    /// Moves the points that nothing to come shares a time with from `pending` to `out`: of each
    /// chunk as many as `count` says, from the end at which the scan is.
    fn emit(&mut self, count: impl Fn(&Chunk) -> usize) {
        // Of one time the newest value wins, so the order is that of arrival.
        self.pending.sort_unstable_by_key(|(at, _)| *at);
        let (mut heads, mut tails) = (Vec::new(), Vec::new());
        let descending = self.descending;
        for (at, chunk) in self.pending.drain(..) {
            let (len, head) = (chunk.times.len(), count(&chunk));
            let (head, tail) = match head {
                0 => (None, Some(chunk)),
                all if all >= len => (Some(chunk), None),
                head => {
                    let (head, tail) = split(&chunk, head, descending);
                    (Some(head), Some(tail))
                }
            };
            heads.extend(head);
            tails.extend(tail.map(|tail| (at, tail)));
        }
        self.pending = tails;
        let merged = if heads.len() > 1 { merge(&heads) } else { heads.pop() };
        self.out.extend(merged);
    }
}

impl Iterator for MemorySource {
    type Item = Result<Ranked, ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(ranked) = self.ready.pop_front() {
                return Some(Ok(ranked));
            }
            if !self.advance() {
                return None;
            }
        }
    }
}

/// How many points of a chunk come before a time, in the order of the scan.
fn before(chunk: &Chunk, bound: i64, descending: bool) -> usize {
    if descending {
        chunk.times.len() - chunk.times.partition_point(|&time| time <= bound)
    } else {
        chunk.times.partition_point(|&time| time < bound)
    }
}

/// The first `head` points in the order of the scan, of those that a chunk has, and the others.
fn split(chunk: &Chunk, head: usize, descending: bool) -> (Chunk, Chunk) {
    let rest = chunk.times.len() - head;
    let (head_at, rest_at) = if descending { (rest, 0) } else { (0, head) };
    (slice(chunk, head_at, head), slice(chunk, rest_at, rest))
}

fn slice(chunk: &Chunk, at: usize, len: usize) -> Chunk {
    let sliced = |column: &Option<ArrayRef>| column.as_ref().map(|column| column.slice(at, len));
    let columns = chunk.columns.iter().map(sliced).collect();
    Chunk { series: chunk.series, times: chunk.times.slice(at, len), columns }
}

/// Leaves out the points that have none of the fields; `None` when no point is left.
fn with_values(chunk: Chunk) -> Option<Chunk> {
    let columns = || chunk.columns.iter().flatten();
    if chunk.columns.is_empty() || columns().any(|column| column.null_count() == 0) {
        return Some(chunk);
    }
    let rows = chunk.times.len();
    let kept: Vec<bool> =
        (0..rows).map(|row| columns().any(|column| column.is_valid(row))).collect();
    let count = kept.iter().filter(|&&kept| kept).count();
    if count == 0 || count == rows {
        return (count > 0).then_some(chunk);
    }
    let times = chunk.times.iter().zip(&kept).filter(|(_, kept)| **kept);
    let times = times.map(|(&time, _)| time).collect();
    let kept = BooleanArray::from(kept);
    let filtered = |column: &Option<ArrayRef>| {
        column.as_ref().and_then(|column| filter(column.as_ref(), &kept).ok())
    };
    let columns = chunk.columns.iter().map(filtered).collect();
    Some(Chunk { series: chunk.series, times, columns })
}
