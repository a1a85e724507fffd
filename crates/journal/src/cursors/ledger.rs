//! What is released, and the accounts of all cursors, behind one lock so that every account is
//! of the same moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

use super::chunk::{Limit, Loss, ReadPosition, Span};
use super::settled::{Pin, Step};
use super::tail::{Tail, TailGroup};
use crate::format::cursor::Account;
use crate::format::segment::First;
use crate::position::{Counts, Position};
use crate::status::{Backlog, CursorStatus, Damage};

/// How many damaged places are remembered.
const DAMAGE_MAX: usize = 100;

/// Where the journal ends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ends {
    /// The end of what consumers may see.
    pub released: Position,
    /// What came before `released`.
    pub counts: Counts,
    /// The end of what is synced.
    pub synced: Position,
}

/// The ends of the journal and the cursors.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(super) ends: Ends,
    tail: Tail,
    pub(super) cursors: BTreeMap<String, Cursor>,
    damage: Vec<Damage>,
    /// Nothing more will be released.
    pub(super) finished: bool,
}

/// What is told of a ledger.
#[derive(Debug)]
pub(crate) struct LedgerSummary {
    pub ends: Ends,
    /// Bytes of memory that the newest records take.
    pub tail_bytes: usize,
    /// Bytes of records that the slowest cursor holds back.
    pub backlog_bytes: u64,
    pub damage: Vec<Damage>,
}

/// A cursor in memory.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub account: Account,
    /// When the oldest waiting record was written, or somewhat earlier.
    pub oldest: Option<u64>,
    /// Counts the changes of the account.
    pub changes: u64,
    /// The change that is on the disk, and its position.
    pub persisted: u64,
    pub persisted_position: Position,
    pub in_use: bool,
    /// Somebody waits for the cursor to be persisted, so it is not left for later.
    pub urgent: bool,
    /// Woken when something is released.
    pub released: Arc<Notify>,
    /// The account as it will be once what the consumer has settled is committed.
    pub ahead: Option<Account>,
    /// Only its consumer moves it.
    pub pin: Option<Arc<Pin>>,
}

/// A cursor that a consumer takes up.
#[derive(Debug)]
pub(crate) struct ClaimedCursor {
    pub released: Arc<Notify>,
    pub place: ReadPosition,
}

/// What can be read at a place.
#[derive(Debug)]
pub(crate) enum Availability {
    /// These records, at least one.
    InMemory(Vec<Span>),
    /// What is on the disk, up to a limit.
    OnDisk(Limit),
    /// Nothing is released there yet.
    NotYet,
    /// Nothing will be released there any more.
    Never,
}

impl Account {
    /// Of a cursor that begins at a place.
    fn beginning(position: Position, counts: Counts) -> Account {
        Account { position, group: position, counts, start: counts, ..Account::default() }
    }

    /// Moves forward; whether it did. A step to where it is already or has passed changes nothing.
    fn advance(&mut self, step: &Step) -> bool {
        if step.position <= self.position {
            return false;
        }
        let passed = step.counts - self.counts;
        let lost = step.lost.items.min(passed.items);
        let mut left = passed.items - lost;
        // In the order in which a surplus is kept: dead letters are on the disk and stay true.
        let mut take = |claimed: u64| {
            let taken = claimed.min(left);
            left -= taken;
            taken
        };
        self.dead_lettered += take(step.done.dead_lettered);
        self.dropped += take(step.done.dropped);
        self.elsewhere += take(step.done.elsewhere);
        self.delivered += take(step.done.delivered);
        self.dropped += left;
        self.dropped_damaged += lost;
        self.dropped_controls += step.lost.controls.min(passed.controls);
        self.position = step.position;
        self.group = step.group;
        self.written_at = step.written_at;
        self.counts = self.counts.max(step.counts);
        true
    }
}

impl Cursor {
    pub fn new(account: Account, in_use: bool) -> Cursor {
        Cursor {
            persisted_position: account.position,
            oldest: None,
            account,
            changes: 0,
            persisted: 0,
            in_use,
            urgent: false,
            released: Arc::new(Notify::new()),
            ahead: None,
            pin: None,
        }
    }

    /// Moves forward. A step to where the cursor is already or has passed changes nothing.
    pub fn advance(&mut self, step: &Step) {
        if !self.account.advance(step) {
            return;
        }
        if self.ahead.as_ref().is_some_and(|ahead| ahead.position <= step.position) {
            self.ahead = None;
        }
        self.oldest = self.oldest.map(|oldest| oldest.max(step.oldest));
        self.changes += 1;
    }

