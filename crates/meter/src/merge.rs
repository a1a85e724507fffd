//! The directories of the parts of a run, read side by side as one run: histograms are added,
//! window by window, so that a percentile is that of all requests in one histogram.

mod live;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::directory::{self, rows};
use crate::engine::{FinishedWindow, Outcome, Row, Window, row};
use crate::hlog::{self, LogError, LogLine};
use crate::part::RunPart;
use crate::recorder::{Results, Tolerance};
use crate::sharing::{PartInjector, Sharing};
use crate::verdict::{THRESHOLDS, Thresholds};
pub use live::{EndedPart, LiveMerge};

/// The key of a run's description that stands for what its results do not keep of what is sent.
pub const FINGERPRINT: &str = "fingerprint";
/// The key of its loads, where a run has several.
const LOADS: &str = "loads";

/// What a part of a run leaves besides its windows: `part.json`.
#[derive(Debug, Serialize, Deserialize)]
pub struct PartFile {
    /// What all parts of the run are known by.
    pub run_id: String,
    /// Who has sent it.
    pub injector: PartInjector,
    /// How many results its log has.
    pub requests: u64,
    /// What came of it, results aside.
    pub outcome: Outcome,
}

/// Parts can't be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// There is nothing to merge.
    #[error("name the directories of at least two parts")]
    TooFew,
    /// A directory is not of a part, or of one that has not ended.
    #[error(
        "{0} has no part of a run that has ended: merge what `--part` has left, without those \
             that were killed"
    )]
    NoPart(PathBuf),
    /// A file can't be read.
    #[error("{path} can't be read: {what}")]
    Damaged {
        /// The file that is not as it was written.
        path: PathBuf,
        what: String,
    },
    /// Two directories are not of one run.
    #[error("{first} and {other} are not of one run: {what}")]
    Unlike {
        /// The directory that others are held against.
        first: PathBuf,
        other: PathBuf,
        what: String,
    },
}

/// A directory of a part.
#[derive(Debug)]
struct PartDirectory {
    path: PathBuf,
    /// What was run: `run.json`.
    about: Value,
    file: PartFile,
}

/// The parts of one run, in the order of their numbers.
#[derive(Debug)]
pub struct Parts(Vec<PartDirectory>);

fn damaged(path: &Path, error: impl ToString) -> MergeError {
    MergeError::Damaged { path: path.to_owned(), what: error.to_string() }
}

impl PartDirectory {
    fn read(path: &Path) -> Result<Self, MergeError> {
        let text = |name: &str| {
            let file = path.join(name);
            match std::fs::read_to_string(&file) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    Err(MergeError::NoPart(path.to_owned()))
                }
                text => text.map_err(|error| damaged(&file, error)),
            }
        };
        let (about, file) = (text(directory::RUN)?, text(directory::PART)?);
        let about =
            serde_json::from_str(&about).map_err(|e| damaged(&path.join(directory::RUN), e));
        let file = serde_json::from_str(&file).map_err(|e| damaged(&path.join(directory::PART), e));
        Ok(Self { path: path.to_owned(), about: about?, file: file? })
    }

    fn part(&self) -> RunPart {
        self.file.injector.part
    }

    /// What was run, but for what is of this part alone.
    fn run(&self) -> Value {
        let mut run = self.about["run"].clone();
        let forget = |of: &mut Value| of.as_object_mut().and_then(|of| of.remove("part"));
        forget(&mut run);
        let loads = run.get_mut(LOADS).and_then(Value::as_array_mut).into_iter().flatten();
        loads.for_each(|load| drop(forget(load)));
        run
    }

    /// Why another directory is not of the same run.
    fn differs_from(&self, other: &Self) -> Option<String> {
        let (mine, theirs) = (&self.file, &other.file);
        if mine.run_id != theirs.run_id {
            return Some(format!("one is {:?}, the other {:?}", mine.run_id, theirs.run_id));
        }
        if self.part().of() != other.part().of() {
            return Some(format!("one is part {}, the other {}", self.part(), other.part()));
        }
        if self.part() == other.part() {
            return Some(format!("both are part {}", self.part()));
        }
        if mine.outcome.wall != theirs.outcome.wall {
            return Some("they began at different times".to_owned());
        }
        if mine.outcome.thresholds != theirs.outcome.thresholds {
            return Some("their files have other thresholds of a verdict".to_owned());
        }
        difference(&self.run(), &other.run())
    }

    fn rows(&self) -> Result<Vec<Row>, MergeError> {
        let path = self.path.join(directory::ROWS);
        let file = File::open(&path).map_err(|error| damaged(&path, error))?;
        rows::read(BufReader::new(file)).collect::<Result<_, _>>().map_err(|e| damaged(&path, e))
    }

    fn log(&self) -> Result<PartLog, MergeError> {
        let path = self.path.join(directory::LOG);
        let file = File::open(&path).map_err(|error| damaged(&path, error))?;
        Ok(PartLog {
            path,
            lines: Box::new(hlog::read_all(BufReader::new(file))),
            next: None,
            requests: 0,
        })
    }
}

