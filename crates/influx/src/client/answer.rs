//! What a backend's answer to a batch means. Pure: bytes in, meaning out.
//!
//! The message decides before the status, because InfluxDB answers a missing retention policy,
//! which no retry can cure, with 500, and a missing database with the 404 that a wrong path gives
//! too. Messages are compared from their beginning only: behind it they quote what a client wrote.
//!
//! Sources: InfluxDB 1.8 `services/httpd/handler.go` (`serveWrite`), `tsdb/shard.go`
//! (`PartialWriteError`) and `errors.go`; InfluxDB 2.7 `http/write_handler.go`,
//! `http/legacy/write_handler.go` and `tenant/error_bucket.go`; InfluxDB 3
//! `influxdb3_server/src/http.rs`.

use std::time::{Duration, SystemTime};

use serde_json::Value;

/// How many bytes of an answer are worth reading: InfluxDB quotes each line it could not parse.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// How many bytes of a backend's words are kept in states, logs and dead letters.
const WORDS_BYTES_MAX: usize = 1024;
/// The longest pause a backend can ask for: a wrong `Retry-After` must not stop delivery for days.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// The parts of an HTTP answer that can carry meaning.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reply<'a> {
    /// The HTTP status code.
    pub status: u16,
    /// InfluxDB's error text, in `X-Influxdb-Error`.
    pub error_header: Option<&'a str>,
    /// The pause that is asked for, in `Retry-After`.
    pub retry_after: Option<&'a str>,
    /// The body, at most [`ANSWER_BYTES_MAX`] of it.
    pub body: &'a [u8],
}

/// What has to exist before a batch can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// A database of the 1.x API.
    Database,
    /// The retention policy (1.x).
    Policy,
    /// A bucket of the 2.x API.
    Bucket,
    /// The mapping of a database to a bucket on the 1.x path of a 2.x server; Weir cannot create
    /// it.
    Mapping,
}

/// A refusal for reasons that lie in the points.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusal {
    /// Why, in the backend's words.
    pub words: String,
    /// How many points were dropped, where the backend says so. The others may or may not be
    /// stored.
    pub dropped: Option<u64>,
    /// Which lines were refused, counted from 0, where the backend says so (InfluxDB 3).
    pub lines: Vec<u32>,
}

/// The meaning of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// All points are stored.
    Delivered,
    /// At least one point can never be stored.
    Refused(Refusal),
    /// The request is larger than the backend takes.
    TooLarge(String),
    /// Something has to be created first.
    Missing(Missing, String),
    /// The credentials do not suffice.
    Denied(String),
    /// The backend asks for a pause, of this length if it says so.
    Busy(String, Option<Duration>),
    /// The backend could not cope: overload by its own words, so a smaller batch may help, but the
    /// points are not to blame.
    Overloaded(String),
    /// The backend failed, and the points may or may not be the cause.
    Failed(String),
    /// Whatever answered does not take writes here.
    Misdirected(String),
}

/// The meaning of `reply`; `now` turns a date in `Retry-After` into a pause.
pub fn classify(reply: &Reply<'_>, now: SystemTime) -> Answer {
    if (200..300).contains(&reply.status) {
        return Answer::Delivered;
    }
    let (words, lines) = said(reply);
    if let Some(answer) = by_message(reply, &words, lines) {
        return answer;
    }
    let words = shortened(words);
    match reply.status {
        401 | 403 => Answer::Denied(words),
        413 => Answer::TooLarge(words),
        408 | 425 | 429 | 503 => {
            Answer::Busy(words, reply.retry_after.and_then(|text| pause(text, now)))
        }
        // What was sent comes back here (`via`): nothing is wrong with the points.
        508 => Answer::Misdirected(words),
        // A 400 or 422 in unknown words may come from a proxy that refuses everything.
        400 | 422 | 500..=599 => Answer::Failed(words),
        _ => Answer::Misdirected(words),
    }
}

/// How InfluxDB 3 begins when it has taken no line of a batch, one version or another
/// (`influxdb3_server/src/http.rs`, `influxdb3_write/src/write_buffer/mod.rs`).
const LINES_OF_3: [&str; 3] = [
    "parsing failed for",
    "line protocol parsing error",
    "write buffer error: parsing for line protocol failed",
];