    /// Takes a step that is committed later.
    pub fn settle(&mut self, step: &Step) {
        if self.ahead.get_or_insert_with(|| self.account.clone()).advance(step) {
            self.oldest = self.oldest.map(|oldest| oldest.max(step.oldest));
        }
    }

    /// The account with everything that is settled.
    pub fn seen(&self) -> &Account {
        self.ahead.as_ref().unwrap_or(&self.account)
    }

    /// Where its consumer begins to read.
    pub fn place(&self) -> ReadPosition {
        ReadPosition {
            position: self.account.position,
            group: self.account.group,
            counts: self.account.counts,
        }
    }

    /// What a consumer that takes it up has to know.
    pub fn claimed(&self) -> ClaimedCursor {
        ClaimedCursor { released: self.released.clone(), place: self.place() }
    }

    /// Gives up everything before a place, for `drop-oldest`. Gives what was given up.
    pub fn drop_to(&mut self, position: Position, counts: Counts) -> Counts {
        let account = &mut self.account;
        if position <= account.position {
            return Counts::default();
        }
        let given_up = counts - account.counts;
        account.dropped_oldest += given_up.items;
        account.dropped_controls += given_up.controls;
        account.position = position;
        account.group = position;
        account.counts = account.counts.max(counts);
        // What is settled beyond the place stays so.
        if self.ahead.as_ref().is_some_and(|ahead| ahead.position <= position) {
            self.ahead = None;
        }
        self.changes += 1;
        given_up
    }
}

impl Ledger {
    /// A journal that ends at `end` and has no cursors yet; `tail_bytes_max` bounds the memory of
    /// its newest records.
    pub fn new(end: Position, counts: Counts, tail_bytes_max: usize, damage: &[Damage]) -> Ledger {
        Ledger {
            ends: Ends { released: end, counts, synced: end },
            tail: Tail::new(tail_bytes_max),
            cursors: BTreeMap::new(),
            damage: damage.iter().take(DAMAGE_MAX).cloned().collect(),
            finished: false,
        }
    }

    /// Takes in a cursor that was found on the disk. `waiting_since` tells when the record at it
    /// was written, if there is one.
    pub fn restore(
        &mut self,
        name: &str,
        account: Account,
        waiting_since: impl FnOnce(&Account) -> u64,
    ) {
        let mut cursor = Cursor::new(account, false);
        if cursor.account.counts.bytes < self.ends.counts.bytes {
            cursor.oldest = Some(waiting_since(&cursor.account));
        }
        self.cursors.insert(name.to_owned(), cursor);
    }

    /// The account of a cursor that begins behind everything.
    pub fn account_at_end(&self) -> Account {
        Account::beginning(self.ends.released, self.ends.counts)
    }

    /// The account of a cursor that begins at the oldest group, if that is released already.
    pub fn account_at_oldest(&self, oldest: Option<First>) -> Account {
        let oldest = oldest.filter(|first| first.position < self.ends.released);
        oldest.map_or_else(
            || self.account_at_end(),
            |first| Account::beginning(first.position, first.before),
        )
    }

    /// The names of all cursors, for a message.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.cursors.keys().map(String::as_str).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// The bytes that wait for the cursor that is furthest behind.
    pub fn backlog_bytes(&self) -> u64 {
        let waiting = self.cursors.values().map(|c| self.ends.counts - c.account.counts);
        waiting.map(|counts| counts.bytes).max().unwrap_or(0)
    }

    pub fn summary(&self) -> LedgerSummary {
        LedgerSummary {
            ends: self.ends,
            tail_bytes: self.tail.bytes(),
            backlog_bytes: self.backlog_bytes(),
            damage: self.damage.clone(),
        }
    }

    /// What there is to read at a place, in memory about `bytes_max` bytes of it.
    pub fn read(&self, from: Position, bytes_max: usize) -> Availability {
        if from >= self.ends.released {
            return if self.finished { Availability::Never } else { Availability::NotYet };
        }
        match self.tail.read(from, bytes_max) {
            Some(spans) if !spans.is_empty() => Availability::InMemory(spans),
            _ => Availability::OnDisk(Limit { end: self.ends.released, counts: self.ends.counts }),
        }
    }

