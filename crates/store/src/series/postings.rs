//! Which series of a measurement have a value of a tag, so that a condition on it need not walk
//! them all.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::index::{MeasurementSeries, Pair, SeriesIndex};
use super::interner::Symbol;
use super::matching::value_of;
use crate::predicate::TagPredicate;

/// With fewer series they are walked.
const SERIES_MIN: usize = 1024;
/// Series that are new are walked up to this share of those known.
const NEW_SHARE: usize = 8;

/// Values and series, sorted, of the keys that were asked for.
#[derive(Debug, Default)]
pub(super) struct Postings(Mutex<HashMap<Symbol, OfKey>>);

/// Those of one key.
#[derive(Debug, Default)]
struct OfKey {
    pairs: Vec<(Symbol, u32)>,
    /// How many of the measurement's series were looked at.
    seen: usize,
}

impl Postings {
    /// Forgets all: a series was taken out.
    pub(super) fn clear(&mut self) {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl SeriesIndex {
    /// The series of a measurement that may match, ascending; `None` where that may be any.
    pub(super) fn candidates(
        &self,
        of: &MeasurementSeries,
        what: &TagPredicate,
    ) -> Option<Vec<u32>> {
        if of.ids.len() < SERIES_MIN {
            return None;
        }
        match what {
            TagPredicate::Equal(key, value) if !value.is_empty() => {
                match (self.strings.find(key), self.strings.find(value)) {
                    (Some(key), Some(value)) => Some(self.with_pair(of, (key, value))),
                    _ => Some(Vec::new()),
                }
            }
            TagPredicate::And(a, b) => {
                let (a, b) = (self.candidates(of, a), self.candidates(of, b));
                match (a, b) {
                    (Some(a), Some(b)) => Some(if a.len() < b.len() { a } else { b }),
                    (a, b) => a.or(b),
                }
            }
            TagPredicate::Or(a, b) => {
                let (mut a, b) = (self.candidates(of, a)?, self.candidates(of, b)?);
                a.extend(b);
                a.sort_unstable();
                a.dedup();
                Some(a)
            }
            _ => None,
        }
    }

    fn with_pair(&self, of: &MeasurementSeries, (key, value): Pair) -> Vec<u32> {
        let has = |id: u32| value_of(self.pairs_of(id), key);
        let mut all = of.postings.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(key).or_default();
        if of.ids.len() - known.seen > known.seen / NEW_SHARE {
            let new = of.ids.get(known.seen..).unwrap_or_default();
            known.pairs.extend(new.iter().filter_map(|&id| Some((has(id)?, id))));
            known.pairs.sort_unstable();
            known.seen = of.ids.len();
        }
        let from = known.pairs.partition_point(|pair| pair.0 < value);
        let found = known.pairs.get(from..).unwrap_or_default();
        let found = found.iter().take_while(|pair| pair.0 == value).map(|pair| pair.1);
        let new = of.ids.get(known.seen..).unwrap_or_default();
        found.chain(new.iter().copied().filter(|&id| has(id) == Some(value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(key: &str, value: &str) -> TagPredicate {
        TagPredicate::Equal(key.into(), value.into())
    }

    fn add(index: &mut SeriesIndex, from: u32, to: u32) {
        for n in from..to {
            let (device, site) = (format!("d{n}"), format!("s{}", n % 100));
            let all = [("device", device.as_str()), ("odd", "yes"), ("site", site.as_str())];
            let some: Vec<_> =
                all.into_iter().filter(|(key, _)| n % 2 == 1 || *key != "odd").collect();
            index.add("m", &some).unwrap();
        }
    }

    fn both(a: TagPredicate, b: TagPredicate) -> TagPredicate {
        TagPredicate::And(Box::new(a), Box::new(b))
    }

    fn check(index: &SeriesIndex) {
        let either =
            TagPredicate::Or(Box::new(equal("device", "d7")), Box::new(equal("site", "s9")));
        let not = TagPredicate::NotEqual("odd".into(), "yes".into());
        for of in [
            equal("device", "d77"),
            equal("site", "s7"),
            equal("odd", "yes"),
            equal("odd", ""),
            equal("none", "x"),
            equal("device", "none"),
            both(equal("site", "s7"), equal("device", "d207")),
            both(not.clone(), equal("site", "s8")),
            either.clone(),
            both(either, not),
        ] {
            let all = index.ordered(0);
            let walked: Vec<u32> = all
                .iter()
                .copied()
                .filter(|&id| {
                    let tags = index.series(id).unwrap().tags;
                    crate::tombstone::matches(&of, &tags)
                })
                .collect();
            let bound = index.bound();
            let found = index.in_order(0, bound, &of).into_iter().map(|series| series.id.0);
            assert_eq!(found.collect::<Vec<_>>(), walked, "{of:?}");
            let mut ids = walked;
            ids.sort_unstable();
            assert_eq!(index.matching(0, bound, &of), ids, "{of:?}");
            ids.retain(|&id| id < 1_000);
            assert_eq!(index.matching(0, 1_000, &of), ids, "{of:?}");
        }
    }

    #[test]
    fn few_series_are_found_as_by_walking_all() {
        let mut index = SeriesIndex::default();
        add(&mut index, 0, 1_000);
        check(&index);
        add(&mut index, 1_000, 3_000);
        check(&index);
        add(&mut index, 3_000, 3_010);
        check(&index);
        index.remove(0, &[7, 77, 207, 3_008]);
        check(&index);
        add(&mut index, 3_010, 9_000);
        check(&index);
    }
}
