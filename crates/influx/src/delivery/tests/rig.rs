//! A journal with deliveries behind it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use journal::{Ack, CursorStatus, Journal, Position};
use tokio::runtime::Handle;
use units::{Duration as Span, Size};
use watch::metrics::Registry;

use super::fake::{Act, Fake, RecordedRequest, ok};
use crate::assembly::{Deliveries, Parts};
use crate::backends::{BackendStatus, Backends};
use crate::catalogue::Catalogue;
use crate::delivery::Pace;
use crate::delivery::dead_letters::{self, Letter};
use crate::placement::Placement;
use crate::record::{self, Statement};
use crate::settings::{BackendTable, Start};

pub struct Rig {
    pub journal: Journal,
    pub backends: Arc<Backends>,
    pub catalogue: Arc<Catalogue>,
    pub registry: Registry,
    deliveries: Deliveries,
    dir: Arc<tempfile::TempDir>,
}

/// A backend that retries within milliseconds, and is given all the time that a busy machine needs
/// for an answer.
pub fn backend(name: &str, fake: &Fake) -> BackendTable {
    BackendTable {
        start: Start::Oldest,
        timeout: Span::from_secs(20),
        linger: Span::from_millis(2),
        ..BackendTable::new(name, &fake.url)
    }
}

/// The same for a server that never answers.
pub fn hanging_backend(name: &str, fake: &Fake) -> BackendTable {
    BackendTable { timeout: Span::from_millis(300), ..backend(name, fake) }
}

/// Long enough for anything that is going to happen at all on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);

const PACE: Pace = Pace {
    base: Duration::from_millis(1),
    max: Duration::from_millis(10),
    stopped: Duration::from_millis(30),
};

impl Rig {
    pub async fn start(backends: &[BackendTable]) -> Self {
        Self::start_in(Arc::new(tempfile::tempdir().unwrap()), backends).await
    }

    pub async fn start_in(dir: Arc<tempfile::TempDir>, backends: &[BackendTable]) -> Self {
        let registry = Registry::new();
        let settings = journal::Settings {
            dir: dir.path().join("journal"),
            ack: Ack::Written,
            ack_timeout: Span::from_secs(60),
            segment_size: Size::from_mib(1),
            max_size: Size::from_mib(64),
            ..journal::Settings::default()
        };
        let (journal, _) = Journal::open(settings, &registry).unwrap();
        let backends = backends.iter().map(|table| table.settings().unwrap());
        let backends: Vec<_> = backends.collect();
        let gateway = dir.path().join("influx");
        let handle = Handle::current();
        let parts = Parts {
            journal: &journal,
            dir: &gateway,
            registry: &registry,
            control: &handle,
            pace: PACE,
            placement: &Arc::new(Placement::new(&gateway)),
        };
        let deliveries = Deliveries::start(&backends, None, &parts).unwrap();
        let (backends, catalogue) =
            (Arc::clone(&deliveries.backends), Arc::clone(&deliveries.catalogue));
        Self { journal, backends, catalogue, registry, deliveries, dir }
    }

    /// As a reload with these backends does.
    pub fn reload(&self, backends: &[BackendTable]) {
        let wanted: Vec<_> = backends.iter().map(|table| table.settings().unwrap()).collect();
        let prepared = self.deliveries.prepare(&wanted).unwrap();
        assert_eq!(self.deliveries.put_in_force(prepared), Vec::<String>::new());
    }

    /// Waits until the cursor of this name, if there is one, is as wanted.
    pub async fn cursor_is(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(Option<&CursorStatus>) -> bool,
    ) {
        let end = Instant::now() + LONG;
        let cursor = || self.journal.cursors().into_iter().find(|cursor| cursor.name == name);
        while !wanted(cursor().as_ref()) {
            assert!(Instant::now() < end, "not {what}: {:?}", cursor());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Ends everything and gives the directory, for a next start.
    pub async fn stop(self) -> Arc<tempfile::TempDir> {
        self.backends.stop().await;
        self.journal.close().await;
        self.dir
    }

    pub fn letters_dir(&self) -> std::path::PathBuf {
        dead_letters::dir_of(&self.dir.path().join("influx"))
    }

    /// One record of these lines; gives its position.
    pub async fn write(&self, db: &str, rp: &str, lines: &[String]) -> Position {
        let mut header = Vec::new();
        record::put_points_header(&mut header, db, rp, None).unwrap();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let count = u32::try_from(lines.len()).unwrap();
        let payload = [header.as_slice(), text.as_bytes()];
        let appended =
            self.journal.append_from_anywhere(record::KIND_POINTS, count, false, &payload);
        appended.await.unwrap()
    }

    pub async fn run(&self, id: u64, db: &str, text: &str) -> Position {
        let mut payload = Vec::new();
        let statement = Statement { id, db, rp: "", params: "", text };
        record::put_statement(&mut payload, &statement).unwrap();
        let kind = record::KIND_STATEMENT;
        self.journal.append_from_anywhere(kind, 0, true, &[&payload]).await.unwrap()
    }

    pub fn status(&self, name: &str) -> BackendStatus {
        self.backends.status(|_| None).into_iter().find(|status| status.name == name).unwrap()
    }

    /// Waits until a backend's status is as wanted.
    pub async fn until(&self, name: &str, what: &str, wanted: impl Fn(&BackendStatus) -> bool) {
        let end = Instant::now() + LONG;
        while !wanted(&self.status(name)) {
            assert!(Instant::now() < end, "not {what}: {:?}", self.status(name));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until a backend has settled everything; the account holds at every look.
    pub async fn settled(&self, name: &str) {
        self.until(name, "settled", |status| {
            let cursor = status.cursor.as_ref().unwrap();
            let sum = cursor.delivered + cursor.dead_lettered + cursor.dropped_total();
            assert_eq!(cursor.accepted, sum + cursor.waiting.items);
            cursor.waiting.items == 0 && cursor.waiting.controls == 0
        })
        .await;
    }

    pub fn letters(&self, name: &str) -> Vec<Letter> {
        match dead_letters::read(&self.letters_dir(), name) {
            Ok(letters) => letters.map(Result::unwrap).collect(),
            Err(_) => Vec::new(),
        }
    }
}

/// The points `from..to`, of four series, each with its number as value and time.
pub fn lines(from: u32, to: u32) -> Vec<String> {
    (from..to).map(|n| format!("m,s={} v={n} {n}", n % 4)).collect()
}

pub fn number(line: &str) -> u32 {
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// What a server stored, in the order in which each point came last.
#[derive(Clone, Default)]
pub struct Store(Arc<Mutex<Vec<String>>>);

impl Store {
    pub fn put(&self, lines: impl IntoIterator<Item = String>) {
        self.0.lock().unwrap().extend(lines);
    }

    /// A server that stores everything.
    pub fn all(&self) -> impl FnMut(&RecordedRequest) -> Act + Send + 'static {
        let store = self.clone();
        move |seen| {
            if seen.is_write() {
                store.put(seen.lines());
            }
            ok()
        }
    }

    pub fn last_arrivals(&self) -> Vec<u32> {
        let stored = self.0.lock().unwrap();
        let mut known = HashSet::new();
        let numbers = stored.iter().rev().map(|line| number(line));
        let mut last: Vec<u32> = numbers.filter(|number| known.insert(*number)).collect();
        last.reverse();
        last
    }
}
