//! What a thread of the injector knows of itself: how long it was outside its poll, and how long it
//! waited for a CPU.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Counts the time that a runtime's thread spends outside its poll: CPU time, locks, sleeps.
#[derive(Debug, Clone)]
pub struct BusyTime {
    origin: Instant,
    /// Nanoseconds since the origin: when the thread last came back from its poll.
    awake_since: Arc<AtomicU64>,
    /// When it last went into its poll.
    parked_at: Arc<AtomicU64>,
    /// How often it did.
    parks: Arc<AtomicU64>,
    /// Nanoseconds outside the poll until then.
    busy: Arc<AtomicU64>,
}

impl Default for BusyTime {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
            awake_since: Arc::default(),
            parked_at: Arc::default(),
            parks: Arc::default(),
            busy: Arc::default(),
        }
    }
}

impl BusyTime {
    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The thread begins to wait.
    pub fn parks(&self) {
        let now = self.now();
        let awake = now.saturating_sub(self.awake_since.load(Ordering::Relaxed));
        self.parked_at.store(now, Ordering::Relaxed);
        // Its own thread alone counts.
        self.parks.store(self.parks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.busy.fetch_add(awake, Ordering::Relaxed);
    }

    /// The thread goes on.
    pub fn unparked(&self) {
        self.awake_since.store(self.now(), Ordering::Relaxed);
    }

    /// How often the thread has gone into its poll.
    pub fn sleeps(&self) -> u64 {
        self.parks.load(Ordering::Relaxed)
    }

    /// When the thread last went into its poll, and when it came back from it.
    pub fn slept(&self) -> (Instant, Instant) {
        let at = |of: &AtomicU64| self.origin + Duration::from_nanos(of.load(Ordering::Relaxed));
        (at(&self.parked_at), at(&self.awake_since))
    }

    /// How long it was busy so far; for the thread itself.
    pub fn so_far(&self) -> Duration {
        let awake = self.now().saturating_sub(self.awake_since.load(Ordering::Relaxed));
        Duration::from_nanos(self.busy.load(Ordering::Relaxed) + awake)
    }
}

/// What the kernel tells a thread of itself from one question to the next. A question takes some
/// two microseconds.
#[derive(Debug)]
pub struct ThreadClock {
    schedstat: Option<File>,
    waited: Duration,
    on_cpu: Duration,
}

impl ThreadClock {
    /// That of the calling thread, which alone may ask it. What the kernel does not tell is none.
    pub fn of_this_thread() -> Self {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let mut clock = Self { schedstat, waited: Duration::ZERO, on_cpu: Duration::ZERO };
        clock.since();
        clock
    }

    /// How long the thread was ready and waited for a CPU, and how long it had one, since it last
    /// asked.
    pub fn since(&mut self) -> (Duration, Duration) {
        let (mut text, mut waited) = ([0; 64], self.waited);
        if let Some(len) = self.schedstat.as_ref().and_then(|file| file.read_at(&mut text, 0).ok())
            && let Some(told) = std::str::from_utf8(&text[..len]).ok().and_then(waited_in)
        {
            waited = told;
        }
        let on_cpu = Duration::try_from(clock_gettime(ClockId::ThreadCPUTime));
        let on_cpu = on_cpu.unwrap_or(self.on_cpu);
        let before = (self.waited, self.on_cpu);
        (self.waited, self.on_cpu) = (waited, on_cpu);
        (waited.saturating_sub(before.0), on_cpu.saturating_sub(before.1))
    }
}

/// What a thread and its machine had spent at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    at: Instant,
    busy: Duration,
    waited: Duration,
    stolen: Duration,
}

/// Shares of the time between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// The share of the time that was spent outside the poll.
    pub busy: f64,
    /// Ready, and waiting for a CPU.
    pub waited: f64,
    /// Given to others by the machine's host, of each CPU.
    pub stolen: f64,
}

