//! Windows of all threads become one row each, once all threads have ended them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::offered::Offered;
use crate::recorder::{Kind, Measure, Results, Tolerance};

/// Rows that are kept: a day of them.
pub const ROWS_MAX: usize = 86_400;

/// A window of the run.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// Requests that were sent in it.
    pub sent: u64,
    /// Those of them that were late.
    pub late: u64,
    /// How long the busiest thread was outside its poll.
    pub busy: Duration,
    /// What ended in it.
    pub results: Results,
}

/// A window in a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Row {
    /// Which second of what is measured it is.
    pub number: u64,
    /// Requests that were due in it; in a closed loop those that were sent.
    pub offered: u64,
    /// Requests that were sent in it.
    pub sent: u64,
    /// Requests that ended in it.
    pub ended: u64,
    pub failed: u64,
    /// Sends that were late.
    pub late: u64,
    /// How long the busiest thread was outside its poll.
    pub busy: Duration,
    /// The p50 of latency.
    pub p50: Duration,
    /// The p99 of latency.
    pub p99: Duration,
    pub max: Duration,
    /// How long the thread that stood longest did.
    pub paused: Duration,
    /// Which of these three latencies are the injector's.
    pub injectors: [bool; 3],
}

/// What the latencies of a row are called.
pub const LATENCIES: [&str; 3] = ["p50", "p99", "max"];

impl Row {
    /// The names of those of its latencies that are the injector's.
    pub fn injectors(&self) -> impl Iterator<Item = &'static str> {
        LATENCIES.into_iter().zip(self.injectors).filter_map(|(name, is)| is.then_some(name))
    }
}

/// A window that all threads have ended.
#[derive(Debug, Clone)]
pub struct FinishedWindow {
    /// When the first window of the run began.
    pub wall: SystemTime,
    /// It, in a line.
    pub row: Row,
    /// What ended in it.
    pub results: Results,
}

/// Adds up what the threads of a run hand on, window by window.
#[derive(Debug)]
pub struct Collector {
    threads: usize,
    whole: u64,
    wall: SystemTime,
    offered: Offered,
    tolerance: Tolerance,
    /// What ended behind the last whole window.
    behind: Results,
    open: BTreeMap<u64, (usize, Window)>,
    /// All that has come, of windows that are open, too.
    pub results: Results,
    /// Whole windows in order.
    pub rows: Vec<Row>,
}

impl Collector {
    /// Of so many threads; `whole` windows are whole, of which the first begins at `wall`, and what
    /// comes behind makes no row. A latency that the injector moves by more than `tolerance` is
    /// its own.
    pub fn new(
        threads: usize,
        whole: u64,
        wall: SystemTime,
        offered: Offered,
        tolerance: Tolerance,
    ) -> Self {
        let (open, rows, results) = (BTreeMap::new(), Vec::new(), Results::default());
        let behind = Results::default();
        Self { threads, whole, wall, offered, tolerance, behind, open, results, rows }
    }

    /// What is in no row: it ended behind the last whole window, or in one that not all threads
    /// have ended, because somebody stopped the run.
    pub fn rest(&self) -> Results {
        let mut rest = self.behind.clone();
        for (_, window) in self.open.values() {
            rest.add(&window.results);
        }
        rest
    }

    /// Takes a thread's window; gives those that are whole now.
    pub fn add(&mut self, number: u64, window: &Window) -> Vec<FinishedWindow> {
        let paused = self.results.paused;
        self.results.add(&window.results);
        self.results.paused = paused;
        if number >= self.whole {
            self.behind.add(&window.results);
            return Vec::new();
        }
        let (threads, sum) = self.open.entry(number).or_default();
        *threads += 1;
        sum.sent += window.sent;
        sum.late += window.late;
        sum.busy = sum.busy.max(window.busy);
        let paused = sum.results.paused.max(window.results.paused);
        sum.results.add(&window.results);
        // Threads pause beside one another, windows one after the other.
        sum.results.paused = paused;
        let mut ended = Vec::new();
        while let Some(first) = self.open.first_entry() {
            if first.get().0 < self.threads {
                break;
            }
            let (number, (_, window)) = first.remove_entry();
            let offered = self.offered.in_window(number).unwrap_or(window.sent);
            self.results.paused += window.results.paused;
            let (wall, row) = (self.wall, row(number, offered, &window, &self.tolerance));
            ended.push(FinishedWindow { wall, row, results: window.results });
        }
        let kept = ended.iter().map(|ended| ended.row);
        self.rows.extend(kept.take(ROWS_MAX.saturating_sub(self.rows.len())));
        ended
    }
}

