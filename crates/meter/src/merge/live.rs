//! The parts of a run added up while they are sent: a window counts once every injector that is
//! there has ended it.

use std::collections::BTreeMap;

use super::{PartFile, outcome_of_parts, sum_of_parts};
use crate::engine::{FinishedWindow, Outcome, ROWS_MAX, Row};
use crate::recorder::{Results, Tolerance};
use crate::sharing::{PartInjector, Sharing};
use crate::window::WINDOW;

/// Windows by which one injector may be ahead of the slowest; with the next one it is let go.
const AHEAD_MAX: usize = 600;

/// A part that has ended, as its injector tells it.
#[derive(Debug)]
pub struct EndedPart {
    /// What came of it, its windows aside.
    pub file: PartFile,
    /// What ended behind its last whole window.
    pub rest: Results,
}

/// What is known of a part.
#[derive(Debug, Default)]
struct LivePart {
    /// Windows that wait for those of other parts.
    windows: BTreeMap<u64, (Row, Results)>,
    end: PartEnd,
}

impl LivePart {
    fn is_running(&self) -> bool {
        matches!(self.end, PartEnd::Running)
    }
}

/// Whether more is to come of a part.
#[derive(Debug, Default)]
enum PartEnd {
    #[default]
    Running,
    Ended(Box<EndedPart>),
    /// Its injector is gone.
    Lost(PartInjector),
}

/// The parts of a run, added up as their windows come.
#[derive(Debug)]
pub struct LiveMerge {
    parts: Vec<LivePart>,
    /// The window that is to be added up next.
    next: u64,
    tolerance: Tolerance,
    /// What is known of the run beforehand, and its windows so far.
    outcome: Outcome,
}

impl LiveMerge {
    /// Of so many parts; `begun` says what is known of the run before any has ended.
    pub fn new(parts: usize, begun: Outcome) -> Self {
        let tolerance = begun.thresholds.tolerance();
        let parts = std::iter::repeat_with(LivePart::default).take(parts).collect();
        Self { parts, next: 0, tolerance, outcome: begun }
    }

    /// All results that were added up so far.
    pub fn so_far(&self) -> &Results {
        &self.outcome.results
    }

    /// Whether that window of the part `at` is taken: not where the part is too far ahead of
    /// others, or over.
    pub fn takes(&self, at: usize, number: u64) -> bool {
        self.parts.get(at).is_some_and(|part| {
            part.is_running() && part.windows.len() < AHEAD_MAX && number >= self.next
        })
    }

    /// Takes a window of the part `at`, from 0 on; gives those of the run that are whole now.
    /// Nothing where it is not [taken](Self::takes).
    pub fn window(&mut self, at: usize, row: Row, results: Results) -> Option<Vec<FinishedWindow>> {
        if !self.takes(at, row.number) {
            return None;
        }
        self.parts.get_mut(at)?.windows.insert(row.number, (row, results));
        Some(self.whole())
    }

    /// A part has ended; gives the windows of the run that are whole now.
    pub fn end(&mut self, at: usize, ended: EndedPart) -> Vec<FinishedWindow> {
        if let Some(part) = self.parts.get_mut(at).filter(|part| part.is_running()) {
            part.end = PartEnd::Ended(ended.into());
        }
        self.whole()
    }

    /// The injector of a part is gone: the run goes on without it.
    pub fn lose(&mut self, at: usize, injector: PartInjector) -> Vec<FinishedWindow> {
        if let Some(part) = self.parts.get_mut(at).filter(|part| part.is_running()) {
            part.end = PartEnd::Lost(injector);
        }
        self.whole()
    }

    /// Whether more is to come of the part `at`.
    pub fn is_running(&self, at: usize) -> bool {
        self.parts.get(at).is_some_and(LivePart::is_running)
    }

    /// Whether nothing more comes of any part.
    pub fn is_over(&self) -> bool {
        !self.parts.iter().any(LivePart::is_running)
    }

    /// The windows that all parts have which are not lost, and at least one part.
    fn whole(&mut self) -> Vec<FinishedWindow> {
        let mut whole = Vec::new();
        loop {
            let next = self.next;
            let is_ready = |part: &LivePart| {
                matches!(part.end, PartEnd::Lost(_)) || part.windows.contains_key(&next)
            };
            let has_any = self.parts.iter().any(|part| part.windows.contains_key(&next));
            if !has_any || !self.parts.iter().all(is_ready) {
                return whole;
            }
            let parts = self.parts.iter_mut().filter_map(|part| part.windows.remove(&next));
            let parts: Vec<_> = parts.collect();
            let finished = sum_of_parts(next, self.outcome.wall, &self.tolerance, &parts);
            self.outcome.results.add(&finished.results);
            if self.outcome.rows.len() < ROWS_MAX {
                self.outcome.rows.push(finished.row);
            }
            self.next += 1;
            whole.push(finished);
        }
    }

    /// What came of the whole run. What is in no window of it is behind the last one.
    pub fn finish(self) -> Outcome {
        let Self { parts, outcome: begun, next, .. } = self;
        let mut rest = begun.rest;
        let (mut injectors, mut ended) = (Vec::new(), Vec::new());
        let count = parts.len() as u64;
        for part in parts {
            part.windows.values().for_each(|(_, results)| rest.add(results));
            match part.end {
                PartEnd::Running => {}
                PartEnd::Lost(injector) => injectors.push(injector),
                PartEnd::Ended(of) => {
                    rest.add(&of.rest);
                    injectors.push(of.file.injector);
                    ended.push(of.file.outcome);
                }
            }
        }
        let mut results = begun.results;
        results.add(&rest);
        let (wall, operations, rows) = (begun.wall, begun.operations, begun.rows);
        let known = Outcome { wall, operations, ..outcome_of_parts(&ended).unwrap_or_default() };
        let known = match ended.is_empty() {
            false => known,
            true => Outcome {
                closed: begun.closed,
                connections: begun.connections,
                threads: begun.threads,
                // It is as long as its windows.
                measured: WINDOW * u32::try_from(next).unwrap_or(u32::MAX),
                thresholds: begun.thresholds,
                ..known
            },
        };
        let sharing = Some(Sharing { parts: count, injectors });
        Outcome { results, rows, rest, sharing, ..known }
    }
}

#[cfg(test)]
mod tests;
