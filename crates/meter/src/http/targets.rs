//! Targets from a file, in the two formats of vegeta: `http`, and `json`, an object a line.

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;

use super::{Request, RequestError, Step, header};

/// The most targets of a file.
pub const TARGETS_MAX: usize = 1_000_000;
pub const BYTES_MAX: usize = 256 << 20;

/// Reads a file that a target names for its body; what is wrong with it in words.
pub type Read<'a> = dyn Fn(&str) -> Result<Vec<u8>, String> + 'a;

/// The targets of a file. Headers and body that all have are those of `usual`; a target's own ones
/// replace them.
///
/// # Errors
/// A line is not as the format has it, or there are none.
pub fn targets(text: &str, usual: &Request, read: &Read<'_>) -> Result<Vec<Step>, RequestError> {
    let limit = |words: &str| Err(RequestError::Limit(words.to_owned()));
    if text.len() > BYTES_MAX {
        return limit("a file of targets has 256 MiB at most");
    }
    let is_json = text.trim_start().starts_with('{');
    let targets = if is_json { json(text, usual)? } else { lines(text, usual, read)? };
    match targets.len() {
        0 => limit("the file has no targets"),
        count if count > TARGETS_MAX => limit("there are 1,000,000 targets at most"),
        _ => Ok(targets),
    }
}

/// A target that has nothing of its own yet.
fn begun(method: &str, target: &str, usual: &Request) -> Step {
    let request = Request { method: method.to_owned(), ..usual.clone() };
    Step { target: Some(target.to_owned()), request, ..Step::default() }
}

/// Adds a header; the first of that name takes the place of the usual ones.
fn add_header(step: &mut Step, own: &mut Vec<String>, name: String, value: String) {
    if !own.iter().any(|other| name.eq_ignore_ascii_case(other)) {
        step.request.headers.retain(|(usual, _)| !usual.eq_ignore_ascii_case(&name));
        own.push(name.clone());
    }
    step.request.headers.push((name, value));
}

/// Whether a line begins a target: `GET ` and the like.
fn begins(line: &str) -> bool {
    let end = line.bytes().position(|byte| !byte.is_ascii_uppercase());
    end.is_some_and(|end| end > 0 && line[end..].starts_with([' ', '\t']))
}

fn lines(text: &str, usual: &Request, read: &Read<'_>) -> Result<Vec<Step>, RequestError> {
    let mut targets = Vec::new();
    // The target that lines are added to, and the names of its own headers.
    let mut open: Option<(Step, Vec<String>)> = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let wrong = |what: &str| RequestError::Target { line: at + 1, what: what.to_owned() };
        if line.is_empty() || begins(line) {
            targets.extend(open.take().map(|(step, _)| step));
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if begins(line) {
            let (method, target) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            open = Some((begun(method, target.trim(), usual), Vec::new()));
            continue;
        }
        let Some((step, own)) = &mut open else {
            return Err(wrong("it begins no target: write it as GET /path"));
        };
        if let Some(file) = line.strip_prefix('@') {
            step.request.body = read(file).map_err(|what| wrong(&what))?;
            // Behind its body a target has nothing more.
            targets.extend(open.take().map(|(step, _)| step));
            continue;
        }
        let (name, value) = header(line).map_err(|error| wrong(&error.to_string()))?;
        add_header(step, own, name, value);
    }
    targets.extend(open.map(|(step, _)| step));
    Ok(targets)
}

/// A line of the format `json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    method: String,
    url: String,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    header: Option<std::collections::BTreeMap<String, Vec<String>>>,
}

fn json(text: &str, usual: &Request) -> Result<Vec<Step>, RequestError> {
    let mut targets = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |what: String| RequestError::Target { line: at + 1, what };
        let line: Line = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let (mut step, mut own) = (begun(&line.method, &line.url, usual), Vec::new());
        for (name, values) in line.header.unwrap_or_default() {
            for value in values {
                let checked = header(&format!("{name}: {value}"));
                let (name, value) = checked.map_err(|error| wrong(error.to_string()))?;
                add_header(&mut step, &mut own, name, value);
            }
        }
        if let Some(body) = line.body {
            let body = BASE64.decode(body);
            step.request.body = body.map_err(|error| wrong(format!("its body: {error}")))?;
        }
        targets.push(step);
    }
    Ok(targets)
}
