//! The windows of a whole run as the InfluxDB listener of JMeter 5.6.3 writes them, so that
//! dashboards made for JMeter show a run of Weir. One series has all injectors: a mean or a last
//! value over it is the whole run's.
//!
//! The rules are those of `InfluxdbBackendListenerClient`: rows of nothing are left out; the row of
//! all transactions has its average, least and largest of successes alone; numbers are floats.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use crate::engine::FinishedWindow;
use crate::recorder::{Kind, OperationTraffic, Results, Times};
use crate::stream::Points;
use crate::window::WINDOW;

/// Seconds of a row: JMeter's `backend_influxdb.send_interval`.
pub const INTERVAL_SECONDS: u64 = 5;

const MEASUREMENT: &str = "jmeter";
/// The measurement of annotations.
const EVENTS: &str = "events";
/// The transaction of the sum of all.
const ALL: &str = "all";
const PERCENTILES: [(&str, f64); 3] = [("pct99.0", 0.99), ("pct95.0", 0.95), ("pct90.0", 0.9)];

/// Merges the windows of a run to rows of five seconds of the wall clock.
#[derive(Debug, Clone)]
pub struct JmeterSeries {
    /// The application's tag, escaped.
    application: String,
    /// What the transactions are called, escaped.
    operations: Vec<String>,
    /// What the annotations call the run.
    title: String,
    /// Connections of all injectors: to JMeter, threads.
    connections: u64,
    has_begun: bool,
    /// Second at which the row begins that is not written yet.
    from: u64,
    pending: Results,
}

impl JmeterSeries {
    /// Of a run with this title, whose operations are called so, on so many connections.
    pub fn new(application: &str, title: &str, operations: &[String], connections: u64) -> Self {
        Self {
            application: escaped(application),
            operations: operations.iter().map(|name| escaped(name)).collect(),
            title: title.to_owned(),
            connections,
            has_begun: false,
            from: 0,
            pending: Results::default(),
        }
    }

    /// The rows that are complete once this window has ended; the windows come in order.
    pub fn window(&mut self, ended: &FinishedWindow) -> Points {
        let mut points = Points::default();
        let second = second_of(ended.wall, ended.row.number);
        self.reach(&mut points, ended.wall, second);
        self.pending.add(&ended.results);
        if (second + WINDOW.as_secs()).is_multiple_of(INTERVAL_SECONDS) {
            self.put_rows(&mut points, 0);
        }
        points
    }

    /// The last rows, with what ended behind the last of so many windows.
    pub fn finish(&mut self, wall: SystemTime, windows: u64, rest: &Results) -> Points {
        let mut points = Points::default();
        let second = second_of(wall, windows);
        self.reach(&mut points, wall, second);
        self.pending.add(rest);
        self.put_rows(&mut points, self.connections);
        self.put_event(&mut points, second, "ended");
        points
    }

    /// Moves to the row of a second: what was pending of another row is written.
    fn reach(&mut self, points: &mut Points, wall: SystemTime, second: u64) {
        let from = second - second % INTERVAL_SECONDS;
        if !self.has_begun {
            self.has_begun = true;
            self.put_event(points, second_of(wall, 0), "started");
        } else if from != self.from && self.pending.total() > 0 {
            self.put_rows(points, 0);
        }
        self.from = from;
    }

    fn put_event(&self, points: &mut Points, second: u64, what: &str) {
        let title = self.title.replace('\\', "/").replace('"', "\\\"");
        let application = &self.application;
        let tags = format!("{EVENTS},application={application},title=ApacheJMeter");
        points.add(&format!("{tags} text=\"{title} {what}\""), nanoseconds(second));
    }

