//! What instruments are worth at one moment, for a program that reads its own metrics.

use std::time::Duration;

use super::histogram::{BOUNDS, Snapshot};
use super::{Instrument, Registry};

/// One instrument at one moment.
#[derive(Debug)]
pub struct InstrumentReading<'a> {
    labels: &'a str,
    instrument: &'a Instrument,
}

/// What a histogram had counted by one moment.
#[derive(Debug, Clone)]
pub struct Buckets(Box<[u64]>);

impl Registry {
    /// Visits the instruments of a family. What collectors give at a scrape is not among them.
    pub fn read(&self, name: &str, mut visit: impl FnMut(InstrumentReading<'_>)) {
        // Cloned, so that nobody who asks for an instrument waits for a visitor.
        let series: Vec<(String, Instrument)> = match self.0.families.lock().get(name) {
            Some(family) => family.series.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            None => return,
        };
        for (labels, instrument) in &series {
            visit(InstrumentReading { labels, instrument });
        }
    }
}

impl InstrumentReading<'_> {
    /// The value of a label; `None` where there is none of that name.
    pub fn label(&self, name: &str) -> Option<String> {
        let mut rest = self.labels;
        while let Some((key, after)) = rest.split_once("=\"") {
            let (value, after) = unescaped(after);
            if key == name {
                return Some(value);
            }
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        None
    }

    /// The number of a counter or a gauge, or how many values a histogram has.
    pub fn value(&self) -> f64 {
        match self.instrument {
            Instrument::Counter(counter) => counter.get() as f64,
            Instrument::Gauge(gauge) => gauge.get() as f64,
            Instrument::Histogram(histogram) => histogram.count() as f64,
        }
    }

    /// What a histogram has counted; `None` of the other kinds.
    pub fn buckets(&self) -> Option<Buckets> {
        match self.instrument {
            Instrument::Histogram(histogram) => Some(Buckets::of(&histogram.snapshot())),
            Instrument::Counter(_) | Instrument::Gauge(_) => None,
        }
    }
}

impl Buckets {
    fn of(snapshot: &Snapshot) -> Self {
        Self(snapshot.buckets.into())
    }

    /// Adds what another histogram has counted.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| *sum += more);
    }

    /// What was counted since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(self.0.iter().zip(&earlier.0).map(|(now, was)| now.saturating_sub(*was)).collect())
    }

    /// The upper bound of the bucket that holds the quantile `q`, `None` when nothing was counted.
    /// What is longer than 60 s counts as 60 s.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        super::histogram::quantile(&self.0, q).map(|at| Duration::from_nanos(BOUNDS[at]))
    }
}

/// A label's value up to its closing quote, and what comes behind that.
fn unescaped(text: &str) -> (String, &str) {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, other)) => value.push(other),
                None => {}
            },
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Registry;

    #[test]
    fn a_label_is_read_as_it_was_given_however_it_looks() {
        let registry = Registry::new();
        let odd = "a\"b\\c\nd=\"e,f";
        registry.counter("weir_x_total", "X.", &[("backend", odd), ("answer", "ok")]).add(7);
        let mut seen = Vec::new();
        registry.read("weir_x_total", |of| {
            let labels = ["backend", "answer", "none"].map(|name| of.label(name));
            seen.push((labels, of.value(), of.buckets().is_some()));
        });
        let labels = [Some(odd.to_owned()), Some("ok".to_owned()), None];
        assert_eq!(seen, [(labels, 7.0, false)]);
        registry.read("weir_y_total", |_| panic!("there is none"));
    }

    #[test]
    fn quantiles_are_of_what_came_since() {
        let registry = Registry::new();
        let histogram = registry.histogram("weir_x_seconds", "X.", &[]);
        let read = || {
            let mut buckets = None;
            registry.read("weir_x_seconds", |of| buckets = of.buckets());
            buckets.unwrap()
        };
        histogram.observe(Duration::from_secs(5));
        let before = read();
        histogram.observe(Duration::from_millis(1));
        let mut since = read().since(&before);
        assert_eq!(since.quantile(0.99), Some(Duration::from_millis(1)));
        assert_eq!(before.since(&before).quantile(0.5), None);
        since.add(&before);
        assert_eq!(since.quantile(0.99), Some(Duration::from_secs(5)));
    }
}
