//! What a server has of what a run wrote, held against the run's ledger. Contents are a function of
//! a request's number, so nothing was kept of them: they are made again.

mod body;
mod counts;
mod influx;
mod postgres;
mod redis;
#[cfg(test)]
mod tests;

use std::fmt::{self, Display, Formatter};

use serde_json::{Value, json};
use watch::words::count;

pub use counts::{Counts, of_postgres, of_redis};
pub use influx::verify as influx;
pub use postgres::verify as postgres;
pub use redis::verify as redis;

use crate::engine::AskError;
use crate::ledger::Fate;

/// Writes that are named in files, and on a terminal.
pub const NAMED_MAX: usize = 100_000;
const SHOWN_MAX: usize = 20;

/// What a server has can't be read.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// It gave no answer.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// It refused, in its words.
    #[error("the server does not let it be read: {0}")]
    Refused(String),
    /// What came is not what was asked for.
    #[error("the server's answer can't be understood: {0}")]
    Strange(&'static str),
}

/// What is wrong with a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It was acknowledged, and the server has it not.
    Lost,
    /// The server has something else in its place.
    Altered,
    /// The server has it more than once.
    Doubled,
    /// The server has it, and it was never sent.
    Strange,
}

impl Fault {
    const ALL: [Self; 4] = [Self::Lost, Self::Altered, Self::Doubled, Self::Strange];

    fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Altered => "altered",
            Self::Doubled => "doubled",
            Self::Strange => "strange",
        }
    }
}

/// What a server has of one write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredWrite {
    /// How often the server has it.
    pub count: u64,
    /// Whether one of them is not as it was written.
    pub is_altered: bool,
}

impl StoredWrite {
    /// It is there once, and is so or not.
    pub fn once(is_right: bool) -> Self {
        Self { count: 1, is_altered: !is_right }
    }
}

/// What was found of all writes of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Writes without an answer: found, and not found. Neither is a fault.
    pub unknown: [u64; 2],
    /// Writes that were refused: found, and not found. Neither is a fault.
    pub refused: [u64; 2],
    faults: [u64; Fault::ALL.len()],
    named: Vec<(Fault, String)>,
}

impl Findings {
    /// Notes what a server has of a write; `name` says which it is.
    pub fn note(&mut self, fate: Fate, seen: StoredWrite, name: impl Fn() -> String) {
        let is_found = usize::from(seen.count == 0);
        match fate {
            Fate::Acknowledged => {
                self.acknowledged += 1;
                if seen.count == 0 {
                    self.fault(Fault::Lost, &name);
                }
            }
            Fate::Unknown => self.unknown[is_found] += 1,
            Fate::Refused => self.refused[is_found] += 1,
            Fate::Unsent if seen.count == 0 => return,
            Fate::Unsent => return self.fault(Fault::Strange, &name),
        }
        if seen.is_altered {
            self.fault(Fault::Altered, &name);
        }
        if seen.count > 1 {
            self.fault(Fault::Doubled, || format!("{}, {} times", name(), seen.count));
        }
    }

    /// Notes something that is wrong.
    pub fn fault(&mut self, fault: Fault, name: impl FnOnce() -> String) {
        self.faults[fault as usize] += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push((fault, name()));
        }
    }

    /// How many writes that is wrong with.
    pub fn count(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }

    /// Whether the server has everything that it should have, as it should.
    pub fn is_right(&self) -> bool {
        self.faults.iter().all(|count| *count == 0)
    }

    /// The names of the writes that something is wrong with.
    pub fn named(&self, fault: Fault) -> impl Iterator<Item = &str> {
        let of = self.named.iter().filter(move |(of, _)| *of == fault);
        of.map(|(_, name)| &**name)
    }

    /// All of it for programs.
    pub fn json(&self) -> Value {
        let faults = Fault::ALL.into_iter().map(|fault| {
            let names = self.named(fault).collect::<Vec<_>>();
            (fault.name().to_owned(), json!({ "count": self.count(fault), "names": names }))
        });
        let both = |of: [u64; 2]| json!({ "found": of[0], "not_found": of[1] });
        json!({
            "right": self.is_right(),
            "acknowledged": self.acknowledged,
            "unknown": both(self.unknown),
            "refused": both(self.refused),
            "faults": faults.collect::<serde_json::Map<_, _>>(),
        })
    }
}

impl Display for Findings {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let all = count(self.acknowledged);
        if self.is_right() {
            let none = "none lost, none altered, none doubled";
            writeln!(f, "RIGHT  {all} acknowledged writes: {none}")?;
        } else {
            let faults = Fault::ALL.into_iter().filter(|fault| self.count(*fault) > 0);
            let faults =
                faults.map(|fault| format!("{} {}", count(self.count(fault)), fault.name()));
            let faults = faults.collect::<Vec<_>>().join(", ");
            writeln!(f, "WRONG  {all} acknowledged writes: {faults}")?;
        }
        for fault in Fault::ALL {
            let name = fault.name();
            for write in self.named(fault).take(SHOWN_MAX) {
                writeln!(f, "{name:<8} {write}")?;
            }
            let more = self.count(fault).saturating_sub(SHOWN_MAX as u64);
            if more > 0 {
                writeln!(f, "{name:<8} and {} more", count(more))?;
            }
        }
        for (name, [found, missing]) in [("unknown", self.unknown), ("refused", self.refused)] {
            if found + missing > 0 {
                let (found, missing) = (count(found), count(missing));
                writeln!(f, "{name:<8} {found} found, {missing} not found")?;
            }
        }
        Ok(())
    }
}
