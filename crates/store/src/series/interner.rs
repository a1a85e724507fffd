//! Strings, each held once.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

/// The number of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Symbol(pub(crate) u32);

/// The strings of one policy's tags.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    strings: Vec<Arc<str>>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Interner {
    pub(crate) fn find(&self, text: &str) -> Option<Symbol> {
        let hash = self.hasher.hash_one(text);
        self.table.find(hash, |&at| &*self.strings[at as usize] == text).map(|&at| Symbol(at))
    }

    pub(crate) fn add(&mut self, text: &str) -> Symbol {
        if let Some(known) = self.find(text) {
            return known;
        }
        // There are fewer strings than tags of series, which are counted in 32 bits.
        let at = u32::try_from(self.strings.len()).unwrap_or(u32::MAX);
        self.strings.push(text.into());
        let hash = self.hasher.hash_one(text);
        let (strings, hasher) = (&self.strings, &self.hasher);
        self.table.insert_unique(hash, at, |&at| hasher.hash_one(&*strings[at as usize]));
        Symbol(at)
    }

    pub(crate) fn get(&self, symbol: Symbol) -> &Arc<str> {
        &self.strings[symbol.0 as usize]
    }
}
