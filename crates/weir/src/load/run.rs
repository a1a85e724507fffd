//! One run, of one load or of several at a time.

use std::io::Write;
use std::path::Path;

use meter::engine::{self, Plan, Stop};
use meter::gate::{Gate, Sliding};
use meter::network::Network;
use meter::summary::Summary;

use super::Command;
use super::ledger::Ledger;
use super::limit;
use super::merge::next_step;
use super::results::Results;
use super::signals::stop_at_signals;
use super::stream::Stream;
use super::view::View;
use crate::exit::{BAD_NEWS, DONE, Failure, INVALID};

/// A load with its name.
pub type NamedLoad<'a> = (String, &'a Command);

/// Runs loads. Everything is checked before the first byte is sent; what is of the whole run, the
/// first one says.
pub fn run(named: &[NamedLoad<'_>], out: &mut dyn Write) -> Result<u8, Failure> {
    let Some((_, first)) = named.first() else { return Ok(DONE) };
    check_abort(first)?;
    let stop = Stop::default();
    let path = first.place.path();
    let ledger = first.ledger.then(|| Ledger::new(&path, first.shared.number()));
    let (mut loads, mut kept) = (Vec::new(), Vec::new());
    for (number, (name, command)) in named.iter().enumerate() {
        let place = ledger.as_ref().map(|ledger| ledger.place(number));
        let plan = Plan { ledger: place, ..command.plan(stop.clone())? };
        let (load, of_load) = command.load(name, plan, ledger.as_ref().map(Ledger::run))?;
        loads.push(load);
        kept.extend(of_load);
    }
    let operations = engine::names(&loads);
    for load in &mut loads {
        load.plan.abort = on(&load.plan.abort, &operations)?;
    }
    let require = first.demands(&operations)?;
    let sought = first.find_limit.clone().map(|gate| gate.on(&operations));
    let sought = sought.transpose().map_err(Failure::other)?;
    if sought.is_some() && loads.len() > 1 {
        return Err(Failure::other("--find-limit is of one load: this file has several"));
    }
    named.iter().try_for_each(|(_, command)| command.make_missing())?;
    if let (Some(gate), Some(load)) = (sought, loads.first_mut()) {
        return limit::find(first, load, &gate, &require, out);
    }
    let duration = loads[0].plan.duration();
    let stream = Stream::begin(&first.stream, &first.name(&path), &operations)?;
    let mut results = Results::create(named, path.clone(), &operations, duration)?;
    let ledger = match ledger.map(|ledger| ledger.begin(named, kept)).transpose() {
        Ok(ledger) => ledger,
        Err(failure) => {
            results.discard();
            return Err(failure);
        }
    };
    stop_at_signals(stop.clone())?;
    let mut view = View::of(&urls(named), &loads[0].plan, stop);
    let mut sliding = Sliding::new(&require, loads[0].plan.thresholds.tolerance());
    let outcome = engine::run_all(&loads, |ended| {
        results.window(ended);
        stream.iter().for_each(|stream| stream.window(ended));
        sliding.window(&ended.results);
        view.window(ended);
    });
    drop(view);
    let mut outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            results.discard();
            return Err(Failure::other(error));
        }
    };
    outcome.network.expected = first.expect_rtt;
    sliding.end(&outcome.rest);
    let summary = Summary::new(&outcome, &require).with_stretches(&sliding);
    // The files are whole before anything is printed.
    let kept = results.finish(&outcome, &summary);
    writeln!(out, "{summary}{}{kept}", left_out(&outcome.network))?;
    let streamed = stream.map(|stream| stream.finish(&outcome));
    for line in streamed.into_iter().chain(ledger.map(|ledger| ledger.end(named))) {
        writeln!(out, "{line}")?;
    }
    if let Some(next) = next(named, &summary) {
        writeln!(out, "{next}")?;
    }
    Ok(exit_code(&summary))
}

/// Refuses what a part can't be ended by: a rate, or a number of errors, is of the whole run.
fn check_abort(command: &Command) -> Result<(), Failure> {
    let is_of_sum = |gate: &&Gate| command.shared.part.is_some() && gate.is_of_the_sum();
    command.abort.iter().find(is_of_sum).map_or(Ok(()), |gate| {
        let words = format!("--abort '{gate}' is of the whole run, and --part sends a part of it");
        Err(Failure::other(words))
    })
}

impl Command {
    /// What the run is called, whose results are there: its id, or its directory.
    fn name(&self, path: &Path) -> String {
        let directory = || path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.shared.run_id.clone().unwrap_or_else(directory)
    }

    /// What the run has to reach; a part is judged with all others, where they are merged.
    fn demands(&self, operations: &[String]) -> Result<Vec<Gate>, Failure> {
        let demands = on(&self.require, operations)?;
        Ok(if self.shared.part.is_some() { Vec::new() } else { demands })
    }
}

/// What to do next, where there is something.
fn next(named: &[NamedLoad<'_>], summary: &Summary<'_>) -> Option<String> {
    let (_, first) = named.first()?;
    if let Some((part, run_id)) = first.shared.part.zip(first.shared.run_id.as_ref()) {
        return Some(next_step(part, run_id));
    }
    let demand = summary.next_demand().filter(|_| named.len() == 1)?;
    Some(format!("next: {} --find-limit '{demand}'", first.same()))
}

/// What the program ends with.
pub fn exit_code(summary: &Summary<'_>) -> u8 {
    if summary.is_invalid() {
        INVALID
    } else if summary.has_missed() || summary.is_failing() {
        BAD_NEWS
    } else {
        DONE
    }
}

/// Names the addresses of the server's name that were not used, each in a line.
pub fn left_out(network: &Network) -> String {
    let each = network.left_out.iter();
    each.map(|(address, why)| format!("left out: {address} takes no connection: {why}\n")).collect()
}

/// Demands on the operations that they name.
pub fn on(gates: &[Gate], operations: &[String]) -> Result<Vec<Gate>, Failure> {
    let on = gates.iter().map(|gate| gate.clone().on(operations));
    on.collect::<Result<_, _>>().map_err(Failure::other)
}

/// Where all loads go.
pub fn urls(named: &[NamedLoad<'_>]) -> String {
    let urls: Vec<_> = named.iter().map(|(_, command)| command.url.without_secrets()).collect();
    urls.join(", ")
}
