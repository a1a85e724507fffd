//! What a load of HTTP is made of.

mod steps;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::Args;
use meter::http::check::Check;
use meter::http::data::{BYTES_MAX, Data, RowOrder};
use meter::http::targets::targets;
use meter::http::{Http, Options, Request, Sequence, Step, header};
use meter::url::Url;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::inputs::Inputs;
use super::values;
use crate::exit::Failure;
pub use steps::{KEY, KEYS, StepTable, take as take_steps};

/// What the requests look like.
#[derive(Debug, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[command(next_help_heading = "HTTP")]
pub struct HttpOptions {
    /// The method; of HTTP without it GET, of Dubbo the one of the interface that is called
    #[arg(long, short = 'X', value_name = "NAME")]
    pub method: Option<String>,
    /// The body; @FILE reads it from a file
    #[arg(long, value_name = "TEXT")]
    pub body: Option<String>,
    /// A file of requests, which are sent in turn, in one of vegeta's formats (http or json)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "user_steps"])]
    targets: Option<PathBuf>,
    /// A TOML file of [[step]]s, through which each request goes as a user of its own
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "body"])]
    user_steps: Option<PathBuf>,
    /// The same of a run file, which has them in it.
    #[arg(skip)]
    #[serde(skip)]
    pub steps: Vec<StepTable>,
    /// A data set for {{column}}: CSV with a line of names, or JSON lines. FILE=random draws its
    /// rows, FILE=once uses each once; without it they come in turn. May be given several times
    #[arg(long, value_name = "FILE[=ORDER]")]
    data: Vec<String>,
    /// What each answer has to be, as 'status 200', 'header Content-Type ~ json', 'text done',
    /// 'json /ok = true' or 'not text error'; may be given several times
    #[arg(long, value_name = "CHECK")]
    #[serde(deserialize_with = "values::texts")]
    check: Vec<Check>,
    /// {{...}} is sent as it is
    #[arg(long, conflicts_with = "data")]
    literal: bool,
    /// A connection ends after so many requests; without it the server ends it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(default, deserialize_with = "one_at_least")]
    requests_per_connection: Option<u32>,
    /// A header, as 'Name: value'; may be given several times
    #[arg(long, short = 'H', value_name = "HEADER", value_parser = header)]
    #[arg(help_heading = "HTTP and InfluxDB")]
    #[serde(deserialize_with = "headers")]
    pub header: Vec<(String, String)>,
}

/// Reads the headers of a run file.
pub fn headers<'de, D>(field: D) -> Result<Vec<(String, String)>, D::Error>
where
    D: Deserializer<'de>,
{
    values::each(field, header)
}

fn one_at_least<'de, D: Deserializer<'de>>(field: D) -> Result<Option<u32>, D::Error> {
    match u32::deserialize(field)? {
        0 => Err(D::Error::custom("it is 1 at least")),
        count => Ok(Some(count)),
    }
}

/// Bytes of a file of bodies, targets, steps or a script.
const FILE_BYTES_MAX: usize = 256 << 20;

/// Reads a file, or says which one it is that can't be.
fn read(inputs: &Inputs, what: &str, file: &str) -> Result<Vec<u8>, Failure> {
    let read = inputs.read(file, FILE_BYTES_MAX);
    read.map_err(|error| Failure::other(format!("can't read {what} {file}: {error}")))
}

/// The same for one that is text.
pub fn read_text(inputs: &Inputs, what: &str, file: &str) -> Result<String, Failure> {
    String::from_utf8(read(inputs, what, file)?)
        .map_err(|_| Failure::other(format!("can't read {what} {file}: it is not UTF-8")))
}

/// A body as it is written, or from the file that `@` names.
fn body(inputs: &Inputs, text: &str) -> Result<Vec<u8>, Failure> {
    match text.strip_prefix('@') {
        None => Ok(text.to_owned().into_bytes()),
        Some(file) => read(inputs, "the body", file),
    }
}