    /// Makes everything up to the end of a group visible. Gives back memory to be used again.
    pub fn release(
        &mut self,
        group: TailGroup,
        after: Counts,
        evicted: &mut Vec<TailGroup>,
        wake: &mut Vec<Arc<Notify>>,
    ) {
        for cursor in self.cursors.values_mut() {
            if cursor.oldest.is_none() || cursor.seen().counts.bytes >= self.ends.counts.bytes {
                cursor.oldest = Some(group.written_at);
            }
            if let Some(pin) = &cursor.pin {
                pin.set_ahead((after - cursor.account.counts).bytes);
            }
            if cursor.in_use {
                wake.push(cursor.released.clone());
            }
        }
        self.ends.released = group.end;
        self.ends.counts = after;
        if self.cursors.is_empty() {
            evicted.push(group);
        } else {
            self.tail.push(group, evicted);
        }
    }

    /// Lets the tail go of groups that every cursor has passed.
    pub fn trim_tail(&mut self, evicted: &mut Vec<TailGroup>) {
        let positions = self.cursors.values().map(|cursor| cursor.seen().position);
        let before = positions.min().unwrap_or(self.ends.released);
        self.tail.release(before, evicted);
    }

    pub fn waiting(&self, cursor: &Cursor, now: u64) -> Backlog {
        let waiting = self.ends.counts - cursor.seen().counts;
        let oldest = cursor.oldest.filter(|_| waiting.bytes > 0);
        Backlog {
            items: waiting.items,
            controls: waiting.controls,
            bytes: waiting.bytes,
            oldest_age: oldest.map(|at| std::time::Duration::from_nanos(now.saturating_sub(at))),
        }
    }

    pub fn status(&self, name: &str, cursor: &Cursor, now: u64) -> CursorStatus {
        let account = cursor.seen();
        CursorStatus {
            name: name.to_owned(),
            position: cursor.account.position,
            persisted: cursor.persisted_position,
            in_use: cursor.in_use,
            accepted: (self.ends.counts - account.start).items,
            delivered: account.delivered,
            dead_lettered: account.dead_lettered,
            dropped: account.dropped,
            elsewhere: account.elsewhere,
            dropped_oldest: account.dropped_oldest,
            dropped_damaged: account.dropped_damaged,
            dropped_controls: account.dropped_controls,
            waiting: self.waiting(cursor, now),
        }
    }

    /// Remembers a damaged place; whether it was not known yet.
    pub fn note_damage(&mut self, loss: &Loss, place: &str) -> bool {
        let known = |damage: &&Damage| damage.from <= loss.from && loss.to <= damage.to;
        if self.damage.iter().find(known).is_some() {
            return false;
        }
        if self.damage.len() < DAMAGE_MAX {
            self.damage.push(Damage {
                from: loss.from,
                to: loss.to,
                place: place.to_owned(),
                lost: loss.after - loss.before,
            });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Cursor, Step};
    use crate::format::cursor::Account;
    use crate::outcome::Outcome;
    use crate::position::{Counts, Position};

    fn items(items: u64) -> Counts {
        Counts { items, controls: items / 10, bytes: items * 20 }
    }

    fn step(position: u64, delivered: u64) -> Step {
        Step {
            position: Position(position),
            group: Position(position),
            written_at: 0,
            oldest: 0,
            counts: items(position),
            done: Outcome { delivered, ..Outcome::default() },
            lost: Counts::default(),
        }
    }

    fn accounted(cursor: &Cursor) -> u64 {
        let a = &cursor.account;
        a.delivered
            + a.dead_lettered
            + a.dropped
            + a.elsewhere
            + a.dropped_oldest
            + a.dropped_damaged
    }

    #[test]
    fn a_late_completion_never_moves_a_cursor_back() {
        let mut cursor = Cursor::new(Account::default(), true);
        cursor.drop_to(Position(50), items(50));
        cursor.advance(&step(30, 30));
        assert_eq!(cursor.account.position, Position(50));
        assert_eq!(cursor.account.delivered, 0);
        cursor.advance(&step(80, 80));
        assert_eq!((cursor.account.delivered, cursor.account.dropped_oldest), (30, 50));
        assert_eq!(cursor.account.dropped_controls, 5);
        assert_eq!(accounted(&cursor), 80);
    }

    #[test]
    fn what_a_consumer_does_not_account_for_is_dropped() {
        let mut cursor = Cursor::new(Account::default(), true);
        cursor.advance(&step(10, 7));
        assert_eq!((cursor.account.delivered, cursor.account.dropped), (7, 3));
        assert_eq!(accounted(&cursor), 10);
    }
}
