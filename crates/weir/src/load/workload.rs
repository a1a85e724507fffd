//! What a load sends: the options of each workload are a struct of their own, which clap reads of a
//! command line and serde of a run file, and a load has those of one. clap's definitions of these
//! structs say which option belongs to which.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, FromArgMatches, ValueEnum};
use meter::url::{Scheme, Url};
use serde::Deserialize;
use toml::Value;

use super::dubbo::DubboOptions;
use super::entries::Entries;
use super::http::{self, HttpOptions};
use super::influx::InfluxOptions;
use super::postgres::PostgresOptions;
use super::redis::RedisOptions;
use super::values;

/// The options of a workload.
#[derive(Debug)]
pub enum WorkloadOptions {
    Dubbo(DubboOptions),
    Http(HttpOptions),
    InfluxWrite(InfluxOptions),
    Postgres(PostgresOptions),
    Redis(RedisOptions),
}

/// A workload that no scheme means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NamedWorkload {
    /// Line protocol to InfluxDB
    InfluxWrite,
}

/// Which workload it is, where the URL does not say it.
#[derive(Debug, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct WorkloadName {
    /// What is sent, where the URL does not say it
    #[arg(long, value_name = "NAME")]
    #[serde(default, deserialize_with = "values::name_if_any")]
    workload: Option<NamedWorkload>,
}

/// A workload, before its options are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    Postgres,
    Redis,
    InfluxWrite,
    Dubbo,
}

impl Kind {
    /// In the order of the help.
    const ALL: [Self; 5] =
        [Self::Http, Self::Postgres, Self::Redis, Self::InfluxWrite, Self::Dubbo];

    fn of(named: Option<NamedWorkload>, url: &Url) -> Result<Self, String> {
        match (named, url.scheme()) {
            (None, Scheme::Http) => Ok(Self::Http),
            (None, Scheme::Postgres) => Ok(Self::Postgres),
            (None, Scheme::Redis) => Ok(Self::Redis),
            (None, Scheme::Dubbo | Scheme::ZooKeeper) => Ok(Self::Dubbo),
            (Some(NamedWorkload::InfluxWrite), Scheme::Http) => Ok(Self::InfluxWrite),
            (Some(NamedWorkload::InfluxWrite), _) => {
                Err("influx-write goes to http:// or https://".to_owned())
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Postgres => "postgres",
            Self::Redis => "redis",
            Self::Dubbo => "dubbo",
            Self::InfluxWrite => "influx-write",
        }
    }

    /// Its options, those among them that others have, too.
    fn args(self) -> Vec<Arg> {
        let none = clap::Command::new("load");
        let command = match self {
            Self::Http => HttpOptions::augment_args(none),
            Self::Postgres => PostgresOptions::augment_args(none),
            Self::Redis => RedisOptions::augment_args(none),
            Self::Dubbo => DubboOptions::augment_args(none),
            Self::InfluxWrite => InfluxOptions::augment_args(none),
        };
        command.get_arguments().cloned().collect()
    }

    fn has(self, arg: &Arg) -> bool {
        self.args().iter().any(|own| own.get_id() == arg.get_id())
    }

    /// Takes its options of a run file.
    fn take(self, entries: &mut Entries) -> Result<WorkloadOptions, String> {
        Ok(match self {
            Self::Http => WorkloadOptions::Http(entries.take()?),
            Self::Postgres => WorkloadOptions::Postgres(entries.take()?),
            Self::Dubbo => WorkloadOptions::Dubbo(entries.take()?),
            Self::Redis => WorkloadOptions::Redis(entries.take()?),
            Self::InfluxWrite => WorkloadOptions::InfluxWrite(entries.take()?),
        })
    }

    fn read(self, matches: &ArgMatches) -> Result<WorkloadOptions, clap::Error> {
        Ok(match self {
            Self::Http => WorkloadOptions::Http(HttpOptions::from_arg_matches(matches)?),
            Self::Postgres => {
                WorkloadOptions::Postgres(PostgresOptions::from_arg_matches(matches)?)
            }
            Self::Dubbo => WorkloadOptions::Dubbo(DubboOptions::from_arg_matches(matches)?),
            Self::Redis => WorkloadOptions::Redis(RedisOptions::from_arg_matches(matches)?),
            Self::InfluxWrite => {
                WorkloadOptions::InfluxWrite(InfluxOptions::from_arg_matches(matches)?)
            }
        })
    }

    /// Why `insecure`, which every workload has, would have no effect.
    fn insecure_without_effect(self, url: &Url) -> Option<&'static str> {
        match (self, url.tls()) {
            (Self::Postgres, _) => Some(
                "has no effect on postgres: sslmode of the URL says how the certificate is checked",
            ),
            (_, None) => Some("has no effect: the URL has no TLS"),
            (_, Some(_)) => None,
        }
    }

