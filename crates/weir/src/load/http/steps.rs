//! The steps of a user, as TOML has them: tables called `step`, in a run file or in one of their
//! own.

use std::path::Path;

use meter::http::check::{Check, Take};
use meter::http::{Request, Step, header};
use serde::Deserialize;

use super::{body, read_text};
use crate::exit::Failure;
use crate::load::entries::{self, Entries, Entry};
use crate::load::file::known_among;
use crate::load::inputs::Inputs;

/// What the tables are called.
pub const KEY: &str = "step";
/// The keys of one, with what each is.
pub const KEYS: [(&str, &str, &str); 7] = [
    ("name", "\"login\"", "what its results are called; without it the method and the path"),
    ("target", "\"/login?as={{name}}\"", "what is asked for: the only key that there must be"),
    ("method", "\"POST\"", "without it GET"),
    ("header", "[\"Content-Type: application/json\"]", "besides those of all steps"),
    ("body", "'{\"name\": \"{{json name}}\"}'", "\"@FILE\" reads it from a file"),
    ("check", "[\"status 200\", \"json /ok = true\"]", "besides those of all steps"),
    ("take", "[\"token = json /token\"]", "values of its answer for {{token}} in later steps"),
];

/// A step as it is written.
#[derive(Debug, Clone, Deserialize)]
pub struct StepTable {
    name: Option<String>,
    target: String,
    method: Option<String>,
    #[serde(default)]
    header: Texts,
    body: Option<String>,
    #[serde(default)]
    check: Texts,
    #[serde(default)]
    take: Texts,
}

/// One text, or a list of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Several(Vec<String>),
}

impl Default for Texts {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Texts {
    fn all(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Several(texts) => texts,
        }
    }
}

impl StepTable {
    /// What is written down of it: nothing that it sends.
    pub fn shown(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let (path, _) = self.target.split_once('?').unwrap_or((&self.target, ""));
            format!("{} {}", self.method.as_deref().unwrap_or("GET"), without_user(path))
        })
    }

    fn step(&self, inputs: &Inputs, headers: &[(String, String)]) -> Result<Step, String> {
        let own = self.header.all().iter().map(|text| header(text));
        let own = own.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        let is_own = |name: &str| own.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let mut headers: Vec<_> =
            headers.iter().filter(|(name, _)| !is_own(name)).cloned().collect();
        headers.extend(own.iter().cloned());
        let checks = self.check.all().iter().map(|text| text.parse::<Check>());
        let takes = self.take.all().iter().map(|text| text.parse::<Take>());
        let body = body(inputs, self.body.as_deref().unwrap_or_default());
        Ok(Step {
            name: self.name.clone(),
            target: Some(self.target.clone()),
            request: Request {
                method: self.method.clone().unwrap_or_else(|| "GET".to_owned()),
                headers,
                body: body.map_err(|error| error.to_string())?,
            },
            checks: checks.collect::<Result<_, _>>().map_err(|error| error.to_string())?,
            takes: takes.collect::<Result<_, _>>().map_err(|error| error.to_string())?,
        })
    }
}

/// A target without the user and password that a whole URL may have; a path is as it is.
fn without_user(target: &str) -> String {
    let parts = target.split_once("://").filter(|(scheme, _)| !scheme.contains('/'));
    let Some((scheme, rest)) = parts else { return target.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// The steps of a file of their own.
pub fn read(inputs: &Inputs, file: &Path) -> Result<Vec<StepTable>, Failure> {
    let file = file.display().to_string();
    let wrong = |words: String| Failure::other(format!("{file}: {words}"));
    let text = read_text(inputs, "the steps", &file)?;
    let mut entries = entries::parse(&text).map_err(wrong)?;
    let steps = entries.remove(KEY).ok_or_else(|| wrong("it has no [[step]]".to_owned()))?;
    if let Some(key) = entries.keys().next() {
        let line = entries.line(key);
        return Err(wrong(format!("{line}it has {key:?}, and only [[step]]s belong there")));
    }
    parse(&steps).map_err(wrong)
}

/// Takes the steps of a run file, whose load is of this workload.
///
/// # Errors
/// One of them is wrong, or the load is not of HTTP.
pub fn take(entries: &mut Entries, workload: &str) -> Result<Vec<StepTable>, String> {
    let line = entries.line(KEY);
    match entries.remove(KEY) {
        None => Ok(Vec::new()),
        Some(steps) if workload == "http" => parse(&steps),
        Some(_) => Err(format!("{line}[[{KEY}]] has no effect on {workload}: it is of http")),
    }
}

/// The steps of a value of a TOML file.
fn parse(steps: &Entry) -> Result<Vec<StepTable>, String> {
    let places = steps.tables().filter(|_| steps.value.is_array());
    let Some((places, tables)) = places.zip(steps.value.as_array()) else {
        return Err("a step is a table: [[step]]".to_owned());
    };
    let names = || KEYS.map(|(name, ..)| name).to_vec();
    let each = tables.iter().zip(places).enumerate().map(|(at, (table, keys))| {
        let words = |what: String| format!("step {}: {what}", at + 1);
        for key in keys.keys() {
            let known = known_among(key, names());
            known.map_err(|what| words(format!("{}{what}", keys.line(key))))?;
        }
        table
            .clone()
            .try_into()
            .map_err(|error: toml::de::Error| words(error.message().trim().to_owned()))
    });
    each.collect()
}

/// They as requests. `headers` are those of all.
pub fn of(
    inputs: &Inputs,
    tables: &[StepTable],
    headers: &[(String, String)],
) -> Result<Vec<Step>, Failure> {
    let each = tables.iter().enumerate().map(|(at, table)| {
        let step = table.step(inputs, headers);
        step.map_err(|words| {
            Failure::other(format!("step {} ({}): {words}", at + 1, table.shown()))
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::without_user;

    #[test]
    fn a_step_is_shown_with_its_whole_path_and_without_a_password() {
        for (target, shown) in [
            ("/users/@me", "/users/@me"),
            ("/a@b/c://d@e", "/a@b/c://d@e"),
            ("http://ann:hush@h:8080/users/@me", "http://h:8080/users/@me"),
            ("http://ann:hu@sh@h", "http://h"),
            ("http://h/@me", "http://h/@me"),
        ] {
            assert_eq!(without_user(target), shown);
        }
    }
}
