//! The series of one policy, found by their tags.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::interner::{Interner, Symbol};
use super::known::SeriesRef;
use super::postings::Postings;
use super::{Series, SeriesId};

/// A tag: key and value.
pub(super) type Pair = (Symbol, Symbol);

/// The measurement of a series that is no more.
const DROPPED: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where its pairs are in `pairs`.
    start: u32,
    count: u32,
    measurement: u32,
}

#[derive(Debug)]
pub(super) struct MeasurementSeries {
    pub(super) name: Arc<str>,
    /// The numbers of its series, ascending.
    pub(super) ids: Vec<u32>,
    /// How many series have a tag of this key.
    pub(super) keys: BTreeMap<Symbol, u32>,
    /// `ids` in the order of tags, as far as they were known when it was last asked for.
    ordered: Mutex<Arc<Vec<u32>>>,
    pub(super) postings: Postings,
}

/// Dictionary and index of the series of one policy.
#[derive(Debug, Default)]
pub(crate) struct SeriesIndex {
    pub(super) strings: Interner,
    pairs: Vec<Pair>,
    entries: Vec<Entry>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    pub(super) measurements: Vec<MeasurementSeries>,
    names: BTreeMap<Arc<str>, u32>,
    /// Series that were dropped and are not yet so in the log.
    dropped: Vec<u32>,
}

