//! Opening a journal: what is in the directory becomes what the threads work on.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use disk::{Disk, FileError};
use watch::metrics::Registry;

use crate::core::Core;
use crate::cursors::ledger::Ledger;
use crate::error::OpenError;
use crate::format::cursor::{Account, CursorFile, LoadedCursor};
use crate::format::group::{self, Header};
use crate::format::segment::Segment;
use crate::housekeeping::prepare;
use crate::instruments::Instruments;
use crate::log::segments::{Files, Next, Segments};
use crate::position::Position;
use crate::recovery::directory::{self, Directory};
use crate::recovery::identity;
use crate::recovery::{self, Findings, Recovery};
use crate::settings::Settings;

/// An opened journal, before its threads run.
pub(crate) struct OpenedJournal {
    pub core: Arc<Core>,
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
    let mut files = settle(&disk, &directory, &findings, &settings)?;
    files.floor = files.floor.max(floor);
    let segments = Segments::new(files);
    let tail_bytes_max = settings.memory_tail.len();
    let mut ledger = Ledger::new(findings.end, findings.counts, tail_bytes_max, &recovery.damage);
    let cursor_files = cursors(&disk, &dir, directory, &segments, &mut ledger, salt)?;
    let metrics = Instruments::new(registry);
    let core = Core::new(settings, salt, disk, metrics, ledger, segments, cursor_files);
    let core = Arc::new(core);
    match prepare::attempt(&core) {
        Ok(()) => {}
        // A full disk is no reason not to deliver what there is.
        Err(error) if error.is_full() => prepare::refuse(&core, &error),
        Err(error) => return Err(error.into()),
    }
    Ok(OpenedJournal { core, recovery, held })
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
/// holds nothing is free. The next segment begins past everything that may have been handed out.
fn settle(
    disk: &Disk,
    directory: &Directory,
    findings: &Findings,
    settings: &Settings,
) -> Result<Files, FileError> {
    let mut files = Files {
        segments: Default::default(),
        next: Next::Wanted,
        spares: Vec::new(),
        floor: directory.floor().max(findings.end),
        spare_number: 0,
    };
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
        let kept = Arc::new(trim(disk, segment, findings.end)?);
        files.segments.insert(kept.base, kept);
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
    if meta.len() != whole_len || files.spares.len() >= 2 {
        return disk.remove(path).map_err(FileError::of("remove", path));
    }
    files.spare_number += 1;
    let mut spare = settings.dir.join(format!("{}.spare", files.spare_number));
    while spare != path && spare.exists() {
        files.spare_number += 1;
        spare = settings.dir.join(format!("{}.spare", files.spare_number));
    }
    disk.rename(path, &spare).map_err(FileError::of("rename", path))?;
    files.spares.push(spare);
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
    dir: &Path,
    directory: Directory,
    segments: &Segments,
    ledger: &mut Ledger,
    salt: u32,
) -> Result<Vec<CursorFile>, OpenError> {
    let mut files = Vec::new();
    for (path, loaded) in directory.cursors {
        let name = loaded.name().to_owned();
        let (file, account) = match loaded {
            LoadedCursor::Whole(file, account) => (*file, account),
            LoadedCursor::Damaged(_) => {
                let account = ledger.account_at_oldest(segments.oldest());
                disk.remove(&path).map_err(FileError::of("remove", &path))?;
                let file = CursorFile::create(disk, dir, &name, &account)?;
                (file, account)
            }
        };
        ledger.restore(&name, account, |account| waiting_since(account, segments, salt));
        files.push(file);
    }
    Ok(files)
}

/// When the record at a cursor was written; when that cannot be read, the one before it.
fn waiting_since(account: &Account, segments: &Segments, salt: u32) -> u64 {
    let segment = segments.find(account.group);
    let head = segment.and_then(|s| s.read(account.group, group::HEADER_LEN).ok());
    let header = head.and_then(|head| Header::decode(salt, &head, account.group));
    header.map_or(account.written_at, |header| header.written_at)
}