impl HttpOptions {
    /// The workload for that server.
    pub fn workload(&self, url: &Url, inputs: &Inputs, seed: u64) -> Result<Http, Failure> {
        let (steps, sequence) = self.steps(url, inputs)?;
        let data = self.data.iter().zip(1..).map(|(data, salt)| data_set(inputs, data, salt));
        let options = Options {
            steps,
            sequence,
            data: data.collect::<Result<_, _>>()?,
            seed,
            literal: self.literal,
            per_connection: self.requests_per_connection,
        };
        Http::of(url, options).map_err(Failure::other)
    }

    /// What is sent, and how it follows one another.
    fn steps(&self, url: &Url, inputs: &Inputs) -> Result<(Vec<Step>, Sequence), Failure> {
        let read_steps = |file| steps::read(inputs, file);
        let own_steps = self.user_steps.as_deref().map(read_steps).transpose()?;
        let method = self.method.clone().unwrap_or_else(|| "GET".to_owned());
        let body = body(inputs, self.body.as_deref().unwrap_or_default())?;
        let request = Request { method, headers: self.header.clone(), body };
        let tables: Option<&[StepTable]> = match (&own_steps, &*self.steps) {
            (None, []) => None,
            (Some(steps), []) => Some(steps),
            (None, steps) => Some(steps),
            (Some(_), _) => {
                return Err(Failure::other("steps are in the run file, or in that of user-steps"));
            }
        };
        let (mut steps, sequence) = match (tables, &self.targets) {
            (Some(_), Some(_)) => {
                return Err(Failure::other("a load has targets, or the steps of a user"));
            }
            (Some(_), None) if self.method.is_some() || self.body.is_some() => {
                return Err(Failure::other("steps have methods and bodies of their own"));
            }
            (Some(tables), None) => {
                (steps::of(inputs, tables, &request.headers)?, Sequence::AsOneUser)
            }
            (None, Some(file)) => {
                (targets_of(inputs, &file.display().to_string(), &request)?, Sequence::InTurn)
            }
            (None, None) => (vec![Step { request, ..Step::default() }], Sequence::InTurn),
        };
        let has_own = steps.iter().all(|step| step.target.is_some());
        if has_own && url.target() != "/" {
            let path = url.target();
            return Err(Failure::other(format!(
                "{path} has no effect: each request has a target of its own, so end the URL there"
            )));
        }
        for step in &mut steps {
            step.checks.extend(self.check.iter().cloned());
        }
        Ok((steps, sequence))
    }

    /// It as far as it is written down: nothing that is sent.
    pub fn described(&self) -> Value {
        let checks: Vec<_> = self.check.iter().map(ToString::to_string).collect();
        let steps: Vec<_> = self.steps.iter().map(StepTable::shown).collect();
        json!({
            "targets": self.targets.as_ref().map(|file| file.display().to_string()),
            "user_steps": self.user_steps.as_ref().map(|file| file.display().to_string()),
            "steps": steps,
            "data": self.data,
            "checks": checks,
            "literal": self.literal,
            "requests_per_connection": self.requests_per_connection,
        })
    }
}

fn targets_of(inputs: &Inputs, file: &str, usual: &Request) -> Result<Vec<Step>, Failure> {
    let text = read_text(inputs, "the targets", file)?;
    let body = |file: &str| {
        let read = inputs.read(file, FILE_BYTES_MAX);
        read.map_err(|error| format!("its body {file}: {error}"))
    };
    targets(&text, usual, &body).map_err(|error| Failure::other(format!("{file}: {error}")))
}

/// Reads a data set. What stands behind the last `=` is its order, if there is such a one.
pub fn data_set(inputs: &Inputs, text: &str, salt: u64) -> Result<Data, Failure> {
    let known = text.rsplit_once('=').and_then(|(file, order)| Some((file, order.parse().ok()?)));
    let (file, order) = known.unwrap_or((text, RowOrder::default()));
    let wrong = |words: &dyn std::fmt::Display| Failure::other(format!("the data {file}: {words}"));
    let bytes = inputs.read(file, BYTES_MAX).map_err(|error| wrong(&error))?;
    Data::new(&bytes, order, salt).map_err(|error| wrong(&error))
}
