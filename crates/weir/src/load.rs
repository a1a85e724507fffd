//! `weir load`: loads a server and says what came of it.

mod compare;
mod file;
mod http;
mod influx;
mod limit;
mod postgres;
mod redis;
mod report;
mod results;
mod signals;
mod speed;
mod view;

use std::io::Write;
use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches, Subcommand, ValueEnum};
use flow::dial::{Address, Target, Tls};
use flow::tls::{Check, ClientOptions};
use meter::engine::{self, AskError, Plan, Stop};
use meter::gate::{Gate, Sliding};
use meter::summary::Summary;
use meter::url::{Scheme, Url};
use meter::workload::Workload;
use watch::units::Duration;

use crate::exit::{BAD_NEWS, DONE, Failure, INVALID};
use file::RunFile;
use http::RequestOptions;
use influx::WriteOptions;
use postgres::PostgresOptions;
use redis::RedisOptions;
use results::Results;
use signals::stop_at_signals;
use speed::Speed;
use view::View;

/// A load, or something else that has to do with loads.
#[derive(Debug)]
pub enum Load {
    /// A server is loaded.
    Server(Box<Command>),
    /// Something else is done.
    Other(Other),
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
            Some(_) => Other::from_arg_matches(matches).map(Self::Other),
            None => Command::from_arg_matches(matches).map(|command| Self::Server(command.into())),
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
  weir load run load.toml")]
    Run(RunFile),
}

/// Does what was asked.
pub fn run(load: &Load, out: &mut dyn Write) -> Result<u8, Failure> {
    match load {
        Load::Server(command) => command.run(out),
        Load::Other(Other::Init) => {
            write!(out, "{}", file::template())?;
            Ok(DONE)
        }
        Load::Other(Other::Run(file)) => file.read()?.run(out),
        Load::Other(Other::Compare(command)) => compare::run(command, out),
        Load::Other(Other::Report(command)) => report::run(command, out),
    }
}

/// What to send where, how fast, and what is required.
#[derive(Debug, Args)]
pub struct Command {
    /// Where to, which says what is sent where --workload does not: http://host:port/path or
    /// https://..., postgres://user@host:port/database, or redis://user:password@host:port/database
    /// or rediss://...
    url: Url,
    /// What is sent, where the URL does not say it
    #[arg(long, value_name = "NAME")]
    workload: Option<Named>,
    /// Makes what is missing before the load: the database, and tables of scripts that are built in
    #[arg(long)]
    prepare: bool,
    #[command(flatten)]
    speed: Speed,
    #[command(flatten)]
    means: Means,
    #[command(flatten)]
    request: RequestOptions,
    #[command(flatten)]
    postgres: PostgresOptions,
    #[command(flatten)]
    redis: RedisOptions,
    #[command(flatten)]
    writes: WriteOptions,
    /// Looks for the highest rate at which this demand holds: steps of 5 s, from 100 a second
    #[arg(long, value_name = "DEMAND")]
    #[arg(conflicts_with_all = ["closed", "rate", "ramp_to", "steps", "duration"])]
    find_limit: Option<Gate>,
    #[command(flatten)]
    place: results::Place,
    /// What the run must reach, as 'p99<20ms', 'service p50<1ms', 'errors<0.1%', 'rate>1900' or
    /// 'p99<50ms in any 10s'; a miss is exit code 3. May be given several times
    #[arg(long, value_name = "DEMAND")]
    require: Vec<Gate>,
    /// The same, looked at each second: the first miss ends the run
    #[arg(long, value_name = "DEMAND")]
    abort: Vec<Gate>,
}

/// A workload that no scheme means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Named {
    /// Line protocol to InfluxDB
    InfluxWrite,
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    InfluxWrite,
    Postgres,
    Redis,
}

/// What they are sent with.
#[derive(Debug, Args)]
struct Means {
    /// Connections, which are open before the first request
    #[arg(long, value_name = "N", default_value_t = 64)]
    connections: usize,
    /// Threads of the injector, among which connections and requests are divided
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// How long an answer may take, from the send
    #[arg(long, value_name = "TIME", default_value_t = Duration::from_secs(10))]
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
    /// Loads the server. Everything is checked before the first byte is sent.
    fn run(&self, out: &mut dyn Write) -> Result<u8, Failure> {
        let (kind, url, seed) = (self.check()?, &self.url, self.speed.seed);
        match kind {
            Kind::Http => {
                let workload = self.request.workload(url, seed)?;
                if self.find_limit.is_some() && workload.requests_max().is_some() {
                    let words = "--find-limit uses rows again at each rate, and =once forbids it";
                    return Err(Failure::other(words));
                }
                self.go(&workload, out)
            }
            Kind::Postgres => {
                let workload = self.postgres.workload(url, self.redis.key_order(), seed)?;
                if self.prepare {
                    self.postgres.prepare(url, self)?;
                }
                self.go(&workload, out)
            }
            Kind::Redis => self.go(&self.redis.workload(url, seed)?, out),
            Kind::InfluxWrite => {
                let headers = &self.request.header;
                let workload = self.writes.workload(url, headers, seed)?;
                if self.prepare {
                    self.ask(&mut self.writes.preparation(url, headers)?)?;
                }
                self.go(&workload, out)
            }
        }
    }

