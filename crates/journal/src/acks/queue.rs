//! The open buffer of one worker, which the journal thread swaps for an empty one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::Notify;

use crate::acks::waiters::Waiters;
use crate::error::AppendError;
use crate::format::group;
use crate::format::record::{self, Label};
use crate::log::gate::Gate;
use crate::threads::lock;

/// Where a record has come to be; set before the record is acknowledged.
pub(crate) type Placed = Arc<AtomicU64>;

/// Records taken and not yet part of a group.
#[derive(Debug, Default)]
pub(crate) struct OpenBuffer {
    pub bytes: Vec<u8>,
    pub records: u32,
    pub items: u64,
    pub controls: u32,
    /// The checksum of the records' checksums.
    pub chain: u32,
    /// The number of the last record; numbers begin at 1.
    pub last: u64,
    /// When the first of the records came.
    pub since: Option<Instant>,
    /// Records whose position somebody wants: offset in the buffer, and where to put it.
    pub placing: Vec<(usize, Placed)>,
}

/// One worker's buffer and those who wait for their acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct AppendQueue {
    open: Mutex<OpenBuffer>,
    /// The number of the last record that is acknowledged.
    acknowledged: AtomicU64,
    pub waiters: Mutex<Waiters>,
    /// Wakes the pump, which wakes the waiters.
    pub pump: Notify,
    pub pumping: AtomicBool,
    /// The worker has gone; once the buffer is empty the journal thread forgets the queue.
    pub abandoned: AtomicBool,
}

impl AppendQueue {
    /// The open buffer; held for the time of one copy by the worker, or one swap by the journal
    /// thread.
    pub fn open(&self) -> MutexGuard<'_, OpenBuffer> {
        lock(&self.open)
    }

    /// Takes a record if it still `stands`; gives its number.
    #[expect(clippy::too_many_arguments, reason = "each is a part of the record or a condition")]
    pub fn append(
        &self,
        gate: &Gate,
        salt: u32,
        label: Label,
        len: u32,
        parts: &[&[u8]],
        placed: Option<&Placed>,
        stands: impl FnOnce() -> bool,
    ) -> Result<Option<u64>, AppendError> {
        let reserved = record::HEADER_LEN as u64 + u64::from(len);
        gate.reserve(reserved)?;
        let mut open = self.open();
        // Asked under the lock: after closing, the journal thread takes each buffer a last time.
        if let Err(error) = gate.check() {
            drop(open);
            gate.release(reserved);
            return Err(error);
        }
        // Under the lock, too: whoever takes the buffer later finds the record in it, or what it
        // stands by has changed before.
        if !stands() {
            drop(open);
            gate.release(reserved);
            return Ok(None);
        }
        if open.since.is_none() {
            // One clock read a group: the histogram of the wait is by the first of a group.
            open.since = Some(Instant::now());
        }
        if let Some(placed) = placed {
            let at = open.bytes.len();
            open.placing.push((at, placed.clone()));
        }
        let checksum = record::put(&mut open.bytes, salt, label, len, parts);
        open.chain = group::link(open.chain, checksum);
        open.records += 1;
        open.items += u64::from(label.items);
        open.controls += u32::from(label.control);
        open.last += 1;
        Ok(Some(open.last))
    }

    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Acknowledges every record up to a number and wakes the pump, once.
    pub fn acknowledge(&self, last: u64) {
        self.acknowledged.store(last, Ordering::Release);
        self.pump.notify_one();
    }
}
