//! Getting the next segment ready: a used one again, or a new one while `max-size` allows it, or
//! by giving up the oldest.

use std::fs::File;
use std::path::PathBuf;

use disk::FileError;

use crate::commit::syncer;
use crate::log::gate::Room;
use crate::owners::Owners;
use crate::settings::WhenFull;

/// Makes the next segment if one is wanted, or was refused and may now be possible.
pub(crate) fn next(owners: &Owners) {
    if owners.log.is_next_ready() {
        return;
    }
    if let Err(error) = attempt(owners) {
        if error.is_failed_sync() && !error.is_full() {
            owners.poison(&error.to_string());
        }
        owners.log.refuse(Room::DiskFull, &error.to_string());
    }
}

/// Makes the next segment, or finds that `max-size` does not allow one.
pub(crate) fn attempt(owners: &Owners) -> Result<(), FileError> {
    match spare(owners)? {
        Some(spare) => owners.log.establish(spare, owners.cursors.ends().synced),
        None => {
            owners.log.refuse(Room::Full, "its segments have reached max-size");
            Ok(())
        }
    }
}

/// An empty file of a segment's length; `None` when `max-size` does not allow one.
fn spare(owners: &Owners) -> Result<Option<(PathBuf, File)>, FileError> {
    let Owners { log, cursors, .. } = owners;
    loop {
        if let Some(spare) = log.spare()? {
            return Ok(Some(spare));
        }
        if log.settings().when_full == WhenFull::Reject || !drop_oldest(owners)? {
            // The oldest segment is theirs that alone move their cursors.
            if let Some(end) = log.oldest_end() {
                cursors.ask_pinned(end);
            }
            return Ok(None);
        }
    }
}

/// Moves the cursors that are inside the oldest segment to its end, persists them, and gives the
/// segment free. Whether there was one that could be given up.
fn drop_oldest(owners: &Owners) -> Result<bool, FileError> {
    let Owners { log, cursors, .. } = owners;
    let Some((base, first)) = log.oldest_to_give_up() else {
        return Ok(false);
    };
    let to = first.previous_end;
    if cursors.ends().synced < to {
        // No cursor is persisted past the synced end.
        syncer::flush(owners);
    }
    let Some(moved) = cursors.drop_to(to, first.before) else {
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
        cursors.persist(&due)?;
    }
    log.free(base)?;
    Ok(true)
}
