//! What the threads and handles of one journal share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use disk::Disk;
use tokio::sync::Notify;

use crate::acks::queue::AppendQueue;
use crate::cursors::ledger::Ledger;
use crate::cursors::tail::TailGroup;
use crate::format::cursor::CursorFile;
use crate::format::segment::Segment;
use crate::instruments::Instruments;
use crate::log::gate::{Gate, Room};
use crate::log::segments::{Next, Segments};
use crate::rates::Rates;
use crate::settings::{Ack, Settings};
use crate::threads::{Bell, Flushes, lock};

/// How much memory of groups that are done is kept to be used again.
const POOL_BYTES_MAX: usize = 16 << 20;

/// All that the threads and handles of one journal share.
#[derive(Debug)]
pub(crate) struct Core {
    pub settings: Settings,
    pub dir: PathBuf,
    pub salt: u32,
    pub disk: Disk,
    /// Held while cursors come and go, and while segments are given free because of them.
    pub chores: Mutex<()>,
    pub gate: Gate,
    pub metrics: Instruments,
    pub queues: Mutex<Vec<Arc<AppendQueue>>>,
    pub ledger: Mutex<Ledger>,
    pub segments: Segments,
    /// Segments written since they were last synced, in the modes that sync in the background.
    pub unsynced: Mutex<Vec<Arc<Segment>>>,
    /// Cursor files by name.
    pub cursor_files: Mutex<Vec<(String, CursorFile)>>,
    pub writer: Bell,
    pub syncer: Bell,
    pub flushes: Flushes,
    pub housekeeping: Bell,
    /// Woken when a cursor has been persisted.
    pub persisted: Notify,
    /// How fast it fills, kept by the housekeeping thread.
    pub rates: Mutex<Rates>,
    pool: Mutex<Vec<Vec<u8>>>,
    /// Bytes of records the active segment has room for.
    left: AtomicU64,
    stopped: AtomicBool,
}

impl Core {
    pub fn new(
        settings: Settings,
        salt: u32,
        disk: Disk,
        metrics: Instruments,
        ledger: Ledger,
        segments: Segments,
        cursor_files: Vec<(String, CursorFile)>,
    ) -> Core {
        Core {
            dir: settings.dir.clone(),
            settings,
            salt,
            disk,
            chores: Mutex::default(),
            gate: Gate::new(),
            metrics,
            queues: Mutex::default(),
            ledger: Mutex::new(ledger),
            segments,
            unsynced: Mutex::default(),
            cursor_files: Mutex::new(cursor_files),
            writer: Bell::default(),
            syncer: Bell::default(),
            flushes: Flushes::default(),
            housekeeping: Bell::default(),
            persisted: Notify::new(),
            rates: Mutex::default(),
            pool: Mutex::default(),
            left: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    pub fn is_durable(&self) -> bool {
        self.settings.ack == Ack::Durable
    }

    /// The length of a whole segment's file.
    pub fn segment_len(&self) -> u64 {
        crate::format::segment::HEADER_LEN + self.settings.segment_capacity()
    }

    /// Says how much may be appended before the next group is taken: what fits into a group, but
    /// no more than is left of the active segment while no further one can be had. The journal
    /// thread says how much is left.
    pub fn refresh_limit(&self, left: Option<u64>) {
        // Under the segments' lock, so that the journal and the housekeeping thread agree.
        let files = self.segments.files();
        if let Some(left) = left {
            self.left.store(left, Ordering::Relaxed);
        }
        let room = match files.next {
            Next::Refused(room) => room,
            Next::Wanted | Next::Ready(_) => Room::Yes,
        };
        let mut limit = self.settings.group_capacity();
        if room != Room::Yes {
            limit = limit.min(self.left.load(Ordering::Relaxed));
        }
        self.gate.set_room(room);
        self.gate.set_limit(limit);
    }

    /// Ends all acknowledgements for ever.
    pub fn poison(&self, reason: &str) {
        if !self.gate.poison(reason.to_owned()) {
            return;
        }
        tracing::error!(
            reason,
            dir = %self.dir.display(),
            "the journal is poisoned: nothing is acknowledged any more; check the disk and restart"
        );
        self.segments.announce();
        self.writer.wake();
        self.wake_all_pumps();
        self.persisted.notify_waiters();
    }

    /// Lets every waiter look at the state of the journal.
    pub fn wake_all_pumps(&self) {
        for queue in lock(&self.queues).iter() {
            queue.pump.notify_one();
        }
    }

    /// Whether the journal thread has ended: what is not acknowledged now never will be.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub fn set_stopped(&self) {
        self.stopped.store(true, Ordering::Release);
        let mut ledger = lock(&self.ledger);
        ledger.finished = true;
        for cursor in ledger.cursors.values() {
            cursor.released.notify_one();
        }
        drop(ledger);
        self.wake_all_pumps();
    }

    /// An empty buffer, used before if there is one.
    pub fn buffer(&self) -> Vec<u8> {
        lock(&self.pool).pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn recycle(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut pool = lock(&self.pool);
        let kept: usize = pool.iter().map(Vec::capacity).sum();
        if kept + buffer.capacity() <= POOL_BYTES_MAX && pool.len() < 64 {
            pool.push(buffer);
        }
    }

    /// Takes back the buffers of groups nobody reads any more.
    pub fn recycle_groups(&self, groups: Vec<TailGroup>) {
        for piece in groups.into_iter().flat_map(|group| group.pieces) {
            if let Some(buffer) = Arc::into_inner(piece.bytes) {
                // Small ones are not worth a place in the pool.
                if buffer.capacity() >= 4096 {
                    self.recycle(buffer);
                }
            }
        }
    }

    /// Gives memory back that is only kept to be quick.
    pub fn shrink(&self) {
        *lock(&self.pool) = Vec::new();
        for queue in lock(&self.queues).iter() {
            let mut open = queue.open();
            if open.records == 0 {
                open.bytes = Vec::new();
            }
        }
    }
}
