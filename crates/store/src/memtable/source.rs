//! Memtables as a source of a scan.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_select::filter::filter;

use super::merge::{BlockRows, JOINED_ROWS, joined, merge, reversed};
use super::{Memtable, Run, Sealed};
use crate::file::merge::Ranked;
use crate::scan::{Chunk, ScanError, TimeRange};
use crate::series::SeriesId;

/// Series up to which each is looked for in each block; more are gathered by going over all runs.
const SERIES_SEARCHED_MAX: usize = 64;

/// Rows of a block that are worth being read at once, where it shares times with others.
const SHARE_MIN: usize = 64;

/// The place of each series in the list that is scanned.
#[derive(Debug)]
pub(crate) enum Ranks {
    /// The numbers of the series, each looked up in each block.
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
pub(crate) struct MemtableRequest {
    pub(crate) time: TimeRange,
    /// The numbers of the fields; `None` for a name that is not a field.
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
    wanted: MemtableRequest,
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
    /// Of the runs that the scan has come to, the block and the places that are left.
    pending: Vec<(u32, Run, Range<u32>)>,
    /// What is next to be given out.
    out: Vec<Chunk>,
}

impl MemorySource {
    /// Prepares the scan of memtables, given with the older ones of the same times first.
    pub(crate) fn new(tables: &[Arc<Memtable>], ranks: &Ranks, wanted: MemtableRequest) -> Self {
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
        let mut rows = 0;
        while rows < JOINED_ROWS
            && let Some(within) = lane.next(&self.blocks, self.wanted.time)
        {
            let chunk = lane.read(&self.blocks, within, &self.wanted.fields);
            rows += chunk.as_ref().map_or(0, |chunk| chunk.times.len());
            lane.out.extend(chunk);
        }
        if lane.descending {
            lane.out.reverse();
        }
        let rank = lane.rank;
        let chunks = joined(std::mem::take(&mut lane.out)).into_iter().filter_map(with_values);
        if lane.descending {
            let chunks: Vec<Chunk> = chunks.collect();
            self.ready.extend(chunks.iter().rev().map(|c| Ranked { rank, chunk: reversed(c) }));
        } else {
            self.ready.extend(chunks.map(|chunk| Ranked { rank, chunk }));
        }
        self.lane = (!lane.is_over()).then_some(lane);
        true
    }
}

impl Lane {
    fn is_over(&self) -> bool {
        self.rest.is_empty() && self.pending.is_empty()
    }

    /// The times that come next: not many points, and none that a run has which is still to come.
    fn next(&mut self, blocks: &[Arc<Sealed>], wanted: TimeRange) -> Option<TimeRange> {
        let descending = self.descending;
        let first = loop {
            let heads = self.pending.iter().filter_map(|(at, _, places)| {
                let place = if self.descending { places.end - 1 } else { places.start };
                Some(self.key(blocks.get(*at as usize)?.time(place)))
            });
            let first = heads.min();
            let comes = |bound: i64| if descending { !bound } else { bound };
            match self.rest.pop_if(|(bound, ..)| first.is_none_or(|at| comes(*bound) <= at)) {
                Some((_, at, run)) => {
                    let places = blocks.get(at as usize).map(|block| block.places(run, wanted));
                    let places = places.filter(|places| !places.is_empty());
                    self.pending.extend(places.map(|places| (at, run, places)));
                }
                None => break first?,
            }
        };
        // Of none of the blocks more than its share.
        let share = (JOINED_ROWS / self.pending.len()).max(SHARE_MIN) as u32;
        let shared = self.pending.iter().filter(|_| self.pending.len() > 1);
        let shares = shared.filter_map(|(at, _, places)| {
            let place = match self.descending {
                true => places.end.checked_sub(share + 1).filter(|at| *at >= places.start),
                false => Some(places.start + share).filter(|at| *at < places.end),
            };
            Some(self.key(blocks.get(*at as usize)?.time(place?)))
        });
        let end = shares.chain(self.rest.last().map(|(bound, ..)| self.key(*bound))).min();
        let last = self.key(end.map_or(i64::MAX, |end| (end - 1).max(first)));
        let first = self.key(first);
        Some(TimeRange { min: first.min(last), max: first.max(last) })
    }

    /// A time so that earlier in the order of the scan is less.
    fn key(&self, time: i64) -> i64 {
        if self.descending { !time } else { time }
    }

    /// Reads the pending points of some times, which are the next ones.
    fn read(
        &mut self,
        blocks: &[Arc<Sealed>],
        within: TimeRange,
        fields: &[Option<u32>],
    ) -> Option<Chunk> {
        // Of one time the newest value wins, so the order is that of arrival.
        self.pending.sort_unstable_by_key(|(at, ..)| *at);
        let mut series = 0;
        let mut parts = Vec::with_capacity(self.pending.len());
        for (at, run, left) in &mut self.pending {
            let Some(block) = blocks.get(*at as usize) else { continue };
            series = run.series;
            let places = if self.descending {
                let from = block.place_of(left, |time| time < within.min);
                from..std::mem::replace(&mut left.end, from)
            } else {
                let to = block.place_of(left, |time| time <= within.max);
                std::mem::replace(&mut left.start, to)..to
            };
            if !places.is_empty() {
                parts.push(BlockRows { block, places, repeats: run.repeats });
            }
        }
        self.pending.retain(|(_, _, left)| !left.is_empty());
        merge(series, &parts, fields)
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