    fn put_rows(&mut self, points: &mut Points, ended: u64) {
        let results = std::mem::take(&mut self.pending);
        let time = nanoseconds(self.from);
        let mut all = Transaction::default();
        for (number, name) in self.operations.iter().enumerate() {
            let one = Transaction::of(&results, |operation| operation == number);
            self.put_transaction(points, name, &one, time);
            all.add(&one);
        }
        let known = self.operations.len();
        let others = Transaction::of(&results, |operation| operation >= known);
        self.put_transaction(points, "other", &others, time);
        all.add(&others);
        self.put_all(points, &all, time);
        let count = self.connections;
        let active = count - ended.min(count);
        let fields =
            format!("minAT={active},maxAT={count},meanAT={count},startedT={count},endedT={ended}");
        points.add(&format!("{} {fields}", self.tags("internal")), time);
    }

    fn tags(&self, transaction: &str) -> String {
        format!("{MEASUREMENT},application={},transaction={transaction}", self.application)
    }

    fn put_transaction(&self, points: &mut Points, name: &str, of: &Transaction, time: u128) {
        for (status, times) in [(ALL, &of.all()), ("ok", &of.ok), ("ko", &of.failed)] {
            if times.count() == 0 {
                continue;
            }
            let mut line = format!("{},statut={status} count={}", self.tags(name), times.count());
            put_spans(&mut line, times);
            // Writing to memory does not fail.
            let _ = write!(line, ",hit={}", of.sent);
            if status == ALL {
                put_bytes(&mut line, of);
            }
            put_percentiles(&mut line, times);
            points.add(&line, time);
        }
        for (kind, code, count) in of.errors() {
            let tags = self.tags(name);
            let message = escaped(words(kind));
            let line =
                format!("{tags},responseCode={code},responseMessage={message} count={count}");
            points.add(&line, time);
        }
    }

    fn put_all(&self, points: &mut Points, of: &Transaction, time: u128) {
        let times = of.all();
        let (count, failed) = (times.count(), of.failed.count());
        if count == 0 {
            return;
        }
        let mut line = format!("{},statut={ALL} count={count},countError={failed}", self.tags(ALL));
        if of.ok.count() > 0 {
            put_spans(&mut line, &of.ok);
        }
        let _ = write!(line, ",hit={}", of.sent);
        put_bytes(&mut line, of);
        put_percentiles(&mut line, &times);
        points.add(&line, time);
    }
}

/// The latencies of one transaction in one row, by how its requests ended.
#[derive(Debug, Default)]
struct Transaction {
    ok: Times,
    failed: Times,
    /// Requests that were sent: hits.
    sent: u64,
    /// Failures by kind, whatever their status codes.
    failures: Vec<(Kind, u64)>,
    traffic: OperationTraffic,
}

impl Transaction {
    fn of(results: &Results, is: impl Fn(usize) -> bool) -> Self {
        let mut gathered = Self::default();
        for (_, kind, latency, _) in results.each().filter(|(operation, ..)| is(*operation)) {
            if kind != Kind::Unsent {
                gathered.sent += latency.count();
            }
            if kind == Kind::Succeeded {
                gathered.ok.add(latency);
                continue;
            }
            gathered.failed.add(latency);
            match gathered.failures.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, count)) => *count += latency.count(),
                None => gathered.failures.push((kind, latency.count())),
            }
        }
        let traffic = results.traffic().filter(|(operation, _)| is(*operation));
        traffic.for_each(|(_, traffic)| gathered.traffic.add(traffic));
        gathered
    }

    /// Failures by kind and response code: the status of the answer, or else the kind's name.
    fn errors(&self) -> Vec<(Kind, String, u64)> {
        let coded = self.traffic.failures();
        let mut errors: Vec<_> =
            coded.iter().map(|(kind, code, count)| (*kind, code.to_string(), *count)).collect();
        for (kind, count) in &self.failures {
            let with_code: u64 =
                coded.iter().filter(|(of, ..)| of == kind).map(|(.., count)| count).sum();
            let without = count.saturating_sub(with_code);
            if without > 0 {
                errors.push((*kind, kind.name().to_owned(), without));
            }
        }
        errors
    }

    fn add(&mut self, other: &Self) {
        self.ok.add(&other.ok);
        self.failed.add(&other.failed);
        self.sent += other.sent;
        self.traffic.add(&other.traffic);
    }

    fn all(&self) -> Times {
        let mut all = self.ok.clone();
        all.add(&self.failed);
        all
    }
}

