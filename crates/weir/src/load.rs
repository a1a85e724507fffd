//! `weir load`: loads a server and says what came of it.

mod compare;
mod influx;
mod limit;
mod redis;
mod report;
mod results;
mod signals;
mod view;

use std::io::Write;
use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches, Subcommand, ValueEnum};
use flow::dial::{Address, Target, Tls};
use flow::tls::{Check, ClientOptions};
use meter::engine::{self, Pace, Plan, Stop};
use meter::gate::{Gate, Sliding};
use meter::http::{Http, Request, header};
use meter::schedule::{Arrivals, Schedule, Segment};
use meter::summary::Summary;
use meter::url::{Scheme, Url};
use meter::workload::Workload;
use watch::units::Duration;

use crate::exit::{BAD_NEWS, DONE, Failure, INVALID};
use influx::WriteOptions;
use redis::RedisOptions;
use results::Results;
use signals::stop_at_signals;
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

/// What has to do with loads and loads no server by itself.
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
}

/// Does what was asked.
pub fn run(load: &Load, out: &mut dyn Write) -> Result<u8, Failure> {
    match load {
        Load::Server(command) => command.run(out),
        Load::Other(Other::Compare(command)) => compare::run(command, out),
        Load::Other(Other::Report(command)) => report::run(command, out),
    }
}

/// What to send where, how fast, and what is required.
#[derive(Debug, Args)]
pub struct Command {
    /// Where to, which says what is sent where --workload does not: http://host:port/path or
    /// https://..., or redis://user:password@host:port/database or rediss://...
    url: Url,
    /// What is sent, where the URL does not say it
    #[arg(long, value_name = "NAME")]
    workload: Option<Named>,
    /// Makes what is missing before the load: the database
    #[arg(long)]
    prepare: bool,
    #[command(flatten)]
    speed: Speed,
    #[command(flatten)]
    means: Means,
    #[command(flatten)]
    request: RequestOptions,
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
    Redis,
}

/// When requests are sent.
#[derive(Debug, Args)]
struct Speed {
    /// Requests a second
    #[arg(long, value_name = "N", default_value_t = 100.0)]
    #[arg(conflicts_with_all = ["closed", "steps"])]
    rate: f64,
    /// Goes evenly from --rate to so many a second
    #[arg(long, value_name = "N", conflicts_with_all = ["closed", "steps"])]
    ramp_to: Option<f64>,
    /// One rate after the other, each for so long, as 500:10s,1000:10s
    #[arg(long, value_name = "N:TIME,...", value_delimiter = ',', value_parser = step,
          conflicts_with_all = ["closed", "duration"])]
    steps: Vec<Segment>,
    /// Requests come by chance, as from independent users (Poisson), at the same rate
    #[arg(long, conflicts_with = "closed")]
    poisson: bool,
    /// What chance begins with: the same number makes the same schedule
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// As fast as answers come: each connection sends as soon as it has its answer
    #[arg(long)]
    closed: bool,
    /// How long requests are sent, of those that count
    #[arg(long, value_name = "TIME", default_value_t = Duration::from_secs(10))]
    duration: Duration,
    /// How long requests are sent before those that count
    #[arg(long, value_name = "TIME", default_value_t = Duration::from_secs(1))]
    warmup: Duration,
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
}

/// What each request is.
#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP")]
struct RequestOptions {
    /// The method; without it GET
    #[arg(long, short = 'X', value_name = "NAME")]
    method: Option<String>,
    /// A header, as 'Name: value'; may be given several times
    #[arg(long, short = 'H', value_name = "HEADER", value_parser = header)]
    header: Vec<(String, String)>,
    /// The body; @FILE reads it from a file
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
}

fn step(text: &str) -> Result<Segment, String> {
    let words = || format!("{text:?} is no step: write it as 500:10s");
    let (rate, span) = text.split_once(':').ok_or_else(words)?;
    let rate = rate.trim().parse().map_err(|_| words())?;
    let span: Duration = span.parse().map_err(|_| words())?;
    Ok(Segment::constant(rate, span.get()))
}

