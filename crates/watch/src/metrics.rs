//! Counters, gauges and histograms, and their text in the Prometheus exposition format 0.0.4.
//!
//! Handles are asked for once and kept: asking takes a lock, using them is one relaxed atomic
//! operation on a cell that threads rarely share.

mod histogram;
mod reading;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

pub use histogram::{Histogram, Share};
pub use reading::{Buckets, InstrumentReading};
pub use text::{Encoder, Value};

/// A label's name and its value.
pub type Label<'a> = (&'a str, &'a str);

type Collector = Arc<dyn Fn(&mut Encoder) + Send + Sync>;

/// All metrics of the process. Clones share the same metrics.
#[derive(Clone, Default)]
pub struct Registry(Arc<Families>);

#[derive(Default)]
struct Families {
    families: Mutex<BTreeMap<String, Family>>,
    collectors: Mutex<Vec<Collector>>,
}

struct Family {
    help: String,
    /// Keyed by the labels as they are written, which are sorted by name.
    series: BTreeMap<String, Instrument>,
}

#[derive(Clone, Debug)]
enum Instrument {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
}

impl Registry {
    /// A registry without metrics.
    pub fn new() -> Self {
        Self::default()
    }

    /// The counter of this name and these labels, made at the first call. `name` ends in `_total`.
    pub fn counter(&self, name: &str, help: &str, labels: &[Label<'_>]) -> Counter {
        let found = self.instrument(name, help, labels, || Instrument::Counter(Counter::new()));
        match found {
            Instrument::Counter(counter) => counter,
            _ => Counter::new(),
        }
    }

    /// The gauge of this name and these labels, made at the first call.
    pub fn gauge(&self, name: &str, help: &str, labels: &[Label<'_>]) -> Gauge {
        let found = self.instrument(name, help, labels, || Instrument::Gauge(Gauge::default()));
        match found {
            Instrument::Gauge(gauge) => gauge,
            _ => Gauge::default(),
        }
    }

    /// The histogram of durations of this name and these labels, made at the first call. `name`
    /// ends in `_seconds`; buckets go from 1 microsecond to 60 seconds, ten to a decade.
    pub fn histogram(&self, name: &str, help: &str, labels: &[Label<'_>]) -> Histogram {
        let new = || Instrument::Histogram(Histogram::new());
        match self.instrument(name, help, labels, new) {
            Instrument::Histogram(histogram) => histogram,
            _ => Histogram::new(),
        }
    }

    /// Adds a function that gives metrics at each scrape, for what is counted elsewhere already.
    /// It runs on the thread that renders and may ask this registry for instruments.
    pub fn collect(&self, collector: impl Fn(&mut Encoder) + Send + Sync + 'static) {
        let mut collectors = self.0.collectors.lock();
        collectors.push(Arc::new(collector));
    }

    /// Every metric as Prometheus text, families and series sorted, so that two scrapes compare.
    /// Its media type is [`CONTENT_TYPE`].
    pub fn render(&self) -> String {
        let mut encoder = Encoder::default();
        for (name, family) in self.0.families.lock().iter() {
            for (labels, instrument) in &family.series {
                encoder.instrument(name, &family.help, labels, instrument);
            }
        }
        // Cloned so that a collector may use the registry.
        let collectors = self.0.collectors.lock().clone();
        for collector in collectors {
            collector(&mut encoder);
        }
        encoder.finish()
    }

    /// A name that is asked for as two kinds is a mistake of the program's: the second gets an
    /// instrument that works and is not shown.
    fn instrument(
        &self,
        name: &str,
        help: &str,
        labels: &[Label<'_>],
        new: impl FnOnce() -> Instrument,
    ) -> Instrument {
        let labels = text::labels(labels);
        let mut families = self.0.families.lock();
        let family = families
            .entry(name.to_owned())
            .or_insert_with(|| Family { help: help.to_owned(), series: BTreeMap::new() });
        let new = new();
        let kinds = family.series.values().next().map(Instrument::kind);
        if kinds.is_some_and(|kind| kind != new.kind()) {
            debug_assert!(false, "metric {name} asked for as two kinds");
            return new;
        }
        family.series.entry(labels).or_insert(new).clone()
    }
}

/// The media type of [`Registry::render`]'s text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Instrument {
    fn kind(&self) -> &'static str {
        match self {
            Self::Counter(_) => "counter",
            Self::Gauge(_) => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let families = self.0.families.lock().len();
        f.debug_struct("Registry").field("families", &families).finish_non_exhaustive()
    }
}

/// A number that only grows. Clones count the same thing.
///
/// Each thread adds to one of several cells, so that workers counting the same thing do not pass
/// a cache line back and forth.
#[derive(Clone, Debug)]
pub struct Counter(Arc<[Cell]>);

#[derive(Debug, Default)]
#[repr(align(64))]
struct Cell(AtomicU64);

impl Counter {
    /// A counter that no registry shows.
    pub fn new() -> Self {
        Self((0..stripes()).map(|_| Cell::default()).collect())
    }

    /// Counts one more occurrence.
    #[inline]
    pub fn inc(&self) {
        self.add(1);
    }

    /// Counts `n` more occurrences.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0[stripe(self.0.len())].0.fetch_add(n, Ordering::Relaxed);
    }

    /// What was counted so far by all threads.
    pub fn get(&self) -> u64 {
        self.0.iter().map(|c| c.0.load(Ordering::Relaxed)).sum()
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}

/// A number that goes up and down. Clones are the same number.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// Gives it this value.
    #[inline]
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds `delta`, which may be negative.
    #[inline]
    pub fn add(&self, delta: i64) {
        self.0.fetch_add(delta, Ordering::Relaxed);
    }

    /// Raises the value by one.
    #[inline]
    pub fn inc(&self) {
        self.add(1);
    }

    /// Lowers the value by one.
    #[inline]
    pub fn dec(&self) {
        self.add(-1);
    }

    /// The value at this moment.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many cells an instrument has: a power of two near the number of cores, at most 16.
fn stripes() -> usize {
    let cores = std::thread::available_parallelism().map_or(4, usize::from);
    cores.next_power_of_two().clamp(1, 16)
}

/// This thread's cell of `count`, a power of two.
#[inline]
fn stripe(count: usize) -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static INDEX: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    // A thread whose locals are gone already may still count: any cell will do.
    INDEX.try_with(|index| *index).unwrap_or(0) & (count - 1)
}