/// What differs first between the descriptions of two runs, in words.
fn difference(mine: &Value, theirs: &Value) -> Option<String> {
    if mine == theirs {
        return None;
    }
    let keys = [mine, theirs].into_iter().filter_map(Value::as_object).flat_map(|of| of.keys());
    let differing = { keys }.find(|key| mine[key.as_str()] != theirs[key.as_str()]);
    let Some(key) = differing.map(String::as_str) else {
        return Some("their run files differ".to_owned());
    };
    let (mine, theirs) = (&mine[key], &theirs[key]);
    Some(match (key, mine.as_array(), theirs.as_array()) {
        (FINGERPRINT, ..) => {
            "what they send differs in a body, a step, a header's value, a login, \
                              --insecure, or what is in a file that they read"
                .to_owned()
        }
        (LOADS, Some(mine), Some(theirs)) if mine.len() == theirs.len() => {
            let unlike = mine.iter().zip(theirs).find_map(|(mine, theirs)| {
                Some(format!("of the load {}, {}", mine["name"], difference(mine, theirs)?))
            });
            unlike.unwrap_or_default()
        }
        _ => format!("{key} is {mine} and {theirs}"),
    })
}

/// The log of a part, read window by window.
struct PartLog {
    path: PathBuf,
    lines: Box<dyn Iterator<Item = Result<LogLine, LogError>>>,
    next: Option<LogLine>,
    /// Results that were read so far.
    requests: u64,
}

impl PartLog {
    /// All that ended before this second and has not been read yet.
    fn before(&mut self, second: u64) -> Result<Results, MergeError> {
        let mut results = Results::default();
        loop {
            let line = match self.next.take() {
                Some(line) => line,
                None => match self.lines.next() {
                    None => break,
                    Some(line) => line.map_err(|error| damaged(&self.path, error))?,
                },
            };
            if line.start() >= Duration::from_secs(second) {
                self.next = Some(line);
                break;
            }
            directory::add_line(&line, &mut results);
        }
        self.requests += results.total();
        Ok(results)
    }
}

/// Adds up one window of all parts.
fn sum_of_parts(
    number: u64,
    wall: SystemTime,
    tolerance: &Tolerance,
    parts: &[(Row, Results)],
) -> FinishedWindow {
    let (mut window, mut offered) = (Window::default(), 0);
    for (row, results) in parts {
        offered += row.offered;
        window.sent += row.sent;
        window.late += row.late;
        window.busy = window.busy.max(row.busy);
        let paused = window.results.paused.max(row.paused);
        window.results.add(results);
        // Injectors pause beside one another.
        window.results.paused = paused;
    }
    let row = row(number, offered, &window, tolerance);
    FinishedWindow { wall, row, results: window.results }
}

/// What came of parts, their results aside; nothing where there is none.
fn outcome_of_parts<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Option<Outcome> {
    let mut outcomes = outcomes.into_iter();
    let first = outcomes.next()?.clone();
    Some(outcomes.fold(first, Outcome::beside))
}

