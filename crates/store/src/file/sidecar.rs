//! What lies beside a Parquet file: whose rows they are, their times, and checksums.
//!
//! | bytes | field |
//! |---|---|
//! | 8 | magic |
//! | 4 | format version |
//! | 4 | CRC-32C over what follows |
//! | | rows and bytes of the Parquet file |
//! | | runs: series, rows, first time, span, shape |
//! | | pages: gap, length, CRC-32C; the last one is everything after the data: indexes, footer |
//!
//! Numbers are varints, times zigzag differences. Everything in it but the checksums can be had
//! from the Parquet file again.

use std::path::Path;
use std::sync::OnceLock;

use crate::file::bytes::{Decoder, Encoder};
use crate::file::checked;
use crate::file::times::{self, Line, MARK_ROWS, Shape};
use crate::file::{FileError, FileInfo};
use crate::scan::TimeRange;
use crate::series::SeriesId;

const MAGIC: [u8; 8] = *b"WEIR\x9drun";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 16;
/// In [`Run::shape`]: one line from the first to the last time.
const STEADY: u32 = u32::MAX;

/// Neighbouring rows of one series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub series: SeriesId,
    /// The first row in the file.
    pub start: u32,
    pub rows: u32,
    pub first: i64,
    pub last: i64,
    /// Which of [`Sidecar::shapes`], or [`STEADY`].
    shape: u32,
}

impl Run {
    fn steady_step(&self) -> i64 {
        let span = i128::from(self.last) - i128::from(self.first);
        let steps = i128::from(self.rows.max(2) - 1);
        i64::try_from(span / steps).unwrap_or(i64::MAX)
    }
}

/// A part of the file that is read as one, with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub offset: u64,
    pub len: u32,
    pub crc: u32,
}

/// What lies beside a Parquet file.
#[derive(Debug, Default)]
pub(crate) struct Sidecar {
    /// Rows of the file.
    pub rows: u32,
    /// Bytes of the file.
    pub bytes: u64,
    runs: Vec<Run>,
    shapes: Vec<Shape>,
    /// In the order of their offsets; together the whole file.
    pub pages: Vec<Page>,
    /// Indexes of `runs` by series; empty where `runs` are in that order themselves.
    by_series: OnceLock<Vec<u32>>,
}

impl Sidecar {
    /// The sidecar of the Parquet file at `path`.
    ///
    /// # Errors
    /// When it can't be read, is damaged, or is of another file.
    pub fn of(path: &Path, info: &FileInfo) -> Result<Self, FileError> {
        let path = path.with_extension("runs");
        let bytes = checked::read_all(&path).map_err(FileError::of("read", &path))?;
        let sidecar = Self::decode(&bytes).map_err(|what| FileError::damaged(&path)(what))?;
        let is_its = sidecar.bytes == info.bytes && u64::from(sidecar.rows) == info.rows;
        let its = is_its.then_some(sidecar);
        its.ok_or_else(|| FileError::damaged(&path)("it is of another file"))
    }

    /// In the order of the file.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Adds the next run. `None` when the file has too many rows.
    pub fn push(
        &mut self,
        series: SeriesId,
        rows: u32,
        span: TimeRange,
        shape: Shape,
    ) -> Option<()> {
        let start = self.rows;
        self.rows = self.rows.checked_add(rows)?;
        let mut run = Run { series, start, rows, first: span.min, last: span.max, shape: STEADY };
        let is_steady = match &shape {
            Shape::Lines(lines) => {
                lines.len() == 1
                    && lines.iter().all(|line| rows == 1 || line.step == run.steady_step())
            }
            Shape::Marks(_) => false,
        };
        if !is_steady {
            run.shape = u32::try_from(self.shapes.len()).ok().filter(|at| *at != STEADY)?;
            self.shapes.push(shape);
        }
        self.runs.push(run);
        Some(())
    }

