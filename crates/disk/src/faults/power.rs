//! What a loss of power would take: the pages that were written since their file was synced.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

const PAGE: u64 = 4096;

/// Files with bytes that are not synced, by their inodes.
#[derive(Debug, Default)]
pub(super) struct Unsynced(BTreeMap<u64, UnsyncedFile>);

/// A file as the disk itself has it.
#[derive(Debug)]
struct UnsyncedFile {
    file: File,
    /// How long it was at its last sync.
    len: u64,
    /// What pages held then that have been written since, by their numbers.
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Unsynced {
    /// So many bytes are about to be written there.
    pub fn remember(&mut self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        let of = file.metadata()?;
        let unsynced = match self.0.entry(of.ino()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(UnsyncedFile {
                file: file.try_clone()?,
                len: of.len(),
                pages: BTreeMap::new(),
            }),
        };
        for page in offset / PAGE..(offset + len).div_ceil(PAGE) {
            if let Entry::Vacant(entry) = unsynced.pages.entry(page) {
                let mut before = crate::read::read_at(file, page * PAGE, PAGE as usize)?;
                before.resize(PAGE as usize, 0);
                entry.insert(before);
            }
        }
        Ok(())
    }

    /// All of the file is on the disk.
    pub fn synced(&mut self, file: &File) {
        if let Ok(of) = file.metadata() {
            self.0.remove(&of.ino());
        }
    }

    /// Takes the pages that `keeps` does not keep. A file of which none is kept is as long as it
    /// was.
    pub fn lose(self, mut keeps: impl FnMut() -> bool) -> io::Result<()> {
        for UnsyncedFile { file, len, pages } in self.0.into_values() {
            let written = file.metadata()?.len();
            let mut keeps_any = false;
            for (page, before) in pages {
                if keeps() {
                    keeps_any = true;
                } else {
                    file.write_all_at(&before, page * PAGE)?;
                }
            }
            file.set_len(if keeps_any { written } else { len })?;
        }
        Ok(())
    }
}
