//! What the tasks of one thread share: who is next, which connection is free, and the records.

use std::collections::{BTreeSet, VecDeque};
use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use super::collector::Window;
use super::looks::Looks;
use super::thread::Said;
use super::{Stop, Think, WarmUp};
use crate::chance::Chance;
use crate::failure::{Errors, Owner};
use crate::injector::BusyTime;
use crate::lateness::{Behind, LATE, Lateness, behind};
use crate::ledger::{Fate, Ledger};
use crate::little::Occupancy;
use crate::recorder::{Figure, Kind, NEGLIGIBLE, Times, nanoseconds};
use crate::schedule::Due;
use crate::traffic::Traffic;
use crate::window::{Timeline, WINDOW};
use crate::workload::{Answer, Workload};

/// What a request failed of that the injector kept waiting until the end.
const KEPT_WAITING: &str = "not sent until the end, since the injector stood still";

/// What is behind schedule by so much is sent by whichever connection is at hand.
const OVERDUE: Duration = Duration::from_micros(250);

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
    /// What the injector had added to its latency until then.
    pub delayed: Duration,
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
    pub ledger: Option<Ledger>,
    /// How long connections of a closed loop wait before a request.
    pub think: Option<Think>,
    /// Those that do, by when they have done so; what they draw.
    pub thinking: BTreeSet<(Instant, usize)>,
    pub chance: Chance,
    /// The number of the workload's first operation, among those of all loads.
    pub first_operation: usize,
}

/// What a thread saw, besides its windows.
#[derive(Debug, Default)]
pub struct Seen {
    pub lateness: Lateness,
    pub turnaround: Times,
    pub occupancy: Occupancy,
    pub errors: Errors,
    pub reconnects: u64,
    pub traffic: Traffic,
    /// When the last result came, since what counts began.
    pub last: Duration,
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

    /// What a connection that has become free may send at once.
    pub fn take(&mut self, at: usize) -> Option<Job> {
        let free = self.slots[at].free;
        if self.over {
            return None;
        }
        if self.closed {
            // Whoever stops it has nothing more sent, and not only from the next tick on.
            let is_over = free >= self.timeline.end || self.stop.is_asked();
            return if is_over || self.think.is_some() { None } else { self.next_of_loop(free) };
        }
        let first = self.idle.front().map(|first| self.slots[*first].free);
        // Others that have been free for longer are first, unless their tasks are kept from their
        // turn by many answers that came at once.
        let patience = if first.is_some() { OVERDUE } else { Duration::ZERO };
        let job = self.peek().filter(|job| job.due + patience <= free)?;
        self.due.as_mut()?.next();
        // It stands in for the first of them: what the send is late by is the injector's.
        self.slots[at].free = first.unwrap_or(free);
        Some(job)
    }

    /// A closed loop's next request; nothing where there is none left.
    fn next_of_loop(&mut self, due: Instant) -> Option<Job> {
        let Some(last) = &self.last else {
            let number = self.number;
            self.number += self.stride;
            return Some(Job { number, due });
        };
        let number = last.next.fetch_add(1, Ordering::Relaxed);
        self.used_up |= number >= last.requests;
        (number < last.requests).then_some(Job { number, due })
    }

