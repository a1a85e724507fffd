//! Getting the next segment ready: a used one again, or a new one while `max-size` allows it, or
//! by giving up the oldest.

use std::fs::File;
use std::path::PathBuf;

use disk::FileError;

use crate::core::Core;
use crate::format::segment::{self, Header, Segment};
use crate::log::gate::Room;
use crate::log::segments::{Files, Next};
use crate::position::Position;

/// How many files of given up segments are kept to be used again.
const SPARES_MAX: usize = 1;

/// The suffix of files that hold nothing and wait to become a segment.
pub(crate) const SPARE_SUFFIX: &str = "spare";

/// Makes the next segment if one is wanted, or was refused and may now be possible.
pub(crate) fn next(core: &Core) {
    if matches!(core.segments.files().next, Next::Ready(_)) {
        return;
    }
    if let Err(error) = attempt(core) {
        if error.is_failed_sync() && !error.is_full() {
            core.poison(&error.to_string());
        }
        refuse(core, &error);
    }
}

/// Makes the next segment, or finds that `max-size` does not allow one.
pub(crate) fn attempt(core: &Core) -> Result<(), FileError> {
    let next = match spare(core)? {
        Some(spare) => establish(core, spare)?,
        None => Next::Refused(Room::Full),
    };
    if matches!(next, Next::Refused(_)) {
        report(core, Room::Full, "its segments have reached max-size");
    } else if core.gate.room() != Room::Yes {
        tracing::info!("the journal has room for another segment again");
    }
    announce(core, next);
    Ok(())
}

/// Remembers that the file system gave no further segment.
pub(crate) fn refuse(core: &Core, error: &FileError) {
    report(core, Room::DiskFull, &error.to_string());
    announce(core, Next::Refused(Room::DiskFull));
}

fn announce(core: &Core, next: Next) {
    core.segments.files().next = next;
    core.refresh_limit(None);
    core.segments.announce();
}

/// Logs why there is no next segment, once for each time that begins.
fn report(core: &Core, room: Room, reason: &str) {
    let known = matches!(core.segments.files().next, Next::Refused(known) if known == room);
    if !known {
        tracing::error!(
            reason,
            dir = %core.dir.display(),
            "no further segment for the journal: writes are refused once this one is full"
        );
    }
}

/// An empty file of a segment's length; `None` when `max-size` does not allow one.
fn spare(core: &Core) -> Result<Option<(PathBuf, File)>, FileError> {
    loop {
        let mut files = core.segments.files();
        if let Some(path) = files.spares.pop() {
            drop(files);
            let open = File::options().read(true).write(true).open(&path);
            return open
                .map(|file| Some((path.clone(), file)))
                .map_err(FileError::of("open", &path));
        }
        let len = core.segment_len();
        if files.bytes(len) + len <= core.settings.max_size.bytes() {
            let path = spare_path(core, &mut files);
            drop(files);
            // Whoever syncs what it has written waits for itself alone.
            let piece = if core.is_durable() { len } else { segment::HEADER_LEN };
            let file = core.disk.allocate(&path, len, piece)?;
            return Ok(Some((path, file)));
        }
        drop(files);
        if core.settings.when_full == crate::WhenFull::Reject || !drop_oldest(core)? {
            ask_pinned(core);
            return Ok(None);
        }
    }
}

/// Asks the consumers that alone move their cursors to do so: the oldest segment is theirs.
fn ask_pinned(core: &Core) {
    let files = core.segments.files();
    let oldest = files.segments.keys().next().and_then(|base| files.data_end(*base));
    drop(files);
    let Some(end) = oldest else {
        return;
    };
    core.cursors.ask_pinned(end);
}

/// A name no spare has.
pub(crate) fn spare_path(core: &Core, files: &mut Files) -> PathBuf {
    files.spare_number += 1;
    core.dir.join(format!("{}.{SPARE_SUFFIX}", files.spare_number))
}

fn establish(core: &Core, (path, file): (PathBuf, File)) -> Result<Next, FileError> {
    let files = core.segments.files();
    let last = files.segments.last_key_value();
    let base = last.map_or(files.floor, |(_, last)| last.end().max(files.floor));
    let previous = last.map(|(base, _)| *base);
    drop(files);
    let header = Header {
        salt: core.salt,
        base,
        capacity: core.settings.segment_capacity(),
        previous,
        synced_end: core.cursors.ends().synced,
    };
    segment::establish(&core.disk, &core.dir, &path, file, &header).map(Next::Ready)
}

/// Takes a segment out of the journal. Its file is kept to be used again, or removed.
pub(crate) fn free(core: &Core, base: Position) -> Result<(), FileError> {
    let mut files = core.segments.files();
    let Some(segment) = files.segments.remove(&base) else {
        return Ok(());
    };
    let reusable = segment.file_len == core.segment_len() && files.spares.len() < SPARES_MAX;
    let spare = reusable.then(|| spare_path(core, &mut files));
    drop(files);
    match spare {
        Some(spare) => {
            core.disk
                .rename(&segment.path, &spare)
                .map_err(FileError::of("rename", &segment.path))?;
            core.segments.files().spares.push(spare);
            Ok(())
        }
        None => remove(core, &segment),
    }
}

fn remove(core: &Core, segment: &Segment) -> Result<(), FileError> {
    core.disk.remove(&segment.path).map_err(FileError::of("remove", &segment.path))
}

/// Moves the cursors that are inside the oldest segment to its end, persists them, and gives the
/// segment free. Whether there was one that could be given up.
fn drop_oldest(core: &Core) -> Result<bool, FileError> {
    let files = core.segments.files();
    let Some((&base, _)) = files.segments.first_key_value() else {
        return Ok(false);
    };
    // The segment being written is never given up.
    if files.segments.len() < 2 {
        return Ok(false);
    }
    let mut later = files.segments.range(base.after(1)..);
    let Some(first) = later.find_map(|(_, segment)| segment.first.get().copied()) else {
        return Ok(false);
    };
    drop(files);
    let to = first.previous_end;
    if core.cursors.ends().synced < to {
        // No cursor is persisted past the synced end.
        crate::commit::syncer::flush(core);
    }
    let Some(moved) = core.cursors.drop_to(to, first.before) else {
        return Ok(false);
    };
    for (due, given_up) in moved {
        if given_up.bytes > 0 {
            tracing::warn!(
                cursor = due.name,
                items = given_up.items,
                controls = given_up.controls,
                "the journal is full: the oldest segment is given up"
            );
        }
        core.cursors.persist(&due)?;
    }
    free(core, base)?;
    Ok(true)
}
