//! How many collisions there were, by database and measurement, and the last one of each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::source::Between;
use super::window::{Collision, Outcome};

/// Pairs of database and measurement that are told apart.
const PAIRS_MAX: usize = 200;
/// Bytes of a string that are kept of an overwriting value.
const STRING_BYTES_MAX: usize = 64;
/// Bytes of a series or a field's name that are kept.
const NAME_BYTES_MAX: usize = 1024;

/// The database and measurement as which all pairs beyond [`PAIRS_MAX`] are counted. No measurement
/// of a point has an empty name, so this pair is never that of points.
const OTHER: (&str, &str) = ("other", "");

type Pairs = HashMap<u64, Arc<MeasurementCounts>>;

/// The counts of all databases and measurements.
pub struct Counts {
    pairs: ArcSwap<Pairs>,
    /// Held while a pair is added.
    adding: Mutex<()>,
    other: Arc<MeasurementCounts>,
}

/// The counts of one database and measurement.
pub struct MeasurementCounts {
    /// The name of the database.
    pub database: String,
    /// The measurement's name, without escapes.
    pub measurement: String,
    counts: [[AtomicU64; 3]; 2],
    last: Mutex<Option<Overwriting>>,
}

/// A point that has overwritten a value of another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overwriting {
    /// Measurement and tags as written.
    pub series: String,
    /// Nanoseconds since 1970, in UTC.
    pub time_ns: i64,
    /// The field's name as written.
    pub field: String,
    /// The older value; `None` where it was a string, of which only a hash is kept.
    pub older_value: Option<String>,
    /// The newer value as written, strings cut short.
    pub newer_value: String,
    /// The connection that wrote the older value.
    pub older_connection: u32,
    /// The connection that wrote the newer value.
    pub newer_connection: u32,
}

impl Counts {
    /// Counts of no measurement yet.
    pub fn new() -> Self {
        let other = Arc::new(MeasurementCounts::new(OTHER.0.to_owned(), OTHER.1.to_owned()));
        Self { pairs: ArcSwap::default(), adding: Mutex::default(), other }
    }

    /// The counts of the names with this hash.
    pub fn of(&self, hash: u64, database: &str, measurement: &[u8]) -> Arc<MeasurementCounts> {
        let known = self.pairs.load();
        if let Some(known) = known.get(&hash) {
            return Arc::clone(known);
        }
        if known.len() >= PAIRS_MAX {
            return Arc::clone(&self.other);
        }
        drop(known);
        // Whoever finds another one adding counts once among the others, and waits for nobody.
        let adding = self.adding.try_lock();
        let known = self.pairs.load();
        if let Some(known) = known.get(&hash) {
            return Arc::clone(known);
        }
        if adding.is_err() || known.len() >= PAIRS_MAX {
            return Arc::clone(&self.other);
        }
        let (database, measurement) = (name_of(database.as_bytes()), name_of(measurement));
        let new = Arc::new(MeasurementCounts::new(database, measurement));
        let mut pairs = Pairs::clone(&known);
        pairs.insert(hash, Arc::clone(&new));
        self.pairs.store(Arc::new(pairs));
        new
    }

    /// All that have counts, by their names, and the others, which show that nothing was counted.
    pub fn all_and_others(&self) -> Vec<Arc<MeasurementCounts>> {
        let mut all = self.all();
        if self.other.total() == 0 {
            all.push(Arc::clone(&self.other));
        }
        all
    }

    /// All that have counts, by their names.
    pub fn all(&self) -> Vec<Arc<MeasurementCounts>> {
        let mut all: Vec<_> = self.pairs.load().values().cloned().collect();
        all.sort_by(|a, b| (&a.database, &a.measurement).cmp(&(&b.database, &b.measurement)));
        if self.other.total() > 0 {
            all.push(Arc::clone(&self.other));
        }
        all
    }
}

impl MeasurementCounts {
    fn new(database: String, measurement: String) -> Self {
        Self { database, measurement, counts: Default::default(), last: Mutex::default() }
    }

