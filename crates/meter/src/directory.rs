//! The results of a run, in a directory of its own. Each window is written as it ends, so that of a
//! run that is killed all is there up to its last window; the report says until its end that the
//! run has none. A disk that is full ends the writing, and never the run.

pub mod rows;
mod tag;

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::course::{Course, POINTS_MAX};
use crate::engine::{FinishedWindow, Outcome};
use crate::failure::Owner;
use crate::hlog::{self, LogLine};
use crate::machine;
use crate::recorder::{Measure, OperationTraffic, Results, Times};
use crate::summary::{Summary, date_time};
use crate::window::WINDOW;
pub use tag::{HistogramPart, Tag};

/// What was run, and where.
pub const RUN: &str = "run.json";
/// The same as a run file.
pub const RUN_FILE: &str = "run.toml";
/// What the bits of a ledger are of.
pub const LEDGER: &str = "ledger.json";
/// The directory that the bits are in.
pub const LEDGER_BITS: &str = "ledger";
/// What was found when a server was held against its ledger.
pub const VERIFIED: &str = "verify.json";
/// Every histogram of every window.
pub const LOG: &str = "windows.hlog";
/// A line for each window.
pub const ROWS: &str = "windows.csv";
/// What a merge needs of a part of a run besides its windows.
pub const PART: &str = "part.json";
/// The result for people.
pub const TEXT: &str = "report.txt";
/// The result to look at.
pub const PAGE: &str = "report.html";
/// The result for programs.
pub const JSON: &str = "report.json";

const UNFINISHED: &str = "UNFINISHED  This run has not ended, or was killed: there is no verdict \
                          on it. Every window up to the last one that is in windows.hlog and \
                          windows.csv is whole.\n";

/// Results can't be written.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// There is something in the directory already.
    #[error("{0} holds something already: name another directory with --out")]
    Taken(PathBuf),
    /// The disk refuses to write.
    #[error("can't write results to {path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        source: io::Error,
    },
}

/// A file that only ever holds whole pieces.
#[derive(Debug)]
struct Pieces {
    path: PathBuf,
    file: File,
    len: u64,
}

impl Pieces {
    fn create(path: PathBuf) -> Result<Self, DirectoryError> {
        match File::create(&path) {
            Ok(file) => Ok(Self { path, file, len: 0 }),
            Err(source) => Err(DirectoryError::Io { path, source }),
        }
    }

    /// What does not fit whole is taken back.
    fn append(&mut self, piece: &str) -> Result<(), DirectoryError> {
        if let Err(source) = self.file.write_all(piece.as_bytes()) {
            let _ = self.file.set_len(self.len);
            let _ = self.file.seek(SeekFrom::Start(self.len));
            return Err(DirectoryError::Io { path: self.path.clone(), source });
        }
        self.len += piece.len() as u64;
        Ok(())
    }
}

/// The directory of one run.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    log: Pieces,
    rows: Pieces,
    /// What the page of the run needs of the windows that are written.
    course: Course,
    begun: bool,
    /// When the windows so far end, since the first began.
    end: Duration,
    /// Windows are no longer written.
    full: bool,
}

