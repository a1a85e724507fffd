//! Opening a journal: what is in the directory becomes what the threads work on.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use disk::{Disk, FileError};
use watch::metrics::Registry;

use crate::acks::Acks;
use crate::buffers::BufferPool;
use crate::cursors::Cursors;
use crate::cursors::ledger::Ledger;
use crate::error::OpenError;
use crate::format::cursor::{Account, CursorFile, LoadedCursor};
use crate::format::group::{self, Header};
use crate::format::segment::Segment;
use crate::housekeeping::prepare;
use crate::instruments::Instruments;
use crate::log::Log;
use crate::log::gate::Room;
use crate::log::segments::Files;
use crate::owners::Owners;
use crate::position::Position;
use crate::recovery::directory::{self, Directory};
use crate::recovery::identity;
use crate::recovery::{self, Findings, Recovery};
use crate::settings::Settings;

/// An opened journal, before its threads run.
pub(crate) struct OpenedJournal {
    pub owners: Owners,
    pub recovery: Recovery,
    /// Holds the directory for this process.
    pub held: File,
}

/// Opens the journal, or makes it.
pub(crate) fn open(
    settings: Settings,
    registry: &Registry,
    disk: Disk,
    floor: Position,
) -> Result<OpenedJournal, OpenError> {
    settings.validate()?;
    let dir = settings.dir.clone();
    std::fs::create_dir_all(&dir).map_err(FileError::of("make", &dir))?;
    let held = identity::take(&dir)?;
    let directory = directory::read(&dir, true)?;
    let salt = salt(&held, &dir, &directory)?;
    directory.find_firsts(salt)?;
    let segments: Vec<Arc<Segment>> =
        directory.segments.iter().map(|found| found.segment.clone()).collect();
    let findings = recovery::recover(&segments, salt, directory.evidence())?;
    let recovery = report(&directory, &findings, salt)?;
    let files = settle(&disk, &directory, &findings, &settings, floor)?;
    let tail_bytes_max = settings.memory_tail.len();
    let mut ledger = Ledger::new(findings.end, findings.counts, tail_bytes_max, &recovery.damage);
    let timeout = settings.ack_timeout.get();
    let metrics = Instruments::new(registry);
    let (timeouts, damaged) = (metrics.ack_timeouts.clone(), metrics.damaged.clone());
    let log = Log::new(settings, salt, disk.clone(), metrics, files);
    let cursor_files = cursors(&disk, directory, &log, &mut ledger)?;
    let buffers = Arc::new(BufferPool::default());
    let acks = Acks::new(log.gate().clone(), salt, timeout, timeouts, buffers.clone());
    let cursors = Cursors::new(ledger, cursor_files, disk, &dir, buffers, damaged);
    let owners = Owners { log: Arc::new(log), acks: Arc::new(acks), cursors: Arc::new(cursors) };
    match prepare::attempt(&owners) {
        Ok(()) => {}
        // A full disk is no reason not to deliver what there is.
        Err(error) if error.is_full() => owners.log.refuse(Room::DiskFull, &error.to_string()),
        Err(error) => return Err(error.into()),
    }
    Ok(OpenedJournal { owners, recovery, held })
}

/// The journal's salt: from its own file, or else from any segment, or a new one.
fn salt(held: &File, dir: &Path, directory: &Directory) -> Result<u32, OpenError> {
    if let Some(salt) = identity::salt(held, dir)? {
        return Ok(salt);
    }
    let salt = directory.salt().unwrap_or_else(identity::new_salt);
    identity::write(held, dir, salt)?;
    Ok(salt)
}

/// What to tell of it.
pub(crate) fn report(
    directory: &Directory,
    findings: &Findings,
    salt: u32,
) -> Result<Recovery, OpenError> {
    let mut damage = findings.damage.clone();
    for missing in directory.damage(salt, findings.end)? {
        // The same place may have been found from its groups, which tell more.
        let same = damage.iter_mut().find(|d| d.to == missing.to && d.from == missing.from);
        match same {
            Some(known) => known.place = missing.place,
            None => damage.push(missing),
        }
    }
    let lost_cursors = directory.cursors.iter().filter_map(|(_, loaded)| match loaded {
        LoadedCursor::Damaged(name) => Some(name.clone()),
        LoadedCursor::Whole(..) => None,
    });
    Ok(Recovery {
        segments: directory.segments.len() as u64,
        end: findings.end,
        cut: findings.cut.clone(),
        damage,
        lost_cursors: lost_cursors.collect(),
    })
}