/// What stands for a response's message: a window does not know the words of its errors.
fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Succeeded => "success",
        Kind::Server => "the server answered with a failure",
        Kind::Check => "a check of the answer failed",
        Kind::Timeout => "no whole answer within the timeout",
        Kind::Network => "the connection broke",
        Kind::Injector => "the injector could not send it",
        Kind::Unsent => "no connection was free until the end",
    }
}

fn put_spans(line: &mut String, times: &Times) {
    for (name, span) in [("avg", times.mean()), ("min", times.min()), ("max", times.max())] {
        let _ = write!(line, ",{name}={}", milliseconds(span));
    }
}

fn put_bytes(line: &mut String, of: &Transaction) {
    let OperationTraffic { sent, received, .. } = &of.traffic;
    let _ = write!(line, ",sb={sent},rb={received}");
}

fn put_percentiles(line: &mut String, times: &Times) {
    for (name, share) in PERCENTILES {
        let _ = write!(line, ",{name}={}", milliseconds(times.quantile(share)));
    }
}

fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

/// The second of the wall clock at which a window begins.
fn second_of(wall: SystemTime, window: u64) -> u64 {
    let from = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    from.as_secs() + WINDOW.as_secs() * window
}

fn nanoseconds(second: u64) -> u128 {
    Duration::from_secs(second).as_nanos()
}

