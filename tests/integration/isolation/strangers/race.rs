//! All clients at once, each against its twin: what it hears depends on itself alone.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rig::chance::{self, Length};

use super::invent::Footing;
use super::said::Verdict;
use super::stage::Stage;
use super::step::Step;
use super::trail::Trail;
use super::turn;
use super::twins::{Twins, piece};

/// What a server says of a lock that it has waited for too long.
const LOCK_TIMEOUT: &str = "canceling statement due to lock timeout";

/// A client with its twin, on a thread of its own.
struct Racer<'s> {
    stage: &'s Stage,
    twins: Twins,
    chance: StdRng,
    trail: Trail,
    /// More than the first fault is looked for.
    goes_on: bool,
}

/// Runs a client until the end, or until something is wrong with it or another.
///
/// # Errors
/// What is wrong.
pub fn run(
    stage: &Stage,
    number: usize,
    seed: u64,
    length: Length,
    steps: &AtomicU64,
    stop: &AtomicBool,
) -> Result<(), String> {
    let mut chance = StdRng::seed_from_u64(seed.wrapping_add(1_000 + number as u64));
    let twins = Twins::new(stage, number, &mut chance).map_err(|error| error.to_string())?;
    let goes_on = chance::number::<u64>("WEIR_TEST_WRONGS").is_some_and(|wrongs| wrongs > 1);
    let mut racer = Racer { stage, twins, chance, trail: Trail::default(), goes_on };
    while !stop.load(Ordering::Relaxed) && length.goes_on(steps.fetch_add(1, Ordering::Relaxed)) {
        if let Err(wrong) = racer.turn() {
            stop.store(true, Ordering::Relaxed);
            return Err(wrong);
        }
    }
    racer.twins.leave(&[]);
    Ok(())
}

impl Racer<'_> {
    fn turn(&mut self) -> Result<(), String> {
        let footing = Footing {
            number: self.twins.number,
            status: self.twins.status,
            alone: false,
            own: true,
        };
        match self.chance.random_range(0..1000) {
            0..10 => self.leave(footing),
            10..15 => self.twins.through.cancel().map_err(|error| error.to_string()),
            15..50 => match self.twins.prepared(&mut self.chance) {
                None => Ok(()),
                Some((name, statement)) => {
                    let mut step = Step::default();
                    step.again(&name, &statement, self.chance.random_range(1..4));
                    self.take(&step)
                }
            },
            _ => {
                let (found, stained) = (&self.stage.found, self.twins.stained);
                let step = turn::step(found, &mut self.chance, footing, stained);
                self.take(&step)?;
                if self.chance.random_range(0..3) == 0 && !self.twins.stained {
                    let look = turn::look(&mut self.chance);
                    self.take(&look)?;
                }
                Ok(())
            }
        }?;
        if self.twins.stained && self.twins.status == b'I' {
            if self.chance.random_bool(0.5) {
                return self.again(&[]);
            }
            self.take(&turn::settling(&["DISCARD ALL"]))?;
            self.twins.stained = false;
        }
        Ok(())
    }

    fn take(&mut self, step: &Step) -> Result<(), String> {
        let number = self.twins.number;
        step.what.iter().for_each(|what| self.trail.note(number, what));
        let (verdict, said) = self.twins.take(step);
        self.trail.note(number, &format!("    -> {}", said.brief()));
        match verdict {
            Verdict::Same if said.closed => self.again(&[]),
            Verdict::Same => Ok(()),
            Verdict::Excused(what) => self.let_pass(what),
            // How long another client has a row that this one waits for is a matter of chance.
            Verdict::Wrong(what) if what.contains(LOCK_TIMEOUT) => self.let_pass(LOCK_TIMEOUT),
            Verdict::Reported(_) if self.goes_on => Ok(()),
            Verdict::Wrong(what) | Verdict::Reported(what) => {
                let (name, trail) = (self.twins.name(), self.trail.shown(number));
                Err(format!("{name}: {what}\n{trail}"))
            }
        }
    }

    fn let_pass(&mut self, what: &str) -> Result<(), String> {
        self.trail.note(self.twins.number, &format!("    let pass: {what}"));
        self.again(&[])?;
        self.level()
    }

    fn again(&mut self, last: &[u8]) -> Result<(), String> {
        let number = self.twins.number;
        self.trail.note(number, "    leaves and comes back");
        self.twins.leave(last);
        let new = Twins::new(self.stage, number, &mut self.chance);
        self.twins = new.map_err(|error| format!("client {number} comes back: {error}"))?;
        Ok(())
    }

    fn leave(&mut self, footing: Footing) -> Result<(), String> {
        let step = turn::step(&self.stage.found, &mut self.chance, footing, false);
        let whole = step.marks.writes || step.marks.stains || self.twins.status != b'I';
        let last = if whole { Vec::new() } else { piece(&step, &mut self.chance) };
        self.again(&last)
    }

    /// Behind a difference its rows and sequence may differ, too.
    fn level(&mut self) -> Result<(), String> {
        let (row, number) = (self.twins.number % 50 + 1, self.twins.number);
        let mut statements = vec![
            "RESET ALL".to_owned(),
            format!("UPDATE public.noted SET n = 0, note = '' WHERE id = {row}"),
            format!("SELECT setval('public.own_{number}', 1)"),
        ];
        for table in ["dated", "triggered", "defaulted", "checked", "ruled"] {
            statements.push(format!("DELETE FROM public.{table} WHERE id = {row}"));
        }
        let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
        let mut step = turn::settling(&statements);
        // How many there were is what may differ.
        step.rounds.iter_mut().for_each(|round| round.blur = true);
        self.take(&step)
    }
}
