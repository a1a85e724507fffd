//! Scanning memtables.

use std::sync::Arc;

use arrow_array::{Array, BooleanArray};
use arrow_select::filter::filter;

use crate::memtable::{Memtable, Run, Sealed, merge, reversed};
use crate::scan::{Chunk, TimeRange};
use crate::series::SeriesId;

/// Series up to which each is looked for in each block; more are gathered by going over all runs.
const SERIES_SEARCHED_MAX: usize = 64;

/// Memtables, prepared for a scan.
#[derive(Debug, Default)]
pub(super) struct Memory {
    blocks: Vec<Arc<Sealed>>,
    /// Which blocks may share times, as ranges of `blocks`, in the order of time.
    clusters: Vec<std::ops::Range<usize>>,
    /// The runs of the series wanted: (series, block), sorted, with the run.
    runs: Vec<(u32, u32, Run)>,
}

impl Memory {
    /// Prepares the scan of memtables, given with what times they hold, the older ones of the
    /// same times first.
    pub(super) fn new<'a>(
        tables: impl Iterator<Item = (TimeRange, &'a Arc<Memtable>)>,
        series: &[SeriesId],
    ) -> Self {
        let mut tables: Vec<(TimeRange, &Arc<Memtable>)> = tables.collect();
        tables.sort_by_key(|(extent, _)| extent.min);
        let mut new = Self::default();
        let mut cluster: Vec<&Arc<Memtable>> = Vec::new();
        let mut last = i64::MIN;
        for (extent, table) in tables {
            if extent.min > last && !cluster.is_empty() {
                new.add_cluster(&cluster);
                cluster.clear();
            }
            last = last.max(extent.max);
            cluster.push(table);
        }
        new.add_cluster(&cluster);
        new.gather(series);
        new
    }

    fn add_cluster(&mut self, tables: &[&Arc<Memtable>]) {
        let start = self.blocks.len();
        self.blocks.extend(tables.iter().flat_map(|table| table.blocks().cloned()));
        if self.blocks.len() > start {
            self.clusters.push(start..self.blocks.len());
        }
    }

    fn gather(&mut self, series: &[SeriesId]) {
        for (block, at) in self.blocks.iter().zip(0..) {
            if series.len() <= SERIES_SEARCHED_MAX {
                let found = series.iter().filter_map(|series| block.run(series.0));
                self.runs.extend(found.map(|run| (run.series, at, run)));
            } else {
                self.runs.extend(block.runs().iter().map(|run| (run.series, at, *run)));
            }
        }
        self.runs.sort_unstable_by_key(|&(series, block, _)| (series, block));
    }

    /// How many clusters there are.
    pub(super) fn clusters(&self) -> usize {
        self.clusters.len()
    }

    /// The points of a series in one cluster, as chunks in the order of time.
    pub(super) fn chunks(
        &self,
        series: SeriesId,
        cluster: usize,
        time: TimeRange,
        fields: &[Option<u32>],
    ) -> Vec<Chunk> {
        let Some(range) = self.clusters.get(cluster) else { return Vec::new() };
        let at = |&(of, block, _): &(u32, u32, Run)| (of, block as usize);
        let from = self.runs.partition_point(|run| at(run) < (series.0, range.start));
        let to = self.runs.partition_point(|run| at(run) < (series.0, range.end));
        let runs = self.runs.get(from..to).unwrap_or_default();
        let chunks: Vec<Chunk> = runs
            .iter()
            .filter_map(|(_, block, run)| {
                self.blocks.get(*block as usize)?.chunk(*run, time, fields)
            })
            .collect();
        let follows =
            |pair: &[Chunk]| pair[0].times.last().copied() < pair[1].times.first().copied();
        if chunks.windows(2).all(follows) {
            return chunks;
        }
        merge(&chunks).into_iter().collect()
    }
}

/// Leaves out the points that have none of the fields; `None` when no point is left.
pub(super) fn with_values(chunk: Chunk) -> Option<Chunk> {
    let columns = || chunk.columns.iter().flatten();
    if chunk.columns.is_empty() || columns().any(|column| column.null_count() == 0) {
        return Some(chunk);
    }
    let rows = chunk.times.len();
    let kept: Vec<bool> =
        (0..rows).map(|row| columns().any(|column| column.is_valid(row))).collect();
    let count = kept.iter().filter(|&&kept| kept).count();
    match count {
        0 => None,
        _ if count == rows => Some(chunk),
        _ => {
            let times = chunk.times.iter().zip(&kept).filter(|(_, kept)| **kept);
            let times = times.map(|(&time, _)| time).collect();
            let kept = BooleanArray::from(kept.clone());
            let filtered = |column: &Option<arrow_array::ArrayRef>| {
                column.as_ref().and_then(|column| filter(column.as_ref(), &kept).ok())
            };
            let columns = chunk.columns.iter().map(filtered).collect();
            Some(Chunk { series: chunk.series, times, columns })
        }
    }
}

/// The chunks in the order asked for.
pub(super) fn directed(chunks: Vec<Chunk>, descending: bool) -> Vec<Chunk> {
    if descending { chunks.iter().rev().map(reversed).collect() } else { chunks }
}