impl Health {
    /// The worse of each of two threads.
    #[must_use]
    pub fn worse(&self, other: &Self) -> Self {
        Self {
            busy: self.busy.max(other.busy),
            waited: self.waited.max(other.waited),
            stolen: self.stolen.max(other.stolen),
        }
    }
}

impl Spent {
    /// What the calling thread has spent. Where the kernel does not say, that counts as nothing.
    pub fn now(busy: &BusyTime) -> Self {
        let waited = fs::read_to_string("/proc/thread-self/schedstat").ok();
        let stat = fs::read_to_string("/proc/stat").ok();
        Self {
            at: Instant::now(),
            busy: busy.so_far(),
            waited: waited.and_then(|text| waited_in(&text)).unwrap_or_default(),
            stolen: stat.and_then(|text| stolen_in(&text)).unwrap_or_default(),
        }
    }

    /// What was spent since `before`.
    pub fn since(&self, before: &Self) -> Health {
        let whole = (self.at - before.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let share = |now: Duration, then| now.saturating_sub(then).as_secs_f64() / whole;
        Health {
            busy: share(self.busy, before.busy),
            waited: share(self.waited, before.waited),
            stolen: share(self.stolen, before.stolen),
        }
    }
}

/// The second number of `schedstat`: nanoseconds on a run queue (sched-stats.rst of the kernel).
fn waited_in(schedstat: &str) -> Option<Duration> {
    let nanos = schedstat.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// The eighth number of `/proc/stat`'s first line (proc_stat(5)), which is ticks of all CPUs that
/// have a line there: for each of them. Those that this program may run on can be fewer.
fn stolen_in(stat: &str) -> Option<Duration> {
    let ticks: u64 = stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    let cpus = stat.lines().skip(1).take_while(|line| line.starts_with("cpu")).count().max(1);
    let a_second = rustix::param::clock_ticks_per_second() as f64;
    Some(Duration::from_secs_f64(ticks as f64 / a_second / cpus as f64))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BusyTime, Spent, ThreadClock, stolen_in, waited_in};

    #[test]
    fn what_the_kernel_says_is_read() {
        assert_eq!(waited_in("12 3456 7\n"), Some(Duration::from_nanos(3456)));
        assert_eq!(waited_in(""), None);
        let tick = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        let stolen = stolen_in("cpu  1 2 3 4 5 6 7 50 9 10\ncpu0 1\n").unwrap();
        assert!((stolen.as_secs_f64() - 50.0 * tick).abs() < 1e-9);
        let of_two = stolen_in("cpu  1 2 3 4 5 6 7 50 9 10\ncpu0 1\ncpu1 1\nintr 5\n").unwrap();
        assert!((of_two.as_secs_f64() - 25.0 * tick).abs() < 1e-9);
        assert_eq!(stolen_in("nothing"), None);
    }

    #[test]
    fn a_thread_is_told_how_long_it_had_a_cpu() {
        let mut clock = ThreadClock::of_this_thread();
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let (waited, on_cpu) = clock.since();
        assert!(on_cpu > Duration::ZERO && on_cpu <= begun.elapsed(), "{on_cpu:?}");
        assert!(waited + on_cpu >= Duration::from_millis(10), "{waited:?} {on_cpu:?}");
        std::thread::sleep(Duration::from_millis(20));
        assert!(clock.since().1 < Duration::from_millis(20));
    }

    #[test]
    fn time_between_park_and_unpark_is_not_busy() {
        let busy = BusyTime::default();
        let before = Spent::now(&busy);
        busy.parks();
        let parked = std::time::Instant::now();
        while parked.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        busy.unparked();
        let health = Spent::now(&busy).since(&before);
        assert!(health.busy < 1.0, "{health:?}");
        let whole = before.at.elapsed();
        assert!(busy.so_far() - before.busy <= whole - Duration::from_millis(20));
    }
}
