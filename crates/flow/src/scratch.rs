//! The buffer that all reads of a worker go into.
//!
//! What came is handled before the next read, so one buffer does for every client and lane of a
//! worker: an idle connection has none, and the memory that is read into is warm in the cache.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

/// Bytes read at a time: enough that a busy lane's replies come with few system calls.
pub const SIZE: usize = 64 * 1024;

/// A worker's read buffer. Clones are the same one.
#[derive(Clone)]
pub struct Scratch(Rc<Cell<Option<Box<[u8]>>>>);

impl Scratch {
    /// A buffer, made when it is first used.
    pub fn new() -> Self {
        Self(Rc::default())
    }

    /// Lends the buffer of [`SIZE`] bytes; what is in it is of no meaning. Whoever asks while it
    /// is lent gets another, so nothing depends on the order of calls.
    #[inline]
    pub fn lend<R>(&self, to: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut buffer = self.0.take().unwrap_or_else(|| vec![0; SIZE].into_boxed_slice());
        let result = to(&mut buffer);
        self.0.set(Some(buffer));
        result
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}