    /// What is sent. Options that would have no effect are refused.
    fn check(&self) -> Result<Kind, Failure> {
        let kind = match (self.workload, self.url.scheme()) {
            (None, Scheme::Http) => Kind::Http,
            (Some(Named::InfluxWrite), Scheme::Http) => Kind::InfluxWrite,
            (None, Scheme::Postgres) => Kind::Postgres,
            (None, Scheme::Redis) => Kind::Redis,
            (Some(Named::InfluxWrite), Scheme::Postgres | Scheme::Redis) => {
                return Err(Failure::other("influx-write goes to http:// or https://"));
            }
        };
        let (redis, request, writes) =
            (self.redis.given(), self.request.given(), self.writes.given());
        let postgres = self.postgres.given();
        let own_redis = redis.filter(|name| *name != "--key-order");
        let own_body = request.filter(|name| *name != "--header");
        let prepare = self.prepare.then_some("--prepare");
        let useless = match kind {
            Kind::Http => redis.or(postgres).or(writes).or(prepare),
            Kind::InfluxWrite => redis.or(postgres).or(own_body),
            Kind::Postgres => own_redis.or(request).or(writes),
            Kind::Redis => request.or(postgres).or(writes).or(prepare),
        };
        let insecure = self.means.insecure.then_some("--insecure");
        let has_none = self.url.tls().is_none() || kind == Kind::Postgres;
        match useless.or(insecure.filter(|_| has_none)) {
            None => Ok(kind),
            Some(name) => Err(Failure::other(format!(
                "{name} has no effect on this workload: --help says which options belong to which"
            ))),
        }
    }

    /// Asks the server for something before the load.
    fn ask<W: Workload>(&self, workload: &mut W) -> Result<(), Failure> {
        self.asked(workload, 1)?.map_err(unprepared)
    }

    /// The same for so many requests, with what came of it.
    fn asked<W: Workload>(
        &self,
        workload: &mut W,
        count: u64,
    ) -> Result<Result<(), AskError>, Failure> {
        Ok(engine::ask(&self.target()?, self.means.timeout.get(), workload, count))
    }

    fn go<W>(&self, workload: &W, out: &mut dyn Write) -> Result<u8, Failure>
    where
        W: Workload + Clone + Sync + 'static,
    {
        match &self.find_limit {
            Some(gate) => limit::find(self, workload, gate, out),
            None => self.drive(workload, out),
        }
    }

    fn drive<W>(&self, workload: &W, out: &mut dyn Write) -> Result<u8, Failure>
    where
        W: Workload + Clone + Sync + 'static,
    {
        let stop = Stop::default();
        let plan = self.plan(stop.clone())?;
        let mut results = Results::create(self, self.place.path(), &workload.operations())?;
        stop_at_signals(stop.clone())?;
        let mut view = View::of(&self.url.without_secrets(), &plan, stop);
        let mut sliding = Sliding::new(&self.require);
        let outcome = engine::run(
            &plan,
            |_| workload.clone(),
            |ended| {
                results.window(ended);
                sliding.window(&ended.results);
                view.window(ended);
            },
        );
        drop(view);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                results.discard();
                return Err(Failure::other(error));
            }
        };
        sliding.end(&outcome.rest);
        let summary = Summary::new(&outcome, &self.require).with_missed(sliding.missed());
        write!(out, "{summary}")?;
        writeln!(out, "{}", results.finish(&outcome, &summary))?;
        if summary.is_invalid() {
            return Ok(INVALID);
        }
        if let Some(demand) = summary.next_demand() {
            writeln!(out, "next: {} --find-limit '{demand}'", self.same())?;
        }
        if summary.has_missed() {
            return Ok(BAD_NEWS);
        }
        Ok(DONE)
    }

    /// Whether points are written to InfluxDB.
    fn is_influx_write(&self) -> bool {
        matches!(self.workload, Some(Named::InfluxWrite))
    }

    /// The same load at another rate, as far as it may be shown.
    fn same(&self) -> String {
        let own = self.redis.given().or(self.postgres.given());
        let given = own.or(self.writes.given()).or(self.request.given());
        match given.or(self.workload.map(|_| "--workload")) {
            Some(_) => "the same without its rate, and with".to_owned(),
            None => format!("weir load {}", self.url.without_secrets()),
        }
    }

    fn plan(&self, stop: Stop) -> Result<Plan, Failure> {
        Ok(Plan {
            target: self.target()?,
            pace: self.speed.pace()?,
            warm_up: self.speed.warmup.get(),
            connections: self.means.connections,
            threads: self.means.threads,
            timeout: self.means.timeout.get(),
            abort: self.abort.clone(),
            stop,
        })
    }

    fn target(&self) -> Result<Target, Failure> {
        let host = self.url.host();
        let options = ClientOptions {
            ca: self.means.ca.as_deref(),
            check: match self.means.insecure {
                true => Check::Nothing,
                false => self.url.tls().unwrap_or(Check::Name),
            },
            identity: None,
            protocols: match self.url.scheme() {
                Scheme::Http => &["http/1.1"],
                Scheme::Postgres | Scheme::Redis => &[],
            },
        };
        let tls = self.url.tls().map(|_| Tls::new(&options, host)).transpose();
        Ok(Target {
            address: Address::Tcp { host: host.to_owned(), port: self.url.port() },
            tls: tls.map_err(Failure::other)?,
            connect_timeout: self.means.timeout.get(),
        })
    }
}

