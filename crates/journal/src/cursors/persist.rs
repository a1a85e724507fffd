//! Which accounts may be written to the disk, and by whom that is waited for.

use std::collections::HashMap;

use disk::FileError;

use super::Cursors;
use super::ledger::{Cursor, Ledger};
use crate::error::ConsumeError;
use crate::format::cursor::Account;
use crate::log::gate::Gate;
use crate::position::{Counts, Position};
use crate::threads::lock;

/// An account that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DueAccount {
    pub name: String,
    pub account: Account,
    /// The number of the account's last change.
    pub change: u64,
}

/// Accounts that wait for the records before them to be synced, by the names of their cursors.
pub(crate) type DeferredAccounts = HashMap<String, DueAccount>;

impl Ledger {
    /// The accounts that may be written: changed, and not past the synced end. One that is past
    /// it is kept as it was, since under load a newer one would be past it for ever.
    fn due(&mut self, deferred: &mut DeferredAccounts) -> Vec<DueAccount> {
        let mut due = Vec::new();
        for (name, cursor) in &self.cursors {
            if cursor.changes == cursor.persisted {
                continue;
            }
            let kept = deferred.remove(name);
            // One from before `drop-oldest` moved the cursor would move it back.
            let kept = kept.filter(|kept| kept.change > cursor.persisted);
            let account = kept.unwrap_or_else(|| cursor.due(name));
            if account.account.position <= self.ends.synced {
                due.push(account);
            } else {
                deferred.insert(name.clone(), account);
            }
        }
        deferred.retain(|name, _| self.cursors.contains_key(name));
        due
    }

    /// Moves the cursors before a place to it, unless that place is not synced or one of them is
    /// pinned. Gives their accounts, each with what was given up.
    fn drop_to(&mut self, to: Position, before: Counts) -> Option<Vec<(DueAccount, Counts)>> {
        if self.ends.synced < to {
            return None;
        }
        let pinned = |cursor: &Cursor| cursor.pin.is_some() && cursor.account.position < to;
        if self.cursors.values().any(pinned) {
            return None;
        }
        let mut moved = Vec::new();
        for (name, cursor) in &mut self.cursors {
            if cursor.account.position < to {
                let given_up = cursor.drop_to(to, before);
                moved.push((cursor.due(name), given_up));
            }
        }
        Some(moved)
    }
}

impl Cursor {
    fn due(&self, name: &str) -> DueAccount {
        DueAccount { name: name.to_owned(), account: self.account.clone(), change: self.changes }
    }
}

impl Cursors {
    /// The accounts that may be written now; the others that have changed are `deferred`.
    pub fn due(&self, deferred: &mut DeferredAccounts) -> Vec<DueAccount> {
        self.ledger().due(deferred)
    }

    /// Writes an account to its file, and tells those who wait for that.
    pub fn persist(&self, due: &DueAccount) -> Result<(), FileError> {
        let mut files = lock(&self.files);
        if let Some(file) = files.iter_mut().find(|file| file.name() == due.name) {
            file.write(&self.disk, &due.account)?;
        }
        drop(files);
        let mut ledger = self.ledger();
        if let Some(cursor) = ledger.cursors.get_mut(&due.name) {
            cursor.persisted = cursor.persisted.max(due.change);
            cursor.persisted_position = due.account.position;
            cursor.urgent &= cursor.changes != due.change;
        }
        drop(ledger);
        self.persisted.notify_waiters();
        Ok(())
    }

    /// Up to where every cursor is persisted; `None` without cursors.
    pub fn persisted_end(&self) -> Option<Position> {
        self.ledger().cursors.values().map(|cursor| cursor.persisted_position).min()
    }

    /// Asks the consumers that alone move their cursors to move them to a place.
    pub fn ask_pinned(&self, to: Position) {
        for cursor in self.ledger().cursors.values() {
            if let Some(pin) = cursor.pin.as_ref().filter(|_| cursor.persisted_position < to) {
                pin.want();
            }
        }
    }

    /// Gives up what any cursor has still to receive before a place, unless that place is not
    /// synced or such a cursor is pinned. Gives the accounts, which are to be persisted, each with
    /// what was given up.
    pub fn drop_to(&self, to: Position, before: Counts) -> Option<Vec<(DueAccount, Counts)>> {
        self.ledger().drop_to(to, before)
    }

    /// Whether somebody waits for a cursor to be persisted.
    pub fn is_persisting_urgent(&self) -> bool {
        self.ledger().cursors.values().any(|cursor| cursor.urgent)
    }

    /// Says that somebody waits for a cursor to be persisted as it is; gives the number of its
    /// last change.
    pub fn hurry(&self, name: &str) -> u64 {
        let mut ledger = self.ledger();
        let Some(cursor) = ledger.cursors.get_mut(name) else {
            return 0;
        };
        cursor.urgent = true;
        cursor.changes
    }

    /// Waits until a change of a cursor is persisted.
    pub async fn wait_persisted(
        &self,
        name: &str,
        change: u64,
        gate: &Gate,
    ) -> Result<(), ConsumeError> {
        loop {
            let persisted = self.persisted.notified();
            tokio::pin!(persisted);
            // Registered before looking, so that no persisting in between is missed.
            persisted.as_mut().enable();
            match self.ledger().cursors.get(name) {
                Some(cursor) if cursor.persisted >= change => return Ok(()),
                Some(_) => {}
                None => {
                    return Err(ConsumeError::Forgotten { name: name.to_owned() });
                }
            }
            if gate.poisoned().is_some() {
                return Err(ConsumeError::Poisoned { name: name.to_owned() });
            }
            persisted.await;
        }
    }

    /// Lets those who wait for a cursor to be persisted look at the state of the journal.
    pub fn wake_waiting(&self) {
        self.persisted.notify_waiters();
    }
}
