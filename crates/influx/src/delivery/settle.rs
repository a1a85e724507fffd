//! Settling one piece: every point of it ends as delivered or as a dead letter, in order.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};

use super::batch::{Batch, Piece, Point};
use super::dead_letters::{DeadLetters, LetterError};
use super::halving::{Halving, Outcome, Poison, Step};
use super::intake::{CanaryPoint, Intake};
use super::letter::{Id, Letter};
use super::sender::{Interrupted, Sender, Verdict};
use super::suspects::suspects;
use crate::catalogue::Lookup;
use crate::client::answer::Refusal;

/// Points of the same batch that are tried as canaries.
const CANARIES_MAX: usize = 16;
/// How long is waited for new points to find a canary among.
const CANARY_PATIENCE: Duration = Duration::from_millis(100);

/// What became of a piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settled {
    /// Points the backend has stored.
    pub delivered: u64,
    /// Points in the dead letters, synced.
    pub dead: u64,
}

/// What lies beside a piece in its batch.
#[derive(Debug, Default)]
pub struct Beside {
    /// The lines that the backend accepted last; nothing has overwritten them since.
    pub accepted: Bytes,
    /// The lines of the pieces that follow.
    pub behind: Bytes,
}

/// The points that may prove that the backend accepts others than the one that fails.
#[derive(Debug, Default)]
struct Canaries {
    beside: Option<u32>,
    found: Vec<CanaryPoint>,
    /// The one in use; it stays while it is accepted.
    next: usize,
}

/// A piece that was not simply accepted.
struct Trouble<'a> {
    batch: &'a Batch,
    piece: &'a Piece,
    points: Vec<Point>,
    halving: Halving,
    canaries: Canaries,
    around: &'a mut Beside,
    dead: u64,
}

/// Delivers a piece whole if the backend takes it, else point by point as far as needed.
///
/// # Errors
/// When the delivery is to end before everything is settled.
pub async fn settle(
    sender: &mut Sender,
    letters: &Arc<Mutex<DeadLetters>>,
    intake: &mut Intake,
    batch: &Batch,
    piece: &Piece,
    around: &mut Beside,
) -> Result<Settled, Interrupted> {
    let verdict = sender.send(&batch.db, &batch.rp, &piece.body, piece.points).await?;
    if verdict == Verdict::Accepted {
        sender.sizing.accepted();
        around.accepted = piece.body.clone();
        return Ok(Settled { delivered: piece.points, dead: 0 });
    }
    let points = batch.points_of(piece);
    let count = u32::try_from(points.len()).unwrap_or(u32::MAX);
    let mut trouble = Trouble {
        batch,
        piece,
        points,
        halving: Halving::new(count),
        canaries: Canaries::default(),
        around,
        dead: 0,
    };
    trouble.settle(verdict, sender, letters).await?;
    loop {
        let verdict = match trouble.halving.step() {
            Step::Finished => break,
            Step::Send(_) => {
                if trouble.halving.is_fresh() {
                    sender.at_ease();
                }
                trouble.send_part(sender).await?
            }
            Step::Canary { beside } => {
                let outcome = trouble.canary(beside, sender, intake).await?;
                trouble.keep(outcome, sender, letters).await?;
                continue;
            }
        };
        trouble.settle(verdict, sender, letters).await?;
    }
    Ok(Settled { delivered: piece.points.saturating_sub(trouble.dead), dead: trouble.dead })
}

