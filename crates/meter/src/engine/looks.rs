//! When a thread looked what was due. One that did not look for longer than it ever waits stood
//! still: it was stopped, or its machine was. What was due meanwhile is late by its doing, although
//! the answers that it reads when it goes on look as if the server had held every connection.

use std::time::{Duration, Instant};

use crate::window::Timeline;

/// How often a thread looks, whatever happens.
pub const TICK: Duration = Duration::from_millis(20);
/// So long after its tick a thread stood still.
const SLACK: Duration = Duration::from_millis(10);

/// When a thread looked.
#[derive(Debug, Clone, Copy)]
pub struct Looks {
    last: Instant,
    /// When it last stood still: it looked then, and then not until it woke.
    gap: Option<(Instant, Instant)>,
    /// How long it stood still for certain, of what is measured.
    pub stood: Duration,
}

impl Looks {
    /// Of a thread that begins then.
    pub fn new(begin: Instant) -> Self {
        Self { last: begin, gap: None, stood: Duration::ZERO }
    }

    /// The thread looks.
    pub fn note(&mut self, now: Instant, timeline: &Timeline) {
        if now.saturating_duration_since(self.last) > TICK + SLACK {
            self.gap = Some((self.last, now));
            self.stood += timeline.clipped(self.last + TICK, now);
        }
        self.last = self.last.max(now);
    }

    /// Whether the thread stood still when something became due.
    pub fn missed(&self, due: Instant) -> bool {
        self.gap.is_some_and(|(from, woke)| due > from && due < woke)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use super::Looks;
    use crate::window::Timeline;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn who_did_not_look_for_long_stood_still_and_missed_what_was_due() {
        let (now, second) = (Instant::now(), 1000 * MS);
        let run = Timeline::new(now, || SystemTime::UNIX_EPOCH, second, 2 * second);
        let at = |millis: u32| run.measured_from + millis * MS;
        let mut looks = Looks::new(run.begin);
        // What is before all that is measured does not count, and nor does a tick that comes late.
        looks.note(at(0), &run);
        assert!(looks.missed(at(0) - MS) && looks.stood.is_zero());
        for millis in [29, 58, 59] {
            looks.note(at(millis), &run);
        }
        assert!(looks.stood.is_zero() && !looks.missed(at(30)));
        looks.note(at(559), &run);
        assert_eq!(looks.stood, 480 * MS);
        let missed = [59, 60, 558, 559].map(|millis| looks.missed(at(millis)));
        assert_eq!(missed, [false, true, true, false]);
        // A busy thread looks all the time.
        for millis in 560..1500 {
            looks.note(at(millis), &run);
        }
        assert_eq!(looks.stood, 480 * MS);
        // Of what goes over the end only what is before it counts.
        looks.note(at(9000), &run);
        assert_eq!(looks.stood, 480 * MS + 481 * MS);
    }
}
