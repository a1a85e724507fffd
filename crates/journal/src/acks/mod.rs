//! What workers have appended, and who waits for its acknowledgement.
//!
//! Each worker has an [`AppendQueue`]. The journal thread takes what all of them hold as one group
//! and acknowledges each queue up to the last record it took.
//!
//! Locks, in the order in which they are taken: the list of queues; the open buffers, in the order
//! of the list; the pool of buffers. The waiters of a queue are locked with nothing else.

// Layers, from the top down; `self` is what this file defines.
//   pump
//   self
//   queue
//   waiters

mod pump;
pub(crate) mod queue;
#[cfg(test)]
mod tests;
mod waiters;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use watch::metrics::Counter;

use self::queue::{AppendQueue, NewRecord, OpenBuffer};
use crate::buffers::BufferPool;
use crate::error::AppendError;
use crate::log::gate::Gate;
use crate::threads::{Bell, lock};

/// The queues of one journal, from a record's arrival to its acknowledgement.
#[derive(Debug)]
pub(crate) struct Acks {
    gate: Arc<Gate>,
    /// The journal's random number, which every record's checksum begins with.
    salt: u32,
    /// How long an acknowledgement is waited for.
    timeout: Duration,
    /// Counts those who have waited longer.
    timeouts: Counter,
    buffers: Arc<BufferPool>,
    queues: Mutex<Vec<Arc<AppendQueue>>>,
    writer: Bell,
    stopped: AtomicBool,
}

/// What one worker had appended.
#[derive(Debug)]
pub(crate) struct TakenBuffer {
    pub queue: Arc<AppendQueue>,
    pub open: OpenBuffer,
}

impl Acks {
    pub fn new(
        gate: Arc<Gate>,
        salt: u32,
        timeout: Duration,
        timeouts: Counter,
        buffers: Arc<BufferPool>,
    ) -> Acks {
        Acks {
            gate,
            salt,
            timeout,
            timeouts,
            buffers,
            queues: Mutex::default(),
            writer: Bell::default(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Adds the queue of another worker.
    pub fn add_queue(&self) -> Arc<AppendQueue> {
        let queue = Arc::new(AppendQueue::default());
        lock(&self.queues).push(queue.clone());
        queue
    }

    /// Takes a record if it still `stands` and wakes the journal thread if it sleeps. Gives the
    /// record's number.
    pub fn append(
        &self,
        queue: &AppendQueue,
        record: &NewRecord<'_>,
        stands: impl FnOnce() -> bool,
    ) -> Result<Option<u64>, AppendError> {
        let taken = queue.append(&self.gate, self.salt, record, stands);
        if matches!(taken, Ok(Some(_))) {
            self.writer.ring();
        }
        taken
    }

    /// Swaps every worker's buffer for an empty one. All are locked at once, so that the group has
    /// everything that was appended before one moment.
    pub fn take(&self) -> Vec<TakenBuffer> {
        let queues = lock(&self.queues);
        let mut opens: Vec<_> = queues.iter().map(|queue| (queue, queue.open())).collect();
        let mut group = Vec::new();
        for (queue, open) in opens.iter_mut().filter(|(_, open)| open.records > 0) {
            let empty =
                OpenBuffer { bytes: self.buffers.take(), last: open.last, ..OpenBuffer::default() };
            group.push(TakenBuffer {
                queue: Arc::clone(queue),
                open: std::mem::replace(&mut **open, empty),
            });
        }
        group
    }

    /// Takes the memory of a buffer back.
    pub fn recycle(&self, buffer: Vec<u8>) {
        self.buffers.put_back(buffer);
    }

    /// Whether any worker has appended since its buffer was taken.
    pub fn has_open(&self) -> bool {
        let queues = lock(&self.queues);
        queues.iter().any(|queue| queue.open().records > 0)
    }

    /// The queues with records that are not acknowledged, and the last record of each.
    pub fn unacknowledged(&self) -> Vec<(Arc<AppendQueue>, u64)> {
        let queues: Vec<Arc<AppendQueue>> = lock(&self.queues).clone();
        // The lock of each queue is passed through: what was changed before is seen by whoever
        // appends after it.
        let waiting = |queue: Arc<AppendQueue>| {
            let last = queue.last();
            (queue.acknowledged() < last).then_some((queue, last))
        };
        queues.into_iter().filter_map(waiting).collect()
    }

    /// What the journal thread sleeps by; it sleeps while no queue [has any
    /// record](Acks::has_open).
    pub fn writer(&self) -> &Bell {
        &self.writer
    }

    /// Lets every waiter look at the state of the journal.
    pub fn wake_all(&self) {
        for queue in lock(&self.queues).iter() {
            queue.wake_pump();
        }
    }

    /// Whether the journal thread has ended: what is not acknowledged now never will be.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Says that the journal thread has ended.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.wake_all();
    }

    /// Lets go of queues whose workers have gone and whose records are all taken.
    pub fn forget_abandoned(&self) {
        lock(&self.queues).retain(|queue| !queue.is_abandoned() || queue.open().records > 0);
    }

    /// Gives memory back that is only kept to be quick.
    pub fn shrink(&self) {
        self.buffers.shrink();
        for queue in lock(&self.queues).iter() {
            let mut open = queue.open();
            if open.records == 0 {
                open.bytes = Vec::new();
            }
        }
    }
}
