//! The files that are open: a bounded number of them, the least used closed first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::file::open::Opened;
use crate::scan::ScanError;

/// Files open at once: each is a descriptor.
const OPEN_MAX: usize = 512;

/// The open files of a store, and which were found damaged.
#[derive(Debug)]
pub struct OpenFiles {
    /// Bytes of memory for metadata and sidecars.
    memory: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    files: HashMap<u64, Entry>,
    bytes: usize,
    clock: u64,
    damage: BTreeMap<u64, String>,
}

#[derive(Debug)]
struct Entry {
    file: Arc<Opened>,
    bytes: usize,
    used: u64,
}

impl OpenFiles {
    /// None open; their metadata and sidecars may take `memory` bytes.
    pub fn new(memory: usize) -> Self {
        Self { memory, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(
        &self,
        number: u64,
        open: impl FnOnce() -> Result<Opened, ScanError>,
    ) -> Result<Arc<Opened>, ScanError> {
        let mut state = self.state();
        state.clock += 1;
        let clock = state.clock;
        if let Some(entry) = state.files.get_mut(&number) {
            entry.used = clock;
            return Ok(entry.file.clone());
        }
        drop(state);
        // Two may open the same file at once; the later one stays.
        let file = Arc::new(open()?);
        let bytes = file.memory();
        let mut state = self.state();
        state.bytes += bytes;
        let entry = Entry { file: file.clone(), bytes, used: clock };
        if let Some(old) = state.files.insert(number, entry) {
            state.bytes -= old.bytes;
        }
        while state.files.len() > OPEN_MAX || (state.bytes > self.memory && state.files.len() > 1) {
            let oldest = state.files.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(number, _)| *number) else {
                break;
            };
            state.remove(oldest);
        }
        Ok(file)
    }

    pub(crate) fn forget(&self, number: u64) {
        self.state().remove(number);
    }

    /// Remembers that a file is damaged; logs it the first time.
    pub(crate) fn note_damage(&self, number: u64, what: &str) {
        let mut state = self.state();
        state.remove(number);
        if state.damage.insert(number, what.to_owned()).is_none() {
            tracing::error!(file = number, what, "a file of the store is damaged");
        }
    }

    /// The numbers of the files found damaged since this was last asked, and what is wrong.
    pub fn take_damage(&self) -> BTreeMap<u64, String> {
        std::mem::take(&mut self.state().damage)
    }
}

impl State {
    fn remove(&mut self, number: u64) {
        if let Some(entry) = self.files.remove(&number) {
            self.bytes -= entry.bytes;
        }
    }
}
