//! A store for tests.

use std::sync::Arc;

use wire::influxql::ast::Statement;
use wire::line::{Options, Precision};

use super::Store;
use crate::settings::Settings;
use crate::snapshot::Snapshot;

/// A store in a directory of its own, with the database `db`.
pub(crate) struct TestStore {
    pub(crate) store: Arc<Store>,
    pub(crate) dir: tempfile::TempDir,
    end: std::cell::Cell<u64>,
}

impl TestStore {
    /// An empty database `db` with the policy `autogen`.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { dir: dir.path().to_owned(), ..Settings::default() };
        let store = Store::open(settings, &watch::metrics::Registry::new()).unwrap();
        let new = Self { store, dir, end: std::cell::Cell::new(0) };
        new.change(&Statement::CreateDatabase { name: "db".to_owned(), policy: None });
        new
    }

    /// The same with points in it.
    pub(crate) fn with(lines: &str) -> Self {
        let new = Self::new();
        new.write(lines);
        new
    }

    /// The position of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.end.set(self.end.get() + 1);
        self.end.get()
    }

    pub(crate) fn change(&self, statement: &Statement) {
        self.store.apply_change(self.next(), statement, "db", "", 0).unwrap();
    }

    /// Writes line protocol (nanoseconds) to the default policy of `db`.
    pub(crate) fn write(&self, lines: &str) {
        self.write_to("db", "", lines);
    }

    /// Writes line protocol; lines that are refused fail the test.
    pub(crate) fn write_to(&self, db: &str, rp: &str, lines: &str) {
        let mut record = Vec::new();
        let options =
            Options { precision: Precision::Nanosecond, now_ns: 0, stamp: &[], unsigned: true };
        let outcome = wire::line::normalise(lines.as_bytes(), &options, &mut record);
        assert_eq!(outcome.refusal(), None);
        let target = self.store.catalogue().resolve(db, rp).unwrap();
        self.store.apply_points(self.next(), target.ids, &record, &mut |line, why| {
            panic!("{why}: {}", String::from_utf8_lossy(line))
        });
    }

    /// The store as it is now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.store.snapshot()
    }
}
