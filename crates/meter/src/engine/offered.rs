//! How many requests a schedule makes due in each window, whatever is sent.

use std::iter::Peekable;
use std::time::Duration;

use crate::part::RunPart;
use crate::schedule::{Due, Schedule};
use crate::window::WINDOW;

/// Counts what is due, window by window; of a closed loop, in which nothing is, it knows none.
#[derive(Debug, Clone, Default)]
pub struct Offered {
    /// The requests that are due, by load.
    due: Vec<Peekable<Due>>,
    warm_up: Duration,
}

impl Offered {
    /// By schedules, before which there is a warm-up.
    pub fn new<'a>(
        schedules: impl Iterator<Item = (&'a Schedule, RunPart)>,
        warm_up: Duration,
    ) -> Self {
        let due = schedules.map(|(schedule, part)| {
            schedule.clone().warmed_up(warm_up).due(part.index(), part.of()).peekable()
        });
        Self { due: due.collect(), warm_up }
    }

    /// How many are due in a window. Windows are asked for in their order.
    pub fn in_window(&mut self, number: u64) -> Option<u64> {
        if self.due.is_empty() {
            return None;
        }
        let begin = self.warm_up + WINDOW * u32::try_from(number).unwrap_or(u32::MAX);
        let mut until = |end| {
            let mut count = 0;
            for due in &mut self.due {
                while due.next_if(|(_, at)| *at < end).is_some() {
                    count += 1;
                }
            }
            count
        };
        until(begin);
        Some(until(begin + WINDOW))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Offered;
    use crate::part::RunPart;
    use crate::schedule::{Arrivals, Schedule, Segment};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_window_is_offered_what_its_schedule_makes_due_in_it() {
        let ramp = Segment { from: 100.0, to: 300.0, duration: 2 * SECOND };
        let segments = vec![Segment::constant(100.0, SECOND), ramp];
        let schedule = Schedule::new(segments, Arrivals::Even).unwrap();
        let mut offered =
            Offered::new(std::iter::once((&schedule, RunPart::WHOLE)), SECOND * 3 / 2);
        let counts = [0, 1, 2, 3].map(|number| offered.in_window(number).unwrap());
        assert_eq!(counts, [100, 150, 250, 0]);
        let halves = [1, 2].map(|number| (&schedule, RunPart::new(number, 2).unwrap()));
        let mut both = Offered::new(halves.into_iter(), SECOND * 3 / 2);
        assert_eq!(both.in_window(1), Some(150));
        let mut half = Offered::new(halves.into_iter().take(1), SECOND * 3 / 2);
        assert_eq!(half.in_window(1), Some(75));
        assert_eq!(Offered::default().in_window(0), None);
    }
}
