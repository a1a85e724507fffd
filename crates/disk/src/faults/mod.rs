//! Faults of the disk, for tests: only built for them or with the feature `faults`.
//!
//! A test that has the disk in its own process switches [`Faults`]; one that runs a whole program
//! writes an order into a file, see [`switch`].

mod power;
mod switch;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use power::Unsynced;
use switch::Order;

/// The environment variable without which a program that is built with faults has plain disks.
const SWITCHED_BY_FILES: &str = "WEIR_FAULTS";

/// A test that fails while syncs wait must come to its end.
const HELD_MAX: Duration = Duration::from_secs(20);
/// Linux: the device could not do it, and there is no room.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Switches that make one disk fail. Clones are the same switches.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Switchboard>);

#[derive(Debug, Default)]
struct Switchboard {
    plan: Mutex<Plan>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Plan {
    /// What was done so far, one line a step, where it is asked for.
    steps: Option<Vec<String>>,
    /// At this step the process is as if killed.
    dies_at: Option<usize>,
    /// From this step to the end of the other there is no room to write or to make files.
    no_room_between: Option<(usize, usize)>,
    fail_syncs: bool,
    no_room: bool,
    no_room_to_write: bool,
    short_writes: bool,
    hold_syncs: bool,
    syncs_held: u64,
    bytes_to_live: Option<u64>,
    dead: bool,
    /// The file by which another process makes the disk fail.
    switch: Option<PathBuf>,
    /// Half of a write is done by order; nothing comes after it.
    to_be_killed: bool,
    unsynced: Option<Unsynced>,
}

/// What a step is done to.
#[derive(Clone, Copy)]
enum Target<'a> {
    Path(&'a Path),
    File(&'a File),
}

impl Target<'_> {
    /// Looked up only where somebody asks: an open file is known by its number.
    fn path(self) -> PathBuf {
        match self {
            Self::Path(path) => path.to_owned(),
            Self::File(file) => {
                let link = format!("/proc/self/fd/{}", file.as_raw_fd());
                std::fs::read_link(link).unwrap_or_default()
            }
        }
    }
}

impl Faults {
    /// Faults that count each step, and know what a loss of power could take.
    pub fn counting() -> Self {
        let faults = Self::default();
        faults.plan().steps = Some(Vec::new());
        faults.track_power();
        faults
    }

    /// Does as the file beside `dir` says that has its name and `.faults`, while it is there.
    /// Without the environment variable `WEIR_FAULTS` nothing fails.
    pub(crate) fn beside(dir: &Path) -> Self {
        let faults = Self::default();
        if std::env::var_os(SWITCHED_BY_FILES).is_some() {
            let mut switch = dir.as_os_str().to_owned();
            switch.push(".faults");
            faults.plan().switch = Some(switch.into());
        }
        faults
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_plan(&self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.plan());
        self.0.changed.notify_all();
    }

    /// Nothing reaches the disk from step `step` on (the first is 0); of a write at that step half
    /// does.
    pub fn die_at(&self, step: usize) {
        self.change_plan(|plan| {
            plan.steps.get_or_insert_default();
            plan.dies_at = Some(step);
        });
    }

    /// After so many more bytes nothing reaches the disk any more, as if the process were killed.
    pub fn die_after(&self, bytes: u64) {
        self.change_plan(|plan| {
            plan.bytes_to_live = Some(bytes);
            plan.dead = bytes == 0;
        });
    }

    /// There is no room from step `from` on, for `steps` steps.
    pub fn no_room(&self, from: usize, steps: usize) {
        self.change_plan(|plan| plan.no_room_between = Some((from, from.saturating_add(steps))));
    }

    /// Whether there is room for new files.
    pub fn room(&self, room: bool) {
        self.change_plan(|plan| plan.no_room = !room);
    }

    /// Whether there is room even to write within files, as on a file system that copies.
    pub fn room_to_write(&self, room: bool) {
        self.change_plan(|plan| plan.no_room_to_write = !room);
    }

