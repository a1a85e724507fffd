//! Whether the numbers of a run can be believed, while it goes on.

use std::time::Duration;

use meter::engine::FinishedWindow;
use meter::failure::Owner;
use meter::recorder::{Measure, Results};
use meter::verdict::{Evidence, Thresholds, basic_figures, doubts};

/// What windows tell of it. What is known at the end alone, as Little's law and how long threads
/// waited for a CPU, is not in it.
pub struct SoFar {
    is_closed: bool,
    threads: usize,
    thresholds: Thresholds,
    seconds: u32,
    sends: u64,
    late: u64,
    busy: Duration,
    stood: Duration,
    results: Results,
}

impl SoFar {
    /// Of a run that has just begun.
    pub fn new(is_closed: bool, threads: usize, thresholds: Thresholds) -> Self {
        let (seconds, sends, late, results) = (0, 0, 0, Results::default());
        let [busy, stood] = [Duration::ZERO; 2];
        Self { is_closed, threads, thresholds, seconds, sends, late, busy, stood, results }
    }

    /// Takes in the next window.
    pub fn add(&mut self, ended: &FinishedWindow) {
        self.seconds += 1;
        self.sends += ended.row.sent;
        self.late += ended.row.late;
        self.busy += ended.row.busy;
        self.stood += ended.row.paused;
        self.results.add(&ended.results);
    }

    /// Why the run would be INVALID if it ended now.
    pub fn doubt(&self) -> Option<String> {
        let share = |of: Duration| of.as_secs_f64() / f64::from(self.seconds.max(1));
        let times = |measure| self.results.distribution(measure, None);
        let latency = (!self.is_closed).then(|| times(Measure::Latency));
        let (service, tolerance) = (times(Measure::Service), self.thresholds.tolerance());
        let owners = Owner::ALL.iter().zip(Owner::counts(&self.results));
        let of_injector = owners.filter(|(owner, _)| **owner == Owner::Injector);
        let evidence = Evidence {
            sends: self.sends,
            late: self.late,
            figures: basic_figures(latency.as_ref(), &service, &tolerance),
            busy: share(self.busy),
            // In each window another thread may have stood longest: one stood so long at least.
            stood: share(self.stood) / self.threads.max(1) as f64,
            errors: of_injector.map(|(_, errors)| errors).sum(),
            threads: self.threads,
            ..Evidence::quiet(self.is_closed)
        };
        doubts(&evidence, &self.thresholds).into_iter().next().map(|doubt| doubt.cause)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use meter::engine::{FinishedWindow, Row};
    use meter::recorder::{Figure, Kind, Results};
    use meter::verdict::THRESHOLDS;

    use super::SoFar;

    const MS: Duration = Duration::from_millis(1);

    /// Why a run is INVALID of which each second is this one.
    fn doubt(threads: usize, row: Row, added: Duration) -> Option<String> {
        let mut results = Results::default();
        for _ in 0..100 {
            let [latency, service] = [Figure::delayed(10 * MS, added); 2];
            results.note_delayed(0, Kind::Succeeded, latency, Some(service));
        }
        let mut so_far = SoFar::new(false, threads, THRESHOLDS);
        for number in 0..5 {
            let row = Row { number, sent: 100, ended: 100, ..row };
            so_far.add(&FinishedWindow { wall: UNIX_EPOCH, row, results: results.clone() });
        }
        so_far.doubt()
    }

    #[test]
    fn each_cause_that_windows_show_is_told_before_the_end() {
        assert_eq!(doubt(1, Row::default(), Duration::ZERO), None);
        let of = |row: Row| doubt(1, row, Duration::ZERO).unwrap_or_default();
        assert!(of(Row { late: 20, ..Row::default() }).contains("were late by over 1 ms"));
        assert!(of(Row { busy: 950 * MS, ..Row::default() }).contains("95 %"));
        let standing = Row { paused: 30 * MS, ..Row::default() };
        assert!(of(standing).contains("stood still"), "{}", of(standing));
        // Of four threads each may have stood in a window of its own.
        assert_eq!(doubt(4, standing, Duration::ZERO), None);
        let made = doubt(1, Row::default(), 5 * MS).unwrap_or_default();
        assert!(made.contains("the p99 of latency"), "{made}");
    }
}