/// Makes the files what was found: the torn tail is cut off, what is kept is synced, and what
/// holds nothing is free. The next segment begins past everything that may have been handed out,
/// and not before `floor`.
fn settle(
    disk: &Disk,
    directory: &Directory,
    findings: &Findings,
    settings: &Settings,
    floor: Position,
) -> Result<Files, FileError> {
    let mut files = Files::new(directory.floor().max(findings.end).max(floor));
    for leaving in &directory.leavings {
        disk.remove(leaving).map_err(FileError::of("remove", leaving))?;
    }
    let whole_len = crate::format::segment::HEADER_LEN + settings.segment_capacity();
    for spare in &directory.spares {
        adopt(disk, spare, whole_len, settings, &mut files)?;
    }
    for found in &directory.segments {
        let segment = &found.segment;
        if segment.base >= findings.end {
            adopt(disk, &segment.path, whole_len, settings, &mut files)?;
            continue;
        }
        files.insert(trim(disk, segment, findings.end)?);
    }
    disk.sync_dir(&settings.dir).map_err(FileError::of("sync", &settings.dir))?;
    Ok(files)
}

/// Keeps an empty file for the next segments if it has the right length, or removes it.
fn adopt(
    disk: &Disk,
    path: &Path,
    whole_len: u64,
    settings: &Settings,
    files: &mut Files,
) -> Result<(), FileError> {
    let meta = std::fs::metadata(path).map_err(FileError::of("open", path))?;
    if meta.len() != whole_len || files.spares().len() >= 2 {
        return disk.remove(path).map_err(FileError::of("remove", path));
    }
    let mut spare = files.spare_path(&settings.dir);
    while spare != path && spare.exists() {
        spare = files.spare_path(&settings.dir);
    }
    disk.rename(path, &spare).map_err(FileError::of("rename", path))?;
    files.add_spare(spare);
    Ok(())
}

/// A segment as it is kept: nothing of it is behind the end, and all of it is on the disk.
fn trim(disk: &Disk, segment: &Segment, end: Position) -> Result<Segment, FileError> {
    let mut file_len = segment.file_len;
    if segment.contains(end) && segment.offset(end) < file_len {
        file_len = segment.offset(end);
        disk.truncate(&segment.file, file_len).map_err(FileError::of("cut", &segment.path))?;
    }
    disk.sync(&segment.file).map_err(FileError::of("sync", &segment.path))?;
    let file = segment.file.try_clone();
    Ok(Segment {
        base: segment.base,
        capacity: segment.capacity,
        path: segment.path.clone(),
        file: file.map_err(FileError::of("open", &segment.path))?,
        file_len,
        first: segment.first.clone(),
    })
}

/// Puts the cursors into the ledger. One that cannot be read begins again at the oldest record.
fn cursors(
    disk: &Disk,
    directory: Directory,
    log: &Log,
    ledger: &mut Ledger,
) -> Result<Vec<CursorFile>, OpenError> {
    let mut files = Vec::new();
    for (path, loaded) in directory.cursors {
        let name = loaded.name().to_owned();
        let (file, account) = match loaded {
            LoadedCursor::Whole(file, account) => (*file, account),
            LoadedCursor::Damaged(_) => {
                let account = ledger.account_at_oldest(log.oldest());
                disk.remove(&path).map_err(FileError::of("remove", &path))?;
                let file = CursorFile::create(disk, log.dir(), &name, &account)?;
                (file, account)
            }
        };
        ledger.restore(&name, account, |account| waiting_since(account, log));
        files.push(file);
    }
    Ok(files)
}

/// When the record at a cursor was written; when that cannot be read, the one before it.
fn waiting_since(account: &Account, log: &Log) -> u64 {
    let segment = log.find(account.group);
    let head = segment.and_then(|s| s.read(account.group, group::HEADER_LEN).ok());
    let header = head.and_then(|head| Header::decode(log.salt(), &head, account.group));
    header.map_or(account.written_at, |header| header.written_at)
}
