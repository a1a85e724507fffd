//! Several sources of points as one: of each series and time one point, with the newest value of
//! each field that is not null.

use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_select::interleave::interleave;

use crate::file::rows;
use crate::scan::{Chunk, ScanError, TimeRange};

/// A chunk, and which of the series asked for it belongs to.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The series' index in the list that is scanned.
    pub rank: u32,
    /// The points of that series.
    pub chunk: Chunk,
}

/// Chunks of several series: ranks ascend, the times of a rank ascend (or all descend) and each
/// comes once.
pub type Source = Box<dyn Iterator<Item = Result<Ranked, ScanError>> + Send>;

/// The points of several sources. Where only one has a time, or a stretch of times, its chunks
/// pass through untouched.
pub struct Merge {
    sources: Vec<Head>,
    is_descending: bool,
    is_over: bool,
}

impl std::fmt::Debug for Merge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merge").field("sources", &self.sources.len()).finish_non_exhaustive()
    }
}

/// A source and the chunk it is at.
struct Head {
    source: Source,
    current: Option<Ranked>,
    is_over: bool,
    /// A key that none of its points is before; `None` once it is asked for points.
    unopened: Option<i64>,
}

impl Head {
    fn fill(&mut self) -> Result<(), ScanError> {
        while self.unopened.is_none() && self.current.is_none() && !self.is_over {
            match self.source.next().transpose()? {
                Some(ranked) if ranked.chunk.times.is_empty() => {}
                Some(ranked) => self.current = Some(ranked),
                None => self.is_over = true,
            }
        }
        Ok(())
    }

    fn rank(&self) -> Option<u32> {
        self.current.as_ref().map(|ranked| ranked.rank)
    }
}

impl Merge {
    /// Merges sources, the oldest first.
    pub fn new(sources: Vec<Source>, is_descending: bool) -> Self {
        let within = sources.into_iter().map(|source| (TimeRange::ALL, source));
        Self::of_spans(within.collect(), is_descending)
    }

    /// Merges sources, the oldest first, that have points within known times only: of the first
    /// series a source is asked for points once the others have come to its times.
    pub fn of_spans(sources: Vec<(TimeRange, Source)>, is_descending: bool) -> Self {
        let head = |(within, source): (TimeRange, Source)| {
            let first = if is_descending { !within.max } else { within.min };
            Head { source, current: None, is_over: false, unopened: Some(first) }
        };
        Self { sources: sources.into_iter().map(head).collect(), is_descending, is_over: false }
    }

    fn advance(&mut self) -> Result<Option<Ranked>, ScanError> {
        self.open()?;
        let Some(rank) = self.sources.iter().filter_map(Head::rank).min() else {
            return Ok(None);
        };
        let with_rank = self.sources.iter().enumerate();
        let heads: Vec<usize> =
            with_rank.filter(|(_, head)| head.rank() == Some(rank)).map(|(at, _)| at).collect();
        if let ([only], None) = (heads.as_slice(), self.unopened()) {
            return Ok(self.sources.get_mut(*only).and_then(|head| head.current.take()));
        }
        Ok(self.merge(rank, &heads))
    }

    /// Asks sources for points until nothing of those that are left can come next.
    fn open(&mut self) -> Result<(), ScanError> {
        loop {
            for head in &mut self.sources {
                head.fill()?;
            }
            let Some(next) = self.unopened() else { return Ok(()) };
            let heads = (0..self.sources.len()).filter_map(|at| {
                let rank = self.sources.get(at)?.rank()?;
                Some((rank, self.first(at)))
            });
            // What has no points of the first series may have them of any other.
            let until = match heads.min() {
                Some((0, first)) if first < next => return Ok(()),
                Some((0, first)) => first,
                Some(_) => i64::MAX,
                None => next,
            };
            for head in &mut self.sources {
                head.unopened = head.unopened.filter(|first| *first > until);
            }
        }
    }

    /// Where the first of the sources begins that were not asked yet.
    fn unopened(&self) -> Option<i64> {
        self.sources.iter().filter_map(|head| head.unopened).min()
    }

    /// A time so that earlier in the order of the scan is less.
    fn key(&self, time: i64) -> i64 {
        if self.is_descending { !time } else { time }
    }

    fn times(&self, at: usize) -> &[i64] {
        let current = self.sources.get(at).and_then(|head| head.current.as_ref());
        current.map_or(&[], |ranked| &ranked.chunk.times)
    }

    fn first(&self, at: usize) -> i64 {
        self.times(at).first().map_or(i64::MAX, |time| self.key(*time))
    }

