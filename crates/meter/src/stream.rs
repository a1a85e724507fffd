//! The windows of a run as points of the line protocol, for dashboards that look on while it runs.
//! Each point says of which run and injector it is, so that none overwrites another; and it has its
//! histogram, so that any windows and injectors make exact percentiles together.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use crate::engine::{FinishedWindow, Row};
use crate::hlog;
use crate::recorder::{Kind, Results, Times};
use crate::window::WINDOW;

/// What the points of results are written to: one for each operation and way to end.
pub const RESULTS: &str = "weir_load";
/// What the points of whole windows are written to.
pub const WINDOWS: &str = "weir_load_window";

/// Bytes that a string may have in InfluxDB; a histogram that has more is left out.
const STRING_BYTES_MAX: usize = 64 << 10;

const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];

/// What tells the points of a run from those of others.
#[derive(Debug, Clone)]
pub struct StreamTags {
    /// Both tags as they stand behind a measurement, escaped.
    tags: String,
    /// What the operations are called, escaped.
    operations: Vec<String>,
}

/// Points as the line protocol has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Points {
    pub lines: String,
    pub count: u64,
}

impl StreamTags {
    /// Of a run by this name, sent by an injector of that one, whose operations are called so.
    pub fn new(run: &str, injector: &str, operations: &[String]) -> Self {
        Self {
            tags: format!(",injector={},run={}", escaped(injector), escaped(run)),
            operations: operations.iter().map(|name| escaped(name)).collect(),
        }
    }

    /// The points of a window that has ended.
    pub fn window(&self, ended: &FinishedWindow) -> Points {
        let mut points = Points::default();
        let time = time_of(ended.wall, ended.row.number);
        self.put_row(&mut points, &ended.row, time);
        self.put_results(&mut points, &ended.results, time);
        points
    }

    /// The points of what ended behind the last of so many whole windows.
    pub fn rest(&self, wall: SystemTime, windows: u64, rest: &Results) -> Points {
        let mut points = Points::default();
        self.put_results(&mut points, rest, time_of(wall, windows));
        points
    }

    fn put_row(&self, points: &mut Points, row: &Row, time: u128) {
        let Self { tags, .. } = self;
        let Row { offered, sent, ended, failed, late, busy, .. } = row;
        let busy = busy.as_secs_f64() / WINDOW.as_secs_f64();
        let mut line = format!(
            "{WINDOWS}{tags} offered={offered}i,sent={sent}i,ended={ended}i,failed={failed}i,\
             late={late}i,busy={busy}"
        );
        for (name, span) in [("p50", row.p50), ("p99", row.p99), ("max", row.max)] {
            put_span(&mut line, "latency", name, span);
        }
        points.add(&line, time);
    }

    fn put_results(&self, points: &mut Points, results: &Results, time: u128) {
        for (operation, kind, latency, service) in results.each() {
            let count = latency.count();
            if count == 0 {
                continue;
            }
            let name = self.operations.get(operation).map_or("other", |name| name);
            let mut line = format!("{RESULTS}{}", self.tags);
            // Writing to memory does not fail.
            let _ = write!(line, ",operation={name},result={} count={count}i", kind.name());
            put_times(&mut line, "latency", latency);
            // What was never sent has no time of service.
            if kind != Kind::Unsent {
                put_times(&mut line, "service", service);
            }
            points.add(&line, time);
        }
    }
}

impl Points {
    /// Adds a point without its time, and its time in nanoseconds since 1970.
    pub(crate) fn add(&mut self, line: &str, time: u128) {
        let _ = writeln!(self.lines, "{line} {time}");
        self.count += 1;
    }
}

fn put_times(line: &mut String, measure: &str, times: &Times) {
    for (name, share) in QUANTILES {
        put_span(line, measure, name, times.quantile(share));
    }
    put_span(line, measure, "mean", times.mean());
    put_span(line, measure, "max", times.max());
    let histogram = hlog::text(times);
    if histogram.len() < STRING_BYTES_MAX {
        let _ = write!(line, ",{measure}_histogram=\"{histogram}\"");
    }
}

fn put_span(line: &mut String, measure: &str, name: &str, span: Duration) {
    let _ = write!(line, ",{measure}_{name}_ms={}", span.as_secs_f64() * 1000.0);
}

/// When a window began, in nanoseconds since 1970.
fn time_of(wall: SystemTime, window: u64) -> u128 {
    let from = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    from.as_nanos() + WINDOW.as_nanos() * u128::from(window)
}

