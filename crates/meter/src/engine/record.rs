//! What one thread records of its requests: results by window, how its sends were behind schedule,
//! what its connections did, errors and bytes. What belongs to the warm-up is counted apart.

mod account;
mod windows;

use std::time::{Duration, Instant};

use super::WarmUp;
use super::looks::Looks;
use super::pacing::{Job, ThinkSpan};
use crate::calls::CallsByServer;
use crate::failure::{Errors, Owner};
use crate::ledger::{Fate, Ledger};
use crate::recorder::{Figure, Kind, NEGLIGIBLE};
use crate::traffic::Traffic;
use crate::window::Timeline;
use crate::workload::Answer;
pub use account::SendAccount;
pub use windows::Windows;

/// What a request failed of that the injector kept waiting until the end.
const KEPT_WAITING: &str = "not sent until the end, since the injector stood still";

/// A request under way.
#[derive(Debug, Clone, Copy)]
pub struct SentRequest {
    pub number: u64,
    pub operation: usize,
    pub due: Instant,
    pub at: Instant,
    /// What the injector had added to its latency until it was sent.
    delayed: Duration,
}

/// Sums over all windows of a thread.
#[derive(Debug, Default)]
pub struct ThreadTotals {
    pub errors: Errors,
    pub reconnects: u64,
    pub traffic: Traffic,
    pub calls: CallsByServer,
    /// When the last result came, since what counts began.
    pub last: Duration,
    /// Commands that were answered, of the requests that count.
    pub commands: u64,
    pub warm_up: WarmUp,
}

/// The record of one thread.
pub struct ThreadRecord {
    timeline: Timeline,
    looks: Looks,
    windows: Windows,
    sends: SendAccount,
    totals: ThreadTotals,
    ledger: Option<Ledger>,
}

/// What is handed on of a record when its thread ends.
pub struct RecordSums {
    /// How long requests were sent, of what counts.
    pub measured: Duration,
    pub sends: SendAccount,
    pub totals: ThreadTotals,
    /// How long the thread stood still, of what counts.
    pub stood: Duration,
}

impl ThreadRecord {
    pub fn new(
        timeline: Timeline,
        looks: Looks,
        windows: Windows,
        sends: SendAccount,
        ledger: Option<Ledger>,
    ) -> Self {
        Self { timeline, looks, windows, sends, totals: ThreadTotals::default(), ledger }
    }

    /// Whether a request counts, by when it was due.
    fn counts(&self, due: Instant) -> bool {
        due >= self.timeline.measured_from
    }

    /// Takes note that the thread looks what is due and what has come.
    pub fn look(&mut self, now: Instant) {
        self.looks.note(now, &self.timeline);
    }

    /// Takes note that the thread sleeps until then at most.
    pub fn expect(&mut self, alarm: Instant) {
        self.looks.expect(alarm);
    }

    /// Whether the thread stood still at that moment.
    pub fn missed(&self, at: Instant) -> bool {
        self.looks.missed(at)
    }

    /// Enters into the ledger what is known of a request from now on. A request that can't be
    /// entered must not be sent, and ends the run: nobody would know of it.
    pub fn enter(&mut self, number: u64, fate: Fate) -> bool {
        let Some(ledger) = &mut self.ledger else { return true };
        let Err(error) = ledger.note(number, fate) else { return true };
        let words = format!("the ledger could not be kept, which ends the run: {error}");
        self.totals.errors.note(Owner::Injector, &words);
        false
    }

    /// Counts a request as sent from now on, in the window of that moment.
    pub fn note_sent(&mut self, job: Job, operation: usize, at: Instant) -> SentRequest {
        self.roll(at);
        if self.timeline.window(at).is_some() {
            self.windows.open.sent += 1;
        }
        let delay = self.sends.note_sent(job, at, &self.timeline, &self.looks);
        self.windows.open.late += u64::from(delay.is_late);
        let Job { number, due, .. } = job;
        SentRequest { number, operation, due, at, delayed: delay.added }
    }

    /// Counts what came of a request, in the window in which that is known.
    pub fn note_result(&mut self, sent: SentRequest, kind: Kind, now: Instant) {
        self.roll(now);
        self.sends.note_answer(sent.at, now, &self.timeline);
        if !self.counts(sent.due) {
            self.totals.warm_up.requests += 1;
            self.totals.warm_up.failed += u64::from(kind != Kind::Succeeded);
            return;
        }
        let paused = self.looks.pauses.overlap(sent.at, now);
        let latency = now.saturating_duration_since(self.sends.latency_from(&sent));
        let latency = Figure::delayed(latency, sent.delayed + paused);
        let service = Figure::delayed(now.saturating_duration_since(sent.at), paused);
        let results = &mut self.windows.open.results;
        results.note_delayed(sent.operation, kind, latency, Some(service));
        self.totals.last = now.saturating_duration_since(self.timeline.measured_from);
    }