impl Trouble<'_> {
    fn part(&self) -> &[u32] {
        match self.halving.step() {
            Step::Send(part) => part,
            Step::Canary { .. } | Step::Finished => &[],
        }
    }

    fn line(&self, point: u32) -> &[u8] {
        let point = self.points.get(point as usize);
        point.map(|point| &self.piece.body[point.range()]).unwrap_or_default()
    }

    /// The lines of the part: a slice where they are all of a run, else a copy.
    fn body(&self) -> Bytes {
        let part = self.part();
        let (Some(&first), Some(&last)) = (part.first(), part.last()) else { return Bytes::new() };
        if (last - first) as usize == part.len() - 1 {
            let (first, last) = (&self.points[first as usize], &self.points[last as usize]);
            return self.piece.body.slice(first.offset..last.offset + last.len);
        }
        let mut body = BytesMut::new();
        for point in part {
            body.extend_from_slice(self.line(*point));
        }
        body.freeze()
    }

    async fn send_part(&mut self, sender: &mut Sender) -> Result<Verdict, Interrupted> {
        let (body, points) = (self.body(), self.part().len() as u64);
        let verdict = sender.send(&self.batch.db, &self.batch.rp, &body, points).await?;
        if verdict == Verdict::Accepted {
            self.around.accepted = body;
        }
        Ok(verdict)
    }

    async fn settle(
        &mut self,
        verdict: Verdict,
        sender: &mut Sender,
        letters: &Arc<Mutex<DeadLetters>>,
    ) -> Result<(), Interrupted> {
        let outcome = match verdict {
            Verdict::Accepted => Outcome::Accepted,
            Verdict::Refused(refusal) => self.refused(refusal),
            Verdict::TooLarge(words) => Outcome::TooLarge(words),
            Verdict::Failed(words) => Outcome::Failed(words),
            Verdict::Overloaded => Outcome::Overloaded,
        };
        self.keep(outcome, sender, letters).await
    }

    fn refused(&self, refusal: Refusal) -> Outcome {
        let part = self.part();
        let all = refusal.dropped == Some(part.len() as u64);
        let lines: Vec<&[u8]> = part.iter().map(|point| self.line(*point)).collect();
        let places = if all { Vec::new() } else { suspects(&refusal, &lines) };
        let suspects = places.iter().filter_map(|place| part.get(*place as usize).copied());
        Outcome::Refused { words: refusal.words, all, suspects: suspects.collect() }
    }

    /// Tells the halving, and keeps what turned out to be poison before anything else happens.
    async fn keep(
        &mut self,
        outcome: Outcome,
        sender: &mut Sender,
        letters: &Arc<Mutex<DeadLetters>>,
    ) -> Result<(), Interrupted> {
        let poison = self.halving.settle(outcome);
        if poison.is_empty() {
            return Ok(());
        }
        let dead: Vec<Letter> = poison.iter().filter_map(|poison| self.letter(poison)).collect();
        self.dead += dead.len() as u64;
        sender.instruments.dead_letters.add(dead.len() as u64);
        if let Some(first) = dead.first() {
            let (backend, count) = (sender.backend.name(), dead.len());
            tracing::warn!(backend, count, db = first.db, reason = first.reason, "dead letters");
        }
        if let Some(last) = dead.last() {
            sender.backend.standing().refused(&last.reason);
        }
        append(sender, letters, dead).await
    }

    fn letter(&self, poison: &Poison) -> Option<Letter> {
        let point = self.points.get(poison.point as usize)?;
        let line = self.line(poison.point);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(Letter {
            id: Id { position: point.position.0, index: point.index },
            time_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
            db: self.batch.db.clone(),
            rp: self.batch.rp.clone(),
            reason: poison.words.clone(),
            line: line.strip_suffix(b"\n").unwrap_or(line).to_vec(),
        })
    }

    /// Sends a point of another series than `beside`, which failed alone.
    async fn canary(
        &mut self,
        beside: u32,
        sender: &mut Sender,
        intake: &mut Intake,
    ) -> Result<Outcome, Interrupted> {
        if self.canaries.beside != Some(beside) || self.canaries.found.is_empty() {
            let found = self.find_canaries(beside, sender, intake).await;
            self.canaries = Canaries { beside: Some(beside), found, next: 0 };
        }
        let count = self.canaries.found.len();
        if count == 0 {
            return Ok(Outcome::NoCanary);
        }
        let CanaryPoint { db, rp, line } = self.canaries.found[self.canaries.next % count].clone();
        let verdict = sender.send(&db, &rp, &line, 1).await?;
        if verdict != Verdict::Accepted {
            self.canaries.next += 1;
        }
        Ok(match verdict {
            Verdict::Accepted => Outcome::Accepted,
            Verdict::Failed(words) => Outcome::Failed(words),
            Verdict::Overloaded => Outcome::Overloaded,
            Verdict::Refused(_) | Verdict::TooLarge(_) => Outcome::NoCanary,
        })
    }

    /// Points of other series. Those behind `beside` are sent again in their turn, so that sending
    /// one before it does no harm; of those before it only the one accepted last, which nothing
    /// has overwritten since.
    async fn find_canaries(
        &self,
        beside: u32,
        sender: &Sender,
        intake: &mut Intake,
    ) -> Vec<CanaryPoint> {
        let failing = wire::line::series(self.line(beside));
        let other = |line: &&[u8]| wire::line::series(line) != failing;
        let (db, rp) = (&self.batch.db, &self.batch.rp);
        let here = |line: &[u8]| CanaryPoint {
            db: db.clone(),
            rp: rp.clone(),
            line: Bytes::copy_from_slice(line),
        };
        let behind = self.points.iter().skip(beside as usize + 1);
        let behind = behind.map(|point| &self.piece.body[point.range()]);
        let behind = behind.chain(wire::line::points(&self.around.behind));
        let mut found: Vec<CanaryPoint> =
            behind.filter(other).take(CANARIES_MAX).map(here).collect();
        found.extend(wire::line::points(&self.around.accepted).filter(other).last().map(here));
        if found.is_empty() {
            // What was written before the names were known has none for the default policy.
            let names = sender.catalogue.snapshot();
            let policy = |rp: &str| match names.lookup(db, rp) {
                Lookup::Policy(name) => name,
                Lookup::NoDatabase | Lookup::NoPolicy => rp.into(),
            };
            let policy_here = policy(rp);
            let same = |other: &str, rp: &str| other == db && policy(rp) == policy_here;
            found.extend(intake.look_ahead(same, CANARY_PATIENCE, |line| other(&line)).await);
        }
        found
    }
}

/// Writes dead letters, however long it takes until there is room for them.
async fn append(
    sender: &mut Sender,
    letters: &Arc<Mutex<DeadLetters>>,
    dead: Vec<Letter>,
) -> Result<(), Interrupted> {
    let dead = Arc::new(dead);
    loop {
        let (letters, dead) = (Arc::clone(letters), Arc::clone(&dead));
        let write = tokio::task::spawn_blocking(move || {
            letters.lock().unwrap_or_else(PoisonError::into_inner).append(&dead)
        });
        let words = match write.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error @ LetterError::Full { .. })) => error.to_string(),
            Ok(Err(error)) => format!("dead letters cannot be kept: {error}"),
            Err(error) => format!("dead letters cannot be kept: {error}"),
        };
        sender.stop(&words).await?;
    }
}
