//! `weir load --find-limit`: one run after the other, each in a directory of its own.

use std::fs;
use std::io::Write;
use std::time::SystemTime;

use meter::engine::{Load, Outcome, Pace};
use meter::gate::{Gate, Judgement, Sliding};
use meter::limit::{FIRST, STEP, Search, SearchResult, StepResult};
use meter::machine;
use meter::recorder::Measure;
use meter::schedule::{Schedule, Segment};
use meter::summary::{Summary, date_time};

use super::ended::EndedPiece;
use super::results::Results;
use super::run::{Injectors, left_out};
use super::signals::stop_at_signals;
use super::{Command, LOAD};
use crate::exit::{BAD_NEWS, DONE, FAILED, Failure, INVALID};

/// What the directory of the search has besides those of its runs.
const LINES: &str = "limit.txt";

/// Looks for the highest rate at which `gate` holds. Everything has been checked.
pub fn find(
    command: &Command,
    load: &mut Load<'static>,
    injectors: &mut Injectors,
    (gate, require): (&Gate, &[Gate]),
    out: &mut dyn Write,
) -> Result<u8, Failure> {
    stop_at_signals(load.plan.stop.clone())?;
    let operations = load.operations();
    let place = command.place.path();
    let (mut search, mut lines) = (Search::default(), String::new());
    let mut say = |line: String| -> Result<(), Failure> {
        writeln!(out, "{line}")?;
        lines.extend([&line, "\n"]);
        Ok(())
    };
    let (began, host) = (date_time(SystemTime::now()), machine::host());
    say(format!("the highest rate with {gate}, from {FIRST} a second, in steps of {STEP:?}"))?;
    say(format!("began {began} on {host}"))?;
    let mut number = 0;
    let found = loop {
        number += 1;
        let rate = search.rate();
        let path = place.join(format!("{number:02}-{rate:.0}"));
        let named = [(LOAD.to_owned(), command)];
        let results = Results::create(&named, path, &operations, STEP, None)?;
        let schedule = Schedule::new(vec![Segment::constant(rate, STEP)], command.speed.arrivals());
        load.plan.pace = Pace::Open(schedule.map_err(Failure::other)?);
        injectors.at_rate(rate);
        let (outcome, seen) = step(load, injectors, (gate, require), results)?;
        if outcome.stopped {
            break None;
        }
        let left_out = left_out(&outcome.network);
        left_out.lines().filter(|_| number == 1).try_for_each(|line| say(line.to_owned()))?;
        let tolerance = outcome.thresholds.tolerance();
        let of_step = (&outcome.results, outcome.measured);
        let shown = StepResult::of(of_step, &outcome.doubts(), (gate, &tolerance), seen);
        let latency = outcome.results.times(Measure::Latency, None);
        let (p50, p99) = (latency.quantile(0.5), latency.quantile(0.99));
        say(format!("{rate:>9.0}/s  p50 {p50:>9.2?}  p99 {p99:>9.2?}  {shown}"))?;
        if let Some(found) = search.step(&shown) {
            break Some(found);
        }
    };
    let code = match &found {
        None => FAILED,
        Some(SearchResult::Limit(_) | SearchResult::Beyond(_)) => DONE,
        Some(SearchResult::Injector { .. }) => INVALID,
        Some(SearchResult::Never | SearchResult::Unsteady(_)) => BAD_NEWS,
    };
    say(found.map_or_else(|| "STOPPED  before a limit was found".to_owned(), |of| of.to_string()))?;
    let report = place.join(LINES);
    match fs::write(&report, &lines) {
        Ok(()) => writeln!(out, "report: {}", report.display())?,
        Err(error) => writeln!(out, "report: none, can't write {}: {error}", report.display())?,
    }
    Ok(code)
}

/// One run at one rate, with what was seen of demands while it ran.
fn step(
    load: &Load<'static>,
    injectors: &mut Injectors,
    (gate, require): (&Gate, &[Gate]),
    mut results: Results,
) -> Result<(Outcome, Option<(Gate, Judgement)>), Failure> {
    let tolerance = load.plan.thresholds.tolerance();
    let mut sought = Sliding::new(std::slice::from_ref(gate), tolerance);
    let mut required = Sliding::new(require, tolerance);
    let ran = injectors.run(std::slice::from_ref(load), |piece| {
        let EndedPiece::Window(ended) = piece else { return };
        results.window(ended);
        sought.window(&ended.results);
        required.window(&ended.results);
    });
    match ran {
        Ok(outcome) => {
            sought.end(&outcome.rest);
            required.end(&outcome.rest);
            let summary = Summary::new(&outcome, require);
            let _ = results.finish(&outcome, &summary.with_stretches(&required));
            let missed = outcome.aborted.iter().cloned().chain(sought.missed());
            let missed = missed.map(|(gate, found)| (gate, Judgement::Missed(found)));
            let unjudged = sought.unjudged().into_iter();
            let unjudged = unjudged.map(|(gate, found)| (gate, Judgement::Unjudged(found)));
            let seen = missed.chain(unjudged).next();
            Ok((outcome, seen))
        }
        Err(failure) => {
            results.discard();
            Err(failure)
        }
    }
}
