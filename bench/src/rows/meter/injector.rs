//! `weir load` as a process: what it used, and what it says of its run.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use rig::places;
use serde_json::Value;
use tempfile::TempDir;

use crate::Outcome;
use crate::measure;

/// The exit code of a run whose numbers can't be believed.
const INVALID: i32 = 4;

/// A load that runs.
pub struct RunningInjector {
    child: Child,
    dir: TempDir,
    cpu: Duration,
}

/// What came of a load.
pub struct InjectorRun {
    report: Value,
    /// The CPU time of its process.
    pub cpu: Duration,
}

/// Words as a command line.
pub fn words(line: &str) -> impl Iterator<Item = String> {
    line.split_whitespace().map(str::to_owned)
}

/// Runs `weir load` with a command line in which no word has a space.
///
/// # Errors
/// It could not begin, or left no report.
pub fn load(line: &str) -> Outcome<InjectorRun> {
    start(&[], line)?.wait()
}

/// The same by another Weir than the one that is measured.
///
/// # Errors
/// It could not begin, or left no report.
pub fn load_by(program: &Path, line: &str) -> Outcome<InjectorRun> {
    run(Command::new(program), line)?.wait()
}

/// Starts `weir load`, behind the words of another program that starts it.
///
/// # Errors
/// It can't be started.
pub fn start(prefix: &[&str], line: &str) -> Outcome<RunningInjector> {
    let weir = places::weir();
    let command = match prefix {
        [] => Command::new(&weir),
        [program, rest @ ..] => {
            let mut command = Command::new(places::need(program));
            command.args(rest).arg(&weir);
            command
        }
    };
    run(command, line)
}

fn run(mut command: Command, line: &str) -> Outcome<RunningInjector> {
    let dir = places::directory();
    command.arg("load").args(words(line)).arg("--out").arg(dir.path().join("run"));
    command.current_dir(dir.path()).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(std::fs::File::create(dir.path().join("said"))?);
    let cpu = measure::ended_children_cpu();
    Ok(RunningInjector { child: command.spawn()?, dir, cpu })
}

impl RunningInjector {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// As the system's.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It could not begin, or left no report.
    pub fn wait(mut self) -> Outcome<InjectorRun> {
        let status = self.child.wait()?;
        let cpu = measure::ended_children_cpu().saturating_sub(self.cpu);
        if !matches!(status.code(), Some(0 | INVALID)) {
            let said = std::fs::read_to_string(self.dir.path().join("said"))?;
            return Err(format!("weir load: {status}: {}", said.trim()).into());
        }
        let report = std::fs::read(self.dir.path().join("run/report.json"))?;
        Ok(InjectorRun { report: serde_json::from_slice(&report)?, cpu })
    }
}

impl InjectorRun {
    /// A number of the report, by its place; NaN where there is none.
    pub fn number(&self, place: &str) -> f64 {
        self.report.pointer(place).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// How many requests count.
    pub fn requests(&self) -> u64 {
        self.report["requests"].as_u64().unwrap_or(0)
    }

    /// Whether its numbers can be believed.
    pub fn is_valid(&self) -> bool {
        self.report["verdict"] == "VALID"
    }

    /// The verdict, with its first cause.
    pub fn verdict(&self) -> String {
        match self.report["because"][0]["cause"].as_str() {
            Some(cause) => format!("INVALID, {cause}"),
            None => self.report["verdict"].as_str().unwrap_or("no verdict").to_owned(),
        }
    }

    /// All causes of its verdict.
    pub fn causes(&self) -> String {
        let causes = self.report["because"].as_array().into_iter().flatten();
        causes.filter_map(|cause| cause["cause"].as_str()).collect::<Vec<_>>().join("; ")
    }

    /// Requests that ended in each second of the run.
    pub fn ended(&self) -> Vec<u64> {
        let windows = self.report["windows"].as_array().into_iter().flatten();
        windows.map(|window| window["ended"].as_u64().unwrap_or(0)).collect()
    }

    /// When what counts began.
    pub fn began(&self) -> SystemTime {
        let since = Duration::try_from_secs_f64(self.number("/began"));
        SystemTime::UNIX_EPOCH + since.unwrap_or_default()
    }

    /// That no request failed.
    ///
    /// # Errors
    /// One did; the commonest error.
    pub fn without_errors(self) -> Outcome<Self> {
        match self.report["errors"][0]["words"].as_str() {
            Some(words) => Err(format!("weir load: {words}").into()),
            None => Ok(self),
        }
    }
}
