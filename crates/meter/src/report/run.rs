//! What a directory of results says. Its log may be longer than memory: windows are read one by
//! one, and merged where there are more of them than a line on a screen has points.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind};
use std::path::Path;

use serde_json::Value;

use super::ReportError;
use crate::directory::{self, rows, tag};
use crate::engine::Row;
use crate::failure::Owner;
use crate::hlog;
use crate::recorder::{Measure, Results, Times};

/// The shares of a point's latencies, with the longest behind them.
pub const SHARES: [f64; 3] = [0.5, 0.99, 0.999];

/// One or several windows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Point {
    /// The first of its windows.
    pub second: u64,
    /// How many windows it has, each of a second.
    pub seconds: u64,
    /// What was counted in them.
    pub offered: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that ended.
    pub ended: u64,
    /// Those that failed.
    pub failed: u64,
    /// Sends that were late.
    pub late: u64,
    /// Seconds that the busiest thread was outside its poll.
    pub busy: f64,
    /// Nanoseconds of latency: [`SHARES`] and the longest; nothing where nothing ended.
    pub latency: Option<[f64; SHARES.len() + 1]>,
    /// Errors by owner, in the order of [`Owner::ALL`].
    pub errors: [u64; Owner::ALL.len()],
}

/// The results of a run.
#[derive(Debug, Clone)]
pub struct Run {
    /// What its directory is called.
    pub name: String,
    /// `run.json`.
    pub about: Value,
    /// `report.json`.
    pub judged: Value,
    /// Its windows, merged to so few points as were asked for.
    pub points: Vec<Point>,
    /// All that its log has.
    pub results: Results,
}

impl Run {
    /// Reads a directory.
    ///
    /// # Errors
    /// It has no results, or they can't be read.
    pub fn read(path: &Path, points_max: usize) -> Result<Self, ReportError> {
        let (about, judged) = (about(path)?, judged(path)?);
        let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = full.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let windows = each_row(path, |_| ())?;
        let each = windows.div_ceil(points_max as u64).max(1);
        let mut points = Vec::new();
        each_row(path, |row| add_row(&mut points, each, &row))?;
        let results = each_histogram(path, each, &mut points)?;
        Ok(Self { name, about, judged, points, results })
    }

    /// The verdict in a word.
    pub fn verdict(&self) -> &str {
        self.judged["verdict"].as_str().unwrap_or("UNFINISHED")
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

    /// What an operation is called.
    pub fn operation(&self, number: usize) -> &str {
        self.about["operations"][number].as_str().unwrap_or("other")
    }
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

fn add_row(points: &mut Vec<Point>, each: u64, row: &Row) {
    let at = usize::try_from(row.number / each).unwrap_or(usize::MAX);
    if at >= points.len() {
        points.push(Point { second: row.number, ..Point::default() });
    }
    let Some(point) = points.last_mut() else { return };
    point.seconds += 1;
    point.offered += row.offered;
    point.sent += row.sent;
    point.ended += row.ended;
    point.failed += row.failed;
    point.late += row.late;
    point.busy += row.busy.as_secs_f64();
}

/// Puts the latencies and errors of the log to their points; gives all of its results. What ended
/// behind the last whole window is in no point.
fn each_histogram(path: &Path, each: u64, points: &mut [Point]) -> Result<Results, ReportError> {
    let path = path.join(directory::LOG);
    let file = File::open(&path);
    let file = file.map_err(|source| ReportError::Read { path: path.clone(), source })?;
    let end = points.last().map_or(0, |point| point.second + point.seconds);
    let (mut results, mut open) = (Results::default(), (usize::MAX, Times::new()));
    for line in hlog::read(BufReader::new(file)) {
        let line = line.map_err(|source| ReportError::Log { path: path.clone(), source })?;
        let second = line.start.as_secs();
        let within = usize::try_from(second / each).ok().filter(|_| second < end);
        match (line.tag.as_deref().map(tag), within) {
            (None, Some(at)) if at == open.0 => open.1.add(&line.times),
            (None, Some(at)) => {
                close(points, &open);
                open = (at, line.times);
            }
            (None, None) | (Some(None), _) => {}
            (Some(Some((operation, kind, measure))), within) => {
                results.add_times(operation, kind, measure, &line.times);
                let point = within.and_then(|at| points.get_mut(at));
                if let (Some(point), Some(owner)) = (point, Owner::of(kind))
                    && measure == Measure::Latency
                {
                    point.errors[owner as usize] += line.times.count();
                }
            }
        }
    }
    close(points, &open);
    Ok(results)
}

fn close(points: &mut [Point], (at, times): &(usize, Times)) {
    let Some(point) = points.get_mut(*at).filter(|_| times.count() > 0) else { return };
    let mut all = [times.max().as_nanos() as f64; SHARES.len() + 1];
    for (told, share) in all.iter_mut().zip(SHARES) {
        *told = times.quantile(share).as_nanos() as f64;
    }
    point.latency = Some(all);
}