fn by_message(reply: &Reply<'_>, words: &str, lines: Vec<u32>) -> Option<Answer> {
    // 2.x puts this before the message of its storage engine.
    let cause = words.strip_prefix("failure writing points to database: ").unwrap_or(words);
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| cause.starts_with(prefix));
    let kept = || shortened(words.to_owned());
    if begins(&["partial write", "unable to parse '", "field type conflict"])
        || begins(&["points beyond retention policy"])
        || begins(&LINES_OF_3)
    {
        let dropped = if lines.is_empty() { dropped(cause) } else { Some(lines.len() as u64) };
        return Some(Answer::Refused(Refusal { words: kept(), dropped, lines }));
    }
    if begins(&["retention policy not found"]) {
        return Some(Answer::Missing(Missing::Policy, kept()));
    }
    if begins(&["database not found"]) {
        return Some(Answer::Missing(Missing::Database, kept()));
    }
    if begins(&["no dbrp mapping found"]) {
        return Some(Answer::Missing(Missing::Mapping, kept()));
    }
    if reply.status == 404 && begins(&["bucket \""]) && cause.ends_with("\" not found") {
        return Some(Answer::Missing(Missing::Bucket, kept()));
    }
    let overload = begins(&["timeout", "cache-max-memory-size exceeded"])
        || cause.starts_with("unexpected error writing points to database: timeout");
    overload.then(|| Answer::Overloaded(kept()))
}

/// The number after the last `dropped=`, which InfluxDB puts at the end of a partial write.
fn dropped(words: &str) -> Option<u64> {
    let (_, number) = words.strip_prefix("partial write").and(words.rsplit_once(" dropped="))?;
    number.trim().parse().ok()
}

/// What the backend said, and which lines it named.
fn said(reply: &Reply<'_>) -> (String, Vec<u32>) {
    if let Ok(body) = serde_json::from_slice::<Value>(reply.body) {
        let lines = refused_lines(&body);
        let message = body.get("error").or_else(|| body.get("message")).and_then(Value::as_str);
        if let Some(message) = message.filter(|message| !message.is_empty()) {
            let why = first_reason(&body).map(|why| format!("{message}: {why}"));
            return (why.unwrap_or_else(|| message.to_owned()), lines);
        }
    }
    if let Some(header) = reply.error_header.filter(|header| !header.is_empty()) {
        return (header.to_owned(), Vec::new());
    }
    let text = String::from_utf8_lossy(reply.body);
    let text = text.trim();
    if text.is_empty() {
        return (format!("status {} without a message", reply.status), Vec::new());
    }
    (text.to_owned(), Vec::new())
}

/// The reasons InfluxDB 3 gives for each line: an object for one, an array for several.
fn reasons(body: &Value) -> &[Value] {
    match body.get("data") {
        Some(Value::Array(lines)) => lines,
        Some(one @ Value::Object(_)) => std::slice::from_ref(one),
        _ => &[],
    }
}

fn first_reason(body: &Value) -> Option<&str> {
    reasons(body).first()?.get("error_message")?.as_str()
}

fn refused_lines(body: &Value) -> Vec<u32> {
    let number = |line: &Value| {
        let number = line.get("line_number")?.as_u64()?;
        u32::try_from(number).ok()?.checked_sub(1)
    };
    reasons(body).iter().filter_map(number).collect()
}

/// Cuts `words` to what is kept, at a character's boundary.
pub fn shortened(mut words: String) -> String {
    if words.len() > WORDS_BYTES_MAX {
        let end = (0..=WORDS_BYTES_MAX).rev().find(|end| words.is_char_boundary(*end));
        words.truncate(end.unwrap_or(0));
        words.push_str("...");
    }
    words
}

/// The first error of execution in an answer of `/query`, which InfluxDB puts into a 200.
pub fn error_in(body: &[u8]) -> Option<String> {
    // Most answers have none, and `SELECT ... INTO` can answer at length.
    memchr::memmem::find(body, b"\"error\"")?;
    let answer: serde_json::Value = serde_json::from_slice(body).ok()?;
    let of = |value: &serde_json::Value| Some(value.get("error")?.as_str()?.to_owned());
    of(&answer).or_else(|| answer.get("results")?.as_array()?.iter().find_map(of))
}

/// `Retry-After` as seconds or a date (RFC 9110, section 10.2.3).
fn pause(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let asked = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(asked.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