    /// The run of a series; `near` is where it may well be.
    pub fn find(&self, series: SeriesId, near: usize) -> Option<usize> {
        if self.runs.get(near).is_some_and(|run| run.series == series) {
            return Some(near);
        }
        let order = self.by_series.get_or_init(|| {
            let mut order: Vec<u32> = (0..self.runs.len()).map(|at| at as u32).collect();
            let is_sorted = self.runs.is_sorted_by_key(|run| run.series);
            order.sort_unstable_by_key(|at| self.runs.get(*at as usize).map(|run| run.series));
            if is_sorted { Vec::new() } else { order }
        });
        if order.is_empty() {
            return self.runs.binary_search_by_key(&series, |run| run.series).ok();
        }
        let key = |at: &u32| self.runs.get(*at as usize).map(|run| run.series);
        let at = order.binary_search_by_key(&Some(series), key).ok()?;
        order.get(at).map(|at| *at as usize)
    }

    /// The rows of a run with times in `range`, counted within the run; and whether that is exact,
    /// so that its times need not be read.
    pub fn rows_of(&self, run: &Run, range: TimeRange) -> (std::ops::Range<u32>, bool) {
        if range.min <= run.first && run.last <= range.max {
            return (0..run.rows, self.is_known(run));
        }
        if run.shape == STEADY {
            return (times::rows_on(&[run_line(run)], run.rows, range), true);
        }
        match self.shapes.get(run.shape as usize) {
            Some(shape) => (shape.rows(run.rows, range), self.is_known(run)),
            None => (0..run.rows, false),
        }
    }

    fn is_known(&self, run: &Run) -> bool {
        run.shape == STEADY || matches!(self.shapes.get(run.shape as usize), Some(Shape::Lines(_)))
    }

    /// The time of a row of a run, where it is known: all of them, or each [`MARK_ROWS`]th.
    pub fn time_at(&self, run: &Run, row: u32) -> Option<i64> {
        if run.shape == STEADY {
            return Some(times::time_on(&[run_line(run)], row));
        }
        match self.shapes.get(run.shape as usize)? {
            Shape::Lines(lines) => Some(times::time_on(lines, row)),
            Shape::Marks(marks) if row.is_multiple_of(MARK_ROWS) => {
                marks.get((row / MARK_ROWS) as usize).copied()
            }
            Shape::Marks(_) => None,
        }
    }

    /// Appends the times of some rows of a run, which must be known without reading.
    pub fn times_of(&self, run: &Run, rows: std::ops::Range<u32>, into: &mut Vec<i64>) {
        if run.shape == STEADY {
            times::times_on(&[run_line(run)], rows, into);
        } else if let Some(Shape::Lines(lines)) = self.shapes.get(run.shape as usize) {
            times::times_on(lines, rows, into);
        }
    }

    /// Bytes of memory it takes.
    pub fn memory(&self) -> usize {
        let shapes: usize = self
            .shapes
            .iter()
            .map(|shape| match shape {
                Shape::Lines(lines) => size_of_val(&**lines),
                Shape::Marks(marks) => size_of_val(&**marks),
            })
            .sum();
        shapes
            + self.runs.len() * (size_of::<Run>() + size_of::<u32>())
            + self.shapes.len() * size_of::<Shape>()
            + self.pages.len() * size_of::<Page>()
    }

