//! The store as a whole.

mod apply;
mod background;
mod change;
#[cfg(test)]
mod damage_tests;
mod deletion;
mod flush;
mod open;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod troubles;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use disk::Disk;

use crate::archive::Archive;
use crate::catalogue::Catalogue;
use crate::claims::Claims;
use crate::data::State;
use crate::manifest::ManifestError;
use crate::settings::{MEMORY_BOUND_FACTOR, Settings, SettingsError};
use crate::snapshot::Snapshot;

use troubles::Work;

pub use apply::Applied;
pub use flush::FlushError;

/// How often a writer that waits for room looks by itself.
const ROOM_PERIOD: Duration = Duration::from_millis(50);

/// The embedded store of one process.
#[derive(Debug)]
pub struct Store {
    settings: Settings,
    catalogue: ArcSwap<Catalogue>,
    /// Held before `state` is waited for, so that the applier, which takes it again at once, does
    /// not starve readers.
    turn: Mutex<()>,
    state: Mutex<State>,
    applier: Mutex<apply::Applier>,
    pub(crate) claims: Claims,
    archive: Arc<Archive>,
    flusher: Mutex<flush::Flusher>,
    /// How many series of each policy are in its log.
    logged: Mutex<open::Logged>,
    background: background::Background,
    troubles: troubles::Troubles,
    applied: AtomicU64,
    position: AtomicU64,
    /// Whether files are to be removed that nothing else would make a flush for.
    flush_wanted: AtomicBool,
    /// Series that are in no file yet.
    new_series: AtomicU64,
    /// Whether what was acknowledged before the start is still being applied.
    replaying: AtomicBool,
    /// Bytes of the memtables that fill, about.
    memory: AtomicU64,
    /// Bytes of those that are being written.
    frozen_memory: AtomicU64,
    /// Told when memory has been written; with the lock it needs.
    room: Condvar,
    waiting: Mutex<()>,
}

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings cannot work.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The files can't be read, or another process has them.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// There is no thread for the store's files.
    #[error("the store's thread can't be started: {0}")]
    Thread(std::io::Error),
}

impl Store {
    /// Opens the store in its directory, which is made when it is missing.
    ///
    /// # Errors
    /// When the settings cannot work, or the directory cannot be read or written.
    pub fn open(
        settings: Settings,
        registry: &watch::metrics::Registry,
    ) -> Result<Arc<Self>, OpenError> {
        let disk = Disk::of(&settings.dir);
        Self::open_on(disk, settings, registry)
    }

