//! The way from the bytes of a record to its series: one look, nothing allocated.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// A series as the applier needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeriesRef {
    /// The number of the series in its policy.
    pub(crate) series: u32,
    /// The number of its measurement.
    pub(crate) measurement: u32,
}

/// A spelling's hashes under two keys of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spelling {
    /// Halves of the hash that gives the place; whole, they would make an entry larger.
    place: [u32; 2],
    check: u32,
}

impl Spelling {
    #[inline]
    fn place(self) -> u64 {
        u64::from(self.place[0]) << 32 | u64::from(self.place[1])
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    spelling: Spelling,
    known: SeriesRef,
}

/// What the ways in which clients write series stand for. The bytes are not kept: 96 bits of keyed
/// hashes stand for them.
#[derive(Debug, Default)]
pub(crate) struct KnownSeries {
    table: HashTable<Entry>,
    place: DefaultHashBuilder,
    check: DefaultHashBuilder,
    salt: u64,
}

impl KnownSeries {
    pub(crate) fn new() -> Self {
        Self { salt: rand::random(), ..Self::default() }
    }

    #[inline]
    pub(crate) fn spelling(&self, series: &[u8]) -> Spelling {
        let place = self.place.hash_one(series);
        let check = self.check.hash_one((self.salt, series));
        // The halves of a hash.
        Spelling { place: [(place >> 32) as u32, place as u32], check: check as u32 }
    }

    #[inline]
    pub(crate) fn find(&self, spelling: Spelling) -> Option<SeriesRef> {
        let entry = self.table.find(spelling.place(), |entry| entry.spelling == spelling)?;
        Some(entry.known)
    }

    /// Notes what a spelling, not yet known, stands for.
    pub(crate) fn add(&mut self, spelling: Spelling, known: SeriesRef) {
        let entry = Entry { spelling, known };
        self.table.insert_unique(spelling.place(), entry, |entry| entry.spelling.place());
    }

    /// Forgets all spellings, when there are too many of them.
    pub(crate) fn clear(&mut self) {
        self.table.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}
