//! The course of a run in so few points as a screen shows. Windows are merged as they come, and of
//! those that are no point yet one histogram is kept, so that a run of days takes no more memory
//! than one of minutes. A point's percentiles are those of all requests in it.

use crate::engine::Row;
use crate::failure::Owner;
use crate::recorder::Times;

/// Points of a line of a run's own page.
pub const POINTS_MAX: usize = 1000;
/// The shares of a point's latencies, with the longest behind them.
pub const SHARES: [f64; 3] = [0.5, 0.99, 0.999];

/// One or several windows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Point {
    /// The first of its windows.
    pub second: u64,
    /// How many windows it has, each of a second.
    pub seconds: u64,
    /// What was counted in them.
    pub offered: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that ended.
    pub ended: u64,
    /// Those that failed.
    pub failed: u64,
    /// Sends that were late.
    pub late: u64,
    /// Seconds that the busiest thread was outside its poll.
    pub busy: f64,
    /// Nanoseconds of latency: [`SHARES`] and the longest; nothing where nothing ended.
    pub latency: Option<[f64; SHARES.len() + 1]>,
    /// Errors by owner, in the order of [`Owner::ALL`].
    pub errors: [u64; Owner::ALL.len()],
}

/// Whole windows in their order, from the first on.
#[derive(Debug)]
pub struct Course {
    /// How many windows a point has.
    each: u64,
    points: Vec<Point>,
    /// The latencies of the last point that has any, and its place.
    open: (usize, Times),
}

impl Course {
    /// That of a run of so many windows, in so many points.
    pub fn new(windows: u64, points_max: usize) -> Self {
        let each = windows.div_ceil(points_max.max(1) as u64).max(1);
        Self { each, points: Vec::new(), open: (0, Times::new()) }
    }

    /// Takes what was counted in the next window.
    pub fn row(&mut self, row: &Row) {
        let at = usize::try_from(row.number / self.each).unwrap_or(usize::MAX);
        if at >= self.points.len() {
            self.points.push(Point { second: row.number, ..Point::default() });
        }
        let Some(point) = self.points.last_mut() else { return };
        point.seconds += 1;
        point.offered += row.offered;
        point.sent += row.sent;
        point.ended += row.ended;
        point.failed += row.failed;
        point.late += row.late;
        point.busy += row.busy.as_secs_f64();
    }

    /// Takes latencies of a window that has come, behind those of earlier ones.
    pub fn latency(&mut self, second: u64, times: &Times) {
        let Some(at) = self.place(second) else { return };
        if at != self.open.0 {
            self.close();
            self.open.0 = at;
        }
        self.open.1.add(times);
    }

    /// Takes errors of a window that has come.
    pub fn errors(&mut self, second: u64, owner: Owner, count: u64) {
        if let Some(at) = self.place(second) {
            self.points[at].errors[owner as usize] += count;
        }
    }

    /// Where the point is that a window is in, if it has come.
    fn place(&self, second: u64) -> Option<usize> {
        let last = self.points.last()?;
        let has_come = second < last.second + last.seconds;
        let at = usize::try_from(second / self.each).ok()?;
        (has_come && at < self.points.len()).then_some(at)
    }

    fn close(&mut self) {
        let (at, times) = &mut self.open;
        let Some(point) = self.points.get_mut(*at).filter(|_| times.count() > 0) else { return };
        let mut all = [times.max().as_nanos() as f64; SHARES.len() + 1];
        for (told, share) in all.iter_mut().zip(SHARES) {
            *told = times.quantile(share).as_nanos() as f64;
        }
        point.latency = Some(all);
        times.clear();
    }

    /// The points.
    pub fn points(mut self) -> Vec<Point> {
        self.close();
        self.points
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Course, POINTS_MAX};
    use crate::engine::Row;
    use crate::failure::Owner;
    use crate::recorder::Times;

    fn row(number: u64) -> Row {
        Row { number, sent: 3, late: 1, busy: Duration::from_millis(500), ..Row::default() }
    }

    fn times(values: &[u64]) -> Times {
        let mut times = Times::new();
        values.iter().for_each(|value| times.note(*value));
        times
    }

    #[test]
    fn merged_points_have_all_that_their_windows_had() {
        for (windows, points_max, each) in [(1, 9, 1), (9, 9, 1), (10, 9, 2), (40, 15, 3)] {
            let mut course = Course::new(windows, points_max);
            let values = |second: u64| -> Vec<u64> {
                // In some nothing ends.
                (0..second % 4).map(|number| 1_000_000 * (1 + second + 7 * number)).collect()
            };
            for second in 0..windows {
                course.row(&row(second));
                course.latency(second, &times(&values(second)));
                course.errors(second, Owner::Check, second % 4);
                course.latency(second + 1, &times(&[1]));
                course.errors(second + 1, Owner::Check, 1);
            }
            let points = course.points();
            assert_eq!(points.len() as u64, windows.div_ceil(each), "{windows}");
            for (at, point) in (0..).zip(&points) {
                let seconds = at * each..(at * each + each).min(windows);
                let all = times(&seconds.clone().flat_map(values).collect::<Vec<_>>());
                let told = point.latency.map(|all| [all[0], all[3]]);
                let wanted = [all.quantile(0.5), all.max()].map(|span| span.as_nanos() as f64);
                assert_eq!(told, (all.count() > 0).then_some(wanted), "{windows}");
                assert_eq!(point.errors, [0, 0, 0, all.count()]);
                let count = seconds.end - seconds.start;
                assert_eq!((point.second, point.seconds), (seconds.start, count));
                assert_eq!((point.sent, point.late), (3 * count, count));
            }
        }
    }

    #[test]
    fn a_run_of_a_week_is_no_more_points_than_a_screen_shows() {
        let week = 7 * 24 * 3600;
        let mut course = Course::new(week, POINTS_MAX);
        (0..week).for_each(|second| course.row(&row(second)));
        assert!(course.points().len() <= POINTS_MAX);
    }
}
