//! Syncing in the background.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use disk::{Disk, FileError};
use watch::metrics::Histogram;

use crate::format::segment::Segment;
use crate::threads::{Bell, Flushes, lock};

/// Segments written since they were last synced, in the modes that sync in the background.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    segments: Mutex<Vec<Arc<Segment>>>,
    flushes: Flushes,
    bell: Bell,
}

impl Unsynced {
    /// What the thread sleeps by that syncs them.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Adds a segment that is about to be written.
    pub fn push(&self, segment: Arc<Segment>) {
        lock(&self.segments).push(segment);
    }

    /// Syncs all of them, in order.
    pub fn flush(&self, disk: &Disk, times: &Histogram) -> Result<(), FileError> {
        let segments = lock(&self.segments).clone();
        for segment in &segments {
            let began = Instant::now();
            let synced = self.flushes.run(|| disk.sync(&segment.file));
            synced.map_err(FileError::of("sync", &segment.path))?;
            times.observe(began.elapsed());
        }
        // The last one is still written to; those before it are complete and synced.
        if let Some(last) = segments.last() {
            lock(&self.segments).retain(|segment| segment.base >= last.base);
        }
        Ok(())
    }

    /// How many flushes have begun, and whether one is under way.
    pub fn flushes(&self) -> (u64, bool) {
        self.flushes.look()
    }
}
