//! One run, of one load or of several at a time.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use meter::engine::{self, FinishedWindow, Load, Outcome, Plan, Stop};
use meter::gate::{Gate, Sliding};
use meter::network::Network;
use meter::summary::Summary;
use serde_json::Value;
use toml::Table;

use super::agents::Fleet;
use super::ended::EndedPiece;
use super::fingerprint::fingerprint;
use super::inputs::Inputs;
use super::ledger::Ledger;
use super::limit;
use super::merge::next_step;
use super::results::Results;
use super::signals::stop_at_signals;
use super::stream::Stream;
use super::view::View;
use super::{Command, file};
use crate::exit::{BAD_NEWS, DONE, Failure, INVALID};

/// A load with its name.
pub type NamedLoad<'a> = (String, &'a Command);

/// What loads were read from, to be read again elsewhere.
#[derive(Debug, Clone)]
pub struct LoadSource {
    /// The text of the run file.
    pub text: String,
    /// What stands in place of what the file has above its loads.
    pub over: Table,
    /// The folder of the file.
    pub folder: PathBuf,
}

impl LoadSource {
    /// The text without keys of the whole run.
    pub fn text_without(&self, keys: &[&str]) -> Result<String, String> {
        Ok(without(file::table(&self.text)?, keys))
    }

    /// The same of what stands in place of it.
    pub fn over_without(&self, keys: &[&str]) -> String {
        without(self.over.clone(), keys)
    }

    /// That of a load without a file, of which these options were given.
    pub fn of_options(given: &Table) -> Self {
        Self { text: given.to_string(), over: Table::new(), folder: PathBuf::from(".") }
    }
}

fn without(mut table: Table, keys: &[&str]) -> String {
    keys.iter().for_each(|key| drop(table.remove(*key)));
    table.to_string()
}

/// Loads that are made and checked.
pub struct MadeLoads {
    /// As the engine takes them.
    pub loads: Vec<Load<'static>>,
    /// What the operations of their results are called.
    pub operations: Vec<String>,
    /// What a ledger has to say of each.
    pub kept: Vec<Value>,
    /// What parts of one run have in common, where they are a part.
    pub fingerprint: Option<String>,
}

impl MadeLoads {
    /// Makes loads, with a ledger where there is to be one.
    pub fn new(
        named: &[NamedLoad<'_>],
        inputs: &Inputs,
        stop: &Stop,
        ledger: Option<&Ledger>,
    ) -> Result<Self, Failure> {
        let (mut loads, mut kept) = (Vec::new(), Vec::new());
        for (number, (name, command)) in named.iter().enumerate() {
            let place = ledger.map(|ledger| ledger.place(number));
            let plan = Plan { ledger: place, ..command.plan(stop.clone(), inputs)? };
            let (load, of_load) = command.load(name, plan, ledger.map(Ledger::run), inputs)?;
            loads.push(load);
            kept.extend(of_load);
        }
        let operations = engine::names(&loads);
        for load in &mut loads {
            load.plan.abort = on(&load.plan.abort, &operations)?;
        }
        let fingerprint = fingerprint(named, inputs)?;
        Ok(Self { loads, operations, kept, fingerprint })
    }
}

/// Who sends a run.
pub enum Injectors {
    /// This process sends all of it.
    Here,
    /// Agents, each a part.
    Agents(Box<Fleet>),
}

impl Injectors {
    /// Those that the options name; agents are connected to, for a run of that id, with a ledger of
    /// that number where there is one.
    fn of(
        command: &Command,
        source: (&LoadSource, &Inputs),
        run: (&str, Option<u64>),
    ) -> Result<Self, Failure> {
        let Some(secret) = command.agents.secret()? else { return Ok(Self::Here) };
        let fleet = Fleet::connect(&command.agents.agents, secret, source, run)?;
        Ok(Self::Agents(fleet.into()))
    }

    /// Has the next run be at this rate, where its plan does not say it to whoever sends it.
    pub fn at_rate(&mut self, rate: f64) {
        if let Self::Agents(fleet) = self {
            fleet.at_rate(rate);
        }
    }