    /// Whether every sync fails from now on.
    pub fn fail_syncs(&self, fail: bool) {
        self.change_plan(|plan| plan.fail_syncs = fail);
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

    /// What was done so far, one line a step; nothing where it is not counted.
    pub fn steps(&self) -> Vec<String> {
        self.plan().steps.clone().unwrap_or_default()
    }

    /// Whether the process is as if killed.
    pub fn is_dead(&self) -> bool {
        self.plan().dead
    }

    /// Remembers what a loss of power could take away.
    pub fn track_power(&self) {
        self.change_plan(|plan| plan.unsynced = Some(Unsynced::default()));
    }

    /// The power fails: nothing reaches the disk any more, and of the pages that were not synced
    /// only those stay for which `keeps` says so.
    ///
    /// # Errors
    /// A page can't be put back.
    pub fn lose_power(&self, keeps: impl FnMut() -> bool) -> io::Result<()> {
        let mut plan = self.plan();
        plan.dead = true;
        plan.hold_syncs = false;
        self.0.changed.notify_all();
        plan.unsynced.take().unwrap_or_default().lose(keeps)
    }

    /// What another process wants to happen; the lock is not held meanwhile.
    fn ordered(&self, what: &str, target: Target<'_>) -> Order {
        let (switch, to_be_killed) = {
            let plan = self.plan();
            (plan.switch.clone(), plan.to_be_killed)
        };
        if to_be_killed {
            switch::kill();
        }
        switch.map_or(Order::Nothing, |switch| switch::order(&switch, what, &target.path()))
    }

    pub(crate) fn step(&self, what: &str, path: &Path) -> io::Result<()> {
        self.take(what, Target::Path(path))
    }

    pub(crate) fn step_on(&self, what: &str, file: &File) -> io::Result<()> {
        self.take(what, Target::File(file))?;
        if what == "sync" { self.wait_to_sync() } else { Ok(()) }
    }

    fn take(&self, what: &str, target: Target<'_>) -> io::Result<()> {
        match self.ordered(what, target) {
            Order::Kill => switch::kill(),
            Order::Fail(code) => return Err(io::Error::from_raw_os_error(code)),
            Order::Nothing | Order::Hold => {}
        }
        let mut plan = self.plan();
        plan.take(what, target);
        plan.alive()?;
        let makes = matches!(what, "create" | "create directory");
        if makes && (plan.no_room || plan.is_between()) {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        Ok(())
    }

    fn wait_to_sync(&self) -> io::Result<()> {
        let mut plan = self.plan();
        plan.syncs_held += 1;
        let until = Instant::now() + HELD_MAX;
        while plan.hold_syncs && Instant::now() < until {
            let waited = self.0.changed.wait_timeout(plan, HELD_MAX);
            (plan, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        plan.syncs_held -= 1;
        plan.alive()?;
        if plan.fail_syncs {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Ok(())
    }

    /// How many of a write's bytes are written.
    pub(crate) fn write(&self, file: &File, offset: u64, len: usize) -> io::Result<usize> {
        let target = Target::File(file);
        match self.ordered("write", target) {
            Order::Kill if len < 2 => switch::kill(),
            Order::Kill => {
                self.plan().to_be_killed = true;
                return Ok(len / 2);
            }
            Order::Fail(code) => return Err(io::Error::from_raw_os_error(code)),
            Order::Nothing | Order::Hold => {}
        }
        let mut plan = self.plan();
        plan.alive()?;
        plan.take("write", target);
        if !plan.dead && (plan.no_room_to_write || plan.is_between()) {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        let len = plan.shortened(len);
        if len == 0 {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        if let Some(unsynced) = &mut plan.unsynced {
            unsynced.remember(file, offset, len as u64)?;
        }
        Ok(len)
    }

    pub(crate) fn synced(&self, file: &File) {
        if let Some(unsynced) = &mut self.plan().unsynced {
            unsynced.synced(file);
        }
    }
}

impl Plan {
    fn alive(&self) -> io::Result<()> {
        if self.dead {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Ok(())
    }

    /// Counts a step, at which the process may die.
    fn take(&mut self, what: &str, target: Target<'_>) {
        let Some(steps) = &mut self.steps else { return };
        self.dead |= self.dies_at == Some(steps.len());
        if !self.dead {
            let path = target.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            steps.push(format!("{what} {name}"));
        }
    }

    /// Whether the last step was one of those for which there is no room.
    fn is_between(&self) -> bool {
        let step = self.steps.as_ref().map_or(0, Vec::len).saturating_sub(1);
        self.no_room_between.is_some_and(|(from, to)| from <= step && step < to)
    }

    /// How much of a write is done.
    fn shortened(&mut self, mut len: usize) -> usize {
        if self.dead {
            return len / 2;
        }
        if self.short_writes {
            len = (len / 2).max(1);
        }
        if let Some(left) = self.bytes_to_live {
            len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
            let left = left - len as u64;
            self.bytes_to_live = Some(left);
            self.dead = left == 0;
        }
        len
    }
}

#[cfg(test)]
mod tests;
