//! The Prometheus text format: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::histogram::{BOUNDS, Snapshot};
use super::{Instrument, Label};

/// What a metric is worth at a scrape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A count, written without loss.
    Integer(u64),
    /// A measure, as seconds or a ratio.
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// Takes metrics that are computed at a scrape; see
/// [`Registry::collect`](super::Registry::collect).
#[derive(Default)]
pub struct Encoder {
    families: BTreeMap<String, Gathered>,
}

struct Gathered {
    help: String,
    kind: &'static str,
    series: BTreeMap<String, Sample>,
}

enum Sample {
    Value(Value),
    Signed(i64),
    Histogram(Box<Snapshot>),
}

impl Encoder {
    /// A value that only grows; `name` ends in `_total`.
    pub fn counter(
        &mut self,
        name: &str,
        help: &str,
        labels: &[Label<'_>],
        value: impl Into<Value>,
    ) {
        let sample = Sample::Value(value.into());
        self.sample(name, help, "counter", self::labels(labels), sample);
    }

    /// A value that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, labels: &[Label<'_>], value: impl Into<Value>) {
        let sample = Sample::Value(value.into());
        self.sample(name, help, "gauge", self::labels(labels), sample);
    }

    pub(super) fn instrument(
        &mut self,
        name: &str,
        help: &str,
        labels: &str,
        instrument: &Instrument,
    ) {
        let sample = match instrument {
            Instrument::Counter(counter) => Sample::Value(Value::Integer(counter.get())),
            Instrument::Gauge(gauge) => Sample::Signed(gauge.get()),
            Instrument::Histogram(histogram) => Sample::Histogram(Box::new(histogram.snapshot())),
        };
        self.sample(name, help, instrument.kind(), labels.to_owned(), sample);
    }

    /// A family keeps the kind it was given first; a sample of another kind is left out, since one
    /// wrong family would make the whole scrape fail.
    fn sample(
        &mut self,
        name: &str,
        help: &str,
        kind: &'static str,
        labels: String,
        sample: Sample,
    ) {
        let family = self.families.entry(name.to_owned()).or_insert_with(|| Gathered {
            help: help.to_owned(),
            kind,
            series: BTreeMap::new(),
        });
        debug_assert!(family.kind == kind, "metric {name} given as two kinds");
        if family.kind == kind {
            family.series.insert(labels, sample);
        }
    }

    pub(super) fn finish(self) -> String {
        let mut out = String::with_capacity(16 * 1024);
        for (name, family) in &self.families {
            out.push_str("# HELP ");
            out.push_str(name);
            out.push(' ');
            escape(&mut out, &family.help, false);
            // Writing to a string can not fail.
            let _ = writeln!(out, "\n# TYPE {name} {}", family.kind);
            for (labels, sample) in &family.series {
                write_sample(&mut out, name, labels, sample);
            }
        }
        out
    }
}

fn write_sample(out: &mut String, name: &str, labels: &str, sample: &Sample) {
    match sample {
        Sample::Value(value) => {
            out.push_str(name);
            braced(out, labels, "");
            out.push(' ');
            write_value(out, *value);
            out.push('\n');
        }
        Sample::Signed(value) => {
            out.push_str(name);
            braced(out, labels, "");
            let _ = writeln!(out, " {value}");
        }
        Sample::Histogram(snapshot) => write_histogram(out, name, labels, snapshot),
    }
}

fn write_histogram(out: &mut String, name: &str, labels: &str, snapshot: &Snapshot) {
    let mut cumulative = 0;
    let mut le = String::with_capacity(32);
    for (i, count) in snapshot.buckets.iter().enumerate() {
        cumulative += count;
        le.clear();
        match BOUNDS.get(i) {
            Some(bound) => {
                let _ = write!(le, "le=\"{}\"", *bound as f64 / 1e9);
            }
            None => le.push_str("le=\"+Inf\""),
        }
        out.push_str(name);
        out.push_str("_bucket");
        braced(out, labels, &le);
        let _ = writeln!(out, " {cumulative}");
    }
    out.push_str(name);
    out.push_str("_sum");
    braced(out, labels, "");
    let _ = write!(out, " {}\n{name}_count", snapshot.sum_ns as f64 / 1e9);
    braced(out, labels, "");
    let _ = writeln!(out, " {cumulative}");
}

