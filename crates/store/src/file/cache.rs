//! The files that are open: a bounded number of them, the least used closed first.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::file::lost::Lost;
use crate::file::open::OpenFile;
use crate::scan::ScanError;

/// Files open at once: each is a descriptor.
const OPEN_MAX: usize = 512;

/// The open files of a store, and which were found damaged.
#[derive(Debug)]
pub struct OpenFiles {
    /// Bytes of memory for metadata and sidecars.
    memory: usize,
    state: Mutex<State>,
    /// How often a reader has met damage.
    met: AtomicU64,
    /// Whether something is lost of any file: every scan asks it.
    is_any_lost: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    files: HashMap<u64, Entry>,
    bytes: usize,
    clock: u64,
    /// Found since somebody looked after it.
    damage: BTreeMap<u64, String>,
    lost: HashMap<u64, Lost>,
}

#[derive(Debug)]
struct Entry {
    file: Arc<OpenFile>,
    bytes: usize,
    used: u64,
}

impl OpenFiles {
    /// None open; their metadata and sidecars may take `memory` bytes.
    pub fn new(memory: usize) -> Self {
        let (met, is_any_lost) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { memory, state: Mutex::default(), met, is_any_lost }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(
        &self,
        number: u64,
        open: impl FnOnce() -> Result<OpenFile, ScanError>,
    ) -> Result<Arc<OpenFile>, ScanError> {
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
        self.count_met();
        let mut state = self.state();
        state.remove(number);
        if matches!(state.lost.get(&number), Some(Lost::All)) {
            return;
        }
        if state.damage.insert(number, what.to_owned()).is_none() {
            tracing::error!(file = number, what, "a file of the store is damaged");
        }
    }

    /// Counts a reader that met damage.
    pub(crate) fn count_met(&self) {
        self.met.fetch_add(1, Ordering::AcqRel);
    }

    /// How often readers have met damage.
    pub(crate) fn met(&self) -> u64 {
        self.met.load(Ordering::Acquire)
    }

    /// What can't be read of a file.
    pub(crate) fn lost(&self, number: u64) -> Option<Lost> {
        if !self.is_any_lost.load(Ordering::Acquire) {
            return None;
        }
        self.state().lost.get(&number).cloned()
    }

    /// Remembers what can't be read of a file; `None` where all can.
    pub(crate) fn set_lost(&self, number: u64, lost: Option<Lost>) {
        let mut state = self.state();
        match lost {
            Some(lost) => state.lost.insert(number, lost),
            None => state.lost.remove(&number),
        };
        self.is_any_lost.store(!state.lost.is_empty(), Ordering::Release);
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
