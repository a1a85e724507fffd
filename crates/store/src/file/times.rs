//! The times of a run, as far as they can be known without reading the time column.
//!
//! Most series are written at a steady pace, so their times are a few straight lines; these need
//! no reading at all, and rows of a time range are found by arithmetic. Of other runs every
//! [`MARK_ROWS`]th time is kept.

use std::ops::Range;

use crate::scan::TimeRange;

/// Rows between two marks.
pub(crate) const MARK_ROWS: u32 = 1024;
/// A line must stand for so many rows on average, or the run keeps marks.
const LINE_ROWS_MIN: usize = 16;
/// Lines that any run may have, however short.
const LINES_FREE: usize = 8;

/// Rows at a steady pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The first row, counted within the run.
    pub start: u32,
    /// The time of that row.
    pub first: i64,
    /// Nanoseconds from each row to the next.
    pub step: i64,
}

impl Line {
    fn at(&self, row: u32) -> i64 {
        let steps = i64::from(row.saturating_sub(self.start));
        self.first.saturating_add(self.step.saturating_mul(steps))
    }
}

/// What is known of the times of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The times of all rows.
    Lines(Box<[Line]>),
    /// Those of rows 0, [`MARK_ROWS`], 2 x [`MARK_ROWS`] and so on.
    Marks(Box<[i64]>),
}

impl Shape {
    /// The rows of a run with times in `range`, counted within the run. With marks there may be
    /// rows outside of the range at both ends.
    pub fn rows(&self, rows: u32, range: TimeRange) -> Range<u32> {
        match self {
            Self::Lines(lines) => rows_on(lines, rows, range),
            Self::Marks(marks) => {
                // Rows before the last mark at or below the first time are all too early.
                let before = marks.partition_point(|mark| *mark < range.min).saturating_sub(1);
                let after = marks.partition_point(|mark| *mark <= range.max);
                let to = u32::try_from(after).unwrap_or(u32::MAX).saturating_mul(MARK_ROWS);
                let from = u32::try_from(before).unwrap_or(u32::MAX).saturating_mul(MARK_ROWS);
                from.min(rows)..to.min(rows).max(from.min(rows))
            }
        }
    }
}

/// The rows of a run that consists of `lines` with times in `range`.
pub(crate) fn rows_on(lines: &[Line], rows: u32, range: TimeRange) -> Range<u32> {
    if range.is_empty() {
        return 0..0;
    }
    let from = first_row(lines, rows, range.min);
    let to = range.max.checked_add(1).map_or(rows, |max| first_row(lines, rows, max));
    from..to.max(from)
}

/// The time of a row of a run that consists of `lines`.
pub(crate) fn time_on(lines: &[Line], row: u32) -> i64 {
    let index = lines.partition_point(|line| line.start <= row).saturating_sub(1);
    lines.get(index).map_or(0, |line| line.at(row))
}

/// Appends the times of some rows of a run that consists of `lines`. The lines were checked when
/// the file was opened, so that no time wraps.
pub(crate) fn times_on(lines: &[Line], rows: Range<u32>, into: &mut Vec<i64>) {
    let mut at = rows.start;
    let mut index = lines.partition_point(|line| line.start <= at).saturating_sub(1);
    while let Some(line) = lines.get(index)
        && at < rows.end
    {
        let end = lines.get(index + 1).map_or(rows.end, |next| next.start.min(rows.end));
        let (first, step) = (line.at(at), line.step);
        into.extend((0..i64::from(end - at)).map(|n| first.wrapping_add(n.wrapping_mul(step))));
        (at, index) = (end, index + 1);
    }
}

/// Whether lines are those of a run of `rows` rows from `first` to `last`, each later than the one
/// before.
pub(crate) fn are_sound(lines: &[Line], rows: u32, first: i64, last: i64) -> bool {
    let mut before: Option<i64> = None;
    for (index, line) in lines.iter().enumerate() {
        let end = lines.get(index + 1).map_or(rows, |next| next.start);
        let Some(len) = end.checked_sub(line.start).filter(|len| *len > 0) else {
            return false;
        };
        let span = i128::from(line.step) * i128::from(len - 1);
        let Ok(end) = i64::try_from(i128::from(line.first) + span) else {
            return false;
        };
        if before.is_some_and(|before| before >= line.first) || (len > 1 && line.step <= 0) {
            return false;
        }
        before = Some(end);
    }
    let start = lines.first().map(|line| (line.start, line.first));
    start == Some((0, first)) && before == Some(last)
}

