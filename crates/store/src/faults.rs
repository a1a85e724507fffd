//! Faults of the disk, for tests: only built for them or with the feature `faults`.

mod switch;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use switch::Order;

/// The environment variable without which a program that is built with faults has plain disks.
const SWITCHED_BY_FILES: &str = "WEIR_FAULTS";

/// Linux: the device could not do it, and there is no room.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Switches that make the disk of one store fail. Clones are the same switches.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    /// What was done so far, one line a step.
    steps: Vec<String>,
    /// At this step the process is as if killed.
    dies_at: Option<usize>,
    /// From this step to the end of the other there is no room to write or to make files.
    no_room: Option<(usize, usize)>,
    dead: bool,
    /// Files with bytes that a loss of power would take.
    unsynced: BTreeMap<PathBuf, ()>,
    /// Nothing fails, and nothing is remembered.
    is_off: bool,
    /// The file by which another process makes the disk fail.
    switch: Option<PathBuf>,
    /// Half of a write is done; nothing comes after it.
    to_be_killed: bool,
}

impl Faults {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing reaches the disk from step `step` on (the first is 0); of a write at that step half
    /// does.
    pub fn die_at(&self, step: usize) {
        self.plan().dies_at = Some(step);
    }

    /// There is no room from step `from` on, for `steps` steps.
    pub fn no_room(&self, from: usize, steps: usize) {
        self.plan().no_room = Some((from, from.saturating_add(steps)));
    }

    /// What was done so far, one line a step.
    pub fn steps(&self) -> Vec<String> {
        self.plan().steps.clone()
    }

    /// Whether the process is as if killed.
    pub fn is_dead(&self) -> bool {
        self.plan().dead
    }

    /// The power fails: of files that were not synced nothing is left but their names.
    ///
    /// # Errors
    /// As the file system says.
    pub fn lose_power(&self) -> io::Result<()> {
        let mut plan = self.plan();
        plan.dead = true;
        for path in std::mem::take(&mut plan.unsynced).into_keys() {
            if path.exists() {
                std::fs::OpenOptions::new().write(true).open(path)?.set_len(0)?;
            }
        }
        Ok(())
    }

    /// While this file exists, the disk does as it says: a switch that works from another process.
    /// Without the environment variable `WEIR_FAULTS` the disk is the plain one.
    pub fn watch(&self, switch: PathBuf) {
        let mut plan = self.plan();
        match std::env::var_os(SWITCHED_BY_FILES) {
            Some(_) => plan.switch = Some(switch),
            None => plan.is_off = true,
        }
    }

    /// What another process wants to happen; the lock is not held meanwhile.
    fn ordered(&self, what: &str, path: &Path) -> Order {
        let (switch, to_be_killed) = {
            let plan = self.plan();
            (plan.switch.clone(), plan.to_be_killed)
        };
        if to_be_killed {
            switch::kill();
        }
        switch.map_or(Order::Nothing, |switch| switch::order(&switch, what, path))
    }

    pub(crate) fn step(&self, what: &str, path: &Path) -> io::Result<()> {
        match self.ordered(what, path) {
            Order::Kill => switch::kill(),
            Order::Fail(code) => return Err(io::Error::from_raw_os_error(code)),
            Order::Nothing | Order::Hold => {}
        }
        let mut plan = self.plan();
        if plan.take(what, path) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        if matches!(what, "create" | "create directory") && !plan.has_room() {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        Ok(())
    }

    pub(crate) fn write(&self, path: &Path, len: usize) -> io::Result<usize> {
        match self.ordered("write", path) {
            Order::Kill if len < 2 => switch::kill(),
            Order::Kill => {
                self.plan().to_be_killed = true;
                return Ok(len / 2);
            }
            Order::Fail(code) => return Err(io::Error::from_raw_os_error(code)),
            Order::Nothing | Order::Hold => {}
        }
        let mut plan = self.plan();
        let was_dead = plan.dead;
        if plan.take("write", path) {
            return if was_dead || len < 2 {
                Err(io::Error::from_raw_os_error(EIO))
            } else {
                Ok(len / 2)
            };
        }
        if !plan.has_room() {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        if !plan.is_off {
            plan.unsynced.insert(path.to_owned(), ());
        }
        Ok(len)
    }

    pub(crate) fn synced(&self, path: &Path) {
        self.plan().unsynced.remove(path);
    }

    pub(crate) fn renamed(&self, from: &Path, to: &Path) {
        let mut plan = self.plan();
        plan.unsynced.remove(to);
        if plan.unsynced.remove(from).is_some() {
            plan.unsynced.insert(to.to_owned(), ());
        }
    }
}

impl Plan {
    /// Counts a step; whether the process is dead at it.
    fn take(&mut self, what: &str, path: &Path) -> bool {
        if self.is_off {
            return false;
        }
        self.dead |= self.dies_at == Some(self.steps.len());
        if !self.dead {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            self.steps.push(format!("{what} {name}"));
        }
        self.dead
    }

    fn has_room(&self) -> bool {
        let step = self.steps.len().saturating_sub(1);
        !self.no_room.is_some_and(|(from, to)| from <= step && step < to)
    }
}