/// A tag's value as the line protocol has it. What it can't have, a backslash, a control character
/// or nothing at all, becomes another.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            ',' | '=' | ' ' => out.extend(['\\', character]),
            '\\' => out.push('/'),
            other if other.is_control() => out.push('_'),
            other => out.push(other),
        }
    }
    if out.is_empty() { "none".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use wire::line::{self, Value};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn results() -> Results {
        let mut results = Results::default();
        for took in 1..=100 {
            results.note(0, Kind::Succeeded, took * MS, took * MS / 2);
        }
        results.note(1, Kind::Unsent, 7 * MS, Duration::ZERO);
        results
    }

    fn ended() -> FinishedWindow {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let row = Row { number: 3, offered: 102, sent: 101, ended: 100, ..Row::default() };
        FinishedWindow { wall, row: Row { busy: 250 * MS, ..row }, results: results() }
    }

    /// A point as the gateway reads it: series, fields as text, time.
    type ReadPoint = (String, Vec<(String, String)>, i64);

    fn read(points: &Points) -> Vec<ReadPoint> {
        let options = line::Options {
            precision: line::Precision::Nanosecond,
            now_ns: 0,
            stamp: &[],
            unsigned: false,
        };
        let mut out = Vec::new();
        let outcome = line::normalise(points.lines.as_bytes(), &options, &mut out);
        assert_eq!((outcome.error, u64::from(outcome.points)), (None, points.count));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let point = |record| {
            let point = line::read(record).unwrap();
            let fields = point.fields.map(|field| {
                let value = match field.value {
                    Value::String(bytes) => text(bytes),
                    Value::Integer(value) => value.to_string(),
                    value => format!("{value:?}"),
                };
                (text(field.name), value)
            });
            (text(point.series), fields.collect(), point.time_ns)
        };
        line::points(&out).map(point).collect()
    }

    #[test]
    fn each_operation_and_result_is_a_point_of_its_window_with_its_histogram() {
        let operations = ["log in, twice".to_owned()];
        let tags = StreamTags::new("night", "host one:77", &operations);
        let points = read(&tags.window(&ended()));
        let series: Vec<_> = points.iter().map(|(series, ..)| series.as_str()).collect();
        let own = ",injector=host\\ one:77,run=night";
        assert_eq!(
            series,
            [
                format!("weir_load_window{own}"),
                format!("weir_load{own},operation=log\\ in\\,\\ twice,result=succeeded"),
                format!("weir_load{own},operation=other,result=unsent"),
            ]
        );
        assert!(points.iter().all(|(.., time)| *time == 1_700_000_003_000_000_000));
        let field = |point: usize, name: &str| {
            let found = points[point].1.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        };
        assert_eq!(
            (field(0, "offered"), field(0, "busy")),
            (Some("102".into()), Some("Float(0.25)".into()))
        );
        assert_eq!(field(1, "count").as_deref(), Some("100"));
        assert_eq!(field(2, "service_max_ms"), None);
        // The histogram is that of all results, as a log has it.
        let times = hlog::times(&field(1, "latency_histogram").unwrap()).unwrap();
        let all = results().times(crate::recorder::Measure::Latency, Some(Kind::Succeeded));
        assert_eq!(times.counts().collect::<Vec<_>>(), all.counts().collect::<Vec<_>>());
    }

    #[test]
    fn what_ended_behind_the_last_window_is_a_point_as_well() {
        let tags = StreamTags::new("", "a\\b\n", &[]);
        let points = read(&tags.rest(ended().wall, 9, &results()));
        assert_eq!(points.len(), 2);
        assert!(points[0].0.starts_with("weir_load,injector=a/b_,run=none,"), "{}", points[0].0);
        assert_eq!(points[0].2, 1_700_000_009_000_000_000);
    }

    #[test]
    fn a_histogram_that_is_too_long_for_a_field_is_left_out_and_its_percentiles_are_not() {
        let mut times = Times::new();
        let mut count = 1_u64;
        // Counts that nothing makes shorter.
        for index in 1..20_000 {
            count = count.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            assert!(times.note_at(index, count >> 34));
        }
        assert!(hlog::text(&times).len() >= STRING_BYTES_MAX);
        let mut line = String::new();
        put_times(&mut line, "latency", &times);
        assert!(line.contains(",latency_p99_ms=") && !line.contains("histogram"), "{line}");
    }
}
