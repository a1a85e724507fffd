//! A scan under way.

use std::collections::VecDeque;

use super::PolicyView;
use super::memory::{Memory, directed, with_values};
use crate::scan::{Chunk, ScanError, ScanRequest, TimeRange};
use crate::series::SeriesId;

/// A scan under way.
#[derive(Debug)]
pub struct Scan {
    memory: Memory,
    series: Vec<SeriesId>,
    time: TimeRange,
    descending: bool,
    /// The numbers of the fields asked for.
    fields: Vec<Option<u32>>,
    /// The series at hand, and its next cluster.
    at: (usize, usize),
    ready: VecDeque<Chunk>,
}

impl Scan {
    pub(super) fn new(view: &PolicyView, series: &[SeriesId], request: &ScanRequest) -> Self {
        let measurement = view.measurement(&request.measurement);
        let number = |name: &String| measurement.and_then(|of| of.fields.find(name)).map(|f| f.0);
        let tables = view.memtables(&request.measurement, request.time);
        Self {
            memory: Memory::new(tables, series),
            series: series.to_vec(),
            time: request.time,
            descending: request.descending,
            fields: request.fields.iter().map(number).collect(),
            at: (0, 0),
            ready: VecDeque::new(),
        }
    }

    /// Fills `ready` from the next cluster; false at the end.
    fn advance(&mut self) -> bool {
        let (series, cluster) = self.at;
        let Some(&id) = self.series.get(series) else { return false };
        let clusters = self.memory.clusters();
        if cluster >= clusters {
            self.at = (series + 1, 0);
            return true;
        }
        self.at.1 += 1;
        let cluster = if self.descending { clusters - 1 - cluster } else { cluster };
        let chunks = self.memory.chunks(id, cluster, self.time, &self.fields);
        let chunks = chunks.into_iter().filter_map(with_values).collect();
        self.ready.extend(directed(chunks, self.descending));
        true
    }
}

impl Iterator for Scan {
    type Item = Result<Chunk, ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(Ok(chunk));
            }
            if !self.advance() {
                return None;
            }
        }
    }
}