fn unprepared(error: AskError) -> Failure {
    Failure::other(format!("can't prepare the load: {error}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use meter::engine::{Pace, Stop};

    use super::Command;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        command: Command,
    }

    fn read(words: &str) -> Result<Command, String> {
        let words = std::iter::once("load").chain(words.split(' '));
        Line::try_parse_from(words).map(|line| line.command).map_err(|error| error.to_string())
    }

    #[test]
    fn a_url_alone_is_a_load() {
        let plan = read("http://127.0.0.1:8086/ping").unwrap().plan(Stop::default()).unwrap();
        let Pace::Open(schedule) = &plan.pace else { panic!("{:?}", plan.pace) };
        assert_eq!((schedule.due(0, 1).count(), plan.connections, plan.threads), (1000, 64, 1));
    }

    #[test]
    fn steps_ramps_and_closed_loops_exclude_one_another() {
        let steps = read("http://h --steps 1:1s,2:2s --poisson --seed 7").unwrap();
        assert_eq!(steps.speed.steps.len(), 2);
        assert!(read("http://h --closed").unwrap().speed.pace().is_ok());
        assert!(read("http://h --find-limit p99<20ms --poisson").is_ok());
        for words in [
            "--find-limit p99<1s --rate 5",
            "--find-limit fast",
            "--closed --rate 5",
            "--steps 1:1s --ramp-to 9",
            "--steps 1",
        ] {
            assert!(read(&format!("http://h {words}")).is_err(), "{words}");
        }
    }

    #[test]
    fn bad_input_is_told_before_anything_is_sent() {
        for (words, part) in [
            ("ftp://h", "only http"),
            ("http://h --require p99<5", "no duration"),
            ("http://h --duration 10", "unit"),
            ("http://h -H x", "no header"),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.contains(part), "{words}: {error}");
        }
        assert!(read("http://h --rate 0").unwrap().plan(Stop::default()).is_err());
        let request = read("http://h --body @/nowhere").unwrap().request;
        assert!(request.workload(&"http://h".parse().unwrap(), 1).is_err());
        let nowhere = read("http://h --workload influx-write").unwrap();
        assert!(nowhere.writes.workload(&nowhere.url, &[], 1).is_err());
        for (words, part) in [
            ("http://h --mix get", "--mix has no effect"),
            ("redis://h -X POST", "--method has no effect"),
            ("redis://h --prepare", "--prepare has no effect"),
            ("redis://h --script select-only", "--script has no effect"),
            ("postgres://h --keys 5", "--keys has no effect"),
            ("postgres://h --body x", "--body has no effect"),
            ("postgres://h --protocol fast", "simple, extended or prepared"),
            ("postgres://h -D x", "no variable"),
            ("postgres://h/?sslmode=maybe", "sslmode"),
            ("redis://h --workload influx-write", "goes to http"),
            ("http://h --workload influx-write --body x", "--body has no effect"),
            ("http://h --rows jmeter", "--rows has no effect"),
            ("redis://h --size 9-1", "no size"),
            ("redis://h --check text", "says no text"),
            ("redis://h --data a.csv", "--data has no effect"),
            ("http://h --insecure", "--insecure has no effect"),
            ("postgres://h/?sslmode=require --insecure", "--insecure has no effect"),
            ("https://h --insecure --ca x", "cannot be used with"),
            ("http://h --workload influx-write -H a:b --body x", "--body has no effect"),
            ("redis://h --mix fly", "zrange"),
        ] {
            let error = read(words).and_then(|command| match command.check() {
                Ok(_) => Ok(()),
                Err(failure) => Err(failure.to_string()),
            });
            assert!(error.clone().unwrap_err().contains(part), "{words}: {error:?}");
        }
    }
}
