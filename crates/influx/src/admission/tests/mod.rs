//! Admission alone, with a real journal and a real store: each step in the form that answers now
//! and in the one that waits.

mod cluster;
mod collisions;
mod names;
mod points;
mod room;
mod sixth_way;

use std::sync::Arc;
use std::time::Duration;

use disk::{Disk, Faults};
use journal::{Consumer, Journal, Position};
use store::Store;
use tempfile::TempDir;
use tokio::runtime::Handle;
use units::{Duration as Span, Size};
use watch::metrics::{Counter, Registry};
use watch::watchdog::Pulse;

use super::{Admission, Destination, Points, WorkerAdmission};
use crate::aside::Aside;
use crate::assembly::{Deliveries, Parts};
use crate::backends::Backends;
use crate::catalogue::{Catalogue, Listing};
use crate::delivery::Pace;
use crate::embedded::Embedded;
use crate::placement::Placement;
use crate::settings::BackendTable;

/// An admission with everything below it.
struct Rig {
    admission: Arc<Admission>,
    journal: Journal,
    catalogue: Arc<Catalogue>,
    backends: Arc<Backends>,
    embedded: Option<Arc<Embedded>>,
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
        let ack_timeout = Span::from_millis(ack_timeout.as_millis() as u64);
        Self::on(&Faults::default(), |of| of.ack_timeout = ack_timeout, start)
    }

    /// With a journal of other settings, on a disk that fails as these faults say.
    fn on(
        faults: &Faults,
        change: impl FnOnce(&mut journal::Settings),
        start: impl FnOnce(&TempDir, &Journal, &Registry) -> Started,
    ) -> Self {
        let (dir, registry) = (tempfile::tempdir().unwrap(), Registry::new());
        let mut settings = journal::Settings {
            dir: dir.path().join("journal"),
            segment_size: Size::from_mib(4),
            max_size: Size::from_mib(64),
            ..journal::Settings::default()
        };
        change(&mut settings);
        let disk = Disk::with(faults.clone());
        let (journal, _) = Journal::open_on(disk, settings, &registry, Position::ZERO).unwrap();
        let Started { backends, catalogue, embedded, cursor } = start(&dir, &journal, &registry);
        let points_refused = registry.counter("refused", "Points refused.", &[]);
        let admission = Admission::new(
            Arc::clone(&catalogue),
            Arc::clone(&backends),
            embedded.clone(),
            &journal,
            Aside::new(Handle::current()),
            points_refused.clone(),
            None,
        );
        let _cursor = cursor;
        Self { admission, journal, catalogue, backends, embedded, points_refused, _cursor, dir }
    }

    /// With the embedded store, which is fed.
    fn with_store() -> Self {
        Self::new(|dir, journal, registry| {
            let store = store(dir, registry);
            let (settings, handle) =
                ([BackendTable::embedded("store").settings().unwrap()], Handle::current());
            let (dir, control, pace) = (dir.path(), &handle, Pace::default());
            let placement = &Arc::new(Placement::new(dir));
            let parts = Parts { journal, dir, registry, control, pace, placement };
            let Deliveries { backends, catalogue, embedded, .. } =
                Deliveries::start(&settings, Some(&store), &parts).unwrap();
            Started { backends, catalogue, embedded, cursor: None }
        })
    }

    /// With the embedded store, which is never fed.
    fn with_idle_store(before: impl FnOnce(&Journal)) -> Self {
        Self::new(|dir, journal, registry| {
            let store = store(dir, registry);
            let settings = BackendTable::embedded("store").settings().unwrap();
            let mut consumer = journal.consumer("store", journal::Start::Oldest).unwrap();
            before(journal);
            let embedded =
                Embedded::new(settings.delivery(), &store, &mut consumer, journal, registry);
            let backends = Backends::new(
                &[settings],
                &Arc::new(Placement::new(dir.path())),
                journal,
                registry,
            )
            .unwrap();
            let catalogue = Arc::new(Catalogue::open(dir.path()).unwrap());
            let (backends, embedded) = (Arc::new(backends), Some(embedded));
            Started { backends, catalogue, embedded, cursor: Some(consumer) }
        })
    }

    /// With one backend, which lists the database `there` and is never asked.
    fn with_catalogue(ack_timeout: Duration) -> Self {
        Self::with_ack_timeout(ack_timeout, with_catalogue)
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

/// One backend, which lists the database `there` and is never asked.
fn with_catalogue(dir: &TempDir, journal: &Journal, registry: &Registry) -> Started {
    let catalogue = Catalogue::open(dir.path()).unwrap();
    catalogue.add("a", there());
    let backends = Arc::new(
        Backends::new(&[], &Arc::new(Placement::new(dir.path())), journal, registry).unwrap(),
    );
    Started { backends, catalogue: Arc::new(catalogue), embedded: None, cursor: None }
}

/// What was started beside the journal.
struct Started {
    backends: Arc<Backends>,
    catalogue: Arc<Catalogue>,
    embedded: Option<Arc<Embedded>>,
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
