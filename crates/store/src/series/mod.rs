//! Which series there are: the dictionary of a policy and its index by tags.

mod index;
mod interner;
mod known;
mod matching;
mod postings;
mod set;

use std::sync::Arc;

pub(crate) use index::SeriesIndex;
pub(crate) use known::{KnownSeries, SeriesRef};
pub use set::SeriesSet;

/// A series within its policy; never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesId(pub u32);

/// A series with its name.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its number in its policy.
    pub id: SeriesId,
    /// Tags sorted by key, unescaped.
    pub tags: Arc<[(Arc<str>, Arc<str>)]>,
}

impl Series {
    /// The value of a tag; empty where it is absent.
    pub fn tag(&self, key: &str) -> &str {
        let at = self.tags.binary_search_by(|(known, _)| (**known).cmp(key));
        at.map_or("", |at| &self.tags[at].1)
    }
}
