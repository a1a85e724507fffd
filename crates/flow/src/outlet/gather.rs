//! Pieces of one answer, put together for one system call.

use std::cell::Cell;

use super::Outlet;

/// Beyond this what was gathered goes out with the piece that came next, which is not copied.
const GATHERED_MAX: usize = 16 * 1024;

thread_local! {
    /// The memory of it: one of a worker's clients gathers at a time.
    static MEMORY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Outlet {
    /// Does `what`, and sends what that sends to this client at the end of it and at once: each
    /// send is a system call, and the client is woken by the first.
    pub fn gathered<R>(&self, what: impl FnOnce() -> R) -> R {
        let is_first = self.gather();
        let result = what();
        if is_first {
            self.send_gathered();
        }
        result
    }

    /// From now on what is sent to this client is kept for
    /// [`send_gathered`](Self::send_gathered), which is to be called before the worker goes on to
    /// another task. False where that is so already: then whoever began it ends it.
    #[inline]
    pub fn gather(&self) -> bool {
        let mut gathered = self.0.gathered.borrow_mut();
        let is_first = gathered.is_none();
        if is_first {
            *gathered = Some(MEMORY.take());
        }
        is_first
    }

    /// Sends what was gathered, at once.
    #[inline]
    pub fn send_gathered(&self) {
        let memory = self.0.gathered.borrow_mut().take();
        if let Some(mut memory) = memory {
            if !memory.is_empty() {
                self.send(&memory);
            }
            memory.clear();
            MEMORY.set(memory);
        }
    }

    /// Keeps `parts` with what was gathered, unless that is enough by now; false where nothing is.
    #[inline]
    pub(super) fn gathers(&self, parts: &[&[u8]]) -> bool {
        let mut place = self.0.gathered.borrow_mut();
        let Some(gathered) = &mut *place else { return false };
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if gathered.len() + len <= GATHERED_MAX {
            parts.iter().for_each(|part| gathered.extend_from_slice(part));
            return true;
        }
        let mut memory = std::mem::take(gathered);
        *place = None;
        drop(place);
        let all: Vec<&[u8]> = std::iter::once(&*memory).chain(parts.iter().copied()).collect();
        self.send_parts(&all);
        memory.clear();
        *self.0.gathered.borrow_mut() = Some(memory);
        true
    }
}
