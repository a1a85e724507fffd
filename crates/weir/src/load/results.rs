//! The directory that a run's results are in, and what is said of the run there: nothing secret.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use meter::directory::{self, Directory, DirectoryError, RUN_FILE, TEXT};
use meter::engine::{FinishedWindow, Outcome};
use meter::machine;
use meter::merge::{FINGERPRINT, PartFile};
use meter::part::RunPart;
use meter::report;
use meter::schedule::Segment;
use meter::sharing::PartInjector;
use meter::summary::Summary;
use serde::Deserialize;
use serde_json::{Value, json};

use super::run::{NamedLoad, urls};
use super::workload::WorkloadOptions;
use super::{Command, mix};
use crate::exit::Failure;

/// Where directories are that nobody named.
const USUAL: &str = "weir-load";
/// Runs that may begin within one second in one place.
const SAME_SECOND_MAX: u32 = 100;
/// Headers whose values are no secrets; those of all others are not written down.
const OPEN_HEADERS: [&str; 7] = [
    "accept",
    "accept-encoding",
    "cache-control",
    "connection",
    "content-encoding",
    "content-type",
    "host",
];

/// Where results are kept.
#[derive(Debug, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ResultsPlace {
    /// The directory for the results, a new or empty one [default: weir-load/DATE-TIME, in UTC]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl ResultsPlace {
    /// The directory for what is run now.
    pub fn path(&self) -> PathBuf {
        if let Some(path) = &self.out {
            return path.clone();
        }
        let usual = Path::new(USUAL).join(date_time(SystemTime::now()));
        let numbered = (1..SAME_SECOND_MAX).map(|number| {
            let mut path = usual.clone();
            if number > 1 {
                path.as_mut_os_string().push(format!("-{number}"));
            }
            path
        });
        { numbered }.find(|path| !path.exists()).unwrap_or(usual)
    }
}

/// The results of a run as they come.
pub struct Results {
    path: PathBuf,
    directory: Directory,
    /// Which part of which run they are, of one that several injectors share.
    part: Option<(RunPart, String)>,
    /// The disk refused something, which has been said.
    torn: bool,
}