impl Parts {
    /// Reads what the directories say, their windows aside.
    ///
    /// # Errors
    /// They are not the parts of one run.
    pub fn read(directories: &[PathBuf]) -> Result<Self, MergeError> {
        let parts = directories.iter().map(|path| PartDirectory::read(path));
        let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
        parts.sort_by_key(PartDirectory::part);
        for (at, part) in parts.iter().enumerate() {
            for other in &parts[..at] {
                if let Some(what) = other.differs_from(part) {
                    let (first, other) = (other.path.clone(), part.path.clone());
                    return Err(MergeError::Unlike { first, other, what });
                }
            }
        }
        if parts.len() < 2 {
            return Err(MergeError::TooFew);
        }
        Ok(Self(parts))
    }

    /// What was run, as each of the parts says it.
    pub fn run(&self) -> Value {
        let mut run = self.0.first().map(PartDirectory::run).unwrap_or_default();
        if let Some(run) = run.as_object_mut() {
            let merged = self.0.iter().map(|part| part.part().to_string()).collect::<Vec<_>>();
            run.insert("parts".to_owned(), merged.into());
            run.remove(FINGERPRINT);
        }
        run
    }

    /// What the operations of the results are called.
    pub fn operations(&self) -> &[String] {
        self.0.first().map_or(&[], |part| &part.file.outcome.operations)
    }

    /// Adds up all windows, each of which is handed to `each_window` in its order, and gives what
    /// came of the whole run. A window counts that all parts have ended.
    ///
    /// # Errors
    /// Something can't be read.
    pub fn merge(
        &self,
        mut each_window: impl FnMut(&FinishedWindow),
    ) -> Result<Outcome, MergeError> {
        let rows = self.0.iter().map(PartDirectory::rows).collect::<Result<Vec<_>, _>>()?;
        let mut logs = self.0.iter().map(PartDirectory::log).collect::<Result<Vec<_>, _>>()?;
        let mut outcome = self.outcome();
        let whole = rows.iter().map(Vec::len).min().unwrap_or_default();
        for number in 0..whole as u64 {
            let parts = rows.iter().zip(&mut logs).filter_map(|(rows, log)| {
                let row = *rows.get(number as usize)?;
                Some(log.before(number + 1).map(|results| (row, results)))
            });
            let parts = parts.collect::<Result<Vec<_>, _>>()?;
            let tolerance = outcome.thresholds.tolerance();
            let finished = sum_of_parts(number, outcome.wall, &tolerance, &parts);
            outcome.results.add(&finished.results);
            each_window(&finished);
            outcome.rows.push(finished.row);
        }
        for (log, part) in logs.iter_mut().zip(&self.0) {
            outcome.rest.add(&log.before(u64::MAX)?);
            let (has, had) = (log.requests, part.file.requests);
            if has != had {
                return Err(damaged(
                    &log.path,
                    format!("it has {has} results, and there were {had}"),
                ));
            }
        }
        outcome.results.add(&outcome.rest.clone());
        Ok(outcome)
    }

    /// What came of all parts, their results aside.
    fn outcome(&self) -> Outcome {
        let outcome = outcome_of_parts(self.0.iter().map(|part| &part.file.outcome));
        let injectors = self.0.iter().map(|part| part.file.injector.clone()).collect();
        let sharing = Some(Sharing { parts: self.count(), injectors });
        Outcome { sharing, ..outcome.unwrap_or_default() }
    }

    /// Beyond what the run is invalid.
    pub fn thresholds(&self) -> Thresholds {
        self.0.first().map_or(THRESHOLDS, |part| part.file.outcome.thresholds)
    }

    /// How many parts the run has, of which some may be missing.
    pub fn count(&self) -> u64 {
        self.0.first().map_or(1, |part| part.part().of())
    }

    /// Whether none is missing.
    pub fn are_all(&self) -> bool {
        self.0.len() as u64 == self.count()
    }

    /// The directories, in the order of their parts.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|part| &*part.path)
    }
}

#[cfg(test)]
mod tests;