    /// Merges the chunks that several sources have of a series, as far as they are known.
    fn merge(&mut self, rank: u32, heads: &[usize]) -> Option<Ranked> {
        let first = *heads.iter().min_by_key(|at| self.first(**at))?;
        let others = heads.iter().filter(|at| **at != first).map(|at| self.first(*at));
        let unopened = self.unopened();
        let bound = others.chain(unopened).min()?;
        let before = self.times(first).partition_point(|time| self.key(*time) < bound);
        if before > 0 {
            // Up to where another source begins, this one is alone.
            let chunk = self.take(first, before)?;
            return Some(Ranked { rank, chunk });
        }
        // No source has a time up to here that is not in its current chunk.
        let ends = heads.iter().filter_map(|at| self.times(*at).last().map(|t| self.key(*t)));
        let end = ends.chain(unopened.map(|first| first - 1)).min()?;
        let mut parts = Vec::with_capacity(heads.len());
        for at in heads {
            let len = self.times(*at).partition_point(|time| self.key(*time) <= end);
            if len > 0 {
                parts.push(self.take(*at, len)?);
            }
        }
        Some(Ranked { rank, chunk: self.join(&parts)? })
    }

    /// Takes the first rows of a source's chunk.
    fn take(&mut self, at: usize, len: usize) -> Option<Chunk> {
        let head = self.sources.get_mut(at)?;
        let current = head.current.take()?;
        let rest = current.chunk.times.len() - len;
        if rest == 0 {
            return Some(current.chunk);
        }
        let taken = rows::slice(&current.chunk, 0, len);
        let chunk = rows::slice(&current.chunk, len, rest);
        head.current = Some(Ranked { rank: current.rank, chunk });
        Some(taken)
    }

    /// One chunk of several, of which later ones are newer.
    fn join(&self, parts: &[Chunk]) -> Option<Chunk> {
        let first = parts.first()?;
        if parts.len() == 1 {
            return Some(first.clone());
        }
        let (times, rows) = self.order(parts);
        let columns = (0..first.columns.len()).map(|at| column(parts, &rows, at));
        let columns: Option<Vec<Option<ArrayRef>>> = columns.collect();
        Some(Chunk { series: first.series, times: times.into(), columns: columns? })
    }

    /// All times in order, and for each the rows that have it, the newest first.
    fn order(&self, parts: &[Chunk]) -> (Vec<i64>, Vec<Row>) {
        let most = parts.iter().map(|part| part.times.len()).sum();
        let (mut times, mut rows) = (Vec::with_capacity(most), Vec::with_capacity(most));
        let mut at = vec![0_usize; parts.len()];
        loop {
            let mut least: Option<i64> = None;
            for (part, at) in parts.iter().zip(&at) {
                if let Some(time) = part.times.get(*at) {
                    let key = self.key(*time);
                    least = Some(least.map_or(key, |least| least.min(key)));
                }
            }
            let Some(least) = least else {
                return (times, rows);
            };
            let mut is_first = true;
            for (part, at) in at.iter_mut().enumerate().rev() {
                let time = parts.get(part).and_then(|part| part.times.get(*at));
                if time.is_some_and(|time| self.key(*time) == least) {
                    rows.push(Row { part, at: *at, is_first });
                    is_first = false;
                    *at += 1;
                }
            }
            times.push(self.key(least));
        }
    }
}

/// A row of a part; the first of those with its time is the newest.
struct Row {
    part: usize,
    at: usize,
    is_first: bool,
}

/// One column of the merged rows; `Some(None)` where no part has it.
fn column(parts: &[Chunk], rows: &[Row], at: usize) -> Option<Option<ArrayRef>> {
    let columns: Vec<Option<&ArrayRef>> =
        parts.iter().map(|part| part.columns.get(at).and_then(Option::as_ref)).collect();
    let Some(newest) = columns.iter().rev().flatten().next() else {
        return Some(None);
    };
    // A field never changes its type but by being deleted, so this is for damage only.
    let of = newest.data_type().clone();
    let usable = |column: &&ArrayRef| *column.data_type() == of;
    let null = new_null_array(&of, 1);
    let mut arrays: Vec<&dyn Array> = vec![&*null];
    let places: Vec<Option<usize>> = columns
        .iter()
        .map(|column| {
            arrays.push(&***column.as_ref().filter(|c| usable(c))?);
            Some(arrays.len() - 1)
        })
        .collect();
    let mut picks: Vec<(usize, usize)> = Vec::with_capacity(rows.len());
    for row in rows {
        if row.is_first {
            picks.push((0, 0));
        }
        if let Some(pick @ (0, _)) = picks.last_mut()
            && let Some(Some(place)) = places.get(row.part)
            && arrays.get(*place).is_some_and(|array| array.is_valid(row.at))
        {
            *pick = (*place, row.at);
        }
    }
    interleave(&arrays, &picks).ok().map(Some)
}

impl Iterator for Merge {
    type Item = Result<Ranked, ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let answer = self.advance().transpose();
        self.is_over = !matches!(answer, Some(Ok(_)));
        answer
    }
}
