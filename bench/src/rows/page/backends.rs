//! Weir before some number of sinks, whose page may be off, or may have a day of history.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, SystemTime};

use rig::http::{self, Request};
use rig::sending;
use rig::wait;
use rig::weir::{Setup, Weir};
use serde_json::{Value, json};

use crate::Outcome;
use crate::load::line;
use crate::sink::DATABASE;
use crate::stand::Sink;

/// Minutes of a day, and events, that the page keeps.
const MINUTES: u64 = 1_440;
const EVENTS: u64 = 500;
/// What has to be there of them: minutes pass and a start has events of its own.
const MINUTES_LEAST: usize = 1_400;
const EVENTS_LEAST: usize = 480;

/// Weir with one worker before sinks.
pub struct Backends {
    pub weir: Weir,
    sinks: Vec<Sink>,
    /// Points that every sink has to have.
    written: u64,
    runs: u32,
}

impl Backends {
    /// Starts so many sinks, and no Weir yet.
    ///
    /// # Errors
    /// When a sink can't be started.
    pub fn prepare(count: usize) -> Outcome<Self> {
        let sinks = (0..count).map(|_| Sink::start()).collect::<Outcome<Vec<_>>>()?;
        let setup = Setup::new().default_segments().journal("ack = \"durable\"");
        let setup = sinks.iter().enumerate().fold(setup, |setup, (at, sink)| {
            setup.backend_with(&name(at), &sink.url(), "timeout = \"10s\"")
        });
        Ok(Self { weir: setup.prepare(), sinks, written: 0, runs: 0 })
    }

    /// Starts Weir and waits until it takes writes.
    pub fn start(&mut self) {
        self.weir.configure(|setup| setup);
        self.weir.start_again();
    }

    /// The same without the admin port, and so without the page.
    ///
    /// # Errors
    /// When the configuration can't be changed.
    pub fn start_without_page(&mut self) -> Outcome<()> {
        self.weir.configure(|setup| setup);
        let (file, admin) = (self.weir.config(), self.weir.admin);
        let text = fs::read_to_string(&file)?;
        fs::write(&file, text.replace(&format!("listen = \"{admin}\""), "listen = \"\""))?;
        self.weir.start_unready();
        let (http, ready) = (self.weir.http, Request::get("/ready"));
        let is_ready = || http::send(http, &ready).is_ok_and(|answer| answer.status() == 200);
        self.weir.running().wait_ready(is_ready);
        Ok(())
    }

    pub fn id(&mut self) -> u32 {
        self.weir.running().id()
    }

    /// Writes single points at a rate, and waits until every sink has all of them.
    ///
    /// # Errors
    /// When a point is not taken, or a sink does not answer.
    pub fn load(&mut self, per_second: f64, length: Duration) -> Outcome<()> {
        let (run, target) = (self.runs, format!("/write?db={DATABASE}"));
        self.runs += 1;
        let plan = sending::rate(self.weir.http, per_second, length);
        let report = sending::run(&plan, move |number, out| {
            sending::put_post(out, &target, line(run, number).as_bytes());
        });
        if report.count(204) != report.sent {
            return Err(format!("answers: {:?}", report.statuses).into());
        }
        self.written += report.sent;
        for sink in &self.sinks {
            let has_all = || sink.count().is_ok_and(|count| count >= self.written);
            wait::until("a sink has all points", wait::LONG, has_all);
        }
        Ok(())
    }

    /// The names of all lines that Weir draws, as of its history, which shows a few servers' alone.
    pub fn lines(&self) -> Vec<String> {
        let history = self.history();
        let shown = history["second"]["lines"].as_object();
        let shown = shown.into_iter().flat_map(|lines| lines.keys());
        let mut names = BTreeSet::new();
        for shown in shown {
            let kind = shown.split_once('|').map(|(kind, _)| kind);
            names.extend(match kind {
                None => vec![shown.clone()],
                Some(kind) => {
                    let servers = (0..self.sinks.len()).map(name);
                    servers.map(|server| format!("{kind}|{server}")).collect()
                }
            });
        }
        names.into_iter().collect()
    }

    /// Has the next Weir begin with a day of these lines and as many events as are kept, in the
    /// format of `crates/weir/src/page/file.rs`.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn fill(&self, lines: &[String]) -> Outcome<()> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        let dir = self.weir.journal_dir().join("admin");
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("history"), day(lines, now))?;
        Ok(())
    }

    /// Waits until the page shows that day of each of these lines that it shows.
    ///
    /// # Panics
    /// When it lacks minutes or events for a minute.
    pub fn wait_filled(&self, lines: &[String]) {
        // Before its first second the page knows no time, and shows no minutes.
        wait::until("the page has a day of history", wait::LONG, || {
            let history = self.history();
            let shown = &history["minute"]["lines"];
            let lengths = lines.iter().filter_map(|line| Some(shown.get(line)?.as_array()?.len()));
            let events = history["events"].as_array().map_or(0, Vec::len);
            lengths.min() >= Some(MINUTES_LEAST) && events >= EVENTS_LEAST
        });
    }

    fn history(&self) -> Value {
        self.weir.ask_admin("/history").json()
    }
}

/// The name of a backend.
fn name(at: usize) -> String {
    format!("backend-{at:02}")
}

/// A file of the page's history, up to a time in seconds since 1970.
fn day(lines: &[String], now: u64) -> String {
    let mut text = String::new();
    for number in 1..=EVENTS {
        let server = name((number % 8) as usize);
        let event = json!({
            "number": number, "at": now - 60 * (EVENTS - number), "level": "warn",
            "subject": format!("backend {server}"),
            "text": format!("backend {server} went: cannot connect: Connection refused"),
            "remedy": "curl -i http://127.0.0.1:8086/ping",
        });
        let _ = writeln!(text, "e {event}");
    }
    let _ = writeln!(text, "k {}", json!(lines));
    for minute in now / 60 - MINUTES..now / 60 {
        // Figures of four digits, which are what takes most room in an answer.
        let value = |at| ((minute * 7_919 + at * 104_729) % 10_000) as f64 / 10.0;
        let values: Vec<f64> = (0..lines.len() as u64).map(value).collect();
        let _ = writeln!(text, "m {minute} {}", json!(values));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{EVENTS, MINUTES, day};

    #[test]
    fn a_day_has_all_minutes_and_events_and_is_less_than_a_file_may_be() {
        let lines: Vec<String> = (0..130).map(|at| format!("backend.waiting|b{at}")).collect();
        let text = day(&lines, 1_790_000_000);
        let of = |kind: &str| text.lines().filter(|line| line.starts_with(kind)).count() as u64;
        assert_eq!((of("e "), of("k "), of("m ")), (EVENTS, 1, MINUTES));
        assert!(text.len() < 4 << 20, "{}", text.len());
    }
}
