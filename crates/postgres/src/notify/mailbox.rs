//! What waits to be told to one client. Filled by the task that listens, emptied by the client's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use parking_lot::{Mutex, MutexGuard};

/// Messages that may wait for one client, as while it is in a transaction. A burst of one
/// transaction must fit, since it comes faster than the client's task wakes. The messages
/// themselves are shared by all who wait for them.
const MESSAGES_MAX: usize = 10_000;
/// Bytes of them; a payload has up to 8,000.
const BYTES_MAX: usize = 8 << 20;

/// More waited for a client than may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow;

/// The messages for one client, whole and encoded.
#[derive(Debug, Default)]
pub struct Mailbox {
    /// Whether there is something to take, readable without the lock.
    waits: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Arc<[u8]>>,
    bytes: usize,
    /// Nothing is put in any more.
    is_over: bool,
    waker: Option<Waker>,
}

impl Mailbox {
    /// Puts a message in and wakes the client's task. Over the limit everything is given up, and
    /// the client is to be told so; true when that has happened just now.
    pub(super) fn put(&self, message: &Arc<[u8]>) -> bool {
        let mut queue = self.queue();
        if queue.is_over {
            return false;
        }
        let is_over =
            queue.messages.len() >= MESSAGES_MAX || queue.bytes + message.len() > BYTES_MAX;
        if is_over {
            *queue = Queue { is_over, waker: queue.waker.take(), ..Queue::default() };
        } else {
            queue.bytes += message.len();
            queue.messages.push_back(message.clone());
        }
        self.waits.store(true, Ordering::Release);
        let waker = queue.waker.take();
        drop(queue);
        waker.into_iter().for_each(Waker::wake);
        is_over
    }

    /// Whether there is something to take, or too much came.
    #[inline]
    pub fn waits(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }

    /// The same; the task is woken when something comes later.
    pub fn poll_waits(&self, cx: &Context<'_>) -> bool {
        let mut queue = self.queue();
        if !queue.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            queue.waker = Some(cx.waker().clone());
        }
        self.waits()
    }

    /// Whether more came than may wait.
    pub fn is_over(&self) -> bool {
        self.queue().is_over
    }

    /// Takes everything out, in the order in which it came.
    ///
    /// # Errors
    /// More came than may wait, now or earlier.
    pub fn take(&self) -> Result<VecDeque<Arc<[u8]>>, Overflow> {
        let mut queue = self.queue();
        if queue.is_over {
            return Err(Overflow);
        }
        self.waits.store(false, Ordering::Release);
        queue.bytes = 0;
        Ok(std::mem::take(&mut queue.messages))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}
