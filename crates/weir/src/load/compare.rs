//! `weir load compare`: runs of two loads in turn, each in a process of its own, or the runs that
//! two directories hold already.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use meter::compare::{Comparison, Side};
use meter::directory::{RUN, replace};
use meter::report;
use rustix::process::{Pid, Signal, kill_process};

use super::results::ResultsPlace;
use super::signals::hear_signals;
use crate::exit::{BAD_NEWS, DONE, Failure, INVALID};

/// What the directory of a comparison has besides those of its runs.
const LINES: &str = "compare.txt";
const PAIRS_MAX: u32 = 100;

/// What is held against what.
#[derive(Debug, Args)]
pub struct Command {
    /// A URL or a run file; or a directory that has a directory for each of its runs
    a: String,
    /// What is held against it: another of the same kind
    b: String,
    /// How often both are run, in turn; it takes 5 of each that are VALID
    #[arg(long, value_name = "N", default_value_t = 7)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(PAIRS_MAX)))]
    pairs: u32,
    #[command(flatten)]
    place: ResultsPlace,
    /// Options of `weir load` for both, behind --, as -- --rate 500 --duration 5s
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// Runs them, or reads what was run, and says what sets them apart.
pub fn run(command: &Command, out: &mut dyn Write) -> Result<u8, Failure> {
    let Command { a, b, options, .. } = command;
    let (is_dir_a, is_dir_b) = (Path::new(a).is_dir(), Path::new(b).is_dir());
    let compared = match (is_dir_a, is_dir_b) {
        (true, true) if options.is_empty() => {
            Comparison { first: held(Path::new(a))?, second: held(Path::new(b))? }
        }
        (true, true) => {
            return Err(Failure::other("these runs are over: there are no options for them"));
        }
        (false, false) => return pairs(command, out),
        _ => {
            return Err(Failure::other(
                "a load that is to be run can't be held against runs that are over: the machine's \
                 mood changes from one hour to the next; name two of a kind",
            ));
        }
    };
    write!(out, "{compared}")?;
    Ok(if compared.is_too_few() { INVALID } else { DONE })
}

/// The runs that a directory holds.
fn held(path: &Path) -> Result<Side, Failure> {
    let failed = |error| Failure::other(format!("can't read {}: {error}", path.display()));
    let entries = fs::read_dir(path).map_err(failed)?;
    let entries = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut runs: Vec<_> = entries.iter().map(fs::DirEntry::path).collect();
    runs.retain(|path| path.join(RUN).exists());
    runs.sort();
    let mut side = Side::new(path.display().to_string());
    for run in &runs {
        side.add(run).map_err(Failure::other)?;
    }
    Ok(side)
}

/// The process of the run under way, and whether somebody wants no further one.
#[derive(Default)]
struct Turn {
    child: Option<Pid>,
    is_stopped: bool,
}

/// Runs both in turn. Whoever stops it stops the run under way, and hears what those before it say.
fn pairs(command: &Command, out: &mut dyn Write) -> Result<u8, Failure> {
    let turn = Arc::<Mutex<Turn>>::default();
    let heard = Arc::clone(&turn);
    hear_signals(move || {
        let mut turn = heard.lock().unwrap_or_else(PoisonError::into_inner);
        turn.is_stopped = true;
        if let Some(child) = turn.child {
            let _ = kill_process(child, Signal::TERM);
        }
    })?;
    let place = command.place.path();
    let sides = [("a", &command.a), ("b", &command.b)];
    let [mut first, mut second] = sides.map(|(_, what)| Side::new(shown(what)));
    let is_stopped = || turn.lock().unwrap_or_else(PoisonError::into_inner).is_stopped;
    'pairs: for pair in 1..=command.pairs {
        for ((letter, what), side) in sides.iter().zip([&mut first, &mut second]) {
            if is_stopped() {
                break 'pairs;
            }
            let path = place.join(letter).join(format!("{pair:02}"));
            one(what, &command.options, &path, &turn)?;
            if is_stopped() {
                break 'pairs;
            }
            side.add(&path).map_err(Failure::other)?;
            writeln!(out, "{letter} {pair:>3}  {}", line(&path)?)?;
        }
    }
    let compared = Comparison { first, second };
    write!(out, "{compared}")?;
    let report = place.join(LINES);
    match replace(&report, &compared.to_string()) {
        Ok(()) => writeln!(out, "report: {}", report.display())?,
        Err(error) => writeln!(out, "report: none, {error}")?,
    }
    Ok(match (is_stopped(), compared.is_too_few()) {
        (true, _) => BAD_NEWS,
        (false, true) => INVALID,
        (false, false) => DONE,
    })
}

/// One run, in a process of its own and out of the reach of this terminal's Ctrl-C.
fn one(what: &str, options: &[String], path: &Path, turn: &Mutex<Turn>) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::other(format!("can't run a load: {error}"));
    let mut process = Process::new(std::env::current_exe().map_err(failed)?);
    process.arg("load");
    if !what.contains("://") {
        process.arg("run");
    }
    process.arg(what).args(options).arg("--out").arg(path);
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let child: Child = {
        let mut turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let child = process.spawn().map_err(failed)?;
        turn.child = Some(Pid::from_child(&child));
        child
    };
    let output = child.wait_with_output().map_err(failed)?;
    turn.lock().unwrap_or_else(PoisonError::into_inner).child = None;
    // What a run found is in its directory; all else is a failure, in its own words.
    let (done, found) = (i32::from(DONE), [i32::from(BAD_NEWS), i32::from(INVALID)]);
    match output.status.code() {
        Some(code) if code == done || found.contains(&code) => Ok(()),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            let words = said.lines().rfind(|line| line.starts_with("weir: "));
            let words = words.map_or(said.trim(), |line| line.trim_start_matches("weir: "));
            Err(Failure::other(format!("{}: {words}", shown(what))))
        }
    }
}

/// A run in a line.
fn line(path: &Path) -> Result<String, Failure> {
    let judged = report::judged(path).map_err(Failure::other)?;
    let word = |name: &str| judged[name].as_str().unwrap_or_default().to_owned();
    Ok(format!("{}  {}", word("verdict"), word("words")))
}

/// A URL without its secrets; a file's name as it is.
fn shown(what: &str) -> String {
    match what.parse::<meter::url::Url>() {
        Ok(url) => url.without_secrets(),
        Err(_) => PathBuf::from(what).display().to_string(),
    }
}