    /// Counts one collision more.
    pub fn count(&self, collision: &Collision) {
        self.counter(collision.outcome, collision.between).fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn get(&self, outcome: Outcome, between: Between) -> u64 {
        self.counter(outcome, between).load(Ordering::Relaxed)
    }

    /// How many points have overwritten others.
    pub fn overwritten(&self) -> u64 {
        Between::ALL.iter().map(|between| self.get(Outcome::Overwritten, *between)).sum()
    }

    fn total(&self) -> u64 {
        self.counts.iter().flatten().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    fn counter(&self, outcome: Outcome, between: Between) -> &AtomicU64 {
        &self.counts[outcome as usize][between as usize]
    }

    /// Notes what was overwritten last, unless somebody looks at it at this moment.
    pub fn note(&self, write: impl FnOnce(&mut Overwriting)) {
        if let Ok(mut last) = self.last.try_lock() {
            write(last.get_or_insert_default());
        }
    }

    /// What was overwritten last.
    pub fn last(&self) -> Option<Overwriting> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How many points had overwritten others when the counts were looked at last.
#[derive(Default)]
pub struct KnownCounts(HashMap<(String, String), u64>);

impl KnownCounts {
    /// How many points have overwritten others since then, and where most of them did; nothing
    /// where none has.
    pub fn news<'a>(
        &mut self,
        all: &'a [Arc<MeasurementCounts>],
    ) -> Option<(u64, &'a MeasurementCounts)> {
        let each = all.iter().map(|counts| {
            let names = (counts.database.clone(), counts.measurement.clone());
            let now = counts.overwritten();
            (now - self.0.insert(names, now).unwrap_or_default(), &**counts)
        });
        let each: Vec<_> = each.collect();
        let points = each.iter().map(|(points, _)| points).sum();
        let (_, most) = each.into_iter().max_by_key(|(points, _)| *points)?;
        (points > 0).then_some((points, most))
    }
}

/// A name as text, cut where it is long.
pub fn name_of(written: &[u8]) -> String {
    let cut = written.get(..NAME_BYTES_MAX).unwrap_or(written);
    String::from_utf8_lossy(cut).into_owned()
}

/// The text of a string value, cut short.
pub fn string_of(text: &[u8]) -> String {
    let cut = text.get(..STRING_BYTES_MAX).unwrap_or(text);
    let dots = if cut.len() < text.len() { "..." } else { "" };
    format!("\"{}\"{dots}", String::from_utf8_lossy(cut))
}

#[cfg(test)]
mod tests {
    use super::super::keys::FieldDigest;
    use super::*;

    fn collision(outcome: Outcome, between: Between) -> Collision {
        let older = FieldDigest::of_words([0; 3]);
        Collision { outcome, between, older, older_connection: 0 }
    }

    #[test]
    fn names_beyond_a_number_are_counted_together() {
        let counts = Counts::new();
        assert!(counts.all().is_empty());
        for n in 0..PAIRS_MAX as u64 + 2 {
            let pair = counts.of(n, "db", format!("m{n}").as_bytes());
            pair.count(&collision(Outcome::Overwritten, Between::Own));
            pair.count(&collision(Outcome::Equal, Between::Hosts));
        }
        let again = counts.of(7, "db", b"m7");
        again.count(&collision(Outcome::Overwritten, Between::Hosts));
        let all = counts.all();
        assert_eq!(all.len(), PAIRS_MAX + 1);
        assert_eq!((&*again.measurement, again.overwritten()), ("m7", 2));
        assert_eq!(again.get(Outcome::Equal, Between::Hosts), 1);
        let other = all.last().unwrap();
        let names = (&*other.database, &*other.measurement);
        assert_eq!((names, other.overwritten()), (OTHER, 2));
    }

    #[test]
    fn a_pair_that_is_called_other_shares_its_names_with_no_other() {
        let (counts, mut known) = (Counts::new(), KnownCounts::default());
        for n in 0..PAIRS_MAX as u64 {
            let name = if n == 0 { "other".to_owned() } else { format!("m{n}") };
            counts.of(n, "other", name.as_bytes());
        }
        let overwrite = |hash, times| {
            let of = counts.of(hash, "other", b"other");
            (0..times).for_each(|_| of.count(&collision(Outcome::Overwritten, Between::Own)));
        };
        let mut news = || known.news(&counts.all()).map(|(points, _)| points);
        overwrite(0, 9);
        overwrite(u64::MAX, 2);
        assert_eq!(news(), Some(11));
        overwrite(u64::MAX, 1);
        assert_eq!(news(), Some(1), "each has a count of its own");
        let all = counts.all_and_others();
        let mut names: Vec<_> = all.iter().map(|of| (&of.database, &of.measurement)).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn news_are_of_what_was_overwritten_since_the_last_look() {
        let (counts, mut known) = (Counts::new(), KnownCounts::default());
        let overwrite = |hash, name: &[u8], times| {
            let of = counts.of(hash, "db", name);
            (0..times).for_each(|_| of.count(&collision(Outcome::Overwritten, Between::Own)));
            of.count(&collision(Outcome::Equal, Between::Own));
        };
        let mut news = || {
            let all = counts.all();
            known.news(&all).map(|(points, most)| (points, most.measurement.clone()))
        };
        assert_eq!(news(), None);
        overwrite(1, b"monday", 9);
        assert_eq!(news(), Some((9, "monday".to_owned())));
        overwrite(2, b"tuesday", 3);
        overwrite(1, b"monday", 1);
        assert_eq!(news(), Some((4, "tuesday".to_owned())));
        overwrite(2, b"tuesday", 0);
        assert_eq!(news(), None);
    }

    #[test]
    fn strings_and_names_are_cut_short() {
        assert_eq!(string_of(b"short"), "\"short\"");
        let long = string_of(&[b'x'; 100]);
        assert_eq!(long, format!("\"{}\"...", "x".repeat(64)));
        assert_eq!(name_of(&[b'x'; 5000]).len(), NAME_BYTES_MAX);
    }
}
