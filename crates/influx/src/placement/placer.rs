//! Finding the sets of points, one after the other: what is found out about a series is remembered
//! for its next point.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::split::{SeriesHash, SplitHash};
use super::table::{SetNumber, Table};

/// How many series are remembered, each at the place that its spelling has.
const SERIES_MAX: usize = 1024;
/// A longer spelling is not worth its memory.
const SPELLING_MAX: usize = 256;

/// Finds the sets of points by one table.
#[derive(Debug)]
pub struct Placer {
    table: Arc<Table>,
    hash: SplitHash,
    /// Where what is hashed is put together.
    room: Vec<u8>,
    hasher: RandomState,
    known: Vec<Option<KnownSeries>>,
}

/// How the points of a series are shared out in one period.
#[derive(Debug)]
struct KnownSeries {
    db: Box<str>,
    spelling: Box<[u8]>,
    /// The period's place in the table.
    period: usize,
    split: usize,
    hash: SeriesHash,
}

impl Placer {
    /// By this table, with nothing remembered.
    pub fn new(table: Arc<Table>) -> Self {
        let (hash, room) = (SplitHash::default(), Vec::new());
        Self { table, hash, room, hasher: RandomState::default(), known: Vec::new() }
    }

    /// The table that it goes by.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The set of a point of `db`; `series` is as written.
    pub fn set(&mut self, db: &str, series: &[u8], time_ns: i64) -> SetNumber {
        let Self { table, hash, room, hasher, known } = self;
        let Some((number, period)) = table.period(time_ns) else { return 0 };
        if known.is_empty() {
            known.resize_with(SERIES_MAX, || None);
        }
        // The remainder is less than the length.
        let at = (hasher.hash_one(series) % SERIES_MAX as u64) as usize;
        let Some(slot) = known.get_mut(at) else { return 0 };
        let is_it = |known: &KnownSeries| {
            known.period == number && *known.spelling == *series && *known.db == *db
        };
        if !slot.as_ref().is_some_and(is_it) {
            let Some(rule) = period.rule_of_series(db, series) else { return 0 };
            let new = KnownSeries {
                db: db.into(),
                spelling: if series.len() > SPELLING_MAX { [].into() } else { series.into() },
                period: number,
                split: rule.split,
                hash: hash.of_series(&rule.by, series),
            };
            *slot = Some(new);
        }
        let Some(KnownSeries { split, hash, .. }) = slot else { return 0 };
        period.set_at(time_ns, *split, hash.of_time(time_ns, room))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, prop_assert_eq, proptest};

    use super::*;
    use crate::placement::tests::table;

    const TEXT: &str = "[[placement]]\nsets = [\"a\", \"b\", \"c\"]\n\
                        [[placement.rule]]\ndatabase = \"^by_point$\"\nsplit-by = \"point\"\n\
                        [[placement.rule]]\nmeasurement = \"^r\"\nsplit-by = [\"x\"]\nsplit = 2\n\
                        [[placement]]\nfrom = \"2026-01-01T00:00:00Z\"\nspan = \"1h\"\n\
                        sets = [\"a\", \"b\", \"c\"]\nsplit = 1\n";

    fn point() -> impl Strategy<Value = (&'static str, String, i64)> {
        let db = proptest::sample::select(vec!["by_point", "d"]);
        let series = "[mr](,x=[ab]{1,2})?(,y=\\\\ [ab])?(,long=z{250,300})?";
        let time = 1_767_225_600_000_000_000 - 5..1_767_225_600_000_000_000 + 9_000_000_000_000_i64;
        (db, series, time)
    }

    proptest! {
        /// Whatever it remembers: a point lies where the table alone says.
        #[test]
        fn points_lie_where_they_would_without_memory(
            points in proptest::collection::vec(point(), 0..200),
        ) {
            let table = Arc::new(table(TEXT, &["a", "b", "c"]));
            let mut placer = Placer::new(Arc::clone(&table));
            for (db, series, time_ns) in points {
                let set = placer.set(db, series.as_bytes(), time_ns);
                prop_assert_eq!(set, table.set_of_point(db, series.as_bytes(), time_ns));
            }
        }
    }
}
