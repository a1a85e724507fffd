//! The windows of `GROUP BY time(interval, offset)`.

use std::ops::Range;

use super::timezone::Zone;
use crate::refusal::QueryError;
use crate::scan::TimeRange;

/// The earliest time of a query (`influxql.MinTime`).
pub const MIN_TIME: i64 = i64::MIN + 2;
/// The latest time of a query (`influxql.MaxTime`).
pub const MAX_TIME: i64 = i64::MAX - 1;

/// A window: nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first nanosecond inside it.
    pub start: i64,
    /// The first nanosecond behind it.
    pub end: i64,
}

/// How time is cut into windows; without an interval the whole range is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    interval_ns: i64,
    offset_ns: i64,
    zone: Option<Zone>,
    range: TimeRange,
}

impl Windows {
    /// Windows of an interval (0: none) that begin at multiples of it, moved by an offset, over
    /// the times of a query; under `tz()` by the clocks of that zone.
    pub fn new(interval_ns: i64, offset_ns: i64, zone: Option<Zone>, range: TimeRange) -> Self {
        let interval_ns = interval_ns.max(0);
        let offset_ns = if interval_ns == 0 { 0 } else { offset_ns % interval_ns };
        let range = TimeRange { min: range.min.max(MIN_TIME), max: range.max.min(MAX_TIME) };
        Self { interval_ns, offset_ns, zone, range }
    }

    /// The interval, nanoseconds; 0 is none.
    pub fn interval_ns(&self) -> i64 {
        self.interval_ns
    }

    /// The times of the query.
    pub fn range(&self) -> TimeRange {
        self.range
    }

    /// The same windows over other times: nested calls read some windows more.
    #[must_use]
    pub fn over(&self, range: TimeRange) -> Self {
        Self::new(self.interval_ns, self.offset_ns, self.zone.clone(), range)
    }

    fn zone_offset(&self, time: i64) -> i64 {
        self.zone.as_ref().map_or(0, |zone| zone.offset_ns(time))
    }

    /// The window a time lies in (`IteratorOptions.Window` in InfluxDB's `query/iterator.go`).
    pub fn of(&self, time: i64) -> Window {
        let interval = self.interval_ns;
        if interval == 0 {
            return Window { start: self.range.min, end: self.range.max.saturating_add(1) };
        }
        let time = time.saturating_sub(self.offset_ns);
        let zone = self.zone_offset(time);
        let into = time.saturating_add(zone).rem_euclid(interval);
        let start = if MIN_TIME.saturating_add(into) >= time {
            MIN_TIME
        } else {
            // Looked for again: the clocks may have changed between the start and the time. As in
            // 1.6 at the start without its offset; 1.8 moves it first, and then `fill()` and the
            // windows of points disagree at a change.
            let start = time - into;
            let change = zone - self.zone_offset(start);
            let moved = if change.abs() < interval { start.saturating_add(change) } else { start };
            moved.saturating_add(self.offset_ns).max(MIN_TIME)
        };
        let rest = interval - into;
        let mut end = if MAX_TIME - rest <= time { MAX_TIME } else { time + rest };
        if self.zone.is_some() && end != MAX_TIME {
            let offset = self.zone_offset(end);
            let change = zone - offset;
            if change != 0 && change.abs() < interval {
                // Added time belongs to the window before the clocks go back; skipped time to
                // the one after, unless the change itself lies within this one.
                let moved = end.saturating_add(change);
                if change > 0 || self.zone_offset(moved) == offset {
                    end = moved;
                }
            }
        }
        let end = if end == MAX_TIME { end } else { end.saturating_add(self.offset_ns) };
        Window { start, end }
    }

    /// Cuts sorted times (of either direction) into neighbouring runs of rows of one window.
    pub fn runs<'a>(&'a self, times: &'a [i64]) -> Runs<'a> {
        Runs { windows: self, times, at: 0 }
    }

