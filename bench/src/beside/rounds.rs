//! All rounds, in a file: a line of JSON each.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::figures::Run;

/// One figure of each of the three.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sides {
    /// The result of Weir as built from this tree.
    pub new: f64,
    /// The result of the older binary.
    pub old: f64,
    /// The result of a second copy of the older binary: its ratio to `old` is noise.
    pub copy: f64,
}

impl Sides {
    /// In the order of [`super::three::Binaries`].
    pub fn of([new, old, copy]: [f64; 3]) -> Self {
        Self { new, old, copy }
    }

    /// The new one over the mean of the two old ones.
    pub fn new_over_old(&self) -> f64 {
        self.new / f64::midpoint(self.old, self.copy)
    }

    /// The old one's second copy over the first.
    pub fn old_over_old(&self) -> f64 {
        self.copy / self.old
    }
}

/// One turn of each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// What was asked of them.
    pub row: String,
    /// The round's number, from 0.
    pub round: usize,
    /// Who was first: 0 is the new one, 1 the old one, 2 its second copy.
    pub order: [usize; 3],
    /// Requests or statements a second.
    pub per_second: Sides,
    /// Microseconds of CPU time for each.
    pub cpu_us: Sides,
}

/// A line: a round, and of which run.
#[derive(Serialize)]
struct Line<'a> {
    date: &'a str,
    machine: &'a str,
    new: &'a str,
    old: &'a str,
    #[serde(flatten)]
    round: Round,
}

/// The file of a run.
pub struct RoundFile {
    path: PathBuf,
    file: File,
    date: String,
    machine: String,
    binaries: [String; 2],
}

impl RoundFile {
    /// A new file; the binaries are the new one and the old one.
    ///
    /// # Errors
    /// When it is there already, or can't be written.
    pub fn create(path: PathBuf, run: &Run, binaries: [&Path; 2]) -> Outcome<Self> {
        let file = File::create_new(&path)
            .map_err(|error| format!("{} can't be written: {error}", path.display()))?;
        let (date, machine) = (run.date().to_owned(), run.machine.to_string());
        let binaries = binaries.map(|binary| binary.display().to_string());
        Ok(Self { path, file, date, machine, binaries })
    }

    /// Adds a round.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn note(&mut self, round: Round) -> Outcome<()> {
        let Self { date, machine, binaries: [new, old], .. } = self;
        let text = serde_json::to_string(&Line { date, machine, new, old, round })?;
        writeln!(self.file, "{text}")?;
        Ok(())
    }

    pub fn file(&self) -> &Path {
        &self.path
    }
}

/// All rounds of a file.
///
/// # Errors
/// When it can't be read.
pub fn read(path: &Path) -> Outcome<Vec<Round>> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| told(&error))?;
    let round = |line: &str| serde_json::from_str(line).map_err(|error| told(&error).into());
    text.lines().map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::{Round, RoundFile, Sides, read};
    use crate::figures::Run;

    #[test]
    fn rounds_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rounds.jsonl");
        let run = Run::begin();
        let binaries = ["/new/weir", "/old/weir"].map(std::path::Path::new);
        let mut kept = RoundFile::create(path.clone(), &run, binaries).unwrap();
        let per_second = Sides::of([110.0, 100.0, 120.0]);
        let cpu_us = Sides::of([9.9, 10.0, 9.0]);
        let row = "pgbench".to_owned();
        let round = Round { row, round: 0, order: [0, 2, 1], per_second, cpu_us };
        kept.note(round.clone()).unwrap();
        kept.note(round.clone()).unwrap();
        assert_eq!(read(&path).unwrap(), [round.clone(), round]);
        assert!(RoundFile::create(path, &run, binaries).is_err(), "rounds are never replaced");
        assert_eq!(per_second.new_over_old(), 1.0);
        assert_eq!(per_second.old_over_old(), 1.2);
    }
}
