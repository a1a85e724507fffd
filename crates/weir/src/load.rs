//! `weir load`: loads a server and says what came of it.

mod agents;
mod compare;
mod dubbo;
mod ended;
mod entries;
mod file;
mod fingerprint;
mod http;
mod influx;
mod inputs;
mod ledger;
mod limit;
mod merge;
mod mix;
mod postgres;
mod reader;
mod redis;
mod report;
mod results;
mod run;
mod shared_run;
mod signals;
mod speed;
mod stream;
#[cfg(test)]
pub(crate) mod tests;
mod values;
mod verify;
mod view;
mod workload;

use std::io::Write;
use std::path::{Path, PathBuf};

use agents::{AgentCommand, AgentOptions};
use clap::{ArgMatches, Args, FromArgMatches, Subcommand};
use flow::dial::{Address, Target, Tls};
use flow::tls::{Check, ClientOptions};
use meter::engine::{self, AskError, Plan, Start, Stop};
use meter::gate::Gate;
use meter::url::{Scheme, Url};
use meter::verdict::Thresholds;
use meter::workload::Workload;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use units::Duration;

use crate::exit::{DONE, Failure};
use file::RunFile;
use inputs::Inputs;
use run::LoadSource;
use shared_run::SharedRun;
use speed::Speed;
use stream::StreamOptions;
use workload::WorkloadOptions;

/// A load, or something else that has to do with loads.
#[derive(Debug)]
pub enum Load {
    /// A server is loaded.
    Server(Box<Command>),
    /// Something else is done.
    Other(Box<Other>),
}