    /// The bytes of the sidecar's file.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Encoder::default();
        body.number(u64::from(self.rows));
        body.number(self.bytes);
        body.number(self.runs.len() as u64);
        let mut before = 0;
        for run in &self.runs {
            body.number(u64::from(run.series.0));
            body.number(u64::from(run.rows));
            body.difference(before, run.first);
            before = run.first;
            body.number(run.last.wrapping_sub(run.first) as u64);
            match self.shapes.get(run.shape as usize) {
                None => body.number(0),
                Some(shape) => encode_shape(shape, &mut body),
            }
        }
        body.number(self.pages.len() as u64);
        let mut end = 0;
        for page in &self.pages {
            body.number(page.offset.wrapping_sub(end));
            body.number(u64::from(page.len));
            body.fixed(page.crc);
            end = page.offset.wrapping_add(u64::from(page.len));
        }
        let body = body.finish();
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Reads what [`Sidecar::encode`] wrote.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let Some((header, body)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err("it is too short");
        };
        let word = |at: usize| {
            header
                .get(at..)
                .and_then(|rest| rest.first_chunk())
                .map(|word| u32::from_le_bytes(*word))
        };
        if header.get(..8) != Some(&MAGIC) {
            return Err("it does not begin as such a file does");
        }
        if word(8) != Some(VERSION) {
            return Err("it is of a format version this program does not know");
        }
        if word(12) != Some(crc32c::crc32c(body)) {
            return Err("its checksum is wrong");
        }
        decode_body(Decoder::new(body)).ok_or("its contents contradict each other")
    }
}

fn run_line(run: &Run) -> Line {
    Line { start: 0, first: run.first, step: run.steady_step() }
}

fn encode_shape(shape: &Shape, body: &mut Encoder) {
    match shape {
        Shape::Lines(lines) => {
            body.number(1);
            body.number(lines.len() as u64);
            let (mut start, mut first) = (0, 0);
            for line in lines {
                body.number(u64::from(line.start.wrapping_sub(start)));
                body.difference(first, line.first);
                body.difference(0, line.step);
                (start, first) = (line.start, line.first);
            }
        }
        Shape::Marks(marks) => {
            body.number(2);
            let mut before = 0;
            for mark in marks {
                body.difference(before, *mark);
                before = *mark;
            }
        }
    }
}

fn decode_body(mut body: Decoder<'_>) -> Option<Sidecar> {
    let rows = body.small()?;
    let mut sidecar = Sidecar { bytes: body.number()?, ..Sidecar::default() };
    let mut before = 0;
    for _ in 0..body.number()? {
        let series = SeriesId(body.small()?);
        let rows = body.small().filter(|rows| *rows > 0)?;
        let first = body.difference(before)?;
        before = first;
        let last = first.checked_add_unsigned(body.number()?)?;
        let shape = match body.number()? {
            0 => {
                let line = Line { start: 0, first, step: 0 };
                let mut run = Run { series, start: 0, rows, first, last, shape: STEADY };
                run.start = 0;
                Shape::Lines([Line { step: run.steady_step(), ..line }].into())
            }
            1 => decode_lines(&mut body)?,
            2 => decode_marks(&mut body, rows)?,
            _ => return None,
        };
        let is_sound = match &shape {
            Shape::Lines(lines) => times::are_sound(lines, rows, first, last),
            Shape::Marks(marks) => marks.first() == Some(&first) && marks.is_sorted(),
        };
        is_sound.then_some(())?;
        sidecar.push(series, rows, TimeRange { min: first, max: last }, shape)?;
    }
    let mut end = 0_u64;
    for _ in 0..body.number()? {
        let offset = end.checked_add(body.number()?)?;
        let len = body.small()?;
        sidecar.pages.push(Page { offset, len, crc: body.fixed()? });
        end = offset.checked_add(u64::from(len))?;
    }
    (sidecar.rows == rows && end == sidecar.bytes && body.is_empty()).then_some(sidecar)
}

fn decode_lines(body: &mut Decoder<'_>) -> Option<Shape> {
    let (mut start, mut first) = (0_u32, 0);
    let mut lines = Vec::new();
    for _ in 0..body.number()? {
        start = start.checked_add(body.small()?)?;
        first = body.difference(first)?;
        lines.push(Line { start, first, step: body.difference(0)? });
    }
    Some(Shape::Lines(lines.into()))
}

fn decode_marks(body: &mut Decoder<'_>, rows: u32) -> Option<Shape> {
    let mut before = 0;
    let mut marks = Vec::new();
    for _ in 0..rows.div_ceil(MARK_ROWS) {
        before = body.difference(before)?;
        marks.push(before);
    }
    Some(Shape::Marks(marks.into()))
}
