//! A member's own lines among those of a record.

use std::ops::Range;
use std::sync::Arc;

use wire::line::{points, read};

use super::Placement;
use super::table::{Placer, SetNumber, Table};

/// What a backend takes of records: all lines, or its own as the member of a set.
#[derive(Debug)]
pub struct Membership {
    placement: Arc<Placement>,
    backend: String,
    own: Option<OwnLines>,
}

impl Membership {
    /// Of a backend, as the table in force says.
    pub fn new(placement: &Arc<Placement>, backend: &str) -> Self {
        let mut new =
            Self { placement: Arc::clone(placement), backend: backend.to_owned(), own: None };
        new.renew();
        new
    }

    /// Takes the table that is in force by now.
    pub fn renew(&mut self) {
        let table = self.placement.table();
        let is_current = |own: &OwnLines| table.as_ref().is_some_and(|table| own.is_by(table));
        if self.own.as_ref().is_none_or(|own| !is_current(own)) {
            let set = table.as_ref().and_then(|table| table.set_of(&self.backend));
            self.own = table.zip(set).map(|(table, set)| OwnLines::new(table, set));
        }
    }

    /// Whether it is a member of a set, which is known by the last renewal.
    pub fn is_of_set(&self) -> bool {
        self.own.is_some()
    }

    /// The lines that are its own; `None` where all are.
    pub fn own(&mut self) -> Option<&mut OwnLines> {
        self.own.as_mut()
    }

    /// Whether a line of `db` is its own.
    pub fn has(&mut self, db: &str, line: &[u8]) -> bool {
        self.own.as_mut().is_none_or(|own| !own.among(db, line).is_empty())
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

    fn is_by(&self, table: &Arc<Table>) -> bool {
        Arc::ptr_eq(&self.table, table)
    }

    /// The lines of a record of `db` that are the member's own.
    pub fn among(&mut self, db: &str, lines: &[u8]) -> &[OwnLine] {
        self.lines.clear();
        let mut start = 0;
        for (index, line) in points(lines).enumerate() {
            let range = start..start + line.len();
            start = range.end;
            let is_own = read(line).is_some_and(|point| {
                let set = self.placer.set(&self.table, db, point.series, point.time_ns);
                set == self.set
            });
            if is_own {
                // More than 2^32 lines do not fit a record.
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                self.lines.push(OwnLine { index, range });
            }
        }
        &self.lines
    }
}