/// There are 2^32 series or tags, which no memory would hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl SeriesIndex {
    /// The number of a measurement.
    pub(crate) fn measurement(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// The name of a measurement.
    pub(crate) fn measurement_name(&self, measurement: u32) -> Option<&Arc<str>> {
        self.measurements.get(measurement as usize).map(|measurement| &measurement.name)
    }

    /// How many series there have ever been: what is below is known.
    pub(crate) fn bound(&self) -> u32 {
        // `add` keeps it within 32 bits.
        self.entries.len() as u32
    }

    /// A series by measurement and tags (sorted by key), made when it is new.
    pub(crate) fn add(
        &mut self,
        measurement: &str,
        tags: &[(&str, &str)],
    ) -> Result<SeriesRef, Full> {
        let measurement = self.measurement_or_new(measurement)?;
        let pairs: Vec<Pair> =
            tags.iter().map(|(k, v)| (self.strings.add(k), self.strings.add(v))).collect();
        let hash = self.hasher.hash_one((measurement, &pairs[..]));
        let same = |&id: &u32| {
            let entry = &self.entries[id as usize];
            entry.measurement == measurement && self.pairs_of(id) == pairs
        };
        if let Some(&series) = self.table.find(hash, same) {
            return Ok(SeriesRef { series, measurement });
        }
        let series = u32::try_from(self.entries.len()).map_err(|_| Full)?;
        let start = u32::try_from(self.pairs.len()).map_err(|_| Full)?;
        let count = u32::try_from(pairs.len()).map_err(|_| Full)?;
        self.pairs.extend_from_slice(&pairs);
        self.entries.push(Entry { start, count, measurement });
        let (entries, all, hasher) = (&self.entries, &self.pairs, &self.hasher);
        self.table.insert_unique(hash, series, |&id| hash_of(hasher, entries, all, id));
        let of = &mut self.measurements[measurement as usize];
        of.ids.push(series);
        for (key, _) in pairs {
            *of.keys.entry(key).or_default() += 1;
        }
        Ok(SeriesRef { series, measurement })
    }

    /// Takes a series of the log; one without a measurement is one that was dropped.
    pub(crate) fn load(
        &mut self,
        id: u32,
        measurement: &str,
        tags: &[(Arc<str>, Arc<str>)],
    ) -> Result<(), Full> {
        if id < self.bound() {
            if let (true, Some(of)) = (measurement.is_empty(), self.measurement_of(id)) {
                self.remove(of, &[id]);
            }
            return Ok(());
        }
        // Numbers that are not in the log are never used again.
        let missing = Entry { start: 0, count: 0, measurement: DROPPED };
        self.entries.resize(id as usize, missing);
        if measurement.is_empty() {
            self.entries.push(missing);
            return Ok(());
        }
        let tags: Vec<(&str, &str)> = tags.iter().map(|(k, v)| (&**k, &**v)).collect();
        let known = self.add(measurement, &tags)?;
        if known.series != id { Err(Full) } else { Ok(()) }
    }

    /// The series that were dropped since this was last asked.
    pub(crate) fn take_dropped(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.dropped)
    }

    /// Undoes [`take_dropped`](Self::take_dropped), for a flush that failed.
    pub(crate) fn put_back_dropped(&mut self, dropped: Vec<u32>) {
        self.dropped.extend(dropped);
    }

    /// Sorts series as files have them: by their tags, compared key by key and value by value.
    pub(crate) fn sort_as_files(&self, ids: &mut [u32]) {
        let texts = |pair: &Pair| (self.text(pair.0), self.text(pair.1));
        ids.sort_unstable_by(|&a, &b| {
            let (a, b) = (self.pairs_of(a), self.pairs_of(b));
            let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
            a[same..].iter().map(texts).cmp(b[same..].iter().map(texts))
        });
    }

    /// The tag keys of some series, sorted.
    pub(crate) fn keys_of(&self, ids: &[u32]) -> Vec<String> {
        let keys: BTreeSet<Symbol> =
            ids.iter().flat_map(|&id| self.pairs_of(id)).map(|pair| pair.0).collect();
        let mut keys: Vec<String> =
            keys.into_iter().map(|key| self.strings.get(key).to_string()).collect();
        keys.sort_unstable();
        keys
    }

    /// Takes the keys that some series have out of `absent`, and looks no further once that is
    /// empty.
    pub(crate) fn strike_keys(
        &self,
        ids: impl Iterator<Item = u32>,
        absent: &mut BTreeSet<String>,
    ) {
        let mut wanted: Vec<Symbol> =
            absent.iter().filter_map(|key| self.strings.find(key)).collect();
        for id in ids.filter(|&id| id < self.bound()) {
            for (key, _) in self.pairs_of(id) {
                if let Some(at) = wanted.iter().position(|wanted| wanted == key) {
                    wanted.swap_remove(at);
                    absent.remove(&**self.strings.get(*key));
                }
            }
            if wanted.is_empty() {
                return;
            }
        }
    }

    /// The number of a series.
    pub(crate) fn find(&self, measurement: &str, tags: &[(Arc<str>, Arc<str>)]) -> Option<u32> {
        let measurement = self.measurement(measurement)?;
        let pair = |(key, value): &(Arc<str>, Arc<str>)| {
            Some((self.strings.find(key)?, self.strings.find(value)?))
        };
        let pairs: Vec<Pair> = tags.iter().map(pair).collect::<Option<_>>()?;
        let hash = self.hasher.hash_one((measurement, &pairs[..]));
        let same = |&id: &u32| {
            self.entries[id as usize].measurement == measurement && self.pairs_of(id) == pairs
        };
        self.table.find(hash, same).copied()
    }

    /// The number of a measurement, made when it is new.
    pub(crate) fn measurement_or_new(&mut self, name: &str) -> Result<u32, Full> {
        if let Some(&known) = self.names.get(name) {
            return Ok(known);
        }
        let number = u32::try_from(self.measurements.len()).map_err(|_| Full)?;
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name), number);
        self.measurements.push(MeasurementSeries {
            name,
            ids: Vec::new(),
            keys: BTreeMap::new(),
            ordered: Mutex::default(),
            postings: Postings::default(),
        });
        Ok(number)
    }

    /// Lists a tag key of a measurement, whether a series has it or not.
    pub(crate) fn note_key(&mut self, measurement: u32, key: &str) {
        let key = self.strings.add(key);
        if let Some(of) = self.measurements.get_mut(measurement as usize) {
            *of.keys.entry(key).or_default() += 1;
        }
    }

    /// Takes series out of the index. A measurement that has none left is forgotten, too, and its
    /// number is returned: the same name gets a new one.
    pub(crate) fn remove(&mut self, measurement: u32, ids: &[u32]) -> Option<u32> {
        for &id in ids {
            let Some(entry) = self.entries.get(id as usize).copied() else { continue };
            if entry.measurement != measurement {
                continue;
            }
            let hash = hash_of(&self.hasher, &self.entries, &self.pairs, id);
            if let Ok(found) = self.table.find_entry(hash, |&known| known == id) {
                found.remove();
            }
            let of = &mut self.measurements[measurement as usize];
            for (key, _) in &self.pairs[entry.start as usize..][..entry.count as usize] {
                if let Some(count) = of.keys.get_mut(key) {
                    *count -= 1;
                    if *count == 0 {
                        of.keys.remove(key);
                    }
                }
            }
            self.entries[id as usize].measurement = DROPPED;
            self.dropped.push(id);
        }
        let entries = &self.entries;
        let of = self.measurements.get_mut(measurement as usize)?;
        of.ids.retain(|&id| entries[id as usize].measurement != DROPPED);
        *of.ordered.get_mut().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        of.postings.clear();
        let gone = of.ids.is_empty() && self.names.get(&of.name) == Some(&measurement);
        gone.then(|| {
            self.names.remove(&of.name);
            measurement
        })
    }

    /// The tags of a series, sorted by key.
    pub(super) fn pairs_of(&self, id: u32) -> &[Pair] {
        let entry = &self.entries[id as usize];
        &self.pairs[entry.start as usize..][..entry.count as usize]
    }

    /// A series with its name; `None` when there has never been one of that number, or its name is
    /// no longer known: a number that is only left out must not pass for a series without tags.
    pub(crate) fn series(&self, id: u32) -> Option<Series> {
        let entry = self.entries.get(id as usize)?;
        if entry.measurement == DROPPED && entry.count == 0 {
            return None;
        }
        let tag = |&(key, value): &Pair| {
            (Arc::clone(self.strings.get(key)), Arc::clone(self.strings.get(value)))
        };
        Some(Series { id: SeriesId(id), tags: self.pairs_of(id).iter().map(tag).collect() })
    }

    /// The measurement of a series, unless it was dropped.
    pub(crate) fn measurement_of(&self, id: u32) -> Option<u32> {
        let entry = self.entries.get(id as usize)?;
        (entry.measurement != DROPPED).then_some(entry.measurement)
    }

    /// The names and numbers of all measurements, sorted by name.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&Arc<str>, u32)> {
        self.names.iter().map(|(name, &number)| (name, number))
    }

    /// All series of a measurement in the order of their tags.
    pub(super) fn ordered(&self, measurement: u32) -> Arc<Vec<u32>> {
        let Some(of) = self.measurements.get(measurement as usize) else {
            return Arc::default();
        };
        let mut ordered = of.ordered.lock().unwrap_or_else(PoisonError::into_inner);
        if ordered.len() < of.ids.len() {
            // Ids ascend and none is taken out without emptying the list: what is new is behind.
            let mut all: Vec<u32> = ordered.to_vec();
            all.extend_from_slice(&of.ids[ordered.len()..]);
            // Nearly sorted input is merged in linear time.
            all.sort_by(|&a, &b| self.compare(a, b));
            *ordered = Arc::new(all);
        }
        Arc::clone(&ordered)
    }

    /// Compares two series by the bytes of `key=value,key=value`.
    pub(super) fn compare(&self, a: u32, b: u32) -> Ordering {
        let (mut a, mut b) = (self.pairs_of(a), self.pairs_of(b));
        while let ([first, rest @ ..], [other, others @ ..]) = (a, b) {
            if first != other {
                break;
            }
            (a, b) = (rest, others);
        }
        if let ([(key, value), ..], [(other_key, other), ..]) = (a, b)
            && key == other_key
        {
            let (value, other) = (self.text(*value), self.text(*other));
            let common = value.len().min(other.len());
            let order = value[..common].cmp(&other[..common]);
            if order.is_ne() {
                return order;
            }
        }
        self.bytes(a).cmp(self.bytes(b))
    }

    fn text(&self, symbol: Symbol) -> &[u8] {
        self.strings.get(symbol).as_bytes()
    }

    fn bytes<'a>(&'a self, pairs: &'a [Pair]) -> impl Iterator<Item = u8> + 'a {
        pairs.iter().flat_map(|&(key, value)| {
            let key = self.text(key).iter().copied();
            key.chain([b'=']).chain(self.text(value).iter().copied()).chain([b','])
        })
    }
}

fn hash_of(hasher: &DefaultHashBuilder, entries: &[Entry], pairs: &[Pair], id: u32) -> u64 {
    let entry = &entries[id as usize];
    let pairs = &pairs[entry.start as usize..][..entry.count as usize];
    hasher.hash_one((entry.measurement, pairs))
}