    /// A connection of a closed loop that is free begins to think. The first time users are
    /// somewhere in the middle of it, so that they do not go in step.
    pub fn think(&mut self, at: usize) {
        let Some(think) = self.think else { return };
        let free = self.slots[at].free;
        let mut span = think.draw(&mut self.chance);
        if free <= self.timeline.begin {
            span = span.mul_f64(self.chance.share());
        }
        let ready = free + span;
        let is_first = self.thinking.first().is_none_or(|(first, _)| ready < *first);
        self.thinking.insert((ready, at));
        if is_first {
            self.wake_pacer();
        }
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

    /// A connection thinks no longer: it has come to the end of it, or its connection has closed.
    fn thought(&mut self, at: usize, until: Instant) {
        let free = self.slots[at].free;
        self.seen.occupancy.thinking += self.timeline.clipped(free, until).as_nanos();
        self.slots[at].free = until.max(free);
    }

    /// A connection has closed while it had nothing to send.
    pub fn closed_idle(&mut self, at: usize, now: Instant) {
        self.idle.retain(|other| *other != at);
        let thinking = self.thinking.len();
        self.thinking.retain(|(_, other)| *other != at);
        if self.thinking.len() < thinking {
            self.thought(at, now);
        }
        self.slots[at].free = now;
    }

    /// Has connections send that have thought for long enough.
    fn hand_out_thought(&mut self, now: Instant) -> Next {
        self.looks.note(now, &self.timeline);
        while let Some((ready, at)) = self.thinking.first().copied() {
            if ready > now {
                return Next::At(ready);
            }
            self.thinking.pop_first();
            self.thought(at, ready);
            self.slots[at].job = self.next_of_loop(ready);
            match self.slots[at].job {
                Some(_) => self.wake(at),
                None => self.note_done(),
            }
        }
        Next::Nothing
    }

    /// Gives what is due to connections that are free.
    pub fn hand_out(&mut self, now: Instant) -> Next {
        if self.closed {
            return self.hand_out_thought(now);
        }
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

    /// Enters into the ledger what is known of a request from now on. One that can't be entered is
    /// not sent, and ends the run: nobody would know of it.
    pub fn enter(&mut self, number: u64, fate: Fate) -> bool {
        let Some(ledger) = &mut self.ledger else { return true };
        let Err(error) = ledger.note(number, fate) else { return true };
        let words = format!("the ledger could not be kept, which ends the run: {error}");
        self.seen.errors.note(Owner::Injector, &words);
        self.stop.ask();
        false
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
            let mut behind = behind(sent.due, free, sent.at);
            let paused = self.looks.pauses.overlap(sent.due, sent.due + behind.blocked);
            if paused == behind.blocked {
                behind = Behind { blocked: Duration::ZERO, late: behind.late + paused };
            }
            self.window.late += u64::from(behind.late > LATE);
            self.slots[at].delayed = behind.late + paused.min(behind.blocked);
            self.seen.lateness.note(behind);
        }
    }

    /// Whether the thread stood still at that moment.
    pub fn missed(&self, due: Instant) -> bool {
        self.looks.missed(due)
    }

    /// How much of the time since then the thread's pauses took up.
    fn paused(&self, from: Instant, now: Instant) -> Duration {
        self.looks.pauses.overlap(from, now)
    }

    /// Counts a result. In a closed loop latency is from the send.
    pub fn note_result(&mut self, at: usize, sent: Sent, kind: Kind, now: Instant) {
        self.roll(now);
        self.slots[at].sent = None;
        self.slots[at].expired = false;
        let delayed = std::mem::take(&mut self.slots[at].delayed);
        let service = now.saturating_duration_since(sent.at);
        let paused = self.paused(sent.at, now);
        let latency = if self.closed { service } else { now.saturating_duration_since(sent.due) };
        if self.closed {
            self.seen.occupancy.answers += self.timeline.clipped(sent.at, now).as_nanos();
        }
        if self.counts(sent.due) {
            let latency = Figure::delayed(latency, delayed + paused);
            let service = Figure::delayed(service, paused);
            self.window.results.note_delayed(sent.operation, kind, latency, Some(service));
            self.seen.last = now.saturating_duration_since(self.timeline.measured_from);
        } else {
            self.seen.warm_up.requests += 1;
            self.seen.warm_up.failed += u64::from(kind != Kind::Succeeded);
        }
    }

    /// Counts what an answer has.
    pub fn note_answer(&mut self, sent: Sent, answer: &Answer) {
        if self.counts(sent.due) {
            self.seen.commands += u64::from(answer.commands);
            self.seen.traffic.note_code(answer.code);
        }
    }

    /// Counts the bytes that went out for a request and came in.
    pub fn note_bytes(&mut self, sent: Sent, out: usize, came: usize) {
        if self.counts(sent.due) {
            self.seen.traffic.sent += out as u64;
            self.seen.traffic.received += came as u64;
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
        if let Some((from, to)) = self.timeline.span(self.window_number) {
            self.window.results.paused = self.looks.pauses.overlap(from, to);
        }
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
        for (_, at) in std::mem::take(&mut self.thinking) {
            self.thought(at, end);
        }
        if self.is_done() {
            // Nothing of these times was lost: there was nothing to send.
            let idle = self.slots.iter().map(|slot| self.timeline.clipped(slot.free, end));
            self.seen.occupancy.idle += idle.map(|span| span.as_nanos()).sum::<u128>();
        }
        self.leave_unsent(end);
        for at in 0..self.slots.len() {
            self.wake(at);
        }
    }

    /// What waits for a connection at the end counts at its age. Where nothing waited before the
    /// thread's last pause, which went on until the end, that alone is why.
    fn leave_unsent(&mut self, end: Instant) {
        let mut first = None;
        while let Some(job) = self.peek().filter(|job| job.due < end) {
            if let Some(due) = &mut self.due {
                due.next();
            }
            let age = end.saturating_duration_since(job.due);
            let figure = Figure::delayed(age, self.paused(job.due, end));
            let is_ours = *first.get_or_insert(figure.corrected <= NEGLIGIBLE);
            if !self.counts(job.due) {
                continue;
            }
            if !is_ours && !self.looks.missed(job.due) {
                self.seen.lateness.note_blocked(age);
            }
            let kind = if is_ours { Kind::Injector } else { Kind::Unsent };
            if is_ours {
                self.seen.errors.note(Owner::Injector, KEPT_WAITING);
            }
            let operation = self.first_operation + self.workload.operation(job.number);
            self.window.results.note_delayed(operation, kind, figure, None);
        }
    }
}
