//! Memtables as a source of a scan.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_select::filter::filter;

use super::merge::{joined, merge, reversed};
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

/// The points of some series in some memtables: by the place of the series, then by time.
#[derive(Debug)]
pub(crate) struct MemorySource {
    blocks: Vec<Arc<Sealed>>,
    /// Place of the series, block and run, sorted.
    runs: Vec<(u32, u32, Run)>,
    /// The next of `runs`.
    at: usize,
    wanted: Wanted,
    ready: VecDeque<Ranked>,
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
        Self { blocks, runs, at: 0, wanted, ready: VecDeque::new() }
    }

    /// Makes the points of the next series ready; false at the end.
    fn advance(&mut self) -> bool {
        let rest = self.runs.get(self.at..).unwrap_or_default();
        let Some(&(rank, _, _)) = rest.first() else { return false };
        let runs = &rest[..rest.partition_point(|run| run.0 == rank)];
        self.at += runs.len();
        let Wanted { time, fields, descending } = &self.wanted;
        let chunks: Vec<Chunk> = runs
            .iter()
            .filter_map(|(_, block, run)| {
                self.blocks.get(*block as usize)?.chunk(*run, *time, fields)
            })
            .collect();
        let chunks = joined(ordered(chunks)).into_iter().filter_map(with_values);
        if *descending {
            let chunks: Vec<Chunk> = chunks.collect();
            self.ready.extend(chunks.iter().rev().map(|c| Ranked { rank, chunk: reversed(c) }));
        } else {
            self.ready.extend(chunks.map(|chunk| Ranked { rank, chunk }));
        }
        true
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

/// Chunks of one series, the oldest first, as chunks that follow each other in time.
fn ordered(chunks: Vec<Chunk>) -> Vec<Chunk> {
    let ends = |chunk: &Chunk| chunk.times.first().copied().zip(chunk.times.last().copied());
    let follows = |pair: &[Chunk]| ends(&pair[0]).map(|e| e.1) < ends(&pair[1]).map(|e| e.0);
    if chunks.windows(2).all(follows) {
        return chunks;
    }
    // Those that share times are merged, in the order in which they came.
    let mut spans: Vec<(i64, i64, usize)> = chunks
        .iter()
        .enumerate()
        .filter_map(|(at, chunk)| ends(chunk).map(|(first, last)| (first, last, at)))
        .collect();
    spans.sort_unstable();
    let mut groups: Vec<(i64, Vec<usize>)> = Vec::new();
    for (first, last, at) in spans {
        match groups.last_mut() {
            Some((end, group)) if first <= *end => {
                *end = last.max(*end);
                group.push(at);
            }
            _ => groups.push((last, vec![at])),
        }
    }
    let merged = groups.into_iter().filter_map(|(_, mut group)| {
        group.sort_unstable();
        let parts: Vec<Chunk> =
            group.into_iter().filter_map(|at| chunks.get(at).cloned()).collect();
        if parts.len() == 1 { parts.into_iter().next() } else { merge(&parts) }
    });
    merged.collect()
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
