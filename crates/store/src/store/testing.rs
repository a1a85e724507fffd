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
    end: std::sync::atomic::AtomicU64,
}

impl TestStore {
    /// An empty database `db` with the policy `autogen`.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { dir: dir.path().to_owned(), ..Settings::default() };
        let store = Store::open(settings, &watch::metrics::Registry::new()).unwrap();
        let new = Self { store, dir, end: std::sync::atomic::AtomicU64::new(0) };
        new.change(&Statement::CreateDatabase { name: "db".to_owned(), policy: None });
        new
    }

    /// The store of a directory; `None` where it can't be opened.
    pub(crate) fn over(dir: tempfile::TempDir) -> Option<Self> {
        let settings = Settings { dir: dir.path().to_owned(), ..Settings::default() };
        let store = Store::open(settings, &watch::metrics::Registry::new()).ok()?;
        Some(Self { store, dir, end: std::sync::atomic::AtomicU64::new(1000) })
    }

    /// The store after a restart; what was not flushed is lost, as there is no journal.
    pub(crate) fn reopened(self) -> Self {
        self.store.close();
        let Self { store, dir, end } = self;
        drop(store);
        let settings = Settings { dir: dir.path().to_owned(), ..Settings::default() };
        // The store's thread may hold it for a moment.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            match Store::open(settings.clone(), &watch::metrics::Registry::new()) {
                Ok(store) => return Self { store, dir, end },
                Err(error) if std::time::Instant::now() > deadline => panic!("{error}"),
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    /// Runs a statement by its text.
    pub(crate) fn run(&self, text: &str) -> Result<(), String> {
        let parsed = wire::influxql::parse(text, &wire::influxql::Params::default()).unwrap();
        let result = self.store.apply_change(self.next(), &parsed[0], "db", "", 1000);
        result.map_err(|error| error.to_string())
    }

    /// The values of the float field `f` of all series of `m`: tag `host`, time, value.
    pub(crate) fn floats(&self) -> Vec<(String, i64, f64)> {
        use arrow_array::cast::AsArray;
        let Ok(view) = self.snapshot().policy("db", None) else { return Vec::new() };
        let request = crate::scan::ScanRequest {
            measurement: "m".to_owned(),
            time: crate::scan::TimeRange::ALL,
            fields: vec!["f".to_owned()],
            descending: false,
        };
        let mut all = Vec::new();
        for series in view.series("m", &crate::predicate::TagPredicate::All) {
            for chunk in view.scan(&[series.id], &request) {
                let chunk = chunk.unwrap();
                let column = chunk.columns[0].as_ref().unwrap();
                let values = column.as_primitive::<arrow_array::types::Float64Type>().values();
                let host = series.tag("host");
                let rows = chunk.times.iter().zip(values.iter());
                all.extend(rows.map(|(&time, &value)| (host.to_owned(), time, value)));
            }
        }
        all
    }

    /// The same with points in it.
    pub(crate) fn with(lines: &str) -> Self {
        let new = Self::new();
        new.write(lines);
        new
    }

    /// The position of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.end.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1
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