impl Directory {
    /// Makes it, with all that is above it, and says in it what is run, and what its operations are
    /// called; nothing that is secret may be in `run`.
    ///
    /// # Errors
    /// It can't be written, or holds something already.
    pub fn create(path: &Path, run: &Value, operations: &[String]) -> Result<Self, DirectoryError> {
        let failed = |source| DirectoryError::Io { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(failed)?;
        if fs::read_dir(path).map_err(failed)?.next().is_some() {
            return Err(DirectoryError::Taken(path.to_owned()));
        }
        let machine = machine::describe();
        let about = json!({
            "created": date_time(SystemTime::now()),
            "run": run,
            "operations": operations,
            "machine": machine,
        });
        write(&path.join(RUN), &pretty(&about))?;
        write(&path.join(TEXT), UNFINISHED)?;
        write(&path.join(JSON), &pretty(&json!({ "verdict": "UNFINISHED" })))?;
        let (log, rows) = (Pieces::create(path.join(LOG))?, Pieces::create(path.join(ROWS))?);
        Ok(Self {
            path: path.to_owned(),
            log,
            rows,
            course: Course::new(0, POINTS_MAX),
            begun: false,
            end: Duration::ZERO,
            full: false,
        })
    }

    /// The same of a run that is to last for so long.
    #[must_use]
    pub fn lasting(self, duration: Duration) -> Self {
        let windows = duration.as_secs() / WINDOW.as_secs();
        Self { course: Course::new(windows, POINTS_MAX), ..self }
    }

    /// Writes a window.
    ///
    /// # Errors
    /// The disk refuses. That is told once; no further windows are written.
    pub fn window(&mut self, ended: &FinishedWindow) -> Result<(), DirectoryError> {
        if self.full {
            return Ok(());
        }
        let written = self.try_window(ended);
        self.full = written.is_err();
        written
    }

    fn try_window(&mut self, ended: &FinishedWindow) -> Result<(), DirectoryError> {
        let row = &ended.row;
        let start = WINDOW * u32::try_from(row.number).unwrap_or(u32::MAX);
        if !self.begun {
            self.begun = true;
            self.log.append(&hlog::head(ended.wall, &[]))?;
            self.rows.append(rows::COLUMNS)?;
        }
        let latency = ended.results.times(Measure::Latency, None);
        self.log.append(&lines(start, WINDOW, &ended.results, &latency))?;
        self.end = start + WINDOW;
        self.rows.append(&rows::line(row))?;
        self.course.row(row);
        self.course.latency(row.number, &latency);
        self.course.correct(row.number, &ended.results.correction());
        for (owner, count) in Owner::ALL.into_iter().zip(Owner::counts(&ended.results)) {
            self.course.errors(row.number, owner, count);
        }
        Ok(())
    }

    /// Writes what ended behind the last whole window, and the report. Gives what the page needs
    /// of the windows; nothing where some found no room.
    ///
    /// # Errors
    /// The disk refuses. What it took before is there.
    pub fn finish(
        mut self,
        outcome: &Outcome,
        summary: &Summary<'_>,
    ) -> Result<Option<Course>, DirectoryError> {
        let rest = if self.full { Ok(()) } else { self.rest(outcome) };
        replace(&self.path.join(TEXT), &summary.text())?;
        replace(&self.path.join(JSON), &pretty(&summary.json()))?;
        rest.map(|()| (!self.full).then_some(self.course))
    }

    /// Takes all back, of a run that could not be begun.
    pub fn discard(self) {
        for name in [RUN, RUN_FILE, PART, LEDGER, LOG, ROWS, TEXT, JSON, PAGE] {
            let _ = fs::remove_file(self.path.join(name));
        }
        let _ = fs::remove_dir_all(self.path.join(LEDGER_BITS));
        let _ = fs::remove_dir(&self.path);
    }

    fn rest(&mut self, outcome: &Outcome) -> Result<(), DirectoryError> {
        if !self.begun {
            self.begun = true;
            self.log.append(&hlog::head(outcome.wall, &[]))?;
            self.rows.append(rows::COLUMNS)?;
        }
        if outcome.rest.total() == 0 {
            return Ok(());
        }
        let length = outcome.measured.saturating_sub(self.end);
        let latency = outcome.rest.times(Measure::Latency, None);
        self.log.append(&lines(self.end, length, &outcome.rest, &latency))
    }
}

/// All histograms of a window, as [`results_of`] reads them.
pub fn histograms(results: &Results) -> String {
    let latency = results.times(Measure::Latency, None);
    lines(Duration::ZERO, WINDOW, results, &latency)
}

/// What the histograms of a window are of.
///
/// # Errors
/// A line is damaged.
pub fn results_of(histograms: &str) -> Result<Results, hlog::LogError> {
    let mut results = Results::default();
    for line in hlog::read_all(histograms.as_bytes()) {
        add_line(&line?, &mut results);
    }
    Ok(results)
}

/// Adds a line of a log. That without a tag is the sum of others, and tags and notes of a newer
/// version say what this one does not know.
pub fn add_line(line: &LogLine, results: &mut Results) {
    match line {
        LogLine::Histogram(line) => {
            if let Some(tag) = line.tag.as_deref().and_then(Tag::read) {
                tag.add(&line.times, results);
            }
        }
        LogLine::Note(_, text) => {
            let read = |(operation, traffic): (&str, &str)| {
                Some((operation.parse::<usize>().ok()?, traffic.parse::<OperationTraffic>().ok()?))
            };
            if let Some((operation, traffic)) = text.split_once(' ').and_then(read) {
                results.traffic_mut(operation).add(&traffic);
            }
        }
    }
}

/// All histograms of a window, and what its requests had on their connections. The histogram
/// without a tag is the latency of all results, which is what tools show that know no tags.
fn lines(start: Duration, length: Duration, results: &Results, latency: &Times) -> String {
    let mut out = String::new();
    hlog::line(&mut out, None, start, length, latency);
    for (operation, kind, latency, service) in results.each() {
        for (times, measure) in [(latency, Measure::Latency), (service, Measure::Service)] {
            if times.count() > 0 {
                let tag = Tag { operation, kind, measure, part: HistogramPart::Measured };
                hlog::line(&mut out, Some(&tag.to_string()), start, length, times);
            }
        }
    }
    for (operation, kind, measure, correction) in results.corrections() {
        let (without, instead) = correction.sides();
        for (part, times) in [(HistogramPart::Without, without), (HistogramPart::Instead, instead)]
        {
            let tag = Tag { operation, kind, measure, part };
            hlog::line(&mut out, Some(&tag.to_string()), start, length, &times);
        }
    }
    for (operation, traffic) in results.traffic() {
        hlog::note(&mut out, start, &format!("{operation} {traffic}"));
    }
    out
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn write(path: &Path, text: &str) -> Result<(), DirectoryError> {
    let failed = |source| DirectoryError::Io { path: path.to_owned(), source };
    fs::write(path, text).map_err(failed)
}

/// Puts a text into a file: there is the old one or the new one at any moment.
///
/// # Errors
/// The disk refuses.
pub fn replace(path: &Path, text: &str) -> Result<(), DirectoryError> {
    let beside = path.with_extension("new");
    let failed = |source| DirectoryError::Io { path: path.to_owned(), source };
    let done = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    if done.is_err() {
        let _ = fs::remove_file(&beside);
    }
    done.map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::Duration;

    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::{
        Directory, DirectoryError, HistogramPart, JSON, LOG, ROWS, RUN, TEXT, Tag, histograms,
        results_of,
    };
    use crate::engine::{FinishedWindow, Outcome, Row};
    use crate::hlog;
    use crate::recorder::{Kind, Measure, Results, Times};
    use crate::summary::Summary;
    use crate::summary::tests::outcome;

    const MS: Duration = Duration::from_millis(1);

    fn ended(number: u64) -> FinishedWindow {
        let mut results = Results::default();
        for took in 1..=10 {
            results.note(0, Kind::Succeeded, took * 3 * MS, took * MS);
        }
        results.note(1, Kind::Server, 40 * MS, 40 * MS);
        results.traffic_mut(0).sent += 900;
        results.traffic_mut(1).note_failure(Kind::Server, 503);
        let latency = results.times(Measure::Latency, None);
        let (p50, p99) = (latency.quantile(0.5), latency.quantile(0.99));
        let row =
            Row { number, offered: 12, sent: 12, ended: 11, failed: 1, p50, p99, ..Row::default() };
        let row = Row { max: latency.max(), ..row };
        FinishedWindow { wall: std::time::SystemTime::UNIX_EPOCH, row, results }
    }

    fn begun() -> (TempDir, Directory) {
        let place = tempfile::tempdir().unwrap();
        let directory =
            Directory::create(&place.path().join("a/b"), &json!({ "rate": 7 }), &[]).unwrap();
        (place, directory)
    }

    fn logged(log: &str) -> Vec<hlog::Line> {
        hlog::read(log.as_bytes()).collect::<Result<_, _>>().unwrap()
    }

    fn file(place: &TempDir, name: &str) -> String {
        fs::read_to_string(place.path().join("a/b").join(name)).unwrap()
    }

    #[test]
    fn a_run_that_was_killed_is_whole_up_to_its_last_window_and_says_so() {
        let (place, mut directory) = begun();
        directory.window(&ended(0)).unwrap();
        directory.window(&ended(1)).unwrap();
        drop(directory);
        assert!(
            file(&place, TEXT).starts_with("UNFINISHED  This run has not ended, or was killed")
        );
        let report: Value = serde_json::from_str(&file(&place, JSON)).unwrap();
        assert_eq!(report["verdict"], "UNFINISHED");
        let rows = file(&place, ROWS);
        let rows: Vec<_> = rows.lines().collect();
        assert_eq!(rows.len(), 3);
        assert!(rows[0].starts_with("second,") && rows[2].starts_with("1,12,12,11,1,"));
        let log = file(&place, LOG);
        let lines = logged(&log);
        let last = lines.iter().rfind(|line| line.tag.is_none()).unwrap();
        assert_eq!((last.start, last.times.count()), (1000 * MS, 11));
        let about: Value = serde_json::from_str(&file(&place, RUN)).unwrap();
        assert_eq!(about["run"]["rate"], 7);
    }

    #[test]
    fn what_a_window_says_to_a_coordinator_is_all_of_it() {
        let of = ended(0).results;
        let read = results_of(&histograms(&of)).unwrap();
        assert_eq!((read.total(), read.failed()), (of.total(), of.failed()));
        let told: Vec<_> = read.traffic().map(|(at, of)| format!("{at}: {of}")).collect();
        assert_eq!(told, ["0: 900 0", "1: 0 0 server.503.1"]);
    }

    #[test]
    fn all_results_of_a_run_are_in_its_log_once() {
        let (place, mut directory) = begun();
        let mut whole = Outcome { results: Results::default(), ..outcome() };
        for number in 0..2 {
            let ended = ended(number);
            whole.results.add(&ended.results);
            whole.rows.push(ended.row);
            directory.window(&ended).unwrap();
        }
        whole.rest.note(0, Kind::Unsent, 900 * MS, Duration::ZERO);
        whole.results.add(&whole.rest.clone());
        directory.finish(&whole, &Summary::new(&whole, &[])).unwrap();
        let log = file(&place, LOG);
        assert_eq!(logged(&log).last().unwrap().start, 2000 * MS);
        let (mut all, mut tagged) = (Times::new(), Results::default());
        for line in logged(&log) {
            match line.tag.map(|text| Tag::read(&text).unwrap()) {
                None => all.add(&line.times),
                Some(Tag {
                    operation,
                    kind,
                    measure: Measure::Latency,
                    part: HistogramPart::Measured,
                }) => {
                    for _ in 0..line.times.count() {
                        tagged.note(operation, kind, MS, MS);
                    }
                }
                Some(_) => {}
            }
        }
        let told = whole.results.times(Measure::Latency, None);
        assert_eq!((all.count(), tagged.total(), tagged.failed()), (23, 23, 3));
        for share in [0.1, 0.5, 0.9, 1.0] {
            assert_eq!(all.quantile(share), told.quantile(share));
        }
        let report: Value = serde_json::from_str(&file(&place, JSON)).unwrap();
        assert_eq!(
            (report["verdict"].as_str(), report["requests"].as_u64()),
            (Some("VALID"), Some(23))
        );
        assert_eq!(report["windows"].as_array().map(Vec::len), Some(2));
        assert!(file(&place, TEXT).starts_with("VALID  The server did not keep up: 23 requests"));
    }

    #[test]
    fn a_full_disk_is_told_once_and_leaves_whole_pieces() {
        let (place, mut directory) = begun();
        directory.window(&ended(0)).unwrap();
        let whole = file(&place, LOG);
        directory.rows.file = File::options().write(true).open("/dev/full").unwrap();
        let error = directory.window(&ended(1)).unwrap_err().to_string();
        assert!(error.contains("can't write results to") && error.contains(ROWS), "{error}");
        assert!(directory.window(&ended(2)).is_ok());
        assert!(file(&place, LOG).starts_with(&whole));
        assert_eq!(file(&place, ROWS).lines().count(), 2);
        // The report may find room again.
        let of = outcome();
        directory.finish(&of, &Summary::new(&of, &[])).unwrap();
        assert!(file(&place, TEXT).starts_with("VALID"));
    }

    #[test]
    fn a_directory_that_holds_something_is_refused_and_one_of_no_run_goes() {
        let (place, directory) = begun();
        let path = place.path().join("a/b");
        let refused = Directory::create(&path, &json!({}), &[]);
        assert!(matches!(refused, Err(DirectoryError::Taken(_))));
        directory.discard();
        assert!(!path.exists());
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(
            Directory::create(&file, &json!({}), &[]),
            Err(DirectoryError::Io { .. })
        ));
    }

    #[test]
    fn tags_say_operation_kind_and_measure() {
        for (text, measure, part) in [
            ("3.timeout.service", Measure::Service, HistogramPart::Measured),
            ("3.timeout.latency.without", Measure::Latency, HistogramPart::Without),
            ("3.timeout.latency.instead", Measure::Latency, HistogramPart::Instead),
        ] {
            let tag = Tag { operation: 3, kind: Kind::Timeout, measure, part };
            assert_eq!((Tag::read(text), tag.to_string().as_str()), (Some(tag), text));
        }
        for text in
            ["", "x.timeout.service", "3.lost.service", "3.timeout.x", "3.timeout.service.x"]
        {
            assert_eq!(Tag::read(text), None);
        }
    }
}