impl Results {
    /// Makes the directory, before anything is sent; a part has a fingerprint of what it sends.
    pub fn create(
        named: &[NamedLoad<'_>],
        path: PathBuf,
        operations: &[String],
        duration: Duration,
        fingerprint: Option<String>,
    ) -> Result<Self, Failure> {
        let mut run = describe_all(named);
        if let Some(fingerprint) = fingerprint {
            run[FINGERPRINT] = fingerprint.into();
        }
        let results = Self::of(path, &run, operations, &run_file(named))?;
        let shared = named.first().map(|(_, first)| &first.shared);
        let part = shared.and_then(|shared| Some((shared.part?, shared.run_id.clone()?)));
        Ok(Self { directory: results.directory.lasting(duration), part, ..results })
    }

    /// The same of a run that is described, and has such a run file.
    pub fn of(
        path: PathBuf,
        run: &Value,
        operations: &[String],
        run_file: &str,
    ) -> Result<Self, Failure> {
        let failed = |error| match error {
            DirectoryError::Taken(_) => Failure::other(error),
            DirectoryError::Io { .. } => {
                Failure::other(format!("{error}; name another directory with --out"))
            }
        };
        let directory = Directory::create(&path, run, operations).map_err(failed)?;
        directory::replace(&path.join(RUN_FILE), run_file).map_err(failed)?;
        Ok(Self { path, directory, part: None, torn: false })
    }

    /// Writes a window that has ended.
    pub fn window(&mut self, ended: &FinishedWindow) {
        if let Err(error) = self.directory.window(ended) {
            self.torn = true;
            say(&format!("{error}; the run goes on, and no further windows are kept"));
        }
    }

    /// Takes the directory away again: the run could not be begun.
    pub fn discard(self) {
        self.directory.discard();
        // The usual one above it goes where this was all that it held.
        if self.path.parent() == Some(Path::new(USUAL)) {
            let _ = std::fs::remove_dir(USUAL);
        }
    }

    /// Keeps the report; says where it is.
    pub fn finish(self, outcome: &Outcome, summary: &Summary<'_>) -> String {
        let Self { path, directory, part, torn } = self;
        let text = path.join(TEXT);
        let page = match directory.finish(outcome, summary) {
            Err(error) => return format!("report: {}, in part: {error}", text.display()),
            Ok(Some(course)) => report::write_ended(&path, course, outcome, summary),
            // What found no room is not on the page, which says so.
            Ok(None) => report::write(&path),
        };
        // Last: whatever has it is whole.
        let of_part = part
            .filter(|_| !torn)
            .map_or(Ok(()), |(part, run_id)| keep_part(&path, part, run_id, outcome));
        if let Err(error) = of_part {
            say(&format!("{error}; it can't be merged with others"));
        }
        match page {
            Err(error) => format!("report: {}, and no page: {error}", text.display()),
            Ok(page) if torn => {
                format!("report: {}, without the windows that found no room", page.display())
            }
            Ok(page) => format!("report: {}", page.display()),
        }
    }
}

/// Keeps what a merge needs besides the windows.
fn keep_part(
    path: &Path,
    part: RunPart,
    run_id: String,
    outcome: &Outcome,
) -> Result<(), DirectoryError> {
    let text = serde_json::to_string(&part_file(part, run_id, outcome)).unwrap_or_default();
    directory::replace(&path.join(directory::PART), &text)
}

/// What came of a part, sent from this machine.
pub fn part_file(part: RunPart, run_id: String, outcome: &Outcome) -> PartFile {
    let (host, measured, doubts) = (machine::host(), outcome.measured, outcome.doubts());
    let injector = PartInjector::new(part, host, &outcome.network, measured, doubts);
    let requests = outcome.results.total();
    PartFile { run_id, injector, requests, outcome: outcome.clone() }
}

/// A terminal that is gone ends no run.
fn say(words: &str) {
    let _ = writeln!(io::stderr(), "{words}");
}

/// `2026-11-23-185050`.
fn date_time(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let nanos = i64::try_from(seconds).unwrap_or_default().saturating_mul(1_000_000_000);
    wire::influxql::rfc3339_short(nanos).replace(':', "").replace('T', "-").replace('Z', "")
}

/// All loads as they are run, without what is secret.
fn describe_all(named: &[NamedLoad<'_>]) -> Value {
    if let [(_, alone)] = named {
        return describe(alone);
    }
    let loads = named.iter().map(|(name, command)| {
        let mut load = describe(command);
        load["name"] = name.as_str().into();
        load
    });
    json!({ "url": urls(named), "loads": loads.collect::<Vec<_>>() })
}

/// The same as a run file. What may be secret is left out, and named.
fn run_file(named: &[NamedLoad<'_>]) -> String {
    let mut out = String::from(
        "# The load as it was run, for `weir load run`: without passwords, and without the values\n\
         # of headers, bodies and steps that may be secret.\n",
    );
    let loads = named.iter().map(|(name, command)| {
        let mut given = command.given.clone();
        given.insert("url".to_owned(), command.url.without_secrets().into());
        if let Some(stream) = &command.stream.stream {
            given.insert("stream".to_owned(), stream.without_secrets().into());
        }
        if let Some(headers) = given.get_mut("header").and_then(toml::Value::as_array_mut) {
            headers.retain(|header| {
                let name = header.as_str().and_then(|text| text.split_once(':'));
                name.is_some_and(|(name, _)| is_open(name.trim()))
            });
        }
        let is_file = |body: &toml::Value| body.as_str().is_some_and(|text| text.starts_with('@'));
        // Like a body, they may have in them what is secret.
        given.remove("arguments");
        given.remove("attachment");
        if given.get("body").is_some_and(|body| !is_file(body)) {
            given.remove("body");
        }
        (name.clone(), given)
    });
    out += &mix::text(&loads.collect::<Vec<_>>());
    out
}

fn is_open(header: &str) -> bool {
    OPEN_HEADERS.iter().any(|open| header.eq_ignore_ascii_case(open))
}

/// The run as it is run, without what is secret.
fn describe(command: &Command) -> Value {
    let Command { options, url, speed, means, shared, demands, .. } = command;
    let (mut method, mut body, mut http) = (None, "", Value::Null);
    let (mut redis, mut postgres, mut influx_write) = (None, None, None);
    let mut dubbo = None;
    match options {
        WorkloadOptions::Http(of) => {
            (method, http) = (of.method.as_deref(), of.described());
            body = of.body.as_deref().unwrap_or_default();
        }
        WorkloadOptions::Dubbo(of) => dubbo = Some(of.described()),
        WorkloadOptions::InfluxWrite(of) => influx_write = Some(of.described()),
        WorkloadOptions::Postgres(of) => postgres = Some(format!("{of:?}")),
        WorkloadOptions::Redis(of) => redis = Some(format!("{of:?}")),
    }
    let headers = options
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {}", if is_open(name) { value } else { "..." }));
    let words =
        |gates: &[meter::gate::Gate]| gates.iter().map(ToString::to_string).collect::<Vec<_>>();
    let pace = if speed.closed {
        json!({ "closed": true, "duration": speed.duration.to_string() })
    } else if speed.steps.is_empty() {
        let (rate, ramp_to) = (speed.rate, speed.ramp_to);
        json!({ "rate": rate, "ramp_to": ramp_to, "duration": speed.duration.to_string() })
    } else {
        json!({ "steps": speed.steps.iter().map(step).collect::<Vec<_>>() })
    };
    json!({
        "program": concat!("weir ", env!("CARGO_PKG_VERSION")),
        "url": url.without_secrets(),
        "workload": options.name(),
        "method": method,
        "headers": headers.collect::<Vec<_>>(),
        "body_bytes": (!body.starts_with('@')).then_some(body.len()),
        "body_file": body.strip_prefix('@'),
        "http": http,
        "redis": redis,
        "dubbo": dubbo,
        "postgres": postgres,
        "influx_write": influx_write,
        "pace": pace,
        "poisson_seed": speed.poisson.then_some(speed.seed),
        "warm_up": speed.warmup.to_string(),
        "connections": means.connections,
        "threads": means.threads,
        "timeout": means.timeout.to_string(),
        "ca": means.ca,
        "insecure": means.insecure,
        "require": words(&demands.require),
        "abort": words(&demands.abort),
        "think": command.given.get("think").and_then(toml::Value::as_str),
        "ledger": command.findings.ledger,
        "agents": command.agents.agents,
        "part": shared.part.map(|part| part.to_string()),
        "run_id": shared.run_id,
        "start_at": shared.start_at.map(meter::summary::date_time),
        "expected_round_trip_ns": command.findings.expect_rtt.map(|span| span.as_nanos() as u64),
    })
}

fn step(segment: &Segment) -> String {
    format!("{}:{:?}", segment.from, segment.duration)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use clap::Parser;

    use super::{date_time, describe};
    use crate::load::Command;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        command: Command,
    }

    #[test]
    fn a_directory_is_named_by_when_its_run_began() {
        assert_eq!(
            date_time(UNIX_EPOCH + Duration::from_millis(1_763_923_850_999)),
            "2025-11-23-185050"
        );
    }

    #[test]
    fn a_run_is_kept_without_its_secrets() {
        let words = [
            "load",
            "http://ann:hush@h/write?db=d&p=hush&api_token=hush",
            "-H",
            "Authorization: hush",
            "-H",
            "Content-Type: text/plain",
            "--body",
            "hush",
            "--steps",
            "5:1s,9:2s",
        ];
        let kept = describe(&Line::try_parse_from(words).unwrap().command);
        let text = kept.to_string();
        assert!(!text.contains("hush"), "{text}");
        assert_eq!(kept["url"], "http://h:80/write?db=d&p=...&api_token=...");
        assert_eq!(kept["headers"][1], "Content-Type: text/plain");
        assert_eq!(
            (kept["body_bytes"].as_u64(), &kept["pace"]["steps"][1]),
            (Some(4), &"9:2s".into())
        );
    }
}
