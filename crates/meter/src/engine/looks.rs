//! When a thread looked what was due and what had come, and when it should have and did not: its
//! pauses. What was due meanwhile is late by its doing, although the answers that it reads when it
//! goes on look as if the server had held every connection; and those answers are no slower for
//! having lain there.

use std::time::{Duration, Instant};

use super::pauses::Pauses;
use crate::injector::{BusyTime, ThreadClock};
use crate::window::Timeline;

/// How often a thread looks after what nothing wakes it for.
pub const TICK: Duration = Duration::from_millis(20);
/// So long after its tick a thread stood still.
const SLACK: Duration = Duration::from_millis(10);
/// How long it sleeps at most, so that its pauses are known to that.
pub const SLEEP_MAX: Duration = Duration::from_millis(5);
/// What no figure shows: a thread that looks within that is not asked what it did.
const BRIEF: Duration = Duration::from_micros(200);
/// A thread that never sleeps is asked so often.
const ASKED: Duration = Duration::from_millis(1);
/// A shorter pause is none.
const SHORTEST: Duration = Duration::from_micros(100);

/// When a thread looked, and when it paused.
#[derive(Debug)]
pub struct Looks {
    last: Instant,
    /// How often it had slept until then.
    sleeps: u64,
    /// When it is to wake at the latest.
    alarm: Instant,
    asked: Instant,
    busy: BusyTime,
    clock: ThreadClock,
    /// When it last stood still: it looked then, and then not until it woke.
    gap: Option<(Instant, Instant)>,
    /// How long it stood still for certain, of what is measured.
    pub stood: Duration,
    /// All of its pauses.
    pub pauses: Pauses,
}

impl Looks {
    /// Of the calling thread, which begins then.
    pub fn new(begin: Instant, busy: BusyTime) -> Self {
        Self {
            last: begin,
            sleeps: busy.sleeps(),
            alarm: begin,
            asked: begin,
            busy,
            clock: ThreadClock::of_this_thread(),
            gap: None,
            stood: Duration::ZERO,
            pauses: Pauses::default(),
        }
    }

    /// The thread is to wake then, if nothing wakes it before.
    pub fn expect(&mut self, alarm: Instant) {
        self.alarm = alarm;
    }

    /// Takes note that the thread looks what is due and what has come.
    pub fn note(&mut self, now: Instant, timeline: &Timeline) {
        let gap = now.saturating_duration_since(self.last);
        if gap > BRIEF || now.saturating_duration_since(self.asked) > ASKED {
            self.look_back(now);
        }
        if gap > TICK + SLACK {
            self.gap = Some((self.last, now));
            self.stood += timeline.clipped(self.last + TICK, now);
        }
        self.last = self.last.max(now);
        self.sleeps = self.busy.sleeps();
    }

    /// Asks what the thread did since it last looked.
    fn look_back(&mut self, now: Instant) {
        let (waited, on_cpu) = self.clock.since();
        let slept = match self.busy.sleeps() - self.sleeps {
            0 => None,
            1 => Some(self.busy.slept()),
            // It slept several times. What lay between is not known.
            _ => Some((self.last, self.busy.slept().1)),
        };
        let since = Since { last: self.last, slept, alarm: self.alarm, now, waited, on_cpu };
        if let Some(begun) = since.pause() {
            self.pauses.add(begun, now);
        }
        self.asked = now;
    }

    /// Whether the thread stood still when something became due.
    pub fn missed(&self, due: Instant) -> bool {
        self.gap.is_some_and(|(from, woke)| due > from && due < woke)
    }
}

/// What a thread did since it last looked.
#[derive(Debug, Clone, Copy)]
struct Since {
    last: Instant,
    /// When it went to sleep, and when it woke.
    slept: Option<(Instant, Instant)>,
    /// When it was to wake at the latest.
    alarm: Instant,
    now: Instant,
    /// How long it waited for a CPU, and how long it had one: of what is behind `last` at most.
    waited: Duration,
    on_cpu: Duration,
}

impl Since {
    /// When a pause began that ends now, if there was one. It waited for a CPU; or it was awake
    /// and had none, as one that is stopped, or that waits for a disk or a lock; or it woke later
    /// than its alarm. What it did with a CPU is work and no pause.
    fn pause(&self) -> Option<Instant> {
        let Self { last, slept, alarm, now, waited, on_cpu } = *self;
        let (slept_at, woke) = slept.unwrap_or((now, now));
        let awake = slept_at.saturating_duration_since(last) + now.saturating_duration_since(woke);
        let held = waited.max(awake.saturating_sub(on_cpu));
        let mut begun = now.checked_sub(held).unwrap_or(last);
        if slept.is_some() && woke > alarm + BRIEF {
            begun = begun.min(alarm);
        }
        let begun = begun.max(last);
        (now.saturating_duration_since(begun) >= SHORTEST).then_some(begun)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use super::{Looks, Since};
    use crate::injector::BusyTime;
    use crate::window::Timeline;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn who_did_not_look_for_long_stood_still_and_missed_what_was_due() {
        let (now, second) = (Instant::now(), 1000 * MS);
        let run = Timeline::new(now, || SystemTime::UNIX_EPOCH, second, 2 * second);
        let at = |millis: u32| run.measured_from + millis * MS;
        let mut looks = Looks::new(run.begin, BusyTime::default());
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
        // Awake and without a CPU: all of it is a pause.
        assert!(looks.pauses.overlap(at(59), at(559)) >= 490 * MS);
        // A busy thread looks all the time.
        for millis in 560..1500 {
            looks.note(at(millis), &run);
        }
        assert_eq!(looks.stood, 480 * MS);
        // Of what goes over the end only what is before it counts.
        looks.note(at(9000), &run);
        assert_eq!(looks.stood, 480 * MS + 481 * MS);
    }

    #[test]
    fn a_pause_is_time_without_a_cpu_or_behind_the_alarm_and_never_work_or_sleep() {
        let last = Instant::now();
        let at = |millis: u32| last + millis * MS;
        let quiet = Since {
            last,
            slept: None,
            alarm: at(5),
            now: at(4),
            waited: Duration::ZERO,
            on_cpu: 4 * MS,
        };
        let slept =
            |from, to| Since { slept: Some((at(from), at(to))), on_cpu: Duration::ZERO, ..quiet };
        for (words, since, begun) in [
            ("it worked", quiet, None),
            ("it slept until an answer came", slept(0, 4), None),
            ("its alarm rang", Since { now: at(5), ..slept(0, 5) }, None),
            ("its alarm rang and it came late", Since { now: at(9), ..slept(0, 9) }, Some(5)),
            ("it came late twice", Since { alarm: last - MS, now: at(2), ..slept(0, 2) }, Some(0)),
            ("it waited for a CPU", Since { waited: 3 * MS, ..slept(0, 4) }, Some(1)),
            ("it waited longer before", Since { waited: 9 * MS, ..slept(0, 4) }, Some(0)),
            ("it was stopped while it worked", Since { on_cpu: MS, ..quiet }, Some(1)),
            ("it waited for a disk, then slept", Since { now: at(4), ..slept(3, 4) }, Some(1)),
            ("it slept, then was stopped", Since { now: at(9), ..slept(1, 4) }, Some(3)),
        ] {
            assert_eq!(since.pause(), begun.map(at), "{words}");
        }
    }
}