    /// Why an option of other workloads can't stand beside this one.
    fn without_effect(self, arg: &Arg) -> String {
        let owners = Self::ALL.into_iter().filter(|kind| kind.has(arg)).map(Self::name);
        let owners = owners.collect::<Vec<_>>().join(" and ");
        format!("has no effect on {}: it is an option of {owners}", self.name())
    }
}

/// The options of all workloads, each once.
fn all_args() -> Vec<Arg> {
    let mut all: Vec<Arg> = Vec::new();
    for arg in Kind::ALL.into_iter().flat_map(Kind::args) {
        if !all.iter().any(|known| known.get_id() == arg.get_id()) {
            all.push(arg);
        }
    }
    all
}

/// Whether an option says what is sent.
pub fn is_of_workload(name: &str) -> bool {
    name == "workload" || all_args().iter().any(|arg| arg.get_long() == Some(name))
}

fn is_insecure(matches: &ArgMatches) -> bool {
    matches.value_source("insecure") == Some(ValueSource::CommandLine)
}

fn refused(words: String) -> clap::Error {
    clap::Error::raw(ErrorKind::ArgumentConflict, words)
}

impl Args for WorkloadOptions {
    fn augment_args(command: clap::Command) -> clap::Command {
        all_args().into_iter().fold(WorkloadName::augment_args(command), clap::Command::arg)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// The URL decides which options there are, so it is looked at first. What is of other workloads is
/// refused: it would have no effect.
impl FromArgMatches for WorkloadOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let no_url = || clap::Error::raw(ErrorKind::MissingRequiredArgument, "there is no URL\n");
        let url = matches.get_one::<Url>("url").ok_or_else(no_url)?;
        let kind = Kind::of(matches.get_one("workload").copied(), url).map_err(refused)?;
        let is_given = |arg: &Arg| {
            matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
        };
        if let Some(arg) = all_args().iter().find(|arg| is_given(arg) && !kind.has(arg)) {
            let option = arg.get_long().unwrap_or_default();
            return Err(refused(format!("--{option} {}", kind.without_effect(arg))));
        }
        if let Some(words) = kind.insecure_without_effect(url).filter(|_| is_insecure(matches)) {
            return Err(refused(format!("--insecure {words}")));
        }
        kind.read(matches)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl WorkloadOptions {
    /// Takes those of a run file's load. What is left of workloads' options is of another one.
    ///
    /// # Errors
    /// What is wrong, with the key that it is about.
    pub fn take(entries: &mut Entries, url: &Url) -> Result<Self, String> {
        let named = entries.at("workload");
        let WorkloadName { workload } = entries.take()?;
        let kind = Kind::of(workload, url).map_err(|words| format!("{named}: {words}"))?;
        let steps = http::take_steps(entries, kind.name())?;
        let mut options = kind.take(entries)?;
        if let Self::Http(options) = &mut options {
            options.steps = steps;
        }
        for arg in all_args() {
            let key = arg.get_long().unwrap_or_default();
            let is_given = entries.option(&arg)?.is_some_and(|value| value.is_given());
            if is_given {
                return Err(format!("{} {}", entries.at(key), kind.without_effect(&arg)));
            }
            drop(entries.remove(key));
        }
        match kind.insecure_without_effect(url) {
            Some(words) if entries.value("insecure") == Some(&Value::Boolean(true)) => {
                Err(format!("{} {words}", entries.at("insecure")))
            }
            _ => Ok(options),
        }
    }

    /// What the workload is called where nobody names the load.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Http(_) => Kind::Http.name(),
            Self::InfluxWrite(_) => Kind::InfluxWrite.name(),
            Self::Postgres(_) => Kind::Postgres.name(),
            Self::Redis(_) => Kind::Redis.name(),
            Self::Dubbo(_) => Kind::Dubbo.name(),
        }
    }

    /// The headers that each request has, of what is HTTP.
    pub fn headers(&self) -> &[(String, String)] {
        match self {
            Self::Http(options) => &options.header,
            Self::InfluxWrite(options) => &options.header,
            Self::Postgres(_) | Self::Redis(_) | Self::Dubbo(_) => &[],
        }
    }
}