/// A tag's value as JMeter escapes it, but for backslashes, which no reader agrees on.
fn escaped(text: &str) -> String {
    let text = text.trim().replace('\\', "/").replace('\n', "\\n");
    let text = [' ', ',', '=']
        .iter()
        .fold(text, |text, special| text.replace(*special, &format!("\\{special}")));
    if text.is_empty() { "none".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Row;

    const MS: Duration = Duration::from_millis(1);

    fn window(number: u64, note: impl Fn(&mut Results)) -> FinishedWindow {
        let mut results = Results::default();
        note(&mut results);
        // Three seconds into a row.
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_003);
        FinishedWindow { wall, row: Row { number, ..Row::default() }, results }
    }

    fn succeeded(results: &mut Results) {
        results.note(0, Kind::Succeeded, 2 * MS, MS);
    }

    fn series() -> JmeterSeries {
        JmeterSeries::new("my shop", "night", &["log in".to_owned()], 7)
    }

    #[track_caller]
    fn line<'a>(points: &'a Points, start: &str) -> &'a str {
        let mut found = points.lines.lines().filter(|line| line.starts_with(start));
        let first = found.next().unwrap_or_else(|| panic!("no {start} in {}", points.lines));
        assert_eq!(found.next(), None, "one row of each");
        first
    }

    #[test]
    fn a_row_is_of_five_seconds_of_the_wall_clock_and_nothing_is_counted_twice() {
        let mut series = series();
        let first = series.window(&window(0, succeeded));
        assert!(first.lines.starts_with("events,application=my\\ shop,"), "{}", first.lines);
        assert_eq!(first.count, 1);
        let mut counts = Vec::new();
        let mut times = Vec::new();
        let mut note = |points: &Points| {
            for line in points.lines.lines().filter(|line| line.contains("transaction=all")) {
                let count = line.split("count=").nth(1).and_then(|rest| rest.split(',').next());
                counts.push(count.unwrap().to_owned());
                times.push(line.rsplit(' ').next().unwrap().to_owned());
            }
        };
        for number in 1..9 {
            note(&series.window(&window(number, succeeded)));
        }
        let mut rest = Results::default();
        succeeded(&mut rest);
        let last = series.finish(window(0, succeeded).wall, 9, &rest);
        note(&last);
        // Two seconds of the first row, five of the second, two of the third and the rest.
        assert_eq!(counts, ["2", "5", "3"]);
        let row = |second: u64| nanoseconds(second).to_string();
        assert_eq!(times, [1_700_000_000, 1_700_000_005, 1_700_000_010].map(row));
        assert!(line(&last, "events").contains("text=\"night ended\""));
        assert!(
            line(&last, "jmeter,application=my\\ shop,transaction=internal ")
                .contains("startedT=7,endedT=7")
        );
    }

    #[test]
    fn bytes_stand_in_rows_of_all_and_failures_have_the_status_of_their_answer() {
        let mut series = series();
        series.window(&window(0, succeeded));
        let points = series.window(&window(1, |results| {
            for kind in [Kind::Server, Kind::Server, Kind::Timeout] {
                results.note(0, kind, MS, MS);
            }
            let traffic = results.traffic_mut(0);
            (traffic.sent, traffic.received) = (300, 20);
            traffic.note_failure(Kind::Server, 503);
        }));
        let one = "jmeter,application=my\\ shop,transaction=log\\ in,";
        for start in
            [format!("{one}statut=all"), "jmeter,application=my\\ shop,transaction=all".to_owned()]
        {
            assert!(line(&points, &start).contains(",hit=4,sb=300,rb=20,pct99.0="), "{start}");
        }
        assert!(!line(&points, &format!("{one}statut=ko")).contains("sb="));
        for (code, count) in [("503", 1), ("server", 1), ("timeout", 1)] {
            let row = line(&points, &format!("{one}responseCode={code}"));
            assert!(row.contains(&format!(" count={count} ")), "{row}");
        }
    }

    #[test]
    fn failures_have_rows_of_their_own_and_no_part_in_the_average_of_all() {
        let mut series = series();
        series.window(&window(0, succeeded));
        let points = series.window(&window(1, |results| {
            results.note(0, Kind::Timeout, 900 * MS, 900 * MS);
            results.note(0, Kind::Unsent, 800 * MS, Duration::ZERO);
        }));
        let one = "jmeter,application=my\\ shop,transaction=log\\ in,";
        let all = line(&points, "jmeter,application=my\\ shop,transaction=all,statut=all ");
        assert!(all.contains(" count=3,countError=2,avg=2"), "{all}");
        assert!(all.contains(",hit=2,sb=0,rb=0,pct99.0=90"), "what was not sent is no hit: {all}");
        assert!(line(&points, &format!("{one}statut=all")).contains(" count=3,"));
        assert!(line(&points, &format!("{one}statut=ok")).contains(" count=1,avg=2"));
        let failed = line(&points, &format!("{one}statut=ko"));
        assert!(failed.contains(" count=2,") && failed.contains(",min=799.5"), "{failed}");
        let timeouts = line(&points, &format!("{one}responseCode=timeout"));
        let message = "responseMessage=no\\ whole\\ answer\\ within\\ the\\ timeout count=1 ";
        assert!(timeouts.contains(message), "{timeouts}");
    }

    #[test]
    fn a_row_of_nothing_but_failures_has_no_average_of_all() {
        let mut series = series();
        series.window(&window(0, |_| {}));
        let points = series.window(&window(1, |results| {
            results.note(5, Kind::Network, MS, MS);
        }));
        let all = line(&points, "jmeter,application=my\\ shop,transaction=all,statut=all ");
        assert!(all.contains(" count=1,countError=1,hit=1,"), "{all}");
        assert!(!points.lines.contains("statut=ok"), "{}", points.lines);
        line(&points, "jmeter,application=my\\ shop,transaction=other,statut=ko ");
    }

    #[test]
    fn the_gateway_reads_every_row() {
        use wire::line::{Options, Precision, normalise};
        let mut series = JmeterSeries::new("a\\b, =c", "t\"\\", &["x\\".to_owned()], 1);
        let mut points = series.window(&window(0, succeeded));
        let more = series.finish(window(0, succeeded).wall, 1, &Results::default());
        points.lines.push_str(&more.lines);
        points.count += more.count;
        let precision = Precision::Nanosecond;
        let options = Options { precision, now_ns: 0, stamp: &[], unsigned: false };
        let outcome = normalise(points.lines.as_bytes(), &options, &mut Vec::new());
        assert_eq!((outcome.error, u64::from(outcome.points)), (None, points.count));
    }
}