    /// The starts of all windows of the range in the order of the answer, as `fill()` makes them:
    /// the first is that of `first` where the range has no end on that side.
    pub fn starts(&self, descending: bool, first: i64) -> Starts<'_> {
        let (from, to) = match descending {
            false => (self.range.min, self.range.max),
            true => (self.range.max, self.range.min),
        };
        let open = matches!(from, MIN_TIME | MAX_TIME);
        let next = self.of(if open { first } else { from }).start;
        let last = self.of(to).start;
        let open_end = descending && last == MIN_TIME;
        let offset = self.zone_offset(next);
        Starts { windows: self, next: Some(next), last, open_end, offset, descending }
    }

    /// Refuses a range of more windows than `limit` (0: without limit).
    ///
    /// # Errors
    /// Worded as InfluxDB's `max-select-buckets`.
    pub fn limit(&self, limit: u64) -> Result<(), QueryError> {
        if limit == 0 || self.interval_ns == 0 || self.range.min <= MIN_TIME {
            return Ok(());
        }
        let first = i128::from(self.of(self.range.min).start);
        let last = i128::from(self.of(self.range.max.saturating_sub(1)).start);
        let interval = i128::from(self.interval_ns);
        let buckets = (last - first + interval) / interval;
        if buckets > i128::from(limit) {
            let why = format!("max-select-buckets limit exceeded: ({buckets}/{limit})");
            return Err(QueryError(why));
        }
        Ok(())
    }
}

/// Runs of rows of one window: [`Windows::runs`].
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    windows: &'a Windows,
    times: &'a [i64],
    at: usize,
}

impl Iterator for Runs<'_> {
    type Item = (Window, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let first = *self.times.get(self.at)?;
        let window = self.windows.of(first);
        let inside = |time: &i64| window.start <= *time && *time < window.end;
        let rest = self.times.get(self.at..).unwrap_or_default();
        // Doubling steps: windows are mostly short beside a chunk, and at times all of it.
        let mut reach = 1;
        while rest.get(reach).is_some_and(inside) {
            reach *= 2;
        }
        let known = reach / 2;
        let within = rest.get(known..reach.min(rest.len())).unwrap_or_default();
        let end = known + within.partition_point(inside);
        // A time always belongs to its own run, also where a change of clocks makes the windows
        // of two neighbours overlap.
        let end = self.at + end.max(1);
        let run = self.at..end;
        self.at = end;
        Some((window, run))
    }
}

/// The starts of windows in a range: [`Windows::starts`].
#[derive(Clone, Debug)]
pub struct Starts<'a> {
    windows: &'a Windows,
    next: Option<i64>,
    last: i64,
    open_end: bool,
    offset: i64,
    descending: bool,
}

impl Starts<'_> {
    /// The next start, which stays the next one.
    pub fn peek(&self) -> Option<i64> {
        let next = self.next?;
        let inside = match self.descending {
            false => next <= self.last,
            true => next >= self.last && !self.open_end,
        };
        inside.then_some(next)
    }

    /// The start after all that are inside: points may lie behind the last window where the range
    /// is open.
    pub fn expected(&self) -> Option<i64> {
        self.next
    }

    /// Goes to the next start, also past the end.
    pub fn advance(&mut self) {
        let interval = self.windows.interval_ns;
        let step = if self.descending { -interval } else { interval };
        let moved = self.next.and_then(|next| next.checked_add(step)).filter(|_| interval > 0);
        let Some(mut next) = moved else {
            self.next = None;
            return;
        };
        if self.windows.zone.is_some() {
            let offset = self.windows.zone_offset(next.saturating_sub(1));
            if offset != self.offset {
                let change = self.offset - offset;
                if change.abs() < interval {
                    next = next.saturating_add(change);
                }
                self.offset = offset;
            }
        }
        self.next = Some(next);
    }
}