/// A window in a line, in which so many requests were due. A latency that the injector moves by
/// more than `tolerance` is its own.
pub fn row(number: u64, offered: u64, window: &Window, tolerance: &Tolerance) -> Row {
    // What was never sent ended in no window.
    let unsent = window.results.count(Kind::Unsent);
    let latency = window.results.distribution(Measure::Latency, None);
    let figures = [latency.quantile(0.5), latency.quantile(0.99), latency.max()];
    let [p50, p99, max] = figures.map(|figure| figure.measured);
    Row {
        number,
        offered,
        sent: window.sent,
        ended: window.results.total() - unsent,
        failed: window.results.failed() - unsent,
        late: window.late,
        busy: window.busy,
        p50,
        p99,
        max,
        paused: window.results.paused,
        injectors: figures.map(|figure| figure.is_injectors(tolerance)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{Collector, Offered, Row, Window};
    use crate::recorder::{Figure, Kind};
    use crate::verdict::THRESHOLDS;

    fn collector(threads: usize, whole: u64) -> Collector {
        let (wall, tolerance) = (SystemTime::UNIX_EPOCH, THRESHOLDS.tolerance());
        Collector::new(threads, whole, wall, Offered::default(), tolerance)
    }

    fn window(results: u32) -> Window {
        let mut window = Window { sent: u64::from(results), ..Window::default() };
        for number in 0..results {
            let took = Duration::from_millis(u64::from(number) + 1);
            window.results.note(0, Kind::Succeeded, took, took);
        }
        window
    }

    #[test]
    fn a_row_comes_when_all_threads_have_ended_its_window() {
        let mut collector = collector(2, 2);
        assert!(collector.add(0, &window(1)).is_empty());
        assert!(collector.add(1, &window(2)).is_empty());
        assert_eq!(collector.rest().total(), 3);
        let ended = collector.add(0, &window(3));
        let ended: Vec<_> = ended.iter().map(|ended| (ended.row.number, ended.row.ended)).collect();
        assert_eq!(ended, [(0, 4)]);
        assert_eq!(collector.add(1, &window(0))[0].row.ended, 2);
        // What ends behind the last whole window counts, and makes no row.
        assert!(collector.add(2, &window(5)).is_empty());
        assert_eq!((collector.rows.len(), collector.results.total()), (2, 11));
        assert_eq!(collector.rest().total(), 5);
    }

    #[test]
    fn a_row_says_which_of_its_latencies_are_the_injectors_and_how_long_it_paused() {
        let (mut collector, ms) = (collector(2, 2), Duration::from_millis(1));
        let mut paused = window(200);
        let long = Figure::delayed(500 * ms, 490 * ms);
        paused.results.note_delayed(0, Kind::Succeeded, long, Some(long));
        paused.results.paused = 490 * ms;
        let mut other = window(0);
        other.results.paused = 300 * ms;
        collector.add(0, &paused);
        let row = collector.add(0, &other)[0].row;
        assert_eq!(row.injectors().collect::<Vec<_>>(), ["max"]);
        // Threads pause at one time, and windows one after the other.
        assert_eq!((row.paused, collector.results.paused), (490 * ms, 490 * ms));
        collector.add(1, &other);
        let row = collector.add(1, &other)[0].row;
        assert_eq!((row.paused, collector.results.paused), (300 * ms, 790 * ms));
        assert_eq!(Row::default().injectors().count(), 0);
    }
}
