//! What a run's directory says, as one page that asks no network: `report.html`. It is made from
//! the files alone, so that it can be made again, also of a run that was killed, and with several
//! runs laid over one another.

mod page;
mod run;
pub mod uplot;

use std::io;
use std::path::{Path, PathBuf};

use crate::course::{Course, POINTS_MAX};
use crate::directory::{self, DirectoryError, PAGE};
use crate::engine::Outcome;
use crate::hlog::LogError;
use crate::summary::Summary;
pub use run::{Run, judged};

/// Runs that are laid over one another.
pub const RUNS_MAX: usize = 20;
/// Points of all runs: the page stays under 1 MB.
const POINTS_OF_ALL: usize = 5000;

/// A page can't be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// It is not a directory of results.
    #[error(
        "{0} has no results of a run: name a directory that has a run.json (a search's directory \
         has one for each step)"
    )]
    NoRun(PathBuf),
    /// There are too many.
    #[error("{0} runs can't be told apart on one page: name {RUNS_MAX} at most")]
    TooMany(usize),
    #[error("can't read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    /// Somebody else wrote into it.
    #[error("{path} is damaged: {what}")]
    Damaged {
        path: PathBuf,
        /// What is wrong with the file.
        what: String,
    },
    /// The interval log can't be read.
    #[error("{path}: {source}")]
    Log { path: PathBuf, source: LogError },
    /// The page can't be kept.
    #[error(transparent)]
    Write(#[from] DirectoryError),
}

/// Makes the page of a run anew, in its directory; says where it is.
///
/// # Errors
/// The directory can't be read or written.
pub fn write(directory: &Path) -> Result<PathBuf, ReportError> {
    let file = directory.join(PAGE);
    directory::replace(&file, &page(&[directory.to_owned()])?)?;
    Ok(file)
}

/// Makes the page of a run that has just ended, without reading its windows again; says where it
/// is.
///
/// # Errors
/// The directory can't be read or written.
pub fn write_ended(
    directory: &Path,
    course: Course,
    outcome: &Outcome,
    summary: &Summary<'_>,
) -> Result<PathBuf, ReportError> {
    let file = directory.join(PAGE);
    let run = Run::ended(directory, summary.json(), course, &outcome.results)?;
    directory::replace(&file, &page::page(&[run]))?;
    Ok(file)
}

/// The page of these runs, laid over one another.
///
/// # Errors
/// A directory can't be read, or there are too many.
pub fn page(directories: &[PathBuf]) -> Result<String, ReportError> {
    if directories.len() > RUNS_MAX {
        return Err(ReportError::TooMany(directories.len()));
    }
    let points = (POINTS_OF_ALL / directories.len().max(1)).min(POINTS_MAX);
    let runs = directories.iter().map(|directory| Run::read(directory, points));
    Ok(page::page(&runs.collect::<Result<Vec<_>, _>>()?))
}
