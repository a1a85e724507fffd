//! Which series a condition on tags matches.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::index::{Pair, SeriesIndex};
use super::interner::{Interner, Symbol};
use super::{Series, SeriesId, SeriesSet};
use crate::predicate::TagPredicate;

/// One in so many series is few enough to be sorted for itself.
const FEW: usize = 16;

/// A condition in terms of one index.
enum Matcher<'a> {
    Always(bool),
    /// The key's symbol; the value's, `None` where the value is empty or unknown.
    Equal {
        key: Symbol,
        value: Option<Symbol>,
        absent: bool,
        negated: bool,
    },
    Regex {
        key: Symbol,
        regex: &'a regex::bytes::Regex,
        absent: bool,
        negated: bool,
        seen: RegexCache,
    },
    And(Box<Matcher<'a>>, Box<Matcher<'a>>),
    Or(Box<Matcher<'a>>, Box<Matcher<'a>>),
}

/// What a regular expression said of each value so far.
type RegexCache = HashMap<Symbol, bool>;

impl<'a> Matcher<'a> {
    fn new(strings: &Interner, of: &'a TagPredicate) -> Self {
        match of {
            TagPredicate::All => Self::Always(true),
            TagPredicate::Equal(key, value) => Self::equal(strings, key, value, false),
            TagPredicate::NotEqual(key, value) => Self::equal(strings, key, value, true),
            TagPredicate::Match(key, regex) => Self::regex(strings, key, regex, false),
            TagPredicate::NotMatch(key, regex) => Self::regex(strings, key, regex, true),
            TagPredicate::And(a, b) => {
                Self::And(Box::new(Self::new(strings, a)), Box::new(Self::new(strings, b)))
            }
            TagPredicate::Or(a, b) => {
                Self::Or(Box::new(Self::new(strings, a)), Box::new(Self::new(strings, b)))
            }
        }
    }

    fn equal(strings: &Interner, key: &str, value: &str, negated: bool) -> Self {
        let absent = value.is_empty();
        match strings.find(key) {
            None => Self::Always(absent != negated),
            Some(key) => Self::Equal { key, value: strings.find(value), absent, negated },
        }
    }

    fn regex(strings: &Interner, key: &str, regex: &'a regex::bytes::Regex, negated: bool) -> Self {
        let absent = regex.is_match(b"");
        match strings.find(key) {
            None => Self::Always(absent != negated),
            Some(key) => Self::Regex { key, regex, absent, negated, seen: RegexCache::new() },
        }
    }

    fn matches(&mut self, strings: &Interner, pairs: &[Pair]) -> bool {
        match self {
            Self::Always(all) => *all,
            Self::Equal { key, value, absent, negated } => {
                let equal = match value_of(pairs, *key) {
                    None => *absent,
                    found => found == *value,
                };
                equal != *negated
            }
            Self::Regex { key, regex, absent, negated, seen } => {
                let matched = match value_of(pairs, *key) {
                    None => *absent,
                    Some(value) => *seen
                        .entry(value)
                        .or_insert_with(|| regex.is_match(strings.get(value).as_bytes())),
                };
                matched != *negated
            }
            Self::And(a, b) => a.matches(strings, pairs) && b.matches(strings, pairs),
            Self::Or(a, b) => a.matches(strings, pairs) || b.matches(strings, pairs),
        }
    }
}

/// The value of a tag.
pub(super) fn value_of(pairs: &[Pair], key: Symbol) -> Option<Symbol> {
    pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1)
}

impl SeriesIndex {
    /// Runs over the series of a measurement below `bound` that match, in the order of their ids.
    fn each(
        &self,
        measurement: u32,
        bound: u32,
        of: &TagPredicate,
        mut take: impl FnMut(u32, &[Pair]),
    ) {
        let mut matcher = Matcher::new(&self.strings, of);
        let Some(found) = self.measurements.get(measurement as usize) else { return };
        let candidates = self.candidates(found, of);
        let ids = candidates.as_ref().unwrap_or(&found.ids);
        for &id in ids.iter().take_while(|&&id| id < bound) {
            let pairs = self.pairs_of(id);
            if matcher.matches(&self.strings, pairs) {
                take(id, pairs);
            }
        }
    }

    /// The ids that match, ascending.
    pub(crate) fn matching(&self, measurement: u32, bound: u32, of: &TagPredicate) -> Vec<u32> {
        let mut ids = Vec::new();
        self.each(measurement, bound, of, |id, _| ids.push(id));
        ids
    }

    /// How many series match it.
    pub(crate) fn count(&self, measurement: u32, bound: u32, of: &TagPredicate) -> usize {
        let mut count = 0;
        self.each(measurement, bound, of, |_, _| count += 1);
        count
    }

    /// The series that match, in the order of their tags.
    pub(crate) fn in_order(&self, measurement: u32, bound: u32, of: &TagPredicate) -> Vec<Series> {
        let mut matcher = Matcher::new(&self.strings, of);
        let Some(found) = self.measurements.get(measurement as usize) else { return Vec::new() };
        let ordered = match self.candidates(found, of) {
            Some(mut few) if few.len() < found.ids.len() / FEW => {
                few.retain(|&id| id < bound && matcher.matches(&self.strings, self.pairs_of(id)));
                few.sort_by(|&a, &b| self.compare(a, b));
                Arc::new(few)
            }
            _ => self.ordered(measurement),
        };
        let ids = ordered
            .iter()
            .filter(|&&id| id < bound && matcher.matches(&self.strings, self.pairs_of(id)));
        ids.filter_map(|&id| self.series(id)).collect()
    }

    /// The tag keys of a measurement, sorted.
    pub(crate) fn tag_keys(&self, measurement: u32) -> Vec<String> {
        let Some(found) = self.measurements.get(measurement as usize) else {
            return Vec::new();
        };
        let mut keys: Vec<String> =
            found.keys.keys().map(|&key| self.strings.get(key).to_string()).collect();
        keys.sort_unstable();
        keys
    }

    /// The values of a tag over the series that match and are in a set, sorted.
    pub(crate) fn tag_values(
        &self,
        measurement: u32,
        bound: u32,
        key: &str,
        of: &TagPredicate,
        within: Option<&SeriesSet>,
    ) -> Vec<String> {
        let Some(key) = self.strings.find(key) else { return Vec::new() };
        let mut values = BTreeSet::new();
        self.each(measurement, bound, of, |id, pairs| {
            if within.is_none_or(|set| set.has(SeriesId(id))) {
                values.extend(value_of(pairs, key));
            }
        });
        let mut values: Vec<Arc<str>> =
            values.into_iter().map(|value| Arc::clone(self.strings.get(value))).collect();
        values.sort_unstable();
        values.iter().map(|value| value.to_string()).collect()
    }
}