impl Iterator for Starts<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let start = self.peek()?;
        self.advance();
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: i64 = 3_600_000_000_000;
    /// 2020-03-28 00:00 in Berlin; the clocks go forward a day and two hours later.
    const BERLIN: i64 = 1_585_350_000_000_000_000;

    fn range(min: i64, max: i64) -> TimeRange {
        TimeRange { min, max }
    }

    fn hours(windows: &Windows, descending: bool, from: i64) -> Vec<i64> {
        windows.starts(descending, from).map(|start| (start - from) / HOUR).collect()
    }

    #[test]
    fn without_an_interval_all_time_is_one_window() {
        let windows = Windows::new(0, 5, None, range(10, 20));
        assert_eq!(windows.of(15), Window { start: 10, end: 21 });
        let all = Windows::new(0, 0, None, TimeRange::ALL);
        assert_eq!(all.of(0), Window { start: MIN_TIME, end: i64::MAX });
    }

    #[test]
    fn windows_begin_at_multiples_moved_by_the_offset() {
        let windows = Windows::new(10, 3, None, range(0, 35));
        assert_eq!(windows.of(12), Window { start: 3, end: 13 });
        assert_eq!(windows.of(13), Window { start: 13, end: 23 });
        assert_eq!(windows.of(-8), Window { start: -17, end: -7 });
        assert_eq!(windows.starts(false, 14).collect::<Vec<_>>(), [-7, 3, 13, 23, 33]);
        assert_eq!(windows.starts(true, 14).collect::<Vec<_>>(), [33, 23, 13, 3, -7]);
    }

    #[test]
    fn without_a_lower_bound_windows_begin_at_the_first_point() {
        let windows = Windows::new(10, 3, None, range(i64::MIN, 35));
        assert_eq!(windows.starts(false, 14).collect::<Vec<_>>(), [13, 23, 33]);
        let down = Windows::new(10, 0, None, range(i64::MIN, 35));
        assert_eq!(down.starts(true, 14).count(), 0, "the end of time is never reached");
    }

    #[test]
    fn days_have_as_many_hours_as_the_clocks_say() {
        let zone = Some(Zone::named("Europe/Berlin").unwrap());
        let day = Windows::new(24 * HOUR, 0, zone.clone(), range(BERLIN, BERLIN + 80 * HOUR));
        assert_eq!(hours(&day, false, BERLIN), [0, 24, 47, 71]);
        assert_eq!(hours(&day, true, BERLIN), [71, 47, 24, 0]);
        let sunday = day.of(BERLIN + 30 * HOUR);
        assert_eq!(sunday, Window { start: BERLIN + 24 * HOUR, end: BERLIN + 47 * HOUR });
        // 2020-10-25 00:00: the clocks go back.
        let autumn = 1_603_576_800_000_000_000;
        let day = Windows::new(24 * HOUR, 0, zone, range(autumn, autumn + 40 * HOUR));
        assert_eq!(hours(&day, false, autumn), [0, 25]);
        assert_eq!(day.of(autumn + 24 * HOUR).end, autumn + 25 * HOUR);
    }

    #[test]
    fn too_many_windows_are_refused() {
        let windows = Windows::new(10, 0, None, range(0, 99));
        assert!(windows.limit(10).is_ok() && windows.limit(0).is_ok());
        let error = windows.limit(9).unwrap_err();
        assert_eq!(error.to_string(), "max-select-buckets limit exceeded: (10/9)");
    }

    proptest! {
        #[test]
        fn no_time_is_outside_its_window(
            time in any::<i64>(),
            interval in prop_oneof![1i64..100, 1i64..i64::MAX],
            offset in any::<i64>(),
            zoned in any::<bool>(),
        ) {
            let zone = zoned.then(|| Zone::named("America/New_York").unwrap());
            let windows = Windows::new(interval, offset, zone.clone(), TimeRange::ALL);
            let window = windows.of(time);
            // At the ends of time and at changes of the clocks windows may be cut or overlap.
            if zone.is_none() && time.abs() < i64::MAX / 4 && interval < i64::MAX / 8 {
                prop_assert!(window.start <= time && time < window.end);
                prop_assert_eq!(window.end - window.start, interval);
            }
            let _ = windows.starts(time % 2 == 0, time).take(5).count();
        }

        #[test]
        fn runs_are_cut_where_the_window_changes(
            mut times in prop::collection::vec(-500i64..500, 0..200),
            interval in 1i64..200,
            descending in any::<bool>(),
        ) {
            times.sort_unstable();
            if descending {
                times.reverse();
            }
            let windows = Windows::new(interval, 7, None, TimeRange::ALL);
            let mut next = 0;
            let mut last = None;
            for (window, run) in windows.runs(&times) {
                prop_assert_eq!(run.start, next);
                prop_assert!(run.end > run.start && last != Some(window.start));
                for time in &times[run.clone()] {
                    prop_assert_eq!(windows.of(*time), window);
                }
                (next, last) = (run.end, Some(window.start));
            }
            prop_assert_eq!(next, times.len());
        }
    }
}
