//! Windows of all threads become one row each, once all threads have ended them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::offered::Offered;
use crate::recorder::{Kind, Measure, Results};

/// Rows that are kept: a day of them.
const ROWS_MAX: usize = 86_400;

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
    /// Those that failed.
    pub failed: u64,
    /// Sends that were late.
    pub late: u64,
    /// How long the busiest thread was outside its poll.
    pub busy: Duration,
    /// The p50 of latency.
    pub p50: Duration,
    /// The p99 of latency.
    pub p99: Duration,
    /// The longest latency.
    pub max: Duration,
}

/// A window that all threads have ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// When the first window of the run began.
    pub wall: SystemTime,
    /// It, in a line.
    pub row: Row,
    /// What ended in it.
    pub results: Results,
}

/// Adds windows up.
#[derive(Debug)]
pub struct Collector {
    threads: usize,
    whole: u64,
    wall: SystemTime,
    offered: Offered,
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
    /// comes behind makes no row.
    pub fn new(threads: usize, whole: u64, wall: SystemTime, offered: Offered) -> Self {
        let (open, rows, results) = (BTreeMap::new(), Vec::new(), Results::default());
        Self { threads, whole, wall, offered, behind: Results::default(), open, results, rows }
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
    pub fn add(&mut self, number: u64, window: &Window) -> Vec<Ended> {
        self.results.add(&window.results);
        if number >= self.whole {
            self.behind.add(&window.results);
            return Vec::new();
        }
        let (threads, sum) = self.open.entry(number).or_default();
        *threads += 1;
        sum.sent += window.sent;
        sum.late += window.late;
        sum.busy = sum.busy.max(window.busy);
        sum.results.add(&window.results);
        let mut ended = Vec::new();
        while let Some(first) = self.open.first_entry() {
            if first.get().0 < self.threads {
                break;
            }
            let (number, (_, window)) = first.remove_entry();
            let offered = self.offered.in_window(number).unwrap_or(window.sent);
            let (wall, row) = (self.wall, row(number, offered, &window));
            ended.push(Ended { wall, row, results: window.results });
        }
        let kept = ended.iter().map(|ended| ended.row);
        self.rows.extend(kept.take(ROWS_MAX.saturating_sub(self.rows.len())));
        ended
    }
}

fn row(number: u64, offered: u64, window: &Window) -> Row {
    // What was never sent ended in no window.
    let unsent = window.results.count(Kind::Unsent);
    let latency = window.results.times(Measure::Latency, None);
    Row {
        number,
        offered,
        sent: window.sent,
        ended: window.results.total() - unsent,
        failed: window.results.failed() - unsent,
        late: window.late,
        busy: window.busy,
        p50: latency.quantile(0.5),
        p99: latency.quantile(0.99),
        max: latency.max(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{Collector, Offered, Window};
    use crate::recorder::Kind;

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
        let mut collector = Collector::new(2, 2, SystemTime::UNIX_EPOCH, Offered::default());
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
}
