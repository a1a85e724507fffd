//! InfluxDB and Weir side by side.

use std::net::SocketAddr;
use std::sync::Mutex;

use rig::http::{Connection, Message, Request, escape};
use rig::influxd::Influxd;
use rig::weir::{Setup, Weir};

use super::compare;
use super::script::{Action, Expected, Step};

/// How much of an answer is shown before the place where it differs, and from there on.
const SHOWN_BEFORE: usize = 300;
const SHOWN_AFTER: usize = 500;

/// One of the two, over one kept-alive connection.
struct Side {
    address: SocketAddr,
    connection: Mutex<Option<Connection>>,
}

impl Side {
    fn new(address: SocketAddr) -> Self {
        Self { address, connection: Mutex::new(None) }
    }

    /// The answer; one with status 0 and the error where there is none.
    fn send(&self, request: &Request) -> Message {
        let mut kept = self.connection.lock().unwrap();
        let connection = kept.take().map_or_else(|| Connection::open(self.address), Ok);
        let answered = connection.and_then(|mut connection| {
            let answer = connection.send(request)?;
            *kept = Some(connection);
            Ok(answer)
        });
        answered.unwrap_or_else(|error| Message {
            body: format!("no answer: {error}").into_bytes(),
            ..Message::default()
        })
    }
}

/// What stands behind the second side.
enum Other {
    Weir { _weir: Box<Weir> },
    Influxd { _server: Box<Influxd> },
}

pub struct Pair {
    theirs: Side,
    ours: Side,
    _influxd: Influxd,
    other: Other,
}

impl Pair {
    /// Starts both, InfluxDB with an index (`index-version`).
    pub fn start(index: &'static str) -> Self {
        let settings = [("INFLUXDB_DATA_INDEX_VERSION", index)];
        let influxd = Influxd::start_with(&settings);
        let (address, other) = if std::env::var_os("INFLUXQL_ITSELF").is_some() {
            let server = Influxd::start_with(&settings);
            (server.address, Other::Influxd { _server: Box::new(server) })
        } else {
            let weir = Setup::new().embedded().start();
            (weir.http, Other::Weir { _weir: Box::new(weir) })
        };
        Self {
            theirs: Side::new(influxd.address),
            ours: Side::new(address),
            _influxd: influxd,
            other,
        }
    }

    /// Creates a database on both.
    ///
    /// # Panics
    /// When that fails.
    pub fn create(&self, db: &str) {
        let request = Request::query(&format!("CREATE DATABASE \"{db}\""), &[]);
        for side in [&self.theirs, &self.ours] {
            let answer = side.send(&request);
            let error = answer.json()["results"][0]["error"].clone();
            assert!(answer.status() == 200 && error.is_null(), "{}", answer.text());
        }
    }

    /// Sends one request to both; gives what is wrong.
    pub fn compare(&self, step: &Step) -> Option<String> {
        let request = request(step);
        let (theirs, ours) = (self.theirs.send(&request), self.ours.send(&request));
        let differ = differ(step, &theirs, &ours);
        let at = match (&step.expected, differ) {
            (Expected::Different(_), Some(_)) | (_, None) => None,
            (_, Some(at)) => Some(at),
        };
        let itself = matches!(self.other, Other::Influxd { .. });
        if let (Expected::Different(reason), None, false) = (&step.expected, differ, itself) {
            return Some(format!(
                "{}: {}\nis answered as by InfluxDB, which was not to be: {reason}",
                step.line,
                described(step)
            ));
        }
        let (a, b) = at?;
        Some(format!(
            "{}: {}\n  InfluxDB: {}\n  Weir:     {}",
            step.line,
            described(step),
            shown(&theirs, a),
            shown(&ours, b)
        ))
    }
}

/// A step as the request that it stands for.
pub fn request(step: &Step) -> Request {
    let db = if step.db.is_empty() { String::new() } else { format!("db={}", escape(&step.db)) };
    match &step.action {
        Action::Write { lines, parameters } => {
            Request::post(&format!("/write?{db}&{parameters}"), lines.clone())
        }
        Action::Query(text) => {
            let pairs = step.with.split('&').filter_map(|pair| pair.split_once('='));
            let pairs = pairs.map(|(key, value)| format!("&{key}={}", escape(value)));
            let form = format!("q={}&{db}{}", escape(text), pairs.collect::<String>());
            let request = match step.method.as_str() {
                "GET" => Request::get(&format!("/query?{form}")),
                _ => Request::post("/query", form)
                    .header("Content-Type", "application/x-www-form-urlencoded"),
            };
            if step.accept.is_empty() { request } else { request.header("Accept", &step.accept) }
        }
    }
}

/// Where the answers differ, as offsets into both bodies.
fn differ(step: &Step, theirs: &Message, ours: &Message) -> Option<(usize, usize)> {
    let kind = |answer: &Message| answer.header("content-type").map(str::to_owned);
    if theirs.status() != ours.status() || kind(theirs) != kind(ours) && !theirs.body.is_empty() {
        return Some((0, 0));
    }
    let (theirs, ours) = (theirs.text(), ours.text());
    if !theirs.starts_with('{') {
        let same = theirs.bytes().zip(ours.bytes()).take_while(|(a, b)| a == b).count();
        return (theirs != ours).then_some((same, same));
    }
    match step.expected {
        Expected::Unordered => compare::json(&sorted(&theirs), &sorted(&ours)),
        Expected::Shape => compare::shape(&theirs, &ours),
        Expected::Same | Expected::Different(_) => compare::json(&theirs, &ours),
    }
}

/// An answer's text with its series sorted.
fn sorted(text: &str) -> String {
    let mut parts: Vec<&str> = text.split("{\"name\"").collect();
    parts.iter_mut().for_each(|part| *part = part.trim_end_matches([',', ']', '}', '\n']));
    parts.sort_unstable();
    parts.join("\n")
}

/// A step in words.
pub fn described(step: &Step) -> String {
    let text = match &step.action {
        Action::Write { lines, parameters } => {
            format!("write {parameters} {}", lines.lines().next().unwrap_or_default())
        }
        Action::Query(text) => text.clone(),
    };
    let more = [("db", &step.db), ("with", &step.with), ("accept", &step.accept)];
    let more = more.into_iter().filter(|(name, value)| !value.is_empty() && **value != *name);
    let more: Vec<String> = more.map(|(name, value)| format!("{name}: {value}")).collect();
    if more.is_empty() { text } else { format!("{text}   [{}]", more.join(", ")) }
}

fn shown(answer: &Message, at: usize) -> String {
    let text = answer.text();
    let boundary = |from: usize| (from..=text.len()).find(|at| text.is_char_boundary(*at));
    let from = boundary(at.saturating_sub(SHOWN_BEFORE)).unwrap_or(0);
    let to = boundary((at + SHOWN_AFTER).min(text.len())).unwrap_or(text.len());
    let (before, after) = (if from > 0 { "... " } else { "" }, &text[from..to]);
    let kind = answer.header("content-type").unwrap_or("no type");
    format!("{} {kind} {before}{}", answer.status(), after.trim_end())
}
