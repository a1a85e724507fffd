//! Which window a moment belongs to. Windows are aligned to the wall clock once, at the start, and
//! run by the monotonic clock from then on: whoever sets the wall clock meanwhile moves nothing.

use std::time::{Duration, Instant, SystemTime};

/// How long a window is.
pub const WINDOW: Duration = Duration::from_secs(1);
/// How long before the schedule's begin its threads are told of it.
const LEAD: Duration = Duration::from_millis(20);

/// A moment that several injectors have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgreedStart {
    /// The moment, by this machine's own clock.
    pub measured_from: Instant,
    /// What the wall clock of all of them shows then: a whole second.
    pub wall: SystemTime,
}

/// When the parts of a run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeline {
    /// When the schedule begins, warm-up first.
    pub begin: Instant,
    /// When what is measured begins: a whole second of the wall clock.
    pub measured_from: Instant,
    /// When nothing more is sent.
    pub end: Instant,
    /// What the wall clock shows at `measured_from`.
    pub wall: SystemTime,
}

/// The start that was agreed on has passed by so much, or would within the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the run was to start {0:.1?} ago, warm-up counted: agree on a later time")]
pub struct TooLate(Duration);

impl Timeline {
    /// A run that begins as soon as its measured part can be on a whole second. The wall clock is
    /// asked once.
    pub fn new(
        now: Instant,
        wall_clock: impl FnOnce() -> SystemTime,
        warm_up: Duration,
        duration: Duration,
    ) -> Self {
        let wall = wall_clock();
        let earliest = wall + LEAD + warm_up;
        let since = earliest.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let over = Duration::from_nanos(u64::from(since.subsec_nanos()));
        let wait = if over.is_zero() { Duration::ZERO } else { WINDOW - over };
        let measured_from = now + LEAD + warm_up + wait;
        Self {
            begin: measured_from - warm_up,
            measured_from,
            end: measured_from + duration,
            wall: earliest + wait,
        }
    }

    /// A run whose measured part begins when the wall clock, which shows `wall` now, shows `start`.
    ///
    /// # Errors
    /// There is no time left for the warm-up before that.
    pub fn at(
        start: SystemTime,
        now: Instant,
        wall: SystemTime,
        warm_up: Duration,
        duration: Duration,
    ) -> Result<Self, TooLate> {
        let earliest = wall + LEAD + warm_up;
        let wait = start.duration_since(earliest).map_err(|error| TooLate(error.duration()))?;
        Self::agreed(
            AgreedStart { measured_from: now + LEAD + warm_up + wait, wall: start },
            now,
            warm_up,
            duration,
        )
    }

    /// A run whose measured part begins at a moment that was agreed on.
    ///
    /// # Errors
    /// There is no time left for the warm-up before that.
    pub fn agreed(
        start: AgreedStart,
        now: Instant,
        warm_up: Duration,
        duration: Duration,
    ) -> Result<Self, TooLate> {
        let AgreedStart { measured_from, wall } = start;
        let earliest = now + LEAD + warm_up;
        if earliest > measured_from {
            return Err(TooLate(earliest - measured_from));
        }
        // A start that no clock reaches is none.
        let end = measured_from.checked_add(duration).ok_or(TooLate(Duration::MAX))?;
        Ok(Self { begin: measured_from - warm_up, measured_from, end, wall })
    }

    /// The number of a moment's window; nothing before what is measured.
    pub fn window(&self, at: Instant) -> Option<u64> {
        let since = at.checked_duration_since(self.measured_from)?;
        Some(since.as_secs() / WINDOW.as_secs())
    }

    /// When a whole window begins and ends; of what is behind the last of them there is nothing.
    pub fn span(&self, window: u64) -> Option<(Instant, Instant)> {
        let number = u32::try_from(window).ok().filter(|_| window < self.whole_windows())?;
        let from = self.measured_from + WINDOW * number;
        Some((from, from + WINDOW))
    }

    /// How many windows are whole: the last one that is measured may not be.
    pub fn whole_windows(&self) -> u64 {
        (self.end - self.measured_from).as_secs() / WINDOW.as_secs()
    }

    /// How much of a span is within what is measured.
    pub fn clipped(&self, from: Instant, to: Instant) -> Duration {
        let (from, to) = (from.max(self.measured_from), to.min(self.end));
        to.saturating_duration_since(from)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use super::{LEAD, Timeline, TooLate};

    #[test]
    fn what_is_measured_begins_on_a_whole_second_of_an_injected_clock() {
        let now = Instant::now();
        for nanos in [0, 1, 979_999_999, 980_000_000, 980_000_001, 999_999_999] {
            let wall = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, nanos);
            let warm_up = Duration::from_millis(1500);
            let run = Timeline::new(now, || wall, warm_up, Duration::from_millis(2500));
            let since = run.wall.duration_since(SystemTime::UNIX_EPOCH).unwrap();
            assert_eq!(since.subsec_nanos(), 0);
            assert!(run.begin >= now + LEAD && run.begin < now + LEAD + Duration::from_secs(1));
            // Both clocks say the same of the moment.
            assert_eq!(run.measured_from - now, run.wall.duration_since(wall).unwrap());
            assert_eq!(run.whole_windows(), 2);
        }
    }

    #[test]
    fn a_step_of_the_wall_clock_moves_no_window() {
        // The clock is an hour behind whenever it is asked again: it is asked but once.
        let mut asked = 0;
        let clock = || {
            asked += 1;
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 - 3600 * (asked - 1))
        };
        let now = Instant::now();
        let run = Timeline::new(now, clock, Duration::ZERO, Duration::from_secs(10));
        assert_eq!(asked, 1);
        let at = |millis| run.window(run.measured_from + Duration::from_millis(millis));
        assert_eq!((at(0), at(999), at(1000), at(9999)), (Some(0), Some(0), Some(1), Some(9)));
        assert_eq!(run.window(run.measured_from - Duration::from_nanos(1)), None);
        let second = Duration::from_secs(1);
        assert_eq!(run.span(9), Some((run.end - second, run.end)));
        assert_eq!(run.span(10), None);
    }

    #[test]
    fn a_run_begins_at_the_second_that_was_agreed_on_or_not_at_all() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let wall = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_400);
        let at = |start| Timeline::at(start, now, wall, second, 3 * second);
        let run = at(wall + 5 * second).unwrap();
        assert_eq!((run.wall, run.measured_from - now), (wall + 5 * second, 5 * second));
        assert_eq!((run.measured_from - run.begin, run.whole_windows()), (second, 3));
        assert_eq!(at(wall + second), Err(TooLate(LEAD)));
        assert!(at(wall + second + LEAD).is_ok());
    }

    #[test]
    fn only_what_is_measured_counts() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let run = Timeline::new(now, || SystemTime::UNIX_EPOCH, second, 2 * second);
        let from = run.measured_from;
        assert_eq!(run.clipped(from - second, from + second), second);
        assert_eq!(run.clipped(from + second, run.end + second), second);
        assert_eq!(run.clipped(from - second, run.end + second), 2 * second);
        assert_eq!(run.clipped(run.end, run.end + second), Duration::ZERO);
    }
}
