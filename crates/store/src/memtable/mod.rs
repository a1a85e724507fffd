//! Points not yet in files.
//!
//! A memtable holds the points of one measurement in one partition, in the order in which they
//! came: sealed blocks, which never change, and an open one. Whoever reads shares the memtable as
//! it is; the writer then goes on with a copy of the open block, which is small.

mod block;
mod column;
mod merge;
mod sealed;
mod source;

use std::sync::{Arc, OnceLock};

pub(crate) use block::Block;
pub(crate) use sealed::{Run, Sealed};
pub(crate) use source::{MemorySource, MemtableRequest, Ranks};

use crate::scan::TimeRange;

/// Rows of a block.
pub(crate) const BLOCK_ROWS: usize = 8192;

/// The points of one measurement in one partition.
#[derive(Debug, Default)]
pub(crate) struct Memtable {
    sealed: Vec<Arc<Sealed>>,
    open: Block,
    /// The open block as readers want it, once one has asked for it.
    tail: OnceLock<Arc<Sealed>>,
}

impl Clone for Memtable {
    fn clone(&self) -> Self {
        Self { sealed: self.sealed.clone(), open: self.open.clone(), tail: OnceLock::new() }
    }
}

impl Memtable {
    /// The block to append to.
    #[inline]
    pub(crate) fn open(&mut self) -> &mut Block {
        self.tail.take();
        if self.open.is_full() {
            let full = std::mem::take(&mut self.open);
            self.sealed.push(Arc::new(full.seal()));
        }
        &mut self.open
    }

    /// All blocks, the oldest first.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Arc<Sealed>> {
        let tail = (!self.open.is_empty())
            .then(|| self.tail.get_or_init(|| Arc::new(self.open.clone().seal())));
        self.sealed.iter().chain(tail)
    }

    /// How many points there are, those that are there twice included.
    pub(crate) fn rows(&self) -> usize {
        self.sealed.iter().map(|block| block.rows()).sum::<usize>() + self.open.len()
    }

    /// From the first to the last time; `None` where there is no point.
    pub(crate) fn extent(&self) -> Option<TimeRange> {
        let sealed = self.sealed.iter().map(|block| block.extent());
        let ranges = sealed.chain((!self.open.is_empty()).then(|| self.open.extent()));
        ranges.reduce(TimeRange::hull)
    }

    /// Whether a field, by its number, may have a value.
    pub(crate) fn has_field(&self, field: u32) -> bool {
        self.blocks().any(|block| block.has_field(field))
    }

    /// The same without the points that `deleted` says of; `None` when nothing is changed.
    pub(crate) fn without(&self, deleted: impl Fn(u32, i64) -> bool) -> Option<Self> {
        let mut changed = false;
        let mut kept = Vec::new();
        for block in self.blocks() {
            match block.without(&deleted) {
                None => kept.push(Arc::clone(block)),
                Some(rest) => {
                    changed = true;
                    kept.extend((rest.rows() > 0).then(|| Arc::new(rest)));
                }
            }
        }
        changed.then(|| Self { sealed: kept, open: Block::default(), tail: OnceLock::new() })
    }
}
