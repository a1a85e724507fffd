//! What the threads and handles of one journal share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use disk::Disk;

use crate::acks::Acks;
use crate::buffers::BufferPool;
use crate::cursors::Cursors;
use crate::cursors::ledger::Ledger;
use crate::format::cursor::CursorFile;
use crate::format::segment::Segment;
use crate::instruments::Instruments;
use crate::log::gate::{Gate, Room};
use crate::log::segments::{Next, Segments};
use crate::rates::Rates;
use crate::settings::{Ack, Settings};
use crate::threads::{Bell, Flushes};

/// All that the threads and handles of one journal share.
#[derive(Debug)]
pub(crate) struct Core {
    pub settings: Settings,
    pub dir: PathBuf,
    pub salt: u32,
    pub disk: Disk,
    pub gate: Arc<Gate>,
    pub metrics: Instruments,
    pub acks: Arc<Acks>,
    pub cursors: Arc<Cursors>,
    pub segments: Segments,
    /// Segments written since they were last synced, in the modes that sync in the background.
    pub unsynced: Mutex<Vec<Arc<Segment>>>,
    pub syncer: Bell,
    pub flushes: Flushes,
    pub housekeeping: Bell,
    /// How fast it fills, kept by the housekeeping thread.
    pub rates: Mutex<Rates>,
    pub buffers: Arc<BufferPool>,
    /// Bytes of records the active segment has room for.
    left: AtomicU64,
}

impl Core {
    pub fn new(
        settings: Settings,
        salt: u32,
        disk: Disk,
        metrics: Instruments,
        ledger: Ledger,
        segments: Segments,
        cursor_files: Vec<CursorFile>,
    ) -> Core {
        let (gate, buffers) = (Arc::new(Gate::new()), Arc::new(BufferPool::default()));
        let timeout = settings.ack_timeout.get();
        let acks =
            Acks::new(gate.clone(), salt, timeout, metrics.ack_timeouts.clone(), buffers.clone());
        let cursors = Cursors::new(
            ledger,
            cursor_files,
            disk.clone(),
            &settings.dir,
            buffers.clone(),
            metrics.damaged.clone(),
        );
        Core {
            dir: settings.dir.clone(),
            settings,
            salt,
            disk,
            gate,
            metrics,
            acks: Arc::new(acks),
            cursors: Arc::new(cursors),
            segments,
            unsynced: Mutex::default(),
            syncer: Bell::default(),
            flushes: Flushes::default(),
            housekeeping: Bell::default(),
            rates: Mutex::default(),
            buffers,
            left: AtomicU64::new(0),
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
        self.acks.writer().wake();
        self.acks.wake_all();
        self.cursors.wake_waiting();
    }

    pub fn set_stopped(&self) {
        self.acks.stop();
        self.cursors.finish();
    }
}
