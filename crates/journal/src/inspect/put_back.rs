//! Putting cursors back, so that what they have passed comes again.

use std::path::Path;

use disk::Disk;

use super::failed;
use crate::error::CursorError;
use crate::format::cursor::{self, Account, LoadedCursor};
use crate::position::Position;
use crate::recovery::identity;

/// Puts the cursors of these names, in a journal that no process has open, back to where the one of
/// them is that is furthest behind; gives that place. Those there are none of are left out.
pub fn put_back(dir: &Path, names: &[&str]) -> Result<Option<Position>, CursorError> {
    // To the end of this function, no other process opens the journal.
    let _held = identity::take(dir).map_err(|error| failed(dir, error))?;
    let mut loaded = Vec::new();
    for path in cursor::list(dir)? {
        match cursor::load(&path, true)? {
            LoadedCursor::Whole(file, account) if names.contains(&file.name()) => {
                loaded.push((file, account));
            }
            LoadedCursor::Whole(..) | LoadedCursor::Damaged(_) => {}
        }
    }
    let lowest = loaded.iter().map(|(_, account)| account).min_by_key(|of| of.position).cloned();
    let Some(lowest) = lowest else { return Ok(None) };
    let disk = Disk::of(dir);
    for (file, account) in &mut loaded {
        if account.position > lowest.position {
            file.write(&disk, &account.put_back(&lowest))?;
        }
    }
    Ok(Some(lowest.position))
}

impl Account {
    /// The account of the same cursor at the place of another one: what it has passed since is
    /// taken off, first what was delivered.
    fn put_back(&self, to: &Account) -> Account {
        let mut new = Account {
            position: to.position,
            group: to.group,
            written_at: to.written_at,
            counts: to.counts,
            ..self.clone()
        };
        new.start.items = new.start.items.min(to.counts.items);
        let mut surplus = (self.counts - to.counts).items;
        for count in [
            &mut new.delivered,
            &mut new.elsewhere,
            &mut new.dead_lettered,
            &mut new.dropped,
            &mut new.dropped_damaged,
            &mut new.dropped_oldest,
        ] {
            let taken = surplus.min(*count);
            *count -= taken;
            surplus -= taken;
        }
        new
    }
}