    /// Counts what an answer has.
    pub fn note_answer(&mut self, sent: SentRequest, answer: &Answer) {
        if self.counts(sent.due) {
            self.totals.commands += u64::from(answer.commands);
            self.totals.traffic.note_code(answer.code);
            if answer.kind != Kind::Succeeded {
                let traffic = self.windows.open.results.traffic_mut(sent.operation);
                traffic.note_failure(answer.kind, answer.code);
            }
        }
    }

    /// Counts the bytes that went out for a request and came in.
    pub fn note_bytes(&mut self, sent: SentRequest, out: usize, came: usize) {
        if self.counts(sent.due) {
            self.totals.traffic.sent += out as u64;
            self.totals.traffic.received += came as u64;
            let traffic = self.windows.open.results.traffic_mut(sent.operation);
            traffic.sent += out as u64;
            traffic.received += came as u64;
        }
    }

    /// Counts what came of a request for the server that had it.
    pub fn note_server(&mut self, sent: SentRequest, server: &str, kind: Kind) {
        if self.counts(sent.due) {
            self.totals.calls.note(server, kind != Kind::Succeeded);
        }
    }

    /// Counts an error, unless it belongs to the warm-up.
    pub fn note_error(&mut self, owner: Owner, words: &str, now: Instant) {
        if self.counts(now) {
            self.totals.errors.note(owner, words);
        }
    }

    /// Counts the think time of a connection.
    pub fn note_thinking(&mut self, span: ThinkSpan) {
        self.sends.note_thinking(self.timeline.clipped(span.since, span.until));
    }

    /// Counts how long a connection had nothing more to send, until the end.
    pub fn note_idle(&mut self, since: Instant) {
        self.sends.note_idle(self.timeline.clipped(since, self.timeline.end));
    }

    /// Counts how long a connection was not open, and whether it is open again.
    pub fn note_reopening(&mut self, closed: Instant, now: Instant, is_open: bool) {
        self.sends.note_reopening(self.timeline.clipped(closed, now));
        self.totals.reconnects += u64::from(is_open);
    }

    /// Counts a shared connection that was opened anew; its users note how long they waited.
    pub fn note_reconnect(&mut self) {
        self.totals.reconnects += 1;
    }

    /// Counts what waits for a connection at the end, by operation and when it was due, at its age.
    /// Where nothing waited before the thread's last pause, which went on until the end, that alone
    /// is why.
    pub fn note_unsent(&mut self, unsent: impl Iterator<Item = (usize, Instant)>, end: Instant) {
        let mut first = None;
        for (operation, due) in unsent {
            let age = end.saturating_duration_since(due);
            let figure = Figure::delayed(age, self.looks.pauses.overlap(due, end));
            let is_injectors = *first.get_or_insert(figure.corrected <= NEGLIGIBLE);
            if !self.counts(due) {
                continue;
            }
            let kind = if is_injectors {
                self.totals.errors.note(Owner::Injector, KEPT_WAITING);
                Kind::Injector
            } else {
                if !self.looks.missed(due) {
                    self.sends.note_blocked(age);
                }
                Kind::Unsent
            };
            self.windows.open.results.note_delayed(operation, kind, figure, None);
        }
    }

    /// Begins with what counts: how busy the thread was before is forgotten.
    pub fn begin_measuring(&mut self) {
        self.windows.begin_measuring();
    }

    /// When what is measured begins.
    pub fn measured_from(&self) -> Instant {
        self.timeline.measured_from
    }

    /// Ends what is measured, where that is before its time; gives the end.
    pub fn end(&mut self, now: Instant) -> Instant {
        self.look(now);
        self.timeline.end = self.timeline.end.min(now);
        self.timeline.end
    }

    /// Hands on the windows that have ended. Whoever calls it has looked what is due, or does so
    /// at once.
    pub fn roll(&mut self, now: Instant) {
        self.look(now);
        let Some(number) = self.timeline.window(now) else { return };
        self.hand_on_before(number.min(self.timeline.whole_windows()));
    }

    fn hand_on_before(&mut self, number: u64) {
        while self.windows.number < number {
            let span = self.timeline.span(self.windows.number);
            let paused = span.map(|(from, to)| self.looks.pauses.overlap(from, to));
            self.windows.hand_on(paused.unwrap_or_default());
        }
    }

    /// Hands on all windows, the part behind the last whole one too, and gives the sums.
    pub fn finish(&mut self) -> RecordSums {
        self.hand_on_before(self.timeline.whole_windows());
        self.windows.hand_on_rest();
        let measured = self.timeline.end.saturating_duration_since(self.timeline.measured_from);
        RecordSums {
            measured,
            sends: std::mem::take(&mut self.sends),
            totals: std::mem::take(&mut self.totals),
            stood: self.looks.stood,
        }
    }
}
