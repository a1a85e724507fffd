//! What the tasks of one thread share: who is next, which connection is free, and the records.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use super::collector::Window;
use super::looks::Looks;
use super::thread::Said;
use super::{Stop, WarmUp};
use crate::failure::{Errors, Owner};
use crate::injector::BusyTime;
use crate::lateness::{LATE, Lateness, behind};
use crate::little::Occupancy;
use crate::recorder::{Kind, Times, nanoseconds};
use crate::schedule::Due;
use crate::window::{Timeline, WINDOW};
use crate::workload::Workload;

/// A request that a connection is to send.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// Its number, which no other request of the run has.
    pub number: u64,
    /// When it was due; in a closed loop when its connection became free.
    pub due: Instant,
}

/// The numbers of requests of which there are only so many. Threads share them, so that none is
/// left when the first thread has no more.
#[derive(Debug, Clone)]
pub struct Last {
    pub next: Arc<AtomicU64>,
    pub requests: u64,
}

/// A request under way.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub number: u64,
    pub operation: usize,
    pub due: Instant,
    pub at: Instant,
}

/// What the thread knows of one connection.
#[derive(Debug)]
pub struct Slot {
    /// Since when it has been free.
    pub free: Instant,
    /// What it was given to send.
    pub job: Option<Job>,
    /// When the request under way was sent.
    pub sent: Option<Instant>,
    /// The request under way has taken too long, or the run does not wait for it.
    pub expired: bool,
    /// Wakes its task.
    pub waker: Option<Waker>,
}

/// What is next for the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing is due before then.
    At(Instant),
    /// Something is due, and no connection is free.
    Blocked,
    /// Nothing is due any more.
    Nothing,
}

/// One thread's state.
pub struct State<W> {
    pub workload: W,
    pub timeline: Timeline,
    /// Each connection sends as soon as it has its answer.
    pub closed: bool,
    /// What is due, of an open loop.
    pub due: Option<Peekable<Due>>,
    /// The number of a closed loop's next request, and how far it is from one to the next.
    pub number: u64,
    pub stride: u64,
    /// Connections that are open and idle; that which has been for longest is first.
    pub idle: VecDeque<usize>,
    pub slots: Vec<Slot>,
    /// Wakes who hands out what is due.
    pub pacer: Option<Waker>,
    /// Whether that waits for a connection to become free.
    pub blocked: bool,
    /// Nothing more is sent.
    pub over: bool,
    /// Where there are so many requests and no more: the next one's number, of all threads.
    pub last: Option<Last>,
    /// All of those are under way.
    pub used_up: bool,
    /// Connections that have nothing more to send.
    pub done: usize,
    pub stop: Stop,
    pub say: SyncSender<Said>,
    pub window: Window,
    pub window_number: u64,
    pub looks: Looks,
    pub busy: BusyTime,
    /// How long the thread was busy until the window began.
    pub busy_before: Duration,
    pub seen: Seen,
}

/// What a thread saw, besides its windows.
#[derive(Debug, Default)]
pub struct Seen {
    pub lateness: Lateness,
    pub turnaround: Times,
    pub occupancy: Occupancy,
    pub errors: Errors,
    pub reconnects: u64,
    /// Commands that were answered, of the requests that count.
    pub commands: u64,
    pub warm_up: WarmUp,
}

impl<W: Workload> State<W> {
    /// Whether a request counts, by when it was due.
    fn counts(&self, due: Instant) -> bool {
        due >= self.timeline.measured_from
    }

    fn peek(&mut self) -> Option<Job> {
        let (number, at) = *self.due.as_mut()?.peek()?;
        Some(Job { number, due: self.timeline.begin + at })
    }

    /// What a connection that is free now may send at once.
    pub fn take(&mut self, free: Instant) -> Option<Job> {
        if self.over {
            return None;
        }
        if self.closed {
            // Whoever stops it has nothing more sent, and not only from the next tick on.
            if free >= self.timeline.end || self.stop.is_asked() {
                return None;
            }
            return Some(Job { number: self.next_number()?, due: free });
        }
        // Others that have been free for longer are first.
        let job = self.peek().filter(|job| self.idle.is_empty() && job.due <= free)?;
        self.due.as_mut()?.next();
        Some(job)
    }

    /// The number of a closed loop's next request.
    fn next_number(&mut self) -> Option<u64> {
        let Some(last) = &self.last else {
            let number = self.number;
            self.number += self.stride;
            return Some(number);
        };
        let number = last.next.fetch_add(1, Ordering::Relaxed);
        self.used_up |= number >= last.requests;
        (number < last.requests).then_some(number)
    }

    /// A connection has nothing more to send.
    pub fn note_done(&mut self) {
        self.done += 1;
        if self.is_done() {
            self.wake_pacer();
        }
    }

    /// Everything there was to send has its answer.
    pub fn is_done(&self) -> bool {
        self.used_up && self.done == self.slots.len()
    }

    /// Whether what follows on an answer is not sent any more.
    pub fn is_over(&self, now: Instant) -> bool {
        self.over || (self.closed && now >= self.timeline.end)
    }

    /// Gives what is due to connections that are free.
    pub fn hand_out(&mut self, now: Instant) -> Next {
        self.looks.note(now, &self.timeline);
        loop {
            let Some(job) = self.peek() else { return Next::Nothing };
            if job.due > now {
                return Next::At(job.due);
            }
            let Some(at) = self.idle.pop_front() else { return Next::Blocked };
            if let Some(due) = &mut self.due {
                due.next();
            }
            self.slots[at].job = Some(job);
            self.wake(at);
        }
    }

