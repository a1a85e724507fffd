//! The course of a run in so few points as a screen shows. Windows are merged as they come, and of
//! those that are no point yet one histogram is kept, so that a run of days takes no more memory
//! than one of minutes. A point's percentiles are those of all requests in it.

use crate::engine::Row;
use crate::failure::Owner;
use crate::recorder::{Correction, Distribution, Figure, Times};

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
    /// Requests that ended in it, failed ones too.
    pub ended: u64,
    pub failed: u64,
    /// Sends that were late.
    pub late: u64,
    /// Seconds that the busiest thread was outside its poll.
    pub busy: f64,
    /// Seconds that the thread of the injector that stood longest did.
    pub paused: f64,
    /// Latencies: [`SHARES`] and the longest; nothing where nothing ended.
    pub latency: Option<[Figure; SHARES.len() + 1]>,
    /// Errors by owner, in the order of [`Owner::ALL`].
    pub errors: [u64; Owner::ALL.len()],
}

/// Whole windows in their order, from the first on.
#[derive(Debug)]
pub struct Course {
    /// How many windows a point has.
    each: u64,
    points: Vec<Point>,
    /// The place of the last point that has latencies, and these.
    open: (usize, Times, Correction),
}

impl Course {
    /// That of a run of so many windows, in so many points.
    pub fn new(windows: u64, points_max: usize) -> Self {
        let each = windows.div_ceil(points_max.max(1) as u64).max(1);
        Self { each, points: Vec::new(), open: (0, Times::new(), Correction::default()) }
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
        point.paused += row.paused.as_secs_f64();
    }

    /// Takes latencies of a window that has come, behind those of earlier ones.
    pub fn latency(&mut self, second: u64, times: &Times) {
        if self.turn_to(second) {
            self.open.1.add(times);
        }
    }

    /// Takes what the injector added to latencies of that window.
    pub fn correct(&mut self, second: u64, correction: &Correction) {
        if self.turn_to(second) {
            self.open.2.add(correction);
        }
    }

    /// Whether the window has come; latencies are those of its point from now on.
    fn turn_to(&mut self, second: u64) -> bool {
        let Some(at) = self.place(second) else { return false };
        if at != self.open.0 {
            self.close();
            self.open.0 = at;
        }
        true
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
        let (at, times, correction) = &mut self.open;
        let correction = std::mem::take(correction);
        let Some(point) = self.points.get_mut(*at).filter(|_| times.count() > 0) else { return };
        let of = Distribution::new(times.clone(), &correction);
        let mut all = [of.max(); SHARES.len() + 1];
        for (told, share) in all.iter_mut().zip(SHARES) {
            *told = of.quantile(share);
        }
        point.latency = Some(all);
        times.clear();
    }

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
    use crate::recorder::{Correction, Figure, Times};

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
                let told = point.latency.map(|all| [all[0], all[3]].map(|of| of.measured));
                let wanted = [all.quantile(0.5), all.max()];
                assert_eq!(told, (all.count() > 0).then_some(wanted), "{windows}");
                assert_eq!(point.errors, [0, 0, 0, all.count()]);
                let count = seconds.end - seconds.start;
                assert_eq!((point.second, point.seconds), (seconds.start, count));
                assert_eq!((point.sent, point.late), (3 * count, count));
            }
        }
    }

    #[test]
    fn a_point_has_what_the_injector_added_in_its_windows_alone() {
        let (mut course, ms) = (Course::new(3, 9), Duration::from_millis(1));
        for second in 0..3 {
            course.row(&Row { paused: 90 * ms, ..row(second) });
            course.latency(second, &times(&[1_000_000, 100_000_000]));
            let mut correction = Correction::default();
            if second == 1 {
                correction.note(Figure::delayed(100 * ms, 90 * ms));
            }
            course.correct(second, &correction);
        }
        let points = course.points();
        let added = points.iter().map(|point| point.latency.unwrap()[3].added() > 80 * ms);
        assert_eq!(added.collect::<Vec<_>>(), [false, true, false]);
        assert!((points[0].paused - 0.09).abs() < 1e-9);
    }

    #[test]
    fn a_run_of_a_week_is_no_more_points_than_a_screen_shows() {
        let week = 7 * 24 * 3600;
        let mut course = Course::new(week, POINTS_MAX);
        (0..week).for_each(|second| course.row(&row(second)));
        assert!(course.points().len() <= POINTS_MAX);
    }
}
