//! Admission alone, with a real journal and a real store: each step in the form that answers now
//! and in the one that waits.

mod names;
mod points;
mod room;
mod sixth_way;

use std::sync::Arc;
use std::time::Duration;

use journal::{Consumer, Journal};
use store::Store;
use tempfile::TempDir;
use tokio::runtime::Handle;
use watch::metrics::{Counter, Registry};
use watch::units::{Duration as Span, Size};
use watch::watchdog::Pulse;

use super::{Admission, Destination, Points, WorkerAdmission};
use crate::aside::Aside;
use crate::backends::Backends;
use crate::catalogue::{Catalogue, Listing};
use crate::embedded::Embedded;
use crate::settings::BackendSettings;

/// An admission with everything below it.
struct Rig {
    admission: Arc<Admission>,
    journal: Journal,
    catalogue: Arc<Catalogue>,
    backends: Arc<Backends>,
    points_refused: Counter,
    /// Where the journal keeps what an idle store has yet to get.
    _cursor: Option<Consumer>,
    dir: TempDir,
}

impl Rig {
    fn new(start: impl FnOnce(&TempDir, &Journal, &Registry) -> Started) -> Self {
        Self::with_ack_timeout(Duration::from_secs(60), start)
    }

    fn with_ack_timeout(
        ack_timeout: Duration,
        start: impl FnOnce(&TempDir, &Journal, &Registry) -> Started,
    ) -> Self {
        let (dir, registry) = (tempfile::tempdir().unwrap(), Registry::new());
        let settings = journal::Settings {
            dir: dir.path().join("journal"),
            ack_timeout: Span::from_millis(ack_timeout.as_millis() as u64),
            segment_size: Size::from_mib(4),
            max_size: Size::from_mib(64),
            ..journal::Settings::default()
        };
        let (journal, _) = Journal::open(settings, &registry).unwrap();
        let Started { backends, catalogue, cursor } = start(&dir, &journal, &registry);
        let points_refused = registry.counter("refused", "Points refused.", &[]);
        let admission = Admission::new(
            Arc::clone(&catalogue),
            Arc::clone(&backends),
            &journal,
            Aside::new(Handle::current()),
            Handle::current(),
            points_refused.clone(),
        );
        Self { admission, journal, catalogue, backends, points_refused, _cursor: cursor, dir }
    }

    /// With the embedded store, which is fed.
    fn with_store() -> Self {
        Self::new(|dir, journal, registry| {
            let store = store(dir, registry);
            let (settings, handle) = ([BackendSettings::embedded("store")], Handle::current());
            let (backends, catalogue) =
                Backends::start(&settings, Some(&store), journal, dir.path(), registry, &handle)
                    .unwrap();
            Started { backends, catalogue, cursor: None }
        })
    }

    /// With the embedded store, which is never fed.
    fn with_idle_store(before: impl FnOnce(&Journal)) -> Self {
        Self::new(|dir, journal, registry| {
            let store = store(dir, registry);
            let settings = BackendSettings::embedded("store");
            let mut consumer = journal.consumer("store", journal::Start::Oldest).unwrap();
            before(journal);
            let embedded = Embedded::new(&settings, &store, &mut consumer, journal, registry);
            let backends = Backends::new(&[settings], journal, registry).unwrap();
            backends.set_embedded(&embedded);
            let catalogue = Arc::new(Catalogue::open(dir.path(), []).unwrap());
            Started { backends: Arc::new(backends), catalogue, cursor: Some(consumer) }
        })
    }

    /// With one backend, which lists the database `there` and is never asked.
    fn with_catalogue(ack_timeout: Duration) -> Self {
        Self::with_ack_timeout(ack_timeout, |dir, journal, registry| {
            let catalogue = Catalogue::open(dir.path(), []).unwrap();
            catalogue.add("a", there());
            let backends = Arc::new(Backends::new(&[], journal, registry).unwrap());
            Started { backends, catalogue: Arc::new(catalogue), cursor: None }
        })
    }

    fn worker(&self) -> WorkerAdmission {
        WorkerAdmission::new(Arc::clone(&self.admission), &self.journal, Pulse::new("test"))
    }

    /// The database `d`, which is made.
    async fn database(&self) -> Destination<'static> {
        self.admission.resolve("d", "", true).await.unwrap()
    }

    /// The types of fields in `lines` are stored from now on.
    async fn write(&self, lines: &str) {
        let to = self.database().await;
        self.admission.admit(&to, points(lines)).await.unwrap();
        self.admission.readable().await.unwrap();
    }

    async fn stop(self) {
        self.backends.stop().await;
        self.journal.close().await;
        drop(self.dir);
    }
}

/// What was started beside the journal.
struct Started {
    backends: Arc<Backends>,
    catalogue: Arc<Catalogue>,
    cursor: Option<Consumer>,
}

fn store(dir: &TempDir, registry: &Registry) -> Arc<Store> {
    let settings = store::Settings {
        dir: dir.path().join("store"),
        journal_ahead: Size::from_mib(1),
        ..store::Settings::default()
    };
    Store::open(settings, registry).unwrap()
}

fn there() -> Listing {
    let mut listing = Listing::default();
    listing.apply(&super::change_in("CREATE DATABASE there"));
    listing
}

fn points(lines: &str) -> Points {
    Points::of_lines(lines.as_bytes().to_vec())
}
