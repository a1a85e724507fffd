//! By what a loop's sends are judged: an open loop has a schedule that they can be behind of, and
//! in a closed one the time of all connections is accounted for.

use std::time::{Duration, Instant};

use super::SentRequest;
use crate::engine::looks::Looks;
use crate::engine::pacing::Job;
use crate::lateness::{Behind, LATE, Lateness, behind};
use crate::little::Occupancy;
use crate::recorder::{Times, nanoseconds};
use crate::window::Timeline;

/// The account of a thread's sends.
#[derive(Debug)]
pub enum SendAccount {
    /// How far the sends of an open loop were behind schedule.
    Open(Lateness),
    /// What the connections of a closed loop did.
    Closed {
        /// Requests sent, of those that count.
        sends: u64,
        /// Nanoseconds from answers to sends.
        turnaround: Times,
        occupancy: Occupancy,
    },
}

/// What a send is behind schedule by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendDelay {
    /// What the injector had added to the request's latency.
    pub added: Duration,
    pub is_late: bool,
}

impl Default for SendAccount {
    fn default() -> Self {
        Self::Open(Lateness::default())
    }
}

impl SendAccount {
    /// An empty account of a closed loop.
    pub fn closed() -> Self {
        Self::Closed { sends: 0, turnaround: Times::new(), occupancy: Occupancy::default() }
    }

    /// When the latency of a request begins: a closed loop has no schedule, so there it does when
    /// the request is sent.
    pub fn latency_from(&self, sent: &SentRequest) -> Instant {
        match self {
            Self::Open(_) => sent.due,
            Self::Closed { .. } => sent.at,
        }
    }

    /// Counts a send. In a warm-up nothing is behind schedule.
    pub fn note_sent(
        &mut self,
        job: Job,
        at: Instant,
        timeline: &Timeline,
        looks: &Looks,
    ) -> SendDelay {
        let counts = job.due >= timeline.measured_from;
        match self {
            Self::Open(lateness) if counts => {
                let (behind, added) = behind_schedule(job, at, looks);
                lateness.note(behind);
                SendDelay { added, is_late: behind.late > LATE }
            }
            Self::Open(_) => SendDelay::default(),
            Self::Closed { sends, turnaround, occupancy } => {
                occupancy.turnarounds += timeline.clipped(job.free, at).as_nanos();
                if counts {
                    turnaround.note(nanoseconds(at.saturating_duration_since(job.free)));
                    *sends += 1;
                }
                SendDelay::default()
            }
        }
    }

    /// Counts a request that waited for a connection until the end.
    pub fn note_blocked(&mut self, wait: Duration) {
        if let Self::Open(lateness) = self {
            lateness.note_blocked(wait);
        }
    }

    /// Counts the time from a send to its answer, which counts within what is measured.
    pub fn note_answer(&mut self, sent: Instant, now: Instant, timeline: &Timeline) {
        if let Self::Closed { occupancy, .. } = self {
            occupancy.answers += timeline.clipped(sent, now).as_nanos();
        }
    }

    /// Counts a think time.
    pub fn note_thinking(&mut self, length: Duration) {
        if let Self::Closed { occupancy, .. } = self {
            occupancy.thinking += length.as_nanos();
        }
    }

    /// Counts a time in which a connection was not open.
    pub fn note_reopening(&mut self, length: Duration) {
        if let Self::Closed { occupancy, .. } = self {
            occupancy.reopening += length.as_nanos();
        }
    }

    /// Counts a time in which a connection had nothing more to send.
    pub fn note_idle(&mut self, length: Duration) {
        if let Self::Closed { occupancy, .. } = self {
            occupancy.idle += length.as_nanos();
        }
    }
}

/// How a send was behind schedule, and what of that the injector added to the request's latency.
/// While the thread stood still a connection may have been free, which it did not see: a wait that
/// lies within a pause is the injector's, all of it.
fn behind_schedule(job: Job, at: Instant, looks: &Looks) -> (Behind, Duration) {
    // No connection would have been free later, had the thread looked.
    let free = if looks.missed(job.due) { job.due } else { job.free };
    let mut behind = behind(job.due, free, at);
    let paused = looks.pauses.overlap(job.due, job.due + behind.blocked);
    if paused == behind.blocked {
        behind = Behind { blocked: Duration::ZERO, late: behind.late + paused };
    }
    (behind, behind.late + paused.min(behind.blocked))
}
