//! `weir load --find-limit`: one run after the other, each in a directory of its own.

use std::fs;
use std::io::Write;

use meter::engine::{self, Outcome, Pace, Stop};
use meter::gate::{Gate, Sliding};
use meter::limit::{FIRST, Found, STEP, Search, Shown};
use meter::recorder::Measure;
use meter::schedule::{Schedule, Segment};
use meter::summary::Summary;
use meter::workload::Workload;

use super::Command;
use super::results::Results;
use super::signals::stop_at_signals;
use crate::exit::{BAD_NEWS, DONE, FAILED, Failure, INVALID};

/// What the directory of the search has besides those of its runs.
const LINES: &str = "limit.txt";

/// Looks for the highest rate at which `gate` holds. Everything is checked before the first byte is
/// sent.
pub fn find<W>(
    command: &Command,
    workload: &W,
    gate: &Gate,
    out: &mut dyn Write,
) -> Result<u8, Failure>
where
    W: Workload + Clone + Sync + 'static,
{
    let stop = Stop::default();
    stop_at_signals(stop.clone())?;
    let place = command.place.path();
    let (mut search, mut lines) = (Search::default(), String::new());
    let mut say = |line: String| -> Result<(), Failure> {
        writeln!(out, "{line}")?;
        lines.extend([&line, "\n"]);
        Ok(())
    };
    say(format!("the highest rate with {gate}, from {FIRST} a second, in steps of {STEP:?}"))?;
    let mut number = 0;
    let found = loop {
        number += 1;
        let rate = search.rate();
        let path = place.join(format!("{number:02}-{rate:.0}"));
        let results = Results::create(command, path, &workload.operations())?;
        let (outcome, seen) = step(command, workload, gate, rate, results, &stop)?;
        if outcome.stopped {
            break None;
        }
        let (doubts, measured) = (outcome.doubts(), outcome.measured);
        let shown = Shown::of(&outcome.results, measured, &doubts, gate, seen);
        let latency = outcome.results.times(Measure::Latency, None);
        let (p50, p99) = (latency.quantile(0.5), latency.quantile(0.99));
        say(format!("{rate:>9.0}/s  p50 {p50:>9.2?}  p99 {p99:>9.2?}  {shown}"))?;
        if let Some(found) = search.step(&shown) {
            break Some(found);
        }
    };
    let code = match &found {
        None => FAILED,
        Some(Found::Limit(_) | Found::Beyond(_)) => DONE,
        Some(Found::Injector { .. }) => INVALID,
        Some(Found::Never | Found::Unsteady(_)) => BAD_NEWS,
    };
    say(found.map_or_else(|| "STOPPED  before a limit was found".to_owned(), |of| of.to_string()))?;
    let report = place.join(LINES);
    match fs::write(&report, &lines) {
        Ok(()) => writeln!(out, "report: {}", report.display())?,
        Err(error) => writeln!(out, "report: none, can't write {}: {error}", report.display())?,
    }
    Ok(code)
}

/// One run at one rate, with what was seen to be missed while it ran.
fn step<W>(
    command: &Command,
    workload: &W,
    gate: &Gate,
    rate: f64,
    mut results: Results,
    stop: &Stop,
) -> Result<(Outcome, Option<(Gate, String)>), Failure>
where
    W: Workload + Clone + Sync + 'static,
{
    let mut plan = command.plan(stop.clone())?;
    let schedule = Schedule::new(vec![Segment::constant(rate, STEP)], command.speed.arrivals());
    plan.pace = Pace::Open(schedule.map_err(Failure::other)?);
    let mut sought = Sliding::new(std::slice::from_ref(gate));
    let mut required = Sliding::new(&command.require);
    let ran = engine::run(
        &plan,
        |_| workload.clone(),
        |ended| {
            results.window(ended);
            sought.window(&ended.results);
            required.window(&ended.results);
        },
    );
    match ran {
        Ok(outcome) => {
            sought.end(&outcome.rest);
            required.end(&outcome.rest);
            let summary = Summary::new(&outcome, &command.require);
            let _ = results.finish(&outcome, &summary.with_missed(required.missed()));
            let seen = outcome.aborted.clone().or_else(|| sought.missed().into_iter().next());
            Ok((outcome, seen))
        }
        Err(error) => {
            results.discard();
            Err(Failure::other(error))
        }
    }
}
