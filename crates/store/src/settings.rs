//! The `[store]` table of the configuration.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Duration, Size};

/// The embedded store: where it is, and how much memory it may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// The directory of the store; made when it is missing. One process may use it at a time.
    pub dir: PathBuf,
    /// How many bytes of points are gathered in memory before they are written as files. While
    /// they are written, as much again may come; past four times as much, writes wait.
    pub memory: Size,
    /// How long a point may stay in memory only. The journal keeps what is not in files.
    pub flush_interval: Duration,
    /// How many bytes of acknowledged points may be in the journal and not yet in the store's
    /// files. Past that writes wait a second and are then refused with 503. It is what a start
    /// after a kill reads again.
    pub journal_ahead: Size,
    /// How many threads answer queries; 0 is one for each core.
    pub query_threads: usize,
    /// How long a query may run; `0` is without limit.
    pub query_timeout: Duration,
    /// How many series a query may read; 0 is without limit.
    pub query_max_series: u64,
    /// How many points a query may read; 0 is without limit.
    pub query_max_points: u64,
    /// How much memory one query may take.
    pub query_memory: Size,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("weir-data/store"),
            memory: Size::from_mib(64),
            flush_interval: Duration::from_secs(600),
            journal_ahead: Size::from_mib(256),
            query_threads: 0,
            query_timeout: Duration::from_secs(60),
            query_max_series: 0,
            query_max_points: 0,
            query_memory: Size::from_mib(256),
        }
    }
}

/// Times the memory of one flush that points may take in all, those being written included.
pub(crate) const MEMORY_BOUND_FACTOR: u64 = 4;

/// A setting that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Too little to gather anything.
    #[error("store.memory is {given}; write at least {MEMORY_MIN}")]
    Memory {
        /// The size that was configured.
        given: Size,
    },
    /// Too little to gather anything.
    #[error("store.journal-ahead is {given}; write at least {MEMORY_MIN}")]
    JournalAhead {
        /// The size that was configured.
        given: Size,
    },
    /// A time of zero.
    #[error("store.flush-interval must not be 0")]
    FlushInterval,
}

/// The least memory a store works with.
pub const MEMORY_MIN: Size = Size::from_mib(1);

impl Settings {
    /// Whether the settings can work.
    ///
    /// # Errors
    /// When one of them cannot.
    pub fn validate(&self) -> Result<(), SettingsError> {
        if self.memory < MEMORY_MIN {
            return Err(SettingsError::Memory { given: self.memory });
        }
        if self.journal_ahead < MEMORY_MIN {
            return Err(SettingsError::JournalAhead { given: self.journal_ahead });
        }
        if self.flush_interval.get().is_zero() {
            return Err(SettingsError::FlushInterval);
        }
        Ok(())
    }
}
