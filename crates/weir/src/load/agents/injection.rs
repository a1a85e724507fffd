//! A part of a run, as an agent sends it.

use std::io;
use std::path::{Path, PathBuf};

use meter::directory::{histograms, rows};
use meter::engine::{self, Pace, Start, StartAgreement, Stop};
use meter::limit::STEP;
use meter::schedule::{Schedule, Segment};
use meter::summary::Summary;
use tokio::sync::mpsc::Sender;
use toml::Table;

use super::ledgers;
use super::limits::Limits;
use super::message::{Assignment, OF_COORDINATOR, Report};
use crate::exit::Failure;
use crate::load::inputs::Inputs;
use crate::load::ledger::Ledger;
use crate::load::results::{Results, part_file};
use crate::load::run::{MadeLoads, NamedLoad};
use crate::load::shared_run::SharedRun;
use crate::load::{Command, mix};

/// Directories of runs that an agent keeps.
const RUNS_MAX: usize = 1000;

/// Sends a part of a run within limits, and tells what comes of it.
pub struct Injection<'a> {
    /// What it sends at most.
    pub limits: Limits,
    /// The directory in which each run has one.
    pub out: &'a Path,
    /// Ends the run when it is asked to.
    pub stop: Stop,
    /// Waits for its begin.
    pub start: StartAgreement,
    /// Hears of each window, and of its ledger.
    pub tell: &'a Sender<Report>,
}

impl Injection<'_> {
    /// Sends a part; gives what is to be said when it has ended.
    ///
    /// # Errors
    /// It can't be sent, or is beyond the limits.
    pub fn run(&self, assignment: Assignment) -> Result<Report, Failure> {
        let Assignment { run_id, part, text, over, inputs, rate, ledger } = assignment;
        let over: Table = over.parse().map_err(Failure::other)?;
        let mut loads = mix::loads(&text, over).map_err(Failure::other)?;
        let shared = SharedRun { part: Some(part), run_id: Some(run_id.clone()), start_at: None };
        loads.iter_mut().for_each(|(_, command)| assign(command, &shared));
        let named: Vec<NamedLoad<'_>> =
            loads.iter().map(|(name, command)| (name.clone(), command)).collect();
        let inputs = Inputs::of_sent(inputs).map_err(Failure::other)?;
        let path = directory(self.out, &format!("{run_id}-{}-of-{}", part.number(), part.of()))?;
        let ledger = ledger.map(|run| Ledger::new(&path, Some(run)));
        let MadeLoads { mut loads, operations, kept, fingerprint } =
            MadeLoads::new(&named, &inputs, &self.stop, ledger.as_ref())?;
        for (load, (_, command)) in loads.iter_mut().zip(&named) {
            load.plan.start = Start::Agreed(self.start.clone());
            if let Some(rate) = rate {
                let step = vec![Segment::constant(rate, STEP)];
                let schedule = Schedule::new(step, command.speed.arrivals());
                load.plan.pace = Pace::Open(schedule.map_err(Failure::other)?);
            }
        }
        self.limits.check(loads.iter().map(|load| &load.plan)).map_err(Failure::other)?;
        let duration = loads.first().map(|load| load.plan.duration()).unwrap_or_default();
        let mut results =
            Results::create(&named, path.clone(), &operations, duration, fingerprint)?;
        let begun = ledger.map(|ledger| ledger.begin(&named, kept, &inputs)).transpose();
        let ran = begun.and_then(|ledger| {
            let outcome = engine::run_all(&loads, |ended| {
                results.window(ended);
                self.say_window(rows::line(&ended.row), histograms(&ended.results));
            });
            Ok((outcome.map_err(Failure::other)?, ledger))
        });
        let (outcome, ledger) = match ran {
            Ok(ran) => ran,
            Err(failure) => {
                results.discard();
                return Err(failure);
            }
        };
        let has_ledger = ledger.map(|ledger| ledger.end(&named, &inputs)).is_some();
        let _ = results.finish(&outcome, &Summary::new(&outcome, &[]));
        if has_ledger {
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            let tell = |report| self.tell.blocking_send(report).map_err(gone);
            ledgers::send(&path, tell).map_err(Failure::other)?;
        }
        let rest = histograms(&outcome.rest);
        Ok(Report::Ended { file: Box::new(part_file(part, run_id, &outcome)), rest })
    }

    /// Says a window, or stops where the coordinator does not listen any more: no request waits
    /// for it.
    fn say_window(&self, row: String, histograms: String) {
        if self.tell.try_send(Report::Window { row, histograms }).is_err() {
            self.stop.ask();
        }
    }
}

/// Leaves of a load what is one part's, whatever the coordinator has sent.
fn assign(command: &mut Command, shared: &SharedRun) {
    command.shared = shared.clone();
    command.demands.require.clear();
    command.demands.abort.clear();
    command.findings.find_limit = None;
    command.stream = Default::default();
    command.agents = Default::default();
    for key in OF_COORDINATOR {
        command.given.remove(key);
    }
}

/// A new directory for a run, by a name that has come from elsewhere.
fn directory(out: &Path, name: &str) -> Result<PathBuf, Failure> {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let name: String = name.chars().map(|c| if is_usual(c) { c } else { '_' }).collect();
    let name = name.trim_start_matches('.');
    let runs = std::fs::read_dir(out).map_or(0, Iterator::count);
    if runs >= RUNS_MAX {
        let out = out.display();
        return Err(Failure::other(format!("{out} has {runs} runs already: move them elsewhere")));
    }
    let numbered = (1..=RUNS_MAX + 1).map(|number| match number {
        1 => out.join(name),
        _ => out.join(format!("{name}-{number}")),
    });
    { numbered }.find(|path| !path.exists()).ok_or_else(|| Failure::other("no name is free"))
}

#[cfg(test)]
mod tests {
    use super::directory;

    #[test]
    fn a_run_of_whatever_name_has_a_directory_of_its_own() {
        let place = tempfile::tempdir().unwrap();
        let made = |name: &str| {
            let path = directory(place.path(), name).unwrap();
            std::fs::create_dir(&path).unwrap();
            path.strip_prefix(place.path()).unwrap().display().to_string()
        };
        assert_eq!(made("night-1-of-2"), "night-1-of-2");
        assert_eq!(made("night-1-of-2"), "night-1-of-2-2");
        assert_eq!(made("../../etc/x-1-of-2"), "_.._etc_x-1-of-2");
    }
}