/// A URL, or the name of something else: clap derives the one and the other, not the choice.
impl Args for Load {
    fn augment_args(command: clap::Command) -> clap::Command {
        let command = Other::augment_subcommands(Command::augment_args(command));
        command
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .subcommand_required(false)
            .arg_required_else_help(false)
            .override_usage("weir load [OPTIONS] <URL>, or weir load <COMMAND>")
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Load {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        match matches.subcommand_name() {
            Some(_) => Other::from_arg_matches(matches).map(|other| Self::Other(other.into())),
            None => {
                let mut command = Command::from_arg_matches(matches)?;
                command.given = file::given(matches);
                Ok(Self::Server(command.into()))
            }
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What has to do with loads and has no URL of its own on the command line.
#[derive(Debug, Subcommand)]
pub enum Other {
    /// Wait for runs that are started elsewhere, and send a part of each
    #[command(after_help = "\
Examples:
  weir load agent --secret-file secret
  weir load agent --listen 10.0.0.5:8094 --secret-file secret --targets 10.1.0.0/16

Whoever knows the secret has it load what --targets allow, over TLS, one run at a time. It
listens on this machine alone, and loads this machine alone, unless it is told otherwise.")]
    Agent(AgentCommand),
    /// Run two loads in turn, and say what sets them apart
    #[command(after_help = "\
Examples:
  weir load compare http://127.0.0.1:8086/ping http://127.0.0.1:9086/ping -- --rate 500
  weir load compare weir-load/before weir-load/after

The run is the unit: p50, p99 and the rate of each. The exact test of Mann and Whitney
says whether chance explains the difference, the interval of Hodges and Lehmann how large
it is. It exits with 4 where too few runs are VALID to tell.")]
    Compare(compare::Command),
    /// Make the page of a run anew, or lay several runs over one another
    #[command(after_help = "\
Examples:
  weir load report weir-load/2026-11-23-185050
  weir load report before after --out both.html")]
    Report(report::Command),
    /// Print a run file with every key, as comments
    #[command(after_help = "\
Examples:
  weir load init > load.toml")]
    Init,
    /// Run what a file says; its keys are the options of `weir load`
    #[command(after_help = "\
Examples:
  weir load run load.toml
  weir load run load.toml --duration 5s --out quick
  weir load run load.toml --agents 10.0.0.5,10.0.0.6 --agent-secret-file secret")]
    Run(RunFile),
    /// Make one run of the parts that several injectors have sent
    #[command(after_help = "\
Examples:
  weir load run load.toml --run-id night --start-at 2026-11-28T12:00:00Z --part 1/2 --out a
  weir load run load.toml --run-id night --start-at 2026-11-28T12:00:00Z --part 2/2 --out b
  weir load merge a b --out both

Histograms are added, window by window. It is INVALID where a part is missing, or where the
injectors are at unlike distances from the server. Demands are judged here, not by the parts.")]
    Merge(merge::Command),
    /// Hold what a server has against the ledger of a run
    #[command(after_help = "\
Examples:
  weir load verify weir-load/2026-11-23-185050
  weir load verify weir-load/2026-11-23-185050 --url postgres://ann@replica/bench

It names what is lost, altered, doubled, or there without having been sent. A write without
an answer is unknown, and never lost. It exits with 3 where anything is wrong.")]
    Verify(verify::Command),
}

/// Does what was asked.
pub fn run(load: &Load, out: &mut dyn Write) -> Result<u8, Failure> {
    // A histogram is large. Where some wait to be written out for once, they are not kept for ever.
    sched::heap::give_back_large();
    let out = &mut reader::Reader::new(out);
    match load {
        Load::Server(command) => {
            let source = LoadSource::of_options(&command.given);
            run::run(&[(LOAD.to_owned(), command.as_ref())], &source, out)
        }
        Load::Other(other) => run_other(other, out),
    }
}

fn run_other(other: &Other, out: &mut dyn Write) -> Result<u8, Failure> {
    match other {
        Other::Init => {
            write!(out, "{}", file::template())?;
            Ok(DONE)
        }
        Other::Run(file) => {
            let (loads, source) = file.read()?;
            let loads: Vec<_> = loads.iter().map(|(name, load)| (name.clone(), load)).collect();
            run::run(&loads, &source, out)
        }
        Other::Agent(command) => agents::serve(command, out),
        Other::Merge(command) => merge::run(command, out),
        Other::Verify(command) => verify::run(command, out),
        Other::Compare(command) => compare::run(command, out),
        Other::Report(command) => report::run(command, out),
    }
}

/// What to send where, how fast, and what is required.
#[derive(Debug, Args)]
pub struct Command {
    // It looks at the URL, which whoever reads it behind it takes away.
    #[command(flatten)]
    options: WorkloadOptions,
    /// Where to, which says what is sent where --workload does not: http://host:port/path or
    /// https://..., postgres://user@host:port/database, redis://user:password@host:port/database or
    /// rediss://..., dubbo://host:port/interface or zookeeper://host:port,host:port/interface
    url: Url,
    #[command(flatten)]
    speed: Speed,
    #[command(flatten)]
    means: Means,
    #[command(flatten)]
    findings: Findings,
    #[command(flatten)]
    shared: SharedRun,
    #[command(flatten)]
    agents: AgentOptions,
    #[command(flatten)]
    stream: StreamOptions,
    #[command(flatten)]
    place: results::ResultsPlace,
    #[command(flatten)]
    demands: Demands,
    /// Beyond what it is INVALID, where a run file says so.
    #[arg(skip)]
    thresholds: Thresholds,
    /// The options that were given, as a run file has them.
    #[arg(skip)]
    given: toml::Table,
}

/// What is to be found out besides how fast the answers are.
#[derive(Debug, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Findings {
    /// Keeps a ledger of which writes were sent and answered, for `weir load verify DIR`: of
    /// influx-write, of what scripts put into weir_ledger, and of Redis's set and rpush
    #[arg(long, conflicts_with = "find_limit")]
    ledger: bool,
    /// Warns where the way to an address takes longer, as 0.2ms
    #[arg(long, value_name = "TIME", value_parser = round_trip)]
    #[serde(default, deserialize_with = "expected_round_trip")]
    expect_rtt: Option<std::time::Duration>,
    /// Looks for the highest rate at which this demand holds: steps of 5 s, from 100 a second
    #[arg(long, value_name = "DEMAND")]
    #[arg(conflicts_with_all = ["closed", "rate", "ramp_to", "steps", "duration"])]
    #[serde(default, deserialize_with = "values::text_if_any")]
    find_limit: Option<Gate>,
}

/// What the run has to reach.
#[derive(Debug, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Demands {
    /// What the run must reach, as 'p99<20ms', 'service p50<1ms', 'errors<0.1%', 'rate>1900' or
    /// 'p99<50ms in any 10s'; a miss is exit code 3. May be given several times
    #[arg(long, value_name = "DEMAND")]
    #[serde(deserialize_with = "values::texts")]
    require: Vec<Gate>,
    /// The same, looked at each second: the first miss ends the run
    #[arg(long, value_name = "DEMAND")]
    #[serde(deserialize_with = "values::texts")]
    abort: Vec<Gate>,
}

/// What a load is called that has none beside it.
const LOAD: &str = "load";

fn expected_round_trip<'de, D>(field: D) -> Result<Option<std::time::Duration>, D::Error>
where
    D: Deserializer<'de>,
{
    values::one(field, round_trip).map(Some)
}

/// A time that may be a fraction of a millisecond, as ways are.
fn round_trip(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || format!("{text:?} is not a round trip: write it as 0.2ms or 200us");
    let units = [("us", 1e-6), ("\u{b5}s", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let found = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, seconds) = found.ok_or_else(wrong)?;
    let number = number.trim().parse::<f64>().ok().filter(|number| *number > 0.0);
    let span = std::time::Duration::try_from_secs_f64(number.ok_or_else(wrong)? * seconds);
    span.map_err(|_| wrong())
}

/// What they are sent with.
#[derive(Debug, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Means {
    /// Connections, which are open before the first request
    #[arg(long, value_name = "N", default_value_t = 64)]
    connections: usize,
    /// Threads of the injector, among which connections and requests are divided
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// How long an answer may take, from the send
    #[arg(long, value_name = "TIME", default_value_t = Duration::from_secs(10))]
    #[serde(deserialize_with = "values::text")]
    timeout: Duration,
    /// A PEM file of certificate authorities to trust instead of this machine's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Whoever answers under TLS may be the server: its certificate is not checked (of PostgreSQL
    /// the URL's sslmode says that)
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
}

impl Command {
    /// Connections of all injectors.
    fn connections(&self) -> u64 {
        self.means.connections as u64
    }

    /// The load, checked, and what its ledger has to say of it.
    fn load(
        &self,
        name: &str,
        plan: Plan,
        run: Option<u64>,
        inputs: &Inputs,
    ) -> Result<(engine::Load<'static>, Option<Value>), Failure> {
        let (url, seed) = (&self.url, self.speed.seed);
        Ok(match &self.options {
            WorkloadOptions::Http(_) | WorkloadOptions::Dubbo(_) if run.is_some() => {
                return Err(Failure::other(UNKEPT));
            }
            WorkloadOptions::Dubbo(options) => {
                let workload = options.workload(url, (inputs, seed), &self.means.timeout)?;
                self.check_rows(&workload)?;
                (made(name, plan, workload), None)
            }
            WorkloadOptions::Http(options) => {
                let workload = options.workload(url, inputs, seed)?;
                self.check_rows(&workload)?;
                (made(name, plan, workload), None)
            }
            WorkloadOptions::Postgres(options) => {
                let workload = options.workload(url, inputs, seed, run)?;
                let kept = run.map(|_| workload.kept());
                (made(name, plan, workload), kept)
            }
            WorkloadOptions::Redis(options) => {
                let workload = options.workload(url, seed, run)?;
                let kept = run.map(|_| workload.kept());
                (made(name, plan, workload), kept)
            }
            WorkloadOptions::InfluxWrite(options) => {
                let workload = options.workload(url, inputs, seed)?;
                let kept = workload.kept().filter(|_| run.is_some());
                if run.is_some() && kept.is_none() {
                    return Err(Failure::other(UNREADABLE));
                }
                (made(name, plan, workload), kept)
            }
        })
    }

    /// Refuses rows that are used once each where the load is begun again at each rate.
    fn check_rows(&self, workload: &impl Workload) -> Result<(), Failure> {
        if self.findings.find_limit.is_some() && workload.requests_max().is_some() {
            let words = "--find-limit uses rows again at each rate, and =once forbids it";
            return Err(Failure::other(words));
        }
        Ok(())
    }

    /// Makes what is missing on the server, where that is asked for.
    fn make_missing(&self, inputs: &Inputs) -> Result<(), Failure> {
        match &self.options {
            WorkloadOptions::Postgres(options) if options.prepare => {
                options.prepare(self.findings.ledger.then_some(0), self, inputs)
            }
            WorkloadOptions::InfluxWrite(options) if options.prepare => {
                self.ask(&mut options.missing_database(&self.url)?, inputs)
            }
            _ => Ok(()),
        }
    }

    /// Asks the server for something before the load.
    fn ask<W: Workload>(&self, workload: &mut W, inputs: &Inputs) -> Result<(), Failure> {
        self.asked(workload, 1, self.means.timeout.get(), inputs)?.map_err(unprepared)
    }

    /// The same for so many requests, each of which may take so long, with what came of it.
    fn asked<W: Workload>(
        &self,
        workload: &mut W,
        count: u64,
        timeout: std::time::Duration,
        inputs: &Inputs,
    ) -> Result<Result<(), AskError>, Failure> {
        Ok(engine::ask(&self.target(inputs)?, timeout, workload, count))
    }

    /// The same load at another rate, as far as it may be shown.
    fn same(&self) -> String {
        match self.given.keys().any(|key| workload::is_of_workload(key)) {
            true => "the same without its rate, and with".to_owned(),
            false => format!("weir load {}", self.url.without_secrets()),
        }
    }

    fn plan(&self, stop: Stop, inputs: &Inputs) -> Result<Plan, Failure> {
        let part = self.shared.part();
        let connections = part.share(self.means.connections);
        if part.of() > 1 && connections < self.means.threads {
            let (all, threads) = (self.means.connections, self.means.threads);
            return Err(Failure::other(format!(
                "part {part} has {connections} of {all} connections for {threads} threads: raise \
                 --connections"
            )));
        }
        Ok(Plan {
            warm_up: self.speed.warmup.get(),
            connections,
            part,
            start: self.shared.start_at.map_or(Start::Soon, Start::At),
            threads: self.means.threads,
            timeout: self.means.timeout.get(),
            think: self.speed.think,
            abort: self.demands.abort.clone(),
            thresholds: self.thresholds,
            stop,
            ..Plan::new(self.target(inputs)?, self.speed.pace()?)
        })
    }

    fn target(&self, inputs: &Inputs) -> Result<Target, Failure> {
        let named = |file: &PathBuf| {
            inputs.path(file).map_err(|error| {
                Failure::other(format!("can't read the authorities {}: {error}", file.display()))
            })
        };
        let ca = self.means.ca.as_ref().map(named).transpose()?;
        target(&self.url, ca.as_deref(), self.means.insecure, self.means.timeout.get())
    }
}

/// Where a URL leads.
fn target(
    url: &Url,
    ca: Option<&Path>,
    is_insecure: bool,
    connect_timeout: std::time::Duration,
) -> Result<Target, Failure> {
    let host = url.host();
    let options = ClientOptions {
        ca,
        check: match is_insecure {
            true => Check::Nothing,
            false => url.tls().unwrap_or(Check::Name),
        },
        identity: None,
        protocols: match url.scheme() {
            Scheme::Http => &["http/1.1"],
            Scheme::Postgres | Scheme::Redis | Scheme::Dubbo | Scheme::ZooKeeper => &[],
        },
    };
    let tls = url.tls().map(|_| Tls::new(&options, host)).transpose();
    Ok(Target {
        address: Address::Tcp { host: host.to_owned(), port: url.port() },
        tls: tls.map_err(Failure::other)?,
        connect_timeout,
    })
}

const UNKEPT: &str = "--ledger is kept of what is written to databases: of influx-write, of \
                      PostgreSQL's rows in weir_ledger, and of Redis's set and rpush";
const UNREADABLE: &str = "beside --ledger the database is named by --db: what is written by a \
                          path, nobody would know where to read";

fn made<W>(name: &str, plan: Plan, workload: W) -> engine::Load<'static>
where
    W: Workload + Clone + Sync + 'static,
{
    engine::Load::new(name, plan, move |_| workload.clone())
}

fn unprepared(error: AskError) -> Failure {
    Failure::other(format!("can't prepare the load: {error}"))
}
