//! The store as a whole.

mod apply;
mod background;
mod change;
#[cfg(test)]
mod damage_tests;
mod deletion;
mod flush;
mod logged;
mod memory;
mod open;
mod progress;
mod shared;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod troubles;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use arc_swap::ArcSwap;
use disk::Disk;

use crate::archive::Archive;
use crate::catalogue::Catalogue;
use crate::claims::Claims;
use crate::data::State;
use crate::manifest::ManifestError;
use crate::settings::{Settings, SettingsError};
use crate::snapshot::Snapshot;

use logged::LoggedSeries;
use memory::MemoryAccount;
use progress::Progress;
use shared::SharedState;
use troubles::Work;

pub use apply::Applied;
pub use flush::FlushError;

/// How much there is in a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct StoreSize {
    /// Files of points on the disk.
    pub files: u64,
    /// Bytes of these files.
    pub files_bytes: u64,
    /// Bytes of points that are in memory only, about.
    pub memory_bytes: u64,
    /// Series that there have been.
    pub series: u64,
}

/// The embedded store of one process.
#[derive(Debug)]
pub struct Store {
    settings: Settings,
    catalogue: ArcSwap<Catalogue>,
    state: SharedState,
    applier: Mutex<apply::Applier>,
    pub(crate) claims: Claims,
    archive: Arc<Archive>,
    flusher: Mutex<flush::Flusher>,
    logged: LoggedSeries,
    background: background::Background,
    troubles: troubles::Troubles,
    progress: Progress,
    memory: MemoryAccount,
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
            state: SharedState::new(state),
            applier: Mutex::default(),
            claims,
            archive,
            flusher: Mutex::default(),
            logged,
            background: background::Background::default(),
            troubles: troubles::Troubles::default(),
            progress: Progress::from(position),
            memory: MemoryAccount::new(settings.memory.bytes()),
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
        self.progress.filed()
    }

    /// The end of the last record applied, or [`position`](Self::position) if there is none.
    pub fn applied(&self) -> u64 {
        self.progress.applied()
    }

    /// How much there is in it.
    pub fn size(&self) -> StoreSize {
        let state = self.lock().clone();
        let files = || state.version.manifest.policies.values().flat_map(|of| &of.files);
        let series = state.policies.values().map(|policy| u64::from(policy.series_bound));
        StoreSize {
            files: files().count() as u64,
            files_bytes: files().map(|file| file.bytes + file.sidecar_bytes).sum(),
            memory_bytes: self.memory.bytes(),
            series: series.sum(),
        }
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
        self.memory.is_full() || self.background.is_flush_wanted()
    }

    /// How many series are in no file yet: each takes longer to apply again than its bytes tell.
    pub fn new_series(&self) -> u64 {
        self.logged.new_series()
    }

    /// Says whether what was acknowledged before the start is being applied: no files are joined
    /// meanwhile.
    pub fn set_replaying(&self, replaying: bool) {
        self.background.set_replaying(replaying);
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
        self.troubles.has(Work::Flush) && self.memory.is_over_full()
    }

    /// Ends the store's threads. What is in memory only, the journal has.
    pub fn close(&self) {
        self.background.stop();
        self.memory.wake_waiting();
    }

    /// Shows how large it is among the metrics.
    fn show_in(self: &Arc<Self>, registry: &watch::metrics::Registry) {
        let store = Arc::downgrade(self);
        registry.collect(move |encoder| {
            let Some(store) = store.upgrade() else { return };
            let size = store.size();
            let state = store.lock().clone();
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
                ("weir_store_memory_bytes", "Points in memory only, about.", size.memory_bytes),
                ("weir_store_files", "Files of points.", size.files),
                ("weir_store_files_bytes", "Bytes of the files of points.", size.files_bytes),
                ("weir_store_series", "Series there have been.", size.series),
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
        if self.memory.is_full() {
            self.background.wake();
            let has_hope = || !self.background.is_over() && !self.troubles.has(Work::Flush);
            self.memory.wait_for_room(has_hope);
        }
    }

    /// The state, to be read or changed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
