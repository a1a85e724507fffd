//! What a directory of results says. Its log may be longer than memory: windows are read one by
//! one, and merged where there are more of them than a line on a screen has points.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::ReportError;
use crate::course::{Course, Point};
use crate::directory::{self, Tag, rows};
use crate::engine::Row;
use crate::failure::Owner;
use crate::hlog;
use crate::recorder::{Measure, Results, Tolerance};
use crate::verdict::THRESHOLDS;

/// The results of a run.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// What its directory is called.
    pub name: String,
    /// `run.json`.
    pub about: Value,
    /// `report.json`.
    pub judged: Value,
    /// Its windows, merged to so few points as were asked for.
    pub points: Vec<Point>,
    /// All that its log has.
    pub results: Cow<'a, Results>,
}

impl<'a> Run<'a> {
    /// Reads a directory.
    ///
    /// # Errors
    /// It has no results, or they can't be read.
    pub fn read(path: &Path, points_max: usize) -> Result<Self, ReportError> {
        let (about, judged) = (about(path)?, judged(path)?);
        let mut course = Course::new(each_row(path, |_| ())?, points_max);
        each_row(path, |row| course.row(&row))?;
        let results = Cow::Owned(each_histogram(path, &mut course)?);
        Ok(Self { name: name(path), about, judged, points: course.points(), results })
    }

    /// One that has just ended, whose windows need not be read again.
    ///
    /// # Errors
    /// Its directory can't be read.
    pub fn ended(
        path: &Path,
        judged: Value,
        course: Course,
        results: &'a Results,
    ) -> Result<Self, ReportError> {
        let (about, results) = (about(path)?, Cow::Borrowed(results));
        Ok(Self { name: name(path), about, judged, points: course.points(), results })
    }

    /// The verdict in a word.
    pub fn verdict(&self) -> &str {
        self.judged["verdict"].as_str().unwrap_or("UNFINISHED")
    }

    /// Whether most of its requests failed, and no demand allowed that.
    pub fn is_failing(&self) -> bool {
        self.judged["failing"] == true
    }

    /// Whether its figures may stand by themselves.
    pub fn is_valid(&self) -> bool {
        self.verdict() == "VALID"
    }

    /// Seconds that were measured.
    pub fn measured(&self) -> f64 {
        let seconds = self.points.iter().map(|point| point.seconds).sum::<u64>() as f64;
        self.judged["measured_ns"].as_f64().map_or(seconds, |nanos| nanos / 1e9)
    }

    /// From which on a figure of it is the injector's, as it was judged.
    pub fn tolerance(&self) -> Tolerance {
        let (usual, judged) = (THRESHOLDS.tolerance(), &self.judged["thresholds"]);
        let least = judged["lateness_min_ns"].as_u64().map(Duration::from_nanos);
        let share = judged["lateness_share"].as_f64().unwrap_or(usual.share);
        Tolerance { share, least: least.unwrap_or(usual.least) }
    }

    /// What an operation is called.
    pub fn operation(&self, number: usize) -> &str {
        self.about["operations"][number].as_str().unwrap_or("other")
    }
}

/// What a directory is called.
fn name(path: &Path) -> String {
    let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    full.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What was run, of a directory.
fn about(path: &Path) -> Result<Value, ReportError> {
    json(&path.join(directory::RUN)).map_err(|error| match error {
        ReportError::Read { source, .. } if source.kind() == ErrorKind::NotFound => {
            ReportError::NoRun(path.to_owned())
        }
        error => error,
    })
}

/// What came of it: `report.json` of a directory.
///
/// # Errors
/// It has no results, or they can't be read.
pub fn judged(path: &Path) -> Result<Value, ReportError> {
    about(path)?;
    json(&path.join(directory::JSON))
}

fn json(path: &Path) -> Result<Value, ReportError> {
    let failed = |source| ReportError::Read { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    serde_json::from_str(&text)
        .map_err(|error| ReportError::Damaged { path: path.to_owned(), what: error.to_string() })
}

/// Calls for each row; how many there are.
fn each_row(path: &Path, mut call: impl FnMut(Row)) -> Result<u64, ReportError> {
    let path = path.join(directory::ROWS);
    let failed = |source: io::Error| match source.kind() {
        ErrorKind::Other => ReportError::Damaged { path: path.clone(), what: source.to_string() },
        _ => ReportError::Read { path: path.clone(), source },
    };
    let mut count = 0;
    for row in rows::read(BufReader::new(File::open(&path).map_err(failed)?)) {
        call(row.map_err(failed)?);
        count += 1;
    }
    Ok(count)
}

/// Puts the latencies and errors of the log to their points; gives all of its results. What ended
/// behind the last whole window is in no point.
fn each_histogram(path: &Path, course: &mut Course) -> Result<Results, ReportError> {
    let path = path.join(directory::LOG);
    let file = File::open(&path);
    let file = file.map_err(|source| ReportError::Read { path: path.clone(), source })?;
    let mut results = Results::default();
    for line in hlog::read(BufReader::new(file)) {
        let line = line.map_err(|source| ReportError::Log { path: path.clone(), source })?;
        let second = line.start.as_secs();
        let Some(text) = &line.tag else {
            course.latency(second, &line.times);
            continue;
        };
        // Tags of a newer version say what this one does not show.
        let Some(tag) = Tag::read(text) else { continue };
        let correction = tag.add(&line.times, &mut results);
        if tag.measure != Measure::Latency {
            continue;
        }
        if let Some(correction) = correction {
            course.correct(second, &correction);
        } else if let Some(owner) = Owner::of(tag.kind) {
            course.errors(second, owner, line.times.count());
        }
    }
    Ok(results)
}