    /// Sends loads that are checked; `each` hears of each window as it ends.
    pub fn run(
        &mut self,
        loads: &[Load<'static>],
        mut each: impl FnMut(EndedPiece<'_>),
    ) -> Result<Outcome, Failure> {
        let here = |ended: &FinishedWindow| each(EndedPiece::Window(ended));
        match self {
            Self::Here => engine::run_all(loads, here).map_err(Failure::other),
            Self::Agents(fleet) => fleet.run(loads, each),
        }
    }
}

/// Runs loads. Everything is checked before the first byte is sent; what is of the whole run, the
/// first one says.
pub fn run(
    named: &[NamedLoad<'_>],
    source: &LoadSource,
    out: &mut dyn Write,
) -> Result<u8, Failure> {
    let Some((_, first)) = named.first() else { return Ok(DONE) };
    check_abort(first).and_then(|()| check_schema(first))?;
    let stop = Stop::default();
    let path = first.place.path();
    let begin = first.shared.start_at.unwrap_or_else(SystemTime::now);
    let inputs = match first.agents.are_asked() {
        false => Inputs::of_machine(begin),
        true => Inputs::below(source.folder.clone(), begin),
    };
    let ledger = first.findings.ledger.then(|| Ledger::new(&path, first.shared.number()));
    let MadeLoads { mut loads, operations, kept, fingerprint } =
        MadeLoads::new(named, &inputs, &stop, ledger.as_ref())?;
    let require = first.demands(&operations)?;
    let sought = first.sought(&operations, loads.len())?;
    let run_id = first.name(&path);
    let run = (&*run_id, ledger.as_ref().map(Ledger::run));
    let mut injectors = Injectors::of(first, (source, &inputs), run)?;
    named.iter().try_for_each(|(_, command)| command.make_missing(&inputs))?;
    if let (Some(gate), Some(load)) = (sought, loads.first_mut()) {
        return limit::find(first, load, &mut injectors, (&gate, &require), out);
    }
    let duration = loads[0].plan.duration();
    let connections = named.iter().map(|(_, command)| command.connections()).sum();
    let is_sent_here = matches!(injectors, Injectors::Here);
    let mut stream = Stream::begin(&first.stream, is_sent_here, &run_id, &operations, connections)?;
    let mut results = Results::create(named, path.clone(), &operations, duration, fingerprint)?;
    // Agents keep ledgers of their own.
    let own_ledger = ledger.filter(|_| is_sent_here);
    let begun = own_ledger.map(|ledger| ledger.begin(named, kept, &inputs)).transpose();
    let begun = begun.and_then(|ledger| stop_at_signals(stop.clone()).map(|()| ledger));
    let mut sliding = Sliding::new(&require, loads[0].plan.thresholds.tolerance());
    let ran = begun.and_then(|ledger| {
        let mut view = View::of(&urls(named), &loads[0].plan, stop);
        let outcome = injectors.run(&loads, |piece| {
            stream.iter_mut().for_each(|stream| stream.piece(&piece));
            let EndedPiece::Window(ended) = piece else { return };
            results.window(ended);
            sliding.window(&ended.results);
            view.window(ended);
        })?;
        Ok((outcome, ledger))
    });
    let (mut outcome, ledger) = match ran {
        Ok(ran) => ran,
        Err(failure) => {
            results.discard();
            return Err(failure);
        }
    };
    outcome.network.expected = first.findings.expect_rtt;
    sliding.end(&outcome.rest);
    let summary = Summary::new(&outcome, &require).with_stretches(&sliding);
    // The files are whole before anything is printed.
    let kept = results.finish(&outcome, &summary);
    writeln!(out, "{summary}{}{kept}", left_out(&outcome.network))?;
    let ledger = match injectors {
        Injectors::Here => ledger.map(|ledger| ledger.end(named, &inputs)),
        Injectors::Agents(fleet) => fleet.keep_ledgers(&path),
    };
    let streamed = stream.map(|stream| stream.finish(&outcome));
    for line in streamed.into_iter().chain(ledger).chain(next(named, &summary)) {
        writeln!(out, "{line}")?;
    }
    Ok(exit_code(&summary))
}

/// Refuses a part that is to write the whole run.
fn check_schema(command: &Command) -> Result<(), Failure> {
    match (command.shared.part, command.stream.schema.stream_schema) {
        (Some(part), Some(_)) => Err(Failure::other(format!(
            "--stream-schema writes the whole run, and this is part {part} of it: leave it out \
             here, and give it to `weir load merge DIR... --stream URL`"
        ))),
        _ => Ok(()),
    }
}

/// Refuses what a part can't be ended by: a rate, or a number of errors, is of the whole run.
fn check_abort(command: &Command) -> Result<(), Failure> {
    let is_of_sum = |gate: &&Gate| command.shared.part.is_some() && gate.is_of_the_sum();
    command.demands.abort.iter().find(is_of_sum).map_or(Ok(()), |gate| {
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

    /// The demand whose highest rate is looked for, of one of so many loads.
    fn sought(&self, operations: &[String], loads: usize) -> Result<Option<Gate>, Failure> {
        if self.findings.find_limit.is_some() && loads > 1 {
            return Err(Failure::other("--find-limit is of one load: this file has several"));
        }
        let sought = self.findings.find_limit.clone().map(|gate| gate.on(operations));
        sought.transpose().map_err(Failure::other)
    }

    /// What the run has to reach; a part is judged with all others, where they are merged.
    fn demands(&self, operations: &[String]) -> Result<Vec<Gate>, Failure> {
        let demands = on(&self.demands.require, operations)?;
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
