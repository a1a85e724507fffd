//! What the tasks of one thread share: who is next, which connection is free, and the records.

use std::sync::mpsc::SyncSender;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use super::collector::Window;
use super::looks::Looks;
use super::pacing::{ConnectionStep, Job, PacerStep, Pacing, ThinkSpan};
use super::thread::Said;
use super::{Stop, WarmUp};
use crate::failure::{Errors, Owner};
use crate::injector::BusyTime;
use crate::lateness::{Behind, LATE, Lateness, behind};
use crate::ledger::{Fate, Ledger};
use crate::little::Occupancy;
use crate::recorder::{Figure, Kind, NEGLIGIBLE, Times, nanoseconds};
use crate::traffic::Traffic;
use crate::window::{Timeline, WINDOW};
use crate::workload::{Answer, Workload};

/// What a request failed of that the injector kept waiting until the end.
const KEPT_WAITING: &str = "not sent until the end, since the injector stood still";

/// A request under way.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub number: u64,
    pub operation: usize,
    pub due: Instant,
    pub at: Instant,
    /// What the injector had added to its latency until then.
    pub delayed: Duration,
}

/// What the thread knows of one connection.
#[derive(Debug)]
pub struct Slot {
    /// What it was given to send.
    pub job: Option<Job>,
    /// When the request under way was sent.
    pub sent: Option<Instant>,
    /// The request under way has taken too long, or the run does not wait for it.
    pub expired: bool,
    /// Wakes its task.
    pub waker: Option<Waker>,
}

/// One thread's state.
pub struct State<W> {
    pub workload: W,
    pub timeline: Timeline,
    pub pacing: Pacing,
    pub slots: Vec<Slot>,
    /// Wakes the pacer, which hands out what is due, and which wakes by itself at `alarm`.
    pub pacer: Option<Waker>,
    pub alarm: Instant,
    /// Nothing more is sent.
    pub over: bool,
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

    /// Decides what a connection does that has been free `since`.
    pub fn freed(&mut self, at: usize, since: Instant) -> ConnectionStep {
        if self.over {
            self.pacing.finish(at, since);
            return ConnectionStep::End;
        }
        // Whoever stops it has nothing more sent, and not only from the next tick on.
        let step = self.pacing.freed(at, since, self.stop.is_asked());
        if self.pacing.has_work_before(self.alarm) || self.pacing.is_used_up() {
            self.wake_pacer();
        }
        step
    }

    /// Whether what follows on an answer is not sent any more.
    pub fn is_over(&self, now: Instant) -> bool {
        self.over || self.pacing.is_past_end(now)
    }

    fn is_closed(&self) -> bool {
        matches!(self.pacing, Pacing::Closed(_))
    }

    fn note_thinking(&mut self, span: ThinkSpan) {
        self.seen.occupancy.thinking += self.timeline.clipped(span.since, span.until).as_nanos();
    }

    /// Takes back a connection that the server has closed while it waited.
    pub fn closed_idle(&mut self, at: usize, now: Instant) {
        if let Some(span) = self.pacing.withdraw(at, now) {
            self.note_thinking(span);
        }
    }

    /// Gives what is due to connections that are free; gives when more is due, if that is known.
    pub fn hand_out(&mut self, now: Instant) -> Option<Instant> {
        self.looks.note(now, &self.timeline);
        loop {
            match self.pacing.step(now) {
                PacerStep::Send { connection, job } => self.assign(connection, job),
                PacerStep::EndThinking { span, job } => {
                    self.note_thinking(span);
                    if let Some(job) = job {
                        self.assign(span.connection, job);
                    }
                }
                PacerStep::SleepUntil(due) => return Some(due),
                PacerStep::WaitForConnection | PacerStep::WaitForAnswer => return None,
            }
        }
    }

    fn assign(&mut self, at: usize, job: Job) {
        self.slots[at].job = Some(job);
        self.wake(at);
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

    /// Counts a send on a connection that has been free since then. Gives what the injector had
    /// added to its latency.
    pub fn note_sent(&mut self, at: usize, sent: Sent, free: Instant) -> Duration {
        self.roll(sent.at);
        self.slots[at].sent = Some(sent.at);
        let counts = self.counts(sent.due);
        if self.timeline.window(sent.at).is_some() {
            self.window.sent += 1;
        }
        if self.is_closed() {
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
            self.seen.lateness.note(behind);
            return behind.late + paused.min(behind.blocked);
        }
        Duration::ZERO
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
        let service = now.saturating_duration_since(sent.at);
        let paused = self.paused(sent.at, now);
        let is_closed = self.is_closed();
        let latency = if is_closed { service } else { now.saturating_duration_since(sent.due) };
        if is_closed {
            self.seen.occupancy.answers += self.timeline.clipped(sent.at, now).as_nanos();
        }
        if self.counts(sent.due) {
            let latency = Figure::delayed(latency, sent.delayed + paused);
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
        if let Pacing::Closed(closed) = &mut self.pacing {
            let occupancy = &mut self.seen.occupancy;
            for span in closed.stop_thinking(end) {
                occupancy.thinking += self.timeline.clipped(span.since, span.until).as_nanos();
            }
            if closed.is_used_up() {
                // Nothing of these times was lost: there was nothing to send.
                let idle = closed.finished().map(|since| self.timeline.clipped(since, end));
                occupancy.idle += idle.map(|span| span.as_nanos()).sum::<u128>();
            }
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
        while let Pacing::Open(open) = &mut self.pacing
            && let Some((number, due)) = open.take_unsent(end)
        {
            let age = end.saturating_duration_since(due);
            let figure = Figure::delayed(age, self.paused(due, end));
            let is_ours = *first.get_or_insert(figure.corrected <= NEGLIGIBLE);
            if !self.counts(due) {
                continue;
            }
            if !is_ours && !self.looks.missed(due) {
                self.seen.lateness.note_blocked(age);
            }
            let kind = if is_ours { Kind::Injector } else { Kind::Unsent };
            if is_ours {
                self.seen.errors.note(Owner::Injector, KEPT_WAITING);
            }
            let operation = self.first_operation + self.workload.operation(number);
            self.window.results.note_delayed(operation, kind, figure, None);
        }
    }
}