/// The first row whose time is at least `time`.
fn first_row(lines: &[Line], rows: u32, time: i64) -> u32 {
    let Some(index) = lines.partition_point(|line| line.first < time).checked_sub(1) else {
        return 0;
    };
    let Some(line) = lines.get(index) else {
        return 0;
    };
    let end = lines.get(index + 1).map_or(rows, |next| next.start);
    if line.step <= 0 {
        return end;
    }
    let ahead = i128::from(time) - i128::from(line.first);
    let step = i128::from(line.step);
    let steps = (ahead + step - 1) / step;
    u32::try_from(i128::from(line.start) + steps).unwrap_or(u32::MAX).min(end)
}

/// Finds the shape of a run as its times come.
#[derive(Debug, Default)]
pub(crate) struct ShapeBuilder {
    rows: u32,
    last: i64,
    lines: Vec<Line>,
    /// Too many lines: they are no longer kept.
    is_crooked: bool,
    marks: Vec<i64>,
}

impl ShapeBuilder {
    /// Takes the next times of the run.
    pub fn push(&mut self, times: &[i64]) {
        for &time in times {
            if self.rows.is_multiple_of(MARK_ROWS) {
                self.marks.push(time);
            }
            if !self.is_crooked {
                self.extend_lines(time);
            }
            self.last = time;
            self.rows += 1;
        }
    }

    fn extend_lines(&mut self, time: i64) {
        let step = time.checked_sub(self.last);
        match (self.lines.last_mut(), step) {
            (Some(line), Some(step)) if line.start + 1 == self.rows => line.step = step,
            (Some(line), Some(step)) if line.step == step => {}
            _ => {
                self.lines.push(Line { start: self.rows, first: time, step: 0 });
                let most = LINES_FREE + self.rows as usize / LINE_ROWS_MIN;
                self.is_crooked = self.lines.len() > most;
            }
        }
    }

    /// How many times there were.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// The last time there was.
    pub fn last(&self) -> i64 {
        self.last
    }

    /// The shape, and everything anew for the next run.
    pub fn finish(&mut self) -> Shape {
        let built = std::mem::take(self);
        if built.is_crooked {
            Shape::Marks(built.marks.into())
        } else {
            Shape::Lines(built.lines.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape(times: &[i64]) -> Shape {
        let mut builder = ShapeBuilder::default();
        builder.push(times);
        builder.finish()
    }

    #[test]
    fn a_steady_run_is_one_line() {
        let times: Vec<i64> = (0..10_000).map(|n| 7 + n * 60_480_000).collect();
        let Shape::Lines(lines) = shape(&times) else { panic!() };
        assert_eq!(lines.len(), 1);
    }

    #[test]
    fn the_ends_of_time_do_not_wrap() {
        let shape = shape(&[i64::MIN, 0, i64::MAX]);
        assert_eq!(shape.rows(3, TimeRange::ALL), 0..3);
        let mut times = Vec::new();
        let Shape::Lines(lines) = shape else { panic!() };
        times_on(&lines, 0..3, &mut times);
        assert_eq!(times, [i64::MIN, 0, i64::MAX]);
    }

    proptest! {
        #[test]
        fn rows_of_a_range_are_found(
            steps in prop::collection::vec(prop_oneof![Just(10_i64), Just(10), 1_i64..30], 1..5000),
            min in -10_i64..60_000,
            len in 0_i64..60_000,
            steady in any::<bool>(),
        ) {
            let mut at = 0;
            let times: Vec<i64> = steps
                .iter()
                .map(|step| { at += if steady { 10 } else { *step }; at })
                .collect();
            let shape = shape(&times);
            let rows = times.len() as u32;
            let range = TimeRange { min, max: min + len };
            let found = shape.rows(rows, range);
            let from = times.partition_point(|time| *time < range.min) as u32;
            let to = times.partition_point(|time| *time <= range.max) as u32;
            match &shape {
                Shape::Lines(lines) => {
                    prop_assert!(are_sound(lines, rows, times[0], at));
                    if from < to { prop_assert_eq!(found.clone(), from..to); }
                    else { prop_assert!(found.is_empty()); }
                    let mut all = Vec::new();
                    times_on(lines, found.clone(), &mut all);
                    prop_assert_eq!(&all[..], &times[found.start as usize..found.end as usize]);
                }
                Shape::Marks(_) => {
                    prop_assert!(from >= to || (found.start <= from && found.end >= to));
                    prop_assert!(from.saturating_sub(found.start) <= MARK_ROWS);
                    prop_assert!(found.end.saturating_sub(to) <= MARK_ROWS);
                }
            }
        }
    }
}
