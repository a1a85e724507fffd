//! The name of a gateway beside its journal, and the numbers of its runs, by which it tells its own
//! notes from those of a copy.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use disk::FileError;
use serde::{Deserialize, Serialize};

use super::disk_number::DiskNumber;
use super::file::{TableError, Versioned, read_versioned, write_versioned};
use super::note::{GatewayId, GatewayState, Note};

/// Starts that are remembered: a member may have a note of long ago.
const RUNS_MAX: usize = 1000;

/// Who a gateway is in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    dir: PathBuf,
    kept: IdentityFile,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct IdentityFile {
    version: u32,
    id: GatewayId,
    /// The numbers of its starts, this one last.
    runs: Vec<u64>,
    /// The disks of members that have a note of it.
    noted: BTreeMap<String, DiskNumber>,
}

/// What a gateway's own last note on a member tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteVerdict {
    /// All that was settled for the member is there.
    Right,
    /// The member has a state of before: something that was settled for it is gone.
    PutBack,
    /// The journal runs twice, or is one of before: its notes need another name.
    TakenTwice,
    /// Somebody has given this gateway up.
    Forgotten,
}

/// Where a gateway's journal is for one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalPlace {
    /// The cursor of the member.
    pub cursor: u64,
    /// Points that the journal gave up or lost before the cursor.
    pub given_up: u64,
    /// Where the journal ends.
    pub end: u64,
    /// The disk of the member that is known to have a note.
    pub noted: Option<DiskNumber>,
}

impl Identity {
    /// The gateway whose journal is beside `dir`'s file, in a new run. Blocks on the disk.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn begin(dir: &Path) -> Result<Self, TableError> {
        let kept = read_versioned::<IdentityFile>(dir)?.unwrap_or_else(IdentityFile::new);
        let mut new = Self { dir: dir.to_owned(), kept };
        new.kept.runs.push(rand::random());
        let surplus = new.kept.runs.len().saturating_sub(RUNS_MAX);
        new.kept.runs.drain(..surplus);
        new.write()?;
        Ok(new)
    }

    /// The name that its notes have.
    pub fn id(&self) -> &GatewayId {
        &self.kept.id
    }

    /// The number of this run.
    pub fn run(&self) -> u64 {
        self.kept.runs.last().copied().unwrap_or_default()
    }

    /// The disk of a member that is known to have a note.
    pub fn noted(&self, member: &str) -> Option<DiskNumber> {
        self.kept.noted.get(member).copied()
    }

    /// The same with a member whose disk has a note. Blocks on the disk.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn with_noted(mut self, member: &str, disk: DiskNumber) -> Result<Self, TableError> {
        self.kept.noted.insert(member.to_owned(), disk);
        self.write()?;
        Ok(self)
    }

    /// The same gateway by a name that it has not used yet. Blocks on the disk.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn renamed(mut self) -> Result<Self, TableError> {
        self.kept.id = GatewayId::new();
        self.kept.noted.clear();
        self.write()?;
        Ok(self)
    }

    /// What its last note on a member's disk tells, where `place` was before that was read.
    pub fn judge(
        &self,
        note: Option<&Note>,
        disk: Option<DiskNumber>,
        place: JournalPlace,
    ) -> NoteVerdict {
        let Some(note) = note else {
            let is_gone = place.noted.is_some() && place.noted == disk;
            return if is_gone { NoteVerdict::PutBack } else { NoteVerdict::Right };
        };
        if note.progress.state == GatewayState::Forgotten {
            return NoteVerdict::Forgotten;
        }
        if !self.kept.runs.contains(&note.run) || note.progress.position > place.end {
            return NoteVerdict::TakenTwice;
        }
        // What the journal gave up since was not given, and moved the cursor without a note.
        if note.progress.position < place.cursor && note.progress.given_up >= place.given_up {
            return NoteVerdict::PutBack;
        }
        NoteVerdict::Right
    }

    fn write(&self) -> Result<(), TableError> {
        write_versioned(&self.dir, &self.kept)
    }
}

impl Versioned for IdentityFile {
    const NAME: &str = "gateway.json";
    const VERSION: u32 = 1;

    fn version(&self) -> u32 {
        self.version
    }
}

impl IdentityFile {
    fn new() -> Self {
        Self {
            version: Self::VERSION,
            id: GatewayId::new(),
            runs: Vec::new(),
            noted: BTreeMap::new(),
        }
    }
}

/// Gives a gateway that does not run another name. Blocks on the disk.
///
/// # Errors
/// When it never was of a cluster, or its file cannot be read or written.
pub fn rename(dir: &Path) -> Result<GatewayId, TableError> {
    let path = dir.join(IdentityFile::NAME);
    let missing = || TableError::Disk(FileError::of("read", &path)(io::ErrorKind::NotFound.into()));
    let kept = read_versioned::<IdentityFile>(dir)?.ok_or_else(missing)?;
    Ok(Identity { dir: dir.to_owned(), kept }.renamed()?.kept.id)
}
