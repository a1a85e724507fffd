//! A member's own lines among those of a record.

use std::sync::Arc;

use super::gateway::Placement;
use super::placer::Placer;
use super::shares::{OwnLine, RecordShares, SharedOut};
use super::table::{SetNumber, Table};

/// Bytes of lines from which it is worth keeping for others what a record is shared out to.
const KEPT_RECORD_MIN: usize = 512;

/// The table that a delivery's batch was chosen by.
#[derive(Clone, Debug)]
pub struct BatchTable {
    placement: Arc<Placement>,
    backend: Arc<str>,
    /// `None` where the backend is in no set.
    table: Option<(Arc<Table>, SetNumber)>,
}

impl BatchTable {
    fn new(placement: &Arc<Placement>, backend: Arc<str>) -> Self {
        let table = placement.in_force();
        let set = table.as_ref().and_then(|table| table.set_of(&backend));
        Self { placement: Arc::clone(placement), backend, table: table.zip(set) }
    }

    /// Whether that table is still in force.
    pub fn is_current(&self) -> bool {
        match (&self.table, self.placement.in_force()) {
            (Some((table, _)), Some(now)) => Arc::ptr_eq(table, &now),
            (None, Some(now)) => now.set_of(&self.backend).is_none(),
            (table, None) => table.is_none(),
        }
    }

    /// Whether the backend is a member of a set by that table.
    pub fn is_of_set(&self) -> bool {
        self.table.is_some()
    }

    /// What points without a period wait for, in words.
    pub fn awaited(&self) -> String {
        self.placement.awaited().unwrap_or_default()
    }
}

/// What a backend takes of records: all lines, or its own as the member of a set.
#[derive(Debug)]
pub struct Membership {
    table: BatchTable,
    own: Option<OwnLines>,
}

impl Membership {
    /// Of a backend, as the table in force says.
    pub fn new(placement: &Arc<Placement>, backend: &str) -> Self {
        let table = BatchTable::new(placement, backend.into());
        Self { own: OwnLines::by(&table), table }
    }

    /// Takes the table that is in force by now.
    pub fn renew(&mut self) {
        if !self.table.is_current() {
            let BatchTable { placement, backend, .. } = &self.table;
            self.table = BatchTable::new(placement, Arc::clone(backend));
            self.own = OwnLines::by(&self.table);
        }
    }

    /// Whether it is a member of a set, which is known by the last renewal.
    pub fn is_of_set(&self) -> bool {
        self.own.is_some()
    }

    /// The table of the last renewal.
    pub fn table(&self) -> &BatchTable {
        &self.table
    }

    /// The lines that are its own; `None` where all are.
    pub fn own(&mut self) -> Option<&mut OwnLines> {
        self.own.as_mut()
    }

    /// Whether a line of `db` is its own.
    pub fn has(&mut self, db: &str, line: &[u8]) -> bool {
        self.own.as_mut().is_none_or(|own| own.has(db, line))
    }
}

/// What a member of a set takes of records.
#[derive(Debug)]
pub struct OwnLines {
    set: SetNumber,
    shares: Arc<RecordShares>,
    placer: Placer,
    /// What the last record is shared out to.
    last: Arc<SharedOut>,
}

impl OwnLines {
    fn by(batch: &BatchTable) -> Option<Self> {
        let (table, set) = batch.table.clone()?;
        let shares = Arc::clone(batch.placement.shares());
        Some(Self { set, shares, placer: Placer::new(table), last: Arc::default() })
    }

    /// The lines of the record of `db` at a position that are the member's own; `None` where a line
    /// of the record has no set yet.
    pub fn among(&mut self, position: u64, db: &str, lines: &[u8]) -> Option<&[OwnLine]> {
        let is_short = lines.len() < KEPT_RECORD_MIN;
        let found = if is_short { None } else { self.shares.find(self.placer.table(), position) };
        self.last = match found {
            Some(found) => found,
            None => {
                let new = SharedOut::of(&mut self.placer, db, lines)?;
                let new = Arc::new(new);
                if !is_short {
                    self.shares.keep(self.placer.table(), position, &new);
                }
                new
            }
        };
        Some(self.last.of_set(self.set))
    }

    /// Whether a line of `db` is the member's own.
    fn has(&mut self, db: &str, line: &[u8]) -> bool {
        let shared = SharedOut::of(&mut self.placer, db, line);
        shared.is_some_and(|shared| !shared.of_set(self.set).is_empty())
    }
}