impl RequestOptions {
    /// The first option that was given.
    fn given(&self) -> Option<&'static str> {
        let Self { method, header, body } = self;
        let all = [
            ("--method", method.is_some()),
            ("--header", !header.is_empty()),
            ("--body", body.is_some()),
        ];
        all.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    fn workload(&self, url: &Url) -> Result<Http, Failure> {
        let body = self.body.as_deref().unwrap_or_default();
        let body = match body.strip_prefix('@') {
            None => body.to_owned().into_bytes(),
            Some(file) => std::fs::read(file)
                .map_err(|error| Failure::other(format!("can't read the body {file}: {error}")))?,
        };
        let method = self.method.clone().unwrap_or_else(|| "GET".to_owned());
        let request = Request { method, headers: self.header.clone(), body };
        Http::new(url, &request).map_err(Failure::other)
    }
}

impl Command {
    /// Loads the server. Everything is checked before the first byte is sent.
    fn run(&self, out: &mut dyn Write) -> Result<u8, Failure> {
        let (kind, url, seed) = (self.check()?, &self.url, self.speed.seed);
        match kind {
            Kind::Http => self.go(&self.request.workload(url)?, out),
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
            (None, Scheme::Redis) => Kind::Redis,
            (Some(Named::InfluxWrite), Scheme::Redis) => {
                return Err(Failure::other("influx-write goes to http:// or https://"));
            }
        };
        let (redis, request, writes) =
            (self.redis.given(), self.request.given(), self.writes.given());
        let own_body = request.filter(|name| *name != "--header");
        let prepare = self.prepare.then_some("--prepare");
        let useless = match kind {
            Kind::Http => redis.or(writes).or(prepare),
            Kind::InfluxWrite => redis.or(own_body),
            Kind::Redis => request.or(writes).or(prepare),
        };
        match useless {
            None => Ok(kind),
            Some(name) => Err(Failure::other(format!(
                "{name} has no effect on this workload: --help says which options belong to which"
            ))),
        }
    }

    /// Asks the server for something before the load.
    fn ask<W: Workload>(&self, workload: &mut W) -> Result<(), Failure> {
        let asked = engine::ask(&self.target()?, self.means.timeout.get(), workload, 1);
        asked.map_err(|error| Failure::other(format!("can't prepare the load: {error}")))
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
        let given = self.redis.given().or(self.writes.given()).or(self.request.given());
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
            check: Check::Name,
            identity: None,
            protocols: match self.url.scheme() {
                Scheme::Http => &["http/1.1"],
                Scheme::Redis => &[],
            },
        };
        let tls = self.url.is_tls().then(|| Tls::new(&options, host)).transpose();
        Ok(Target {
            address: Address::Tcp { host: host.to_owned(), port: self.url.port() },
            tls: tls.map_err(Failure::other)?,
            connect_timeout: self.means.timeout.get(),
        })
    }
}

impl Speed {
    fn pace(&self) -> Result<Pace, Failure> {
        let duration = self.duration.get();
        if self.closed {
            return Ok(Pace::Closed(duration));
        }
        let segments = if self.steps.is_empty() {
            let to = self.ramp_to.unwrap_or(self.rate);
            vec![Segment { from: self.rate, to, duration }]
        } else {
            self.steps.clone()
        };
        Ok(Pace::Open(Schedule::new(segments, self.arrivals()).map_err(Failure::other)?))
    }

    fn arrivals(&self) -> Arrivals {
        if self.poisson { Arrivals::Poisson(self.seed) } else { Arrivals::Even }
    }
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
        assert!(request.workload(&"http://h".parse().unwrap()).is_err());
        let nowhere = read("http://h --workload influx-write").unwrap();
        assert!(nowhere.writes.workload(&nowhere.url, &[], 1).is_err());
        for (words, part) in [
            ("http://h --mix get", "--mix has no effect"),
            ("redis://h -X POST", "--method has no effect"),
            ("redis://h --prepare", "--prepare has no effect"),
            ("redis://h --workload influx-write", "goes to http"),
            ("http://h --workload influx-write --body x", "--body has no effect"),
            ("http://h --rows jmeter", "--rows has no effect"),
            ("redis://h --size 9-1", "no size"),
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
