//! Which rows of a file a scan reads, in groups that one reader reads from front to back.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use parquet::arrow::arrow_reader::RowSelection;

use crate::file::sidecar::Sidecar;
use crate::scan::TimeRange;
use crate::series::SeriesId;

/// Rows of the first group: a query with a limit wants no more.
const FIRST_ROWS: u32 = 8192;
/// By how much each group is longer than the one before.
const GROWTH: u32 = 4;
/// Rows of a group that is read forwards.
const FORWARD_ROWS: u32 = 1 << 20;
/// Rows of a group that is read backwards: each is turned around in memory.
const BACKWARD_ROWS: u32 = 1 << 16;

/// Neighbouring rows of one run.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Which of the series asked for.
    pub rank: u32,
    /// Which run of the file.
    pub run: usize,
    /// The rows, counted within the run.
    pub rows: Range<u32>,
    /// Whether all are in the time range and their times need no reading.
    pub is_known: bool,
}

/// Pieces in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub pieces: VecDeque<Piece>,
    pub rows: u32,
}

/// Makes groups of what is asked for, a group at a time.
#[derive(Debug)]
pub(crate) struct Planner {
    series: Arc<[SeriesId]>,
    time: TimeRange,
    is_descending: bool,
    next_rank: usize,
    near: usize,
    rest: Option<Piece>,
    rows_max: u32,
}

impl Planner {
    pub fn new(series: Arc<[SeriesId]>, time: TimeRange, is_descending: bool) -> Self {
        let rows_max = FIRST_ROWS;
        Self { series, time, is_descending, next_rank: 0, near: 0, rest: None, rows_max }
    }

    /// The next group, of at most `batch_rows` rows where it is turned around in memory; `None` at
    /// the end.
    pub fn next(&mut self, sidecar: &Sidecar, batch_rows: u32) -> Option<Group> {
        if self.is_descending {
            self.rows_max = self.rows_max.min(batch_rows);
        }
        let mut group = Group::default();
        let mut end = 0;
        while let Some(mut piece) = self.rest.take().or_else(|| self.find(sidecar)) {
            let room = self.rows_max - group.rows;
            let Some(run) = sidecar.runs().get(piece.run) else {
                break;
            };
            if room == 0 || (run.start + piece.rows.start < end && group.rows > 0) {
                self.rest = Some(piece);
                break;
            }
            if piece.rows.end - piece.rows.start > room {
                self.rest = Some(cut(&mut piece, room, self.is_descending));
            }
            end = run.start + piece.rows.end;
            group.rows += piece.rows.end - piece.rows.start;
            group.pieces.push_back(piece);
        }
        let longest = if self.is_descending { BACKWARD_ROWS } else { FORWARD_ROWS };
        self.rows_max = (self.rows_max * GROWTH).min(longest);
        (group.rows > 0).then_some(group)
    }

    /// The rows of the next series that has any.
    fn find(&mut self, sidecar: &Sidecar) -> Option<Piece> {
        loop {
            let series = *self.series.get(self.next_rank)?;
            let rank = u32::try_from(self.next_rank).ok()?;
            self.next_rank += 1;
            let Some(at) = sidecar.find(series, self.near) else {
                continue;
            };
            self.near = at + 1;
            let (rows, is_known) = sidecar.rows_of(sidecar.runs().get(at)?, self.time);
            if !rows.is_empty() {
                return Some(Piece { rank, run: at, rows, is_known });
            }
        }
    }
}

/// Cuts a piece to the `rows` that come first in the order of the scan; gives the others.
fn cut(piece: &mut Piece, rows: u32, is_descending: bool) -> Piece {
    let mut rest = piece.clone();
    if is_descending {
        piece.rows.start = piece.rows.end - rows;
        rest.rows.end = piece.rows.start;
    } else {
        piece.rows.end = piece.rows.start + rows;
        rest.rows.start = piece.rows.end;
    }
    rest
}

impl Group {
    /// The row groups the pieces are in, and the rows to read of these.
    pub fn selection(&self, sidecar: &Sidecar, starts: &[u32]) -> (Vec<usize>, RowSelection) {
        let mut groups: Vec<usize> = Vec::new();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut before = 0_usize;
        for piece in &self.pieces {
            let start = sidecar.runs().get(piece.run).map_or(0, |run| run.start);
            let mut rows = start + piece.rows.start..start + piece.rows.end;
            while !rows.is_empty() {
                let group = starts.partition_point(|first| *first <= rows.start).saturating_sub(1);
                let first = starts.get(group).copied().unwrap_or(0);
                let end = starts.get(group + 1).copied().unwrap_or(u32::MAX);
                if groups.last() != Some(&group) {
                    before += groups.last().map_or(0, |last| {
                        let of = |at: usize| starts.get(at).copied().unwrap_or(0) as usize;
                        of(last + 1) - of(*last)
                    });
                    groups.push(group);
                }
                let to = rows.end.min(end);
                let range = before + (rows.start - first) as usize..before + (to - first) as usize;
                match ranges.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => ranges.push(range),
                }
                rows.start = to;
            }
        }
        let total = before
            + groups.last().map_or(0, |last| {
                let of = |at: usize| starts.get(at).copied().unwrap_or(0) as usize;
                of(last + 1) - of(*last)
            });
        (groups, RowSelection::from_consecutive_ranges(ranges.into_iter(), total))
    }
}
