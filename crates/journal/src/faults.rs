//! Faults of the disk, for tests: only built for them or with the feature `faults`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The environment variable without which a program that is built with faults has plain disks.
const SWITCHED_BY_FILES: &str = "WEIR_FAULTS";

const PAGE: u64 = 4096;
/// A test that fails while syncs wait must come to its end.
const HELD_MAX: Duration = Duration::from_secs(20);
/// How often a sync that waits for a file to go looks whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Linux: the device could not do it, and there is no room.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Switches that make the disk of one journal fail. Clones are the same switches.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    plan: Mutex<Plan>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Plan {
    fail_syncs: bool,
    no_room: bool,
    no_room_to_write: bool,
    short_writes: bool,
    hold_syncs: bool,
    syncs_held: u64,
    bytes_to_live: Option<u64>,
    dead: bool,
    /// The directory of the files that are switches.
    switches: Option<PathBuf>,
    /// What the disk itself holds of pages written and not synced, by file and page.
    unsynced: Option<HashMap<(u64, u64), Page>>,
}

#[derive(Debug)]
struct Page {
    file: File,
    offset: u64,
    before: Vec<u8>,
}

impl Faults {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_plan(&self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.plan());
        self.0.changed.notify_all();
    }

    /// Whether syncs fail.
    pub fn fail_syncs(&self, fail: bool) {
        self.change_plan(|plan| plan.fail_syncs = fail);
    }

    /// Whether there is room for new segments.
    pub fn room(&self, room: bool) {
        self.change_plan(|plan| plan.no_room = !room);
    }

    /// Whether there is room even to write within segments, as on a file system that copies.
    pub fn room_to_write(&self, room: bool) {
        self.change_plan(|plan| plan.no_room_to_write = !room);
    }

    /// Each write takes only a part.
    pub fn short_writes(&self) {
        self.change_plan(|plan| plan.short_writes = true);
    }

    /// Syncs wait until this is switched off.
    pub fn hold_syncs(&self, hold: bool) {
        self.change_plan(|plan| plan.hold_syncs = hold);
    }

    /// How many syncs are waiting.
    pub fn syncs_held(&self) -> u64 {
        self.plan().syncs_held
    }

    /// After so many more bytes nothing reaches the disk any more, as if the process were killed.
    pub fn die_after(&self, bytes: u64) {
        self.change_plan(|plan| {
            plan.bytes_to_live = Some(bytes);
            plan.dead = bytes == 0;
        });
    }

    /// While the file `fail-syncs` is in this directory, every sync fails, and while `hold-syncs`
    /// is, every sync waits: switches that work from another process. They need the environment
    /// variable `WEIR_FAULTS`.
    pub fn watch(&self, dir: PathBuf) {
        if std::env::var_os(SWITCHED_BY_FILES).is_some() {
            self.change_plan(|plan| plan.switches = Some(dir));
        }
    }

    /// Remembers what a loss of power could take away.
    pub fn track_power(&self) {
        self.change_plan(|plan| plan.unsynced = Some(HashMap::new()));
    }

    /// The power fails: nothing reaches the disk any more, and of the pages that were not synced
    /// only those stay for which `keeps` says so.
    pub fn lose_power(&self, mut keeps: impl FnMut() -> bool) -> io::Result<()> {
        let mut plan = self.plan();
        plan.dead = true;
        plan.hold_syncs = false;
        self.0.changed.notify_all();
        let mut pages: Vec<_> = plan.unsynced.take().unwrap_or_default().into_iter().collect();
        pages.sort_by_key(|(place, _)| *place);
        for (_, page) in pages {
            if !keeps() {
                page.file.write_all_at(&page.before, page.offset)?;
            }
        }
        Ok(())
    }

    /// What of a write is done: all of it, or only the bytes given.
    pub(crate) fn write(
        &self,
        file: &File,
        slices: &[IoSlice<'_>],
        offset: u64,
    ) -> io::Result<Option<Vec<u8>>> {
        let mut plan = self.plan();
        plan.alive()?;
        if plan.no_room_to_write {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        let all: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        let mut len = all;
        if plan.short_writes {
            len = (len / 2).max(1);
        }
        if let Some(left) = plan.bytes_to_live {
            len = len.min(left);
            plan.bytes_to_live = Some(left - len);
            if left == len {
                plan.dead = true;
            }
        }
        plan.remember(file, offset, len)?;
        if len == all {
            return Ok(None);
        }
        if len == 0 {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let mut bytes: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
        bytes.truncate(len as usize);
        Ok(Some(bytes))
    }

    pub(crate) fn sync(&self, _: &File) -> io::Result<()> {
        let mut plan = self.plan();
        plan.syncs_held += 1;
        let until = Instant::now() + HELD_MAX;
        while plan.hold_syncs && Instant::now() < until {
            let waited = self.0.changed.wait_timeout(plan, HELD_MAX);
            (plan, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        // Without an end of its own: the directory goes with its test.
        while plan.switched("hold-syncs") {
            let waited = self.0.changed.wait_timeout(plan, LOOK_EVERY);
            (plan, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        plan.syncs_held -= 1;
        plan.alive()?;
        if plan.fail_syncs || plan.switched("fail-syncs") {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Ok(())
    }

    pub(crate) fn synced(&self, file: &File) {
        if let (Some(pages), Ok(meta)) = (&mut self.plan().unsynced, file.metadata()) {
            pages.retain(|(inode, _), _| *inode != meta.ino());
        }
    }

    pub(crate) fn allocate(&self) -> io::Result<()> {
        let plan = self.plan();
        if plan.no_room {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        plan.alive()
    }

    pub(crate) fn change(&self) -> io::Result<()> {
        self.plan().alive()
    }
}

impl Plan {
    fn alive(&self) -> io::Result<()> {
        if self.dead {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Ok(())
    }

    fn switched(&self, switch: &str) -> bool {
        self.switches.as_ref().is_some_and(|dir| dir.join(switch).exists())
    }

    fn remember(&mut self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        let Some(pages) = &mut self.unsynced else {
            return Ok(());
        };
        let inode = file.metadata()?.ino();
        for page in offset / PAGE..(offset + len).div_ceil(PAGE) {
            if let std::collections::hash_map::Entry::Vacant(slot) = pages.entry((inode, page)) {
                slot.insert(Page {
                    file: file.try_clone()?,
                    offset: page * PAGE,
                    before: crate::disk::read_at(file, page * PAGE, PAGE as usize)?,
                });
            }
        }
        Ok(())
    }
}