    pub fn wake(&self, at: usize) {
        if let Some(waker) = &self.slots[at].waker {
            waker.wake_by_ref();
        }
    }

    /// Counts a send.
    pub fn note_sent(&mut self, at: usize, sent: Sent) {
        self.roll(sent.at);
        let free = self.slots[at].free;
        self.slots[at].sent = Some(sent.at);
        let counts = self.counts(sent.due);
        if self.timeline.window(sent.at).is_some() {
            self.window.sent += 1;
        }
        if self.closed {
            let turnaround = nanoseconds(sent.at.saturating_duration_since(free));
            self.seen.occupancy.turnarounds += self.timeline.clipped(free, sent.at).as_nanos();
            if counts {
                self.seen.turnaround.note(turnaround);
                self.seen.lateness.sends += 1;
            }
        } else if counts {
            // No connection would have been free later, had the thread looked.
            let free = if self.looks.missed(sent.due) { sent.due } else { free };
            let behind = behind(sent.due, free, sent.at);
            self.window.late += u64::from(behind.late > LATE);
            self.seen.lateness.note(behind);
        }
    }

    /// Counts a result. In a closed loop latency is from the send.
    pub fn note_result(&mut self, at: usize, sent: Sent, kind: Kind, now: Instant) {
        self.roll(now);
        self.slots[at].sent = None;
        self.slots[at].expired = false;
        let service = now.saturating_duration_since(sent.at);
        let latency = if self.closed { service } else { now.saturating_duration_since(sent.due) };
        if self.closed {
            self.seen.occupancy.answers += self.timeline.clipped(sent.at, now).as_nanos();
        }
        if self.counts(sent.due) {
            self.window.results.note(sent.operation, kind, latency, service);
        } else {
            self.seen.warm_up.requests += 1;
            self.seen.warm_up.failed += u64::from(kind != Kind::Succeeded);
        }
    }

    /// Counts the commands that an answer is of.
    pub fn note_commands(&mut self, sent: Sent, commands: u32) {
        if self.counts(sent.due) {
            self.seen.commands += u64::from(commands);
        }
    }

    /// Counts an error, unless it belongs to the warm-up.
    pub fn note_error(&mut self, owner: Owner, words: &str, now: Instant) {
        if self.counts(now) {
            self.seen.errors.note(owner, words);
        }
    }

    /// A connection has nothing to send now.
    pub fn rest(&mut self, at: usize) {
        self.idle.push_back(at);
        if self.blocked {
            self.wake_pacer();
        }
    }

    pub fn wake_pacer(&self) {
        if let Some(waker) = &self.pacer {
            waker.wake_by_ref();
        }
    }

    /// Remembers who is to be woken for a connection.
    pub fn listen(&mut self, at: usize, cx: &Context<'_>) {
        match &mut self.slots[at].waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }

    /// Hands on the windows that have ended. Whoever calls it has looked what is due, or does so
    /// at once.
    pub fn roll(&mut self, now: Instant) {
        self.looks.note(now, &self.timeline);
        let Some(number) = self.timeline.window(now) else { return };
        while self.window_number < number.min(self.timeline.whole_windows()) {
            self.hand_on();
        }
    }

    /// Hands on the window as it is.
    pub fn hand_on(&mut self) {
        let busy = self.busy.so_far();
        self.window.busy = busy.saturating_sub(self.busy_before).min(WINDOW);
        self.busy_before = busy;
        let window = std::mem::take(&mut self.window);
        // Whoever listens no longer needs no window.
        let _ = self.say.send(Said::Window(self.window_number, Box::new(window)));
        self.window_number += 1;
    }

    /// Gives up requests that have been under way for too long; all of them where nobody waits.
    pub fn expire(&mut self, now: Instant, timeout: Duration, all: bool) {
        for at in 0..self.slots.len() {
            let slot = &mut self.slots[at];
            let is_late = slot.sent.is_some_and(|sent| now.duration_since(sent) >= timeout);
            if is_late || all {
                slot.expired = true;
                self.wake(at);
            }
        }
    }

    /// Nothing more is sent from now on: what is due and waits for a connection counts at its age.
    pub fn end(&mut self, now: Instant) {
        self.looks.note(now, &self.timeline);
        self.over = true;
        self.timeline.end = self.timeline.end.min(now);
        let end = self.timeline.end;
        if self.is_done() {
            // Nothing of these times was lost: there was nothing to send.
            let idle = self.slots.iter().map(|slot| self.timeline.clipped(slot.free, end));
            self.seen.occupancy.idle += idle.map(|span| span.as_nanos()).sum::<u128>();
        }
        while let Some(job) = self.peek().filter(|job| job.due < end) {
            if let Some(due) = &mut self.due {
                due.next();
            }
            if self.counts(job.due) {
                let age = end.saturating_duration_since(job.due);
                if !self.looks.missed(job.due) {
                    self.seen.lateness.note_blocked(age);
                }
                let operation = self.workload.operation(job.number);
                self.window.results.note(operation, Kind::Unsent, age, Duration::ZERO);
            }
        }
        for at in 0..self.slots.len() {
            self.wake(at);
        }
    }
}
