//! The open buffer of one worker, which the journal thread swaps for an empty one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::Notify;

use super::waiters::Waiters;
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

/// A record on its way into a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewRecord<'a> {
    pub label: Label,
    /// The sum of the payload's parts.
    pub len: u32,
    pub payload: &'a [&'a [u8]],
    /// Where to say its position, if anyone wants that.
    pub placed: Option<&'a Placed>,
}

/// One worker's buffer and those who wait for their acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct AppendQueue {
    open: Mutex<OpenBuffer>,
    /// The number of the last record that is acknowledged.
    acknowledged: AtomicU64,
    waiters: Mutex<Waiters>,
    /// Wakes the pump, which wakes the waiters.
    pub(super) pump: Notify,
    pub(super) pumping: AtomicBool,
    /// The worker has gone; once the buffer is empty the queue is forgotten.
    abandoned: AtomicBool,
}

impl AppendQueue {
    /// The open buffer; held for the time of one copy by the worker, or one swap by the journal
    /// thread.
    pub(super) fn open(&self) -> MutexGuard<'_, OpenBuffer> {
        lock(&self.open)
    }

    pub(super) fn waiters(&self) -> MutexGuard<'_, Waiters> {
        lock(&self.waiters)
    }

    /// Takes a record if it still `stands`; gives its number.
    pub(super) fn append(
        &self,
        gate: &Gate,
        salt: u32,
        record: &NewRecord<'_>,
        stands: impl FnOnce() -> bool,
    ) -> Result<Option<u64>, AppendError> {
        let NewRecord { label, len, payload, placed } = *record;
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
        let checksum = record::put(&mut open.bytes, salt, label, len, payload);
        open.chain = group::link(open.chain, checksum);
        open.records += 1;
        open.items += u64::from(label.items);
        open.controls += u32::from(label.control);
        open.last += 1;
        Ok(Some(open.last))
    }

    /// The number of the last record that was taken; 0 before the first.
    pub fn last(&self) -> u64 {
        self.open().last
    }

    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Acknowledges every record up to a number and wakes the pump, once.
    pub fn acknowledge(&self, last: u64) {
        self.acknowledged.store(last, Ordering::Release);
        self.wake_pump();
    }

    /// The period that the time of those who wait is counted by.
    pub fn period(&self) -> u64 {
        self.waiters().period()
    }

    pub(super) fn wake_pump(&self) {
        self.pump.notify_one();
    }

    /// Says that the worker has gone: nothing more is appended, and nobody waits.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
        self.wake_pump();
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }
}
