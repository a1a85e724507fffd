//! Finding the points that a backend refuses among those it takes. Pure: no clock, no socket.
//!
//! A refused part is sent again in halves, first half first, so that the good points arrive in
//! their order and each bad one ends alone. With `k` bad points among `n` that takes about
//! `2 k log2 n` sends.
//!
//! Two things make it quicker and surer:
//! - **Suspects.** Where the backend's words tell which points they mean, those are sent alone as
//!   a *probe*. If the backend drops all of them, the rest goes out whole. If not, the guess was
//!   wrong and everything is sent again in its order, so that the order is right in the end.
//! - **Canary.** A failure (5xx, timeout, reset) may be the backend's fault or a point's. A point
//!   that fails alone is poison only if the backend accepts another series beside it, and that not
//!   once but [`ROUNDS`] times in turn. A backend that fails at everything never makes poison.

/// Failures of a batch after which it is halved; its halves have failed once already.
pub const FAILURES_BEFORE_HALVING: u8 = 2;
/// How often a point has to fail while another series is accepted before it counts as poison. A
/// backend that fails at random at half of all requests would reach it once in 65,536 points.
pub const ROUNDS: u8 = 8;

/// What to send next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// These points, by their index in the batch.
    Send(&'a [u32]),
    /// One point of another series than this one's.
    Canary {
        /// The point that failed alone.
        beside: u32,
    },
    /// Every point is delivered or poison.
    Finished,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every point is stored (a 2xx).
    Accepted,
    /// At least one point can never be stored.
    Refused {
        /// Why, in the backend's words.
        words: String,
        /// Whether it dropped every point of the part.
        all: bool,
        /// The points it seems to mean; empty where its words do not tell.
        suspects: Vec<u32>,
    },
    /// The part is too large, in the backend's words.
    TooLarge(String),
    /// The backend failed, in its words; the points may be the cause.
    Failed(String),
    /// The backend failed for a reason that lies in itself, though a smaller part may help.
    Overloaded,
    /// There is no other series to send as a canary.
    NoCanary,
}

/// A point that this backend can never store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poison {
    /// Its index in the batch.
    pub point: u32,
    /// Why, in the backend's words.
    pub words: String,
}

#[derive(Debug)]
struct BatchPart {
    points: Vec<u32>,
    /// Failures in a row; for a single point, since its last canary.
    failures: u8,
    /// Times a canary was accepted after this single point had failed.
    rounds: u8,
    /// The words of the last failure, while a canary is due.
    canary: Option<String>,
    /// For a probe: all points it was taken from. The next part on the stack holds the others.
    whole: Option<Vec<u32>>,
    /// Whether a guess about this part has been wrong already.
    guessed: bool,
    /// Whether it has been sent before.
    sent: bool,
}

impl BatchPart {
    fn of(points: Vec<u32>, guessed: bool) -> Self {
        Self { points, failures: 0, rounds: 0, canary: None, whole: None, guessed, sent: false }
    }
}

/// The state of one batch on its way to one backend.
#[derive(Debug)]
pub struct Halving {
    /// What is still to be settled; the last part goes first.
    parts: Vec<BatchPart>,
    delivered: u64,
}

impl Halving {
    /// A batch of `points` points, none of them settled.
    pub fn new(points: u32) -> Self {
        let parts = if points == 0 {
            Vec::new()
        } else {
            vec![BatchPart::of((0..points).collect(), false)]
        };
        Self { parts, delivered: 0 }
    }

