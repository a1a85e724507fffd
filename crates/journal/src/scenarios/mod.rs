//! Whole journals on a disk that can be made to fail: one file per kind of trouble.

mod cursors;
mod damage;
mod format;
mod marks;
mod modes;
mod pinned;
mod power;
mod space;
mod tickets;

use std::time::Duration;

use tempfile::TempDir;
use units::Size;
use watch::metrics::Registry;

use crate::{
    AppendAndWaitError, Appender, Chunk, Consumer, CursorStatus, Journal, Outcome, Position,
    Recovery, Settings, Ticket,
};
use disk::{Disk, Faults};

/// How long a test waits for what must happen before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A journal's directory and what it is opened with.
pub(crate) struct Rig {
    pub dir: TempDir,
    pub settings: Settings,
    pub faults: Faults,
}

impl Rig {
    pub fn new() -> Rig {
        Rig::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Settings)) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = Settings {
            dir: dir.path().join("journal"),
            segment_size: Size::from_kib(64),
            group_max: Size::from_kib(32),
            max_size: Size::from_mib(16),
            // A disk that many tests share may take its time for a sync.
            ack_timeout: units::Duration::from_secs(60),
            ..Settings::default()
        };
        change(&mut settings);
        Rig { dir, settings, faults: Faults::default() }
    }

    pub fn open(&self) -> (Journal, Recovery) {
        self.try_open().unwrap()
    }

    pub fn try_open(&self) -> Result<(Journal, Recovery), crate::OpenError> {
        let registry = Registry::new();
        Journal::open_on(
            Disk::with(self.faults.clone()),
            self.settings.clone(),
            &registry,
            Position::ZERO,
        )
    }

    /// As after a crash: on a disk that works again.
    pub fn reopen(&mut self) -> (Journal, Recovery) {
        self.faults = Faults::default();
        self.open()
    }

    /// Segment files that hold groups or are ready to, in order.
    pub fn segments(&self) -> Vec<std::path::PathBuf> {
        let mut paths: Vec<_> = std::fs::read_dir(&self.settings.dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "segment"))
            .collect();
        paths.sort();
        paths
    }
}

/// One record of one item whose payload tells which it is.
pub(crate) fn payload(n: u64) -> Vec<u8> {
    let mut payload = n.to_le_bytes().to_vec();
    payload.resize(8 + (n % 90) as usize, n as u8);
    payload
}

pub(crate) fn number(payload: &[u8]) -> u64 {
    let n = u64::from_le_bytes(*payload.first_chunk().unwrap());
    assert_eq!(payload, self::payload(n), "an altered record");
    n
}

pub(crate) fn append(appender: &Appender, n: u64) -> Ticket {
    appender.append(1, 1, false, &[&payload(n)]).unwrap()
}

pub(crate) async fn put(journal: &Journal, n: u64) -> Result<Position, AppendAndWaitError> {
    journal.append_from_anywhere(1, 1, false, &[&payload(n)]).await
}

/// Appends all numbers, a few to a group.
pub(crate) async fn put_all(journal: &Journal, numbers: std::ops::Range<u64>) {
    let appender = journal.appender();
    let mut numbers = numbers.peekable();
    while numbers.peek().is_some() {
        let tickets: Vec<_> = numbers.by_ref().take(40).map(|n| append(&appender, n)).collect();
        for ticket in tickets {
            appender.acknowledged(ticket).await.unwrap();
        }
    }
}

pub(crate) async fn next(consumer: &mut Consumer, bytes: usize) -> Chunk {
    let next = tokio::time::timeout(PATIENCE, consumer.next(bytes));
    next.await.expect("nothing is released").unwrap()
}

pub(crate) fn numbers(chunk: &Chunk) -> Vec<u64> {
    chunk.records().map(|record| number(record.payload)).collect()
}

/// Receives and commits until `count` records have come.
pub(crate) async fn receive(consumer: &mut Consumer, count: usize) -> Vec<u64> {
    let mut got = Vec::new();
    while got.len() < count {
        let chunk = next(consumer, 1000).await;
        got.extend(numbers(&chunk));
        consumer.commit(chunk.end(), delivered(chunk.items()));
    }
    got
}

/// Receives and commits everything released.
pub(crate) async fn drain(journal: &Journal, consumer: &mut Consumer) -> Vec<u64> {
    let mut got = Vec::new();
    let name = consumer.name().to_owned();
    loop {
        // What is left may all be lost by damage, and is then passed without a chunk.
        let chunk = tokio::select! {
            chunk = next(consumer, 5000) => chunk,
            () = until(|| status(journal, &name).waiting.bytes == 0) => return got,
        };
        got.extend(numbers(&chunk));
        consumer.commit(chunk.end(), delivered(chunk.items()));
        assert_accounted(&consumer.status());
    }
}

pub(crate) fn status(journal: &Journal, name: &str) -> CursorStatus {
    let mut cursors = journal.cursors();
    cursors.retain(|cursor| cursor.name == name);
    cursors.pop().expect("a cursor of this name")
}

pub(crate) fn delivered(items: u64) -> Outcome {
    Outcome { delivered: items, ..Outcome::default() }
}

/// Waits for a condition.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "it never came to be");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// `accepted = delivered + dead-lettered + dropped + elsewhere + waiting`.
pub(crate) fn assert_accounted(status: &CursorStatus) {
    let fates = status.delivered + status.dead_lettered + status.dropped_total() + status.elsewhere;
    assert_eq!(status.accepted, fates + status.waiting.items, "{status:?}");
}
