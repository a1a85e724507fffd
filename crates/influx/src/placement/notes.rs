//! The notes of all gateways as this one has read them, and those that it writes itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::disk_number::DiskNumber;
use super::file::TableError;
use super::identity::{Identity, JournalPlace, NoteVerdict};
use super::lag::{Lag, lags};
use super::member::MemberTable;
use super::note::{GatewayId, MemberNotes, Note, Progress};
use super::read::WrittenTable;

/// What is read of the notes, and what is written.
#[derive(Debug, Default)]
pub struct GatewayNotes {
    state: Mutex<NotesState>,
    /// Held by whoever changes what is on the disk.
    disk: Mutex<()>,
}

#[derive(Debug, Default)]
struct NotesState {
    /// This gateway; `None` until it is of a cluster.
    identity: Option<Identity>,
    /// Its notes are written by somebody else, too.
    is_taken_twice: bool,
    host: String,
    /// How many notes this run has written on each member.
    counts: BTreeMap<String, u64>,
    /// The disk of each member that its own last note was written on.
    disks: BTreeMap<String, DiskNumber>,
    heard: BTreeMap<String, MemberNotes>,
    lags: BTreeMap<String, Lag>,
}

/// A note of this gateway that is to be written on a member.
#[derive(Debug)]
pub struct OwnNote {
    pub line: Vec<u8>,
    /// The name it is written by.
    pub gateway: GatewayId,
}

impl GatewayNotes {
    /// Reads who this gateway is, and begins its run, where that is not done yet. Blocks on the
    /// disk.
    ///
    /// # Errors
    /// When its file cannot be read or written.
    pub fn begin(&self, dir: &Path) -> Result<(), TableError> {
        if self.lock().identity.is_some() {
            return Ok(());
        }
        let identity = Identity::begin(dir)?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let mut state = self.lock();
        state.identity = Some(identity);
        state.host = host.trim().to_owned();
        Ok(())
    }

    /// Takes the notes that were read on a member, whose place in the journal was `place` before.
    ///
    /// # Errors
    /// What keeps the member from being used, in words.
    pub fn hear(
        &self,
        file: &WrittenTable,
        (name, table): (&str, &MemberTable),
        notes: MemberNotes,
        place: JournalPlace,
    ) -> Result<(), String> {
        let disk = table.disk();
        let mut state = self.lock();
        let verdict = state.identity.as_ref().map_or(NoteVerdict::Right, |identity| {
            identity.judge(notes.get(identity.id()), disk, place)
        });
        // What it lacks is copied from another member before it is in force.
        let verdict = match verdict {
            NoteVerdict::PutBack if table.rebuilding => NoteVerdict::Right,
            verdict => verdict,
        };
        state.is_taken_twice |= verdict == NoteVerdict::TakenTwice;
        match disk {
            Some(disk) => drop(state.disks.insert(name.to_owned(), disk)),
            None => drop(state.disks.remove(name)),
        }
        state.heard.insert(name.to_owned(), notes);
        // What is heard of a member says nothing of other sets.
        if let Some(set) = file.sets.iter().find(|set| set.members.iter().any(|of| of == name)) {
            let of_set = lags(set, &state.heard);
            state.lags.extend(of_set);
        }
        drop(state);
        match verdict {
            NoteVerdict::Right => Ok(()),
            NoteVerdict::PutBack => Err(
                "it was put back to a state of before: it lacks what this gateway had delivered \
                 since; `weir placement rebuild` brings it back from the others of its set"
                    .to_owned(),
            ),
            NoteVerdict::TakenTwice => Err("its notes by this gateway's name are not this \
                                            gateway's: it takes another name"
                .to_owned()),
            NoteVerdict::Forgotten => {
                Err("this gateway was forgotten by `weir placement forget`; \
                                           stop it and run `weir placement rejoin`"
                    .to_owned())
            }
        }
    }

    /// Whether another name has to be taken; see [`take_name`](Self::take_name).
    pub fn is_taken_twice(&self) -> bool {
        self.lock().is_taken_twice
    }

    /// Goes on by a name that nobody has, where another uses the one of now; whether it does.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// When the name cannot be kept.
    pub fn take_name(&self) -> Result<bool, TableError> {
        let _disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        let identity = {
            let state = self.lock();
            if !state.is_taken_twice {
                return Ok(false);
            }
            state.identity.clone()
        };
        let renamed = identity.map(Identity::renamed).transpose()?;
        let mut state = self.lock();
        (state.identity, state.is_taken_twice) = (renamed, false);
        state.counts.clear();
        Ok(true)
    }

    /// This gateway's next note on a member; `None` where it is of no cluster.
    pub fn next(&self, member: &str, progress: Progress) -> Option<OwnNote> {
        let mut state = self.lock();
        let (gateway, run) = state.identity.as_ref().map(|of| (of.id().clone(), of.run()))?;
        let (host, disk) = (state.host.clone(), state.disks.get(member).copied());
        let count = state.counts.entry(member.to_owned()).or_default();
        *count += 1;
        let note = Note { host, run, count: *count, disk, progress };
        Some(OwnNote { line: note.line(&gateway), gateway })
    }

    /// The disk of a member that is known to have a note of this gateway.
    pub fn noted(&self, member: &str) -> Option<DiskNumber> {
        self.lock().identity.as_ref()?.noted(member)
    }

    /// Whether a member's disk is known to have a note of this gateway.
    pub fn is_kept(&self, member: &str) -> bool {
        let state = self.lock();
        let disk = state.disks.get(member).copied();
        state.identity.as_ref().is_none_or(|identity| identity.noted(member) == disk)
    }

    /// Keeps that a member's disk has a note of this gateway, which was written by this name: from
    /// now on one without is of before. Blocks on the disk.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub fn keep(&self, member: &str, gateway: &GatewayId) -> Result<(), TableError> {
        let _disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        let (identity, disk) = {
            let state = self.lock();
            (state.identity.clone(), state.disks.get(member).copied())
        };
        let identity = identity.filter(|identity| identity.id() == gateway);
        if let Some((identity, disk)) = identity.zip(disk) {
            let identity = identity.with_noted(member, disk)?;
            self.lock().identity = Some(identity);
        }
        Ok(())
    }

    /// How much less a member has than the best of its set, by what all gateways have noted.
    pub fn lag(&self, member: &str) -> Lag {
        self.lock().lags.get(member).copied().unwrap_or_default()
    }

    /// The name of this gateway, and the notes of all on each member.
    pub fn heard(&self) -> (Option<GatewayId>, BTreeMap<String, MemberNotes>) {
        let state = self.lock();
        let id = state.identity.as_ref().map(|identity| identity.id().clone());
        (id, state.heard.clone())
    }

    fn lock(&self) -> MutexGuard<'_, NotesState> {
        // No one panics while holding it, and what it guards is whole at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