    /// The same on a file system that may have faults.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(
        disk: Disk,
        settings: Settings,
        registry: &watch::metrics::Registry,
    ) -> Result<Arc<Self>, OpenError> {
        settings.validate()?;
        let archive = Arc::new(Archive::open(&settings.dir, disk)?);
        let claims = Claims::default();
        let (state, logged) = open::state(&settings.dir, &archive, &claims)?;
        let position = archive.version().manifest.position;
        let store = Arc::new(Self {
            catalogue: ArcSwap::new(Arc::clone(&state.catalogue)),
            turn: Mutex::default(),
            state: Mutex::new(state),
            applier: Mutex::default(),
            claims,
            archive,
            flusher: Mutex::default(),
            logged: Mutex::new(logged),
            background: background::Background::default(),
            troubles: troubles::Troubles::default(),
            applied: AtomicU64::new(position),
            position: AtomicU64::new(position),
            flush_wanted: AtomicBool::new(false),
            new_series: AtomicU64::new(0),
            replaying: AtomicBool::new(false),
            memory: AtomicU64::new(0),
            frozen_memory: AtomicU64::new(0),
            room: Condvar::new(),
            waiting: Mutex::default(),
            settings,
        });
        store.background.start(&store).map_err(OpenError::Thread)?;
        store.show_in(registry);
        Ok(store)
    }

    /// Whether a directory holds no store: it is missing or empty.
    pub fn is_empty_dir(dir: &Path) -> bool {
        std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none())
    }

    /// The journal position up to which everything is in files; records that end behind it are to
    /// be applied again after a start.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    /// The end of the last record applied, or [`position`](Self::position) if there is none.
    pub fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    /// The files, for whoever looks at them.
    pub fn archive(&self) -> &Arc<Archive> {
        &self.archive
    }

    /// The names there are, as of the last statement applied.
    pub fn catalogue(&self) -> arc_swap::Guard<Arc<Catalogue>> {
        self.catalogue.load()
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The store as it is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.lock().clone())
    }

    /// Whether enough is in memory for a flush.
    pub fn flush_due(&self) -> bool {
        self.memory.load(Ordering::Relaxed) >= self.settings.memory.bytes()
            || self.flush_wanted.load(Ordering::Relaxed)
    }

    /// How many series are in no file yet: each takes longer to apply again than its bytes tell.
    pub fn new_series(&self) -> u64 {
        self.new_series.load(Ordering::Relaxed)
    }

    /// Says whether what was acknowledged before the start is being applied: no files are joined
    /// meanwhile.
    pub fn set_replaying(&self, replaying: bool) {
        self.replaying.store(replaying, Ordering::Relaxed);
    }

    /// What of the work on files failed the last time it was tried, in words.
    pub fn trouble(&self) -> Option<String> {
        self.troubles.words()
    }

    /// What can't be read of the files and is missing from answers, in words; not what an operator
    /// has accepted.
    pub fn missing(&self) -> Vec<String> {
        self.snapshot().missing()
    }

    /// Whether memory is full and can't be written as files: nothing more should come. What comes
    /// all the same is taken, so that all that was acknowledged can be asked for.
    pub fn is_stuck(&self) -> bool {
        self.troubles.has(Work::Flush) && self.is_over_full()
    }

    fn is_over_full(&self) -> bool {
        let frozen = self.frozen_memory.load(Ordering::Relaxed);
        let all = self.memory.load(Ordering::Relaxed) + frozen;
        all >= self.settings.memory.bytes() * MEMORY_BOUND_FACTOR
    }

    /// Ends the store's threads. What is in memory only, the journal has.
    pub fn close(&self) {
        self.background.stop();
        self.room.notify_all();
    }

    /// Shows how large it is among the metrics.
    fn show_in(self: &Arc<Self>, registry: &watch::metrics::Registry) {
        let store = Arc::downgrade(self);
        registry.collect(move |encoder| {
            let Some(store) = store.upgrade() else { return };
            let memory = store.memory.load(Ordering::Relaxed);
            let frozen = store.frozen_memory.load(Ordering::Relaxed);
            let state = store.lock().clone();
            let entries = || state.version.manifest.policies.values();
            let files: usize = entries().map(|entry| entry.files.len()).sum();
            let bytes: u64 = entries()
                .flat_map(|entry| entry.files.iter())
                .map(|file| file.bytes + file.sidecar_bytes)
                .sum();
            let series: u64 =
                state.policies.values().map(|policy| u64::from(policy.series_bound)).sum();
            let missing = || state.version.policies.values().flat_map(|of| &of.missing);
            let missing_points: u64 = missing().map(|of| of.points).sum();
            let gauges = [
                (
                    "weir_store_damaged_files",
                    "Damaged files of which points are missing from answers, and nobody has \
                     accepted that.",
                    missing().count() as u64,
                ),
                (
                    "weir_store_missing_points",
                    "Points that are missing from answers, or a field of them, since files are \
                     damaged; not those that an operator has accepted.",
                    missing_points,
                ),
                ("weir_store_memory_bytes", "Points in memory only, about.", memory + frozen),
                ("weir_store_files", "Files of points.", files as u64),
                ("weir_store_files_bytes", "Bytes of the files of points.", bytes),
                ("weir_store_series", "Series there have been.", series),
            ];
            for (name, help, value) in gauges {
                encoder.gauge(name, help, &[], value);
            }
            store.troubles.show(encoder);
        });
    }

    /// Waits while memory is full: files that are being written will make room. Where they can't
    /// be written it goes on: no more is acknowledged ([`is_stuck`](Self::is_stuck)), and what was
    /// is to be seen.
    fn wait_for_room(&self) {
        if self.memory.load(Ordering::Relaxed) < self.settings.memory.bytes() {
            return;
        }
        self.background.wake();
        let is_full = || {
            let has_hope = !self.background.is_over() && !self.troubles.has(Work::Flush);
            has_hope && self.is_over_full()
        };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while is_full() {
            let waited = self.room.wait_timeout(waiting, ROOM_PERIOD);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The state, to be read or changed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(turn);
        state
    }
}
