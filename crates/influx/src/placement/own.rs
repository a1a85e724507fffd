//! A member's own lines among those of a record.

use std::ops::Range;
use std::sync::Arc;

use wire::line::{points, read};

use super::gateway::Placement;
use super::table::{Placer, SetNumber, Table};

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
        let is_own = |own: &mut OwnLines| own.among(db, line).is_some_and(|own| !own.is_empty());
        self.own.as_mut().is_none_or(is_own)
    }
}

/// What a member of a set takes of records.
#[derive(Debug)]
pub struct OwnLines {
    table: Arc<Table>,
    set: SetNumber,
    placer: Placer,
    /// The lines of the last record, as far as they are its own.
    lines: Vec<OwnLine>,
}

/// A line of a record that is the member's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnLine {
    /// Its place among the record's lines, from 0.
    pub index: u32,
    /// Its bytes among the record's, with its newline.
    pub range: Range<usize>,
}

impl OwnLines {
    /// Of a member of this set.
    pub fn new(table: Arc<Table>, set: SetNumber) -> Self {
        Self { table, set, placer: Placer::default(), lines: Vec::new() }
    }

    fn by(batch: &BatchTable) -> Option<Self> {
        batch.table.clone().map(|(table, set)| Self::new(table, set))
    }

    /// The lines of a record of `db` that are the member's own; `None` where a line of the record
    /// has no set yet.
    pub fn among(&mut self, db: &str, lines: &[u8]) -> Option<&[OwnLine]> {
        self.lines.clear();
        let mut start = 0;
        for (index, line) in points(lines).enumerate() {
            let range = start..start + line.len();
            start = range.end;
            let Some(point) = read(line) else { continue };
            if self.table.holds_back(point.time_ns) {
                return None;
            }
            let set = self.placer.set(&self.table, db, point.series, point.time_ns);
            if set == self.set {
                // More than 2^32 lines do not fit a record.
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                self.lines.push(OwnLine { index, range });
            }
        }
        Some(&self.lines)
    }
}
