//! What comes of the parts of a run while agents send them.

use std::io;
use std::time::{Duration, SystemTime};

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
use crate::load::ended::EndedPiece;

/// By how much a part that ends before its time is early at least.
const EARLY: Duration = Duration::from_millis(200);

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
pub struct RunInProgress {
    agents: Vec<PartAgent>,
    merge: LiveMerge,
    /// When its first window begins.
    wall: SystemTime,
    /// How long each part is to be sent, of what counts.
    planned: Duration,
    /// Whether a part has ended before that.
    has_ended_early: bool,
    received: Vec<ReceivedPart>,
    abort: AbortGates,
    aborted: Option<(Gate, String)>,
}

/// How much has come of a part.
#[derive(Debug, Clone, Copy, Default)]
struct ReceivedPart {
    windows: u64,
    results: u64,
}

impl RunInProgress {
    /// Of these agents; `begun` says what is known of the run beforehand, its planned length with
    /// it, and the first miss of a demand in `abort` ends it.
    pub fn new(agents: Vec<PartAgent>, begun: Outcome, abort: Vec<Gate>) -> Self {
        let (received, planned) = (vec![ReceivedPart::default(); agents.len()], begun.measured);
        let wall = begun.wall;
        let abort = AbortGates::new(abort, begun.thresholds.tolerance());
        let merge = LiveMerge::new(agents.len(), begun);
        Self {
            agents,
            merge,
            wall,
            planned,
            has_ended_early: false,
            received,
            abort,
            aborted: None,
        }
    }

    /// Whether nothing more is to come.
    pub fn is_over(&self) -> bool {
        self.merge.is_over()
    }

    /// Whether the other parts are to end, too: a demand was missed by which the run is ended, or
    /// a part has ended before its time.
    pub fn is_to_end(&self) -> bool {
        self.aborted.is_some() || self.has_ended_early
    }

    /// Whether more is to come of the part `at`.
    pub fn is_running(&self, at: usize) -> bool {
        self.merge.is_running(at)
    }

    /// Takes what the agent `at` has said; gives the windows that are whole now. `each` hears what
    /// that agent has sent itself.
    ///
    /// # Errors
    /// It is not what an agent says: it is to be taken for lost.
    pub fn take(
        &mut self,
        at: usize,
        report: Report,
        mut each: impl FnMut(EndedPiece<'_>),
    ) -> io::Result<Vec<FinishedWindow>> {
        let wrong = |what: &str| io::Error::other(what.to_owned());
        let agent = self.agents.get_mut(at).ok_or_else(|| wrong("nobody knows it"))?;
        if !self.merge.is_running(at) {
            return Ok(Vec::new());
        }
        let received = &mut self.received[at];
        let whole = match report {
            Report::Window { row, histograms } => {
                let row = rows::read_line(&row).ok_or_else(|| wrong("a window is damaged"))?;
                let results = results_of(&histograms).map_err(io::Error::other)?;
                let behind = "a window is not the next one, or the others are far behind it";
                let (is_next, count) = (row.number == received.windows, results.total());
                if !is_next || !self.merge.takes(at, row.number) {
                    return Err(wrong(behind));
                }
                let own = FinishedWindow { wall: self.wall, row, results };
                each(EndedPiece::OfAgent(&agent.name, &own));
                let whole = self.merge.window(at, row, own.results);
                let whole = whole.ok_or_else(|| wrong(behind))?;
                received.windows += 1;
                received.results += count;
                whole
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
                let (has, had) = (received.results + rest.total(), file.requests);
                if has != had {
                    return Err(io::Error::other(format!("of {had} results {has} have come")));
                }
                each(EndedPiece::RestOfAgent(&agent.name, self.wall, received.windows, &rest));
                self.has_ended_early |= file.outcome.measured + EARLY < self.planned;
                self.merge.end(at, EndedPart { file: *file, rest })
            }
            Report::Failed(words) => return Err(io::Error::other(words)),
            Report::Ready | Report::Alive | Report::Clock { .. } => {
                return Err(wrong("it says what nobody asked"));
            }
        };
        self.judge(&whole);
        Ok(whole)
    }

    /// The agent `at` is gone; says so, and gives the windows that are whole without it. Nothing
    /// where its part had ended.
    pub fn lose(&mut self, at: usize, why: String) -> Vec<FinishedWindow> {
        let Some(agent) = self.agents.get_mut(at).filter(|_| self.merge.is_running(at)) else {
            return Vec::new();
        };
        // What has come of it may not be all.
        agent.ledger = None;
        let second = self.received[at].windows;
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

    /// What came of the run, and the ledgers of its parts; `clocks` are those of its agents now.
    pub fn finish(mut self, clocks: &[Option<AgentClocks>]) -> (Outcome, Vec<ReceivedLedger>) {
        let mut outcome = self.merge.finish();
        let injectors = outcome.sharing.iter_mut().flat_map(|sharing| &mut sharing.injectors);
        for injector in injectors {
            let at = usize::try_from(injector.part.index()).unwrap_or(usize::MAX);
            let (begin, end) = (self.agents.get(at).and_then(|of| of.clocks), clocks.get(at));
            let moved = begin.zip(end.copied().flatten());
            let drifted = moved.map(|(begin, end)| begin.monotonic.until(end.monotonic).error);
            if let Some((clock, error)) = injector.clock.as_mut().zip(drifted) {
                clock.error = clock.error.max(error);
            }
        }
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
