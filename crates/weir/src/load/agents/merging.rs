//! What comes of the parts of a run while agents send them.

use std::io;

use meter::directory::{results_of, rows};
use meter::engine::{FinishedWindow, Outcome};
use meter::gate::{AbortGates, Gate};
use meter::merge::{EndedPart, LiveMerge};
use meter::network::Network;
use meter::part::RunPart;
use meter::recorder::Results;
use meter::sharing::{LostInjector, PartInjector};
use meter::window::WINDOW;

use super::ledgers::ReceivedLedger;
use super::link::AgentClocks;
use super::message::Report;
use crate::exit::note;

/// The agent of a part.
pub struct PartAgent {
    /// Its address as it was named.
    pub name: String,
    pub part: RunPart,
    /// How far its clocks were ahead when the run began.
    pub clocks: Option<AgentClocks>,
    /// Where its ledger goes, where one is kept.
    pub ledger: Option<ReceivedLedger>,
}

/// A run whose parts are being sent.
pub struct Merging {
    agents: Vec<PartAgent>,
    merge: LiveMerge,
    /// Windows that came of each part.
    windows: Vec<u64>,
    abort: AbortGates,
    aborted: Option<(Gate, String)>,
}

impl Merging {
    /// Of these agents; `begun` says what is known of the run beforehand, and the first miss of a
    /// demand in `abort` ends it.
    pub fn new(agents: Vec<PartAgent>, begun: Outcome, abort: Vec<Gate>) -> Self {
        let (windows, tolerance) = (vec![0; agents.len()], begun.thresholds.tolerance());
        let merge = LiveMerge::new(agents.len(), begun);
        let abort = AbortGates::new(abort, tolerance);
        Self { agents, merge, windows, abort, aborted: None }
    }

    /// Whether nothing more is to come.
    pub fn is_over(&self) -> bool {
        self.merge.is_over()
    }

    /// Whether a demand was missed by which the run is ended.
    pub fn is_aborted(&self) -> bool {
        self.aborted.is_some()
    }

    /// Takes what the agent `at` has said; gives the windows that are whole now.
    ///
    /// # Errors
    /// It is not what an agent says: it is to be taken for lost.
    pub fn take(&mut self, at: usize, report: Report) -> io::Result<Vec<FinishedWindow>> {
        let wrong = |what: &str| io::Error::other(what.to_owned());
        let agent = self.agents.get_mut(at).ok_or_else(|| wrong("nobody knows it"))?;
        let whole = match report {
            Report::Window { row, histograms } => {
                let row = rows::read_line(&row).ok_or_else(|| wrong("a window is damaged"))?;
                let results = results_of(&histograms).map_err(io::Error::other)?;
                let behind = "a window is not the next one, or the others are far behind it";
                let is_next = row.number == self.windows[at];
                self.windows[at] += 1;
                let whole = is_next.then(|| self.merge.window(at, row, results)).flatten();
                whole.ok_or_else(|| wrong(behind))?
            }
            Report::Ledger { name, bytes } => {
                let ledger = agent.ledger.as_mut().ok_or_else(|| wrong("nobody keeps a ledger"))?;
                ledger.add(&name, &bytes)?;
                Vec::new()
            }
            Report::Ended { mut file, rest } => {
                if file.injector.part != agent.part {
                    return Err(wrong("it has sent another part"));
                }
                file.injector.host.clone_from(&agent.name);
                file.injector.clock = agent.clocks.map(|clocks| clocks.wall);
                let rest = results_of(&rest).map_err(io::Error::other)?;
                self.merge.end(at, EndedPart { file: *file, rest })
            }
            Report::Failed(words) => return Err(io::Error::other(words)),
            Report::Ready | Report::Clock { .. } => return Err(wrong("it says what nobody asked")),
        };
        self.judge(&whole);
        Ok(whole)
    }

    /// The agent `at` is gone; says so, and gives the windows that are whole without it. Nothing
    /// where its part had ended.
    pub fn lose(&mut self, at: usize, why: String) -> Vec<FinishedWindow> {
        let Some(agent) = self.agents.get(at).filter(|_| self.merge.is_running(at)) else {
            return Vec::new();
        };
        let second = self.windows[at];
        note(format!(
            "agent {} was lost at second {second}: {why}; the run is INVALID from there on",
            agent.name
        ));
        let measured = WINDOW * u32::try_from(second).unwrap_or(u32::MAX);
        let (network, host) = (Network::default(), agent.name.clone());
        let known = PartInjector::new(agent.part, host, &network, measured, Vec::new());
        let clock = agent.clocks.map(|clocks| clocks.wall);
        let injector = PartInjector { lost: Some(LostInjector { second, why }), clock, ..known };
        let whole = self.merge.lose(at, injector);
        self.judge(&whole);
        whole
    }

    /// Holds windows against the demands that end the run.
    fn judge(&mut self, whole: &[FinishedWindow]) {
        for ended in whole {
            let so_far: &Results = self.merge.so_far();
            let missed = self.abort.window(ended.row.number, &ended.results, so_far);
            self.aborted = self.aborted.take().or(missed);
        }
    }

    /// What came of the run, and the ledgers of its parts.
    pub fn finish(mut self) -> (Outcome, Vec<ReceivedLedger>) {
        let mut outcome = self.merge.finish();
        self.abort.end(&outcome.rest);
        outcome.stopped &= self.aborted.is_none();
        if self.aborted.is_none() {
            outcome.unjudged.extend(self.abort.unjudged(&outcome.results, outcome.measured));
        }
        outcome.aborted = self.aborted;
        let ledgers = self.agents.into_iter().filter_map(|agent| agent.ledger);
        (outcome, ledgers.collect())
    }
}