    /// What to send next.
    pub fn step(&self) -> Step<'_> {
        match self.parts.last() {
            None => Step::Finished,
            Some(part) if part.canary.is_some() => Step::Canary { beside: part.points[0] },
            Some(part) => Step::Send(&part.points),
        }
    }

    /// Whether the part to send is another one than the last: the search goes on, which is no
    /// reason to wait longer than after a first failure.
    pub fn is_fresh(&self) -> bool {
        self.parts.last().is_some_and(|part| !part.sent)
    }

    /// Points delivered so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Takes what came of the last step; gives the points that turned out to be poison, which
    /// have to be kept before anything else happens.
    pub fn settle(&mut self, outcome: Outcome) -> Vec<Poison> {
        let Some(part) = self.parts.pop() else { return Vec::new() };
        if let Some(words) = part.canary.clone() {
            return self.settle_canary(part, &outcome, words);
        }
        match outcome {
            Outcome::Accepted => self.accepted(part),
            Outcome::Refused { words, all: true, .. } => return poison(&part.points, &words),
            Outcome::Refused { words, .. } | Outcome::TooLarge(words) if part.points.len() == 1 => {
                return poison(&part.points, &words);
            }
            Outcome::Refused { suspects, .. } => self.refused(part, &suspects),
            Outcome::TooLarge(_) => self.split(part),
            Outcome::Failed(words) => self.failed(part, Some(words)),
            Outcome::Overloaded => self.failed(part, None),
            Outcome::NoCanary => self.parts.push(part),
        }
        Vec::new()
    }

    fn accepted(&mut self, part: BatchPart) {
        let Some(whole) = part.whole else {
            self.delivered += part.points.len() as u64;
            return;
        };
        self.guessed_wrong(whole);
    }

    /// Puts everything a probe was taken from back in its order.
    fn guessed_wrong(&mut self, whole: Vec<u32>) {
        self.parts.pop();
        self.split(BatchPart::of(whole, true));
    }

    fn refused(&mut self, part: BatchPart, suspects: &[u32]) {
        if let Some(whole) = part.whole {
            return self.guessed_wrong(whole);
        }
        let (probe, rest): (Vec<u32>, Vec<u32>) =
            part.points.iter().partition(|point| suspects.binary_search(point).is_ok());
        if part.guessed || probe.is_empty() || rest.is_empty() {
            return self.split(part);
        }
        self.parts.push(BatchPart::of(rest, false));
        self.parts.push(BatchPart { whole: Some(part.points), ..BatchPart::of(probe, true) });
    }

    fn split(&mut self, mut part: BatchPart) {
        if let Some(whole) = part.whole.take() {
            return self.guessed_wrong(whole);
        }
        let failures = part.failures.min(FAILURES_BEFORE_HALVING - 1);
        let second = part.points.split_off(part.points.len() / 2);
        for points in [second, part.points] {
            if !points.is_empty() {
                self.parts.push(BatchPart { failures, ..BatchPart::of(points, part.guessed) });
            }
        }
    }

    /// `words` where the points may be to blame.
    fn failed(&mut self, mut part: BatchPart, words: Option<String>) {
        part.failures = part.failures.saturating_add(1);
        part.sent = true;
        if part.points.len() == 1 {
            let due = part.failures >= FAILURES_BEFORE_HALVING || part.rounds > 0;
            part.canary = words.filter(|_| due);
            self.parts.push(part);
        } else if part.failures >= FAILURES_BEFORE_HALVING {
            self.split(part);
        } else {
            self.parts.push(part);
        }
    }

    fn settle_canary(
        &mut self,
        mut part: BatchPart,
        outcome: &Outcome,
        words: String,
    ) -> Vec<Poison> {
        part.canary = None;
        match outcome {
            Outcome::Accepted => part.rounds = part.rounds.saturating_add(1),
            // The backend does not take the other series either: the point is not to blame.
            Outcome::Failed(_) | Outcome::Overloaded => part.rounds = 0,
            // The canary is poison itself, which tells nothing.
            Outcome::NoCanary | Outcome::Refused { .. } | Outcome::TooLarge(_) => {}
        }
        if part.rounds < ROUNDS {
            self.parts.push(part);
            return Vec::new();
        }
        if let Some(whole) = part.whole {
            self.guessed_wrong(whole);
            return Vec::new();
        }
        poison(&part.points, &words)
    }
}

fn poison(points: &[u32], words: &str) -> Vec<Poison> {
    points.iter().map(|&point| Poison { point, words: words.to_owned() }).collect()
}

#[cfg(test)]
#[path = "halving_tests.rs"]
mod tests;