fn write_value(out: &mut String, value: Value) {
    let _ = match value {
        Value::Integer(value) => write!(out, "{value}"),
        Value::Real(value) if value == f64::INFINITY => write!(out, "+Inf"),
        Value::Real(value) if value == f64::NEG_INFINITY => write!(out, "-Inf"),
        Value::Real(value) => write!(out, "{value}"),
    };
}

fn braced(out: &mut String, labels: &str, more: &str) {
    if labels.is_empty() && more.is_empty() {
        return;
    }
    out.push('{');
    out.push_str(labels);
    if !labels.is_empty() && !more.is_empty() {
        out.push(',');
    }
    out.push_str(more);
    out.push('}');
}

/// Labels as they are written between the braces, sorted by name, so that the order in which they
/// were given does not make another series.
pub(super) fn labels(labels: &[Label<'_>]) -> String {
    let mut sorted = labels.to_vec();
    sorted.sort_unstable();
    let mut out = String::new();
    for (name, value) in sorted {
        if !out.is_empty() {
            out.push(',');
        }
        out.push_str(name);
        out.push_str("=\"");
        escape(&mut out, value, true);
        out.push('"');
    }
    out
}

/// Backslash and newline are escaped everywhere, the quote in label values only.
fn escape(out: &mut String, text: &str, quotes: bool) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::Registry;

    #[test]
    fn a_family_is_described_once_and_sorted() {
        let registry = Registry::new();
        let b = registry.counter("weir_b_total", "Things.", &[("z", "1"), ("a", "x\"\\\n")]);
        let same = registry.counter("weir_b_total", "Things.", &[("a", "x\"\\\n"), ("z", "1")]);
        b.inc();
        same.add(2);
        registry.collect(|encoder| {
            encoder.counter("weir_b_total", "Things.", &[("a", "b")], 7_u64);
            encoder.gauge("weir_ratio", "A \\ ratio\nof two.", &[], f64::INFINITY);
        });
        registry.gauge("weir_a", "Before.", &[]).set(-3);
        assert_eq!(
            registry.render(),
            "# HELP weir_a Before.\n# TYPE weir_a gauge\nweir_a -3\n\
             # HELP weir_b_total Things.\n# TYPE weir_b_total counter\n\
             weir_b_total{a=\"b\"} 7\nweir_b_total{a=\"x\\\"\\\\\\n\",z=\"1\"} 3\n\
             # HELP weir_ratio A \\\\ ratio\\nof two.\n# TYPE weir_ratio gauge\nweir_ratio +Inf\n"
        );
    }

    #[test]
    fn a_histogram_is_cumulative_in_seconds() {
        let registry = Registry::new();
        let histogram = registry.histogram("weir_wait_seconds", "Waits.", &[("stage", "ack")]);
        histogram.observe_ns(1_500_000);
        histogram.observe_ns(2_000_000_000);
        let text = registry.render();
        for line in [
            "weir_wait_seconds_bucket{stage=\"ack\",le=\"0.000001\"} 0",
            "weir_wait_seconds_bucket{stage=\"ack\",le=\"0.0015\"} 1",
            "weir_wait_seconds_bucket{stage=\"ack\",le=\"2\"} 2",
            "weir_wait_seconds_bucket{stage=\"ack\",le=\"+Inf\"} 2",
            "weir_wait_seconds_sum{stage=\"ack\"} 2.0015",
            "weir_wait_seconds_count{stage=\"ack\"} 2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn counts_of_many_threads_add_up() {
        let registry = Registry::new();
        let counter = registry.counter("weir_c_total", "C.", &[]);
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..1000).for_each(|_| counter.inc()));
            }
        });
        assert_eq!(counter.get(), 20_000);
    }

    #[test]
    fn a_collector_may_use_the_registry() {
        let registry = Registry::new();
        let inside = registry.clone();
        registry.collect(move |_| inside.counter("weir_late_total", "Late.", &[]).inc());
        registry.render();
        assert!(registry.render().contains("weir_late_total 1"));
    }
}
