//! The journal as one thing: opening, its parts, closing.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use disk::{Disk, FileError};
use watch::metrics::Registry;

use crate::acks::queue::{AppendQueue, Placed};
use crate::appender::{self, Appender};
use crate::commit::syncer;
use crate::commit::writer::Writer;
use crate::consumer::Consumer;
use crate::cursors::ledger::ClaimedCursor;
use crate::cursors::{Claim, Cursors, Start};
use crate::error::{AckError, AppendAndWaitError, CursorError, OpenError};
use crate::format::cursor::{Account, NAME_MAX};
use crate::format::record::Label;
use crate::housekeeping;
use crate::inspect::running;
use crate::owners::Owners;
use crate::position::Position;
use crate::recovery::Recovery;
use crate::recovery::open::{self, OpenedJournal};
use crate::settings::{Ack, Settings};
use crate::status::{CursorStatus, Status};
use crate::threads::lock;

/// Enough for the journal's threads, which call nothing deep.
const STACK_LEN: usize = 256 << 10;

/// An open journal. Clones are the same journal; it is closed by [`close`](Journal::close) or with
/// the last clone.
#[derive(Debug, Clone)]
pub struct Journal {
    running: Arc<OpenJournal>,
}

#[derive(Debug)]
struct OpenJournal {
    owners: Owners,
    /// The queue of everything that is not a worker; in `memory` of all workers too, because an
    /// acknowledged write must come before any write begun after its acknowledgement.
    shared: Arc<AppendQueue>,
    stop: Arc<AtomicBool>,
    threads: Mutex<Threads>,
}

#[derive(Debug)]
struct Threads {
    writer: Option<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    /// Holds the directory for this process.
    held: Option<File>,
}

impl Journal {
    #[cfg(test)]
    pub(crate) fn owners(&self) -> &Owners {
        &self.running.owners
    }

    /// Opens the journal in `settings.dir`, or makes it. Takes the directory for this process,
    /// recovers what is there and says what it found.
    pub fn open(settings: Settings, registry: &Registry) -> Result<(Journal, Recovery), OpenError> {
        Journal::open_past(settings, registry, Position::ZERO)
    }

    /// As [`open`](Journal::open); new records get positions from `floor` on, also where the
    /// journal itself knows of none: for those who keep positions longer than it.
    pub fn open_past(
        settings: Settings,
        registry: &Registry,
        floor: Position,
    ) -> Result<(Journal, Recovery), OpenError> {
        let disk = Disk::of(&settings.dir);
        Journal::open_on(disk, settings, registry, floor)
    }

    /// As [`open_past`](Journal::open_past), on a disk of the caller's.
    ///
    /// # Errors
    /// As of `open`.
    pub fn open_on(
        disk: Disk,
        settings: Settings,
        registry: &Registry,
        floor: Position,
    ) -> Result<(Journal, Recovery), OpenError> {
        let OpenedJournal { owners, recovery, held } = open::open(settings, registry, disk, floor)?;
        running::register(registry, &owners);
        let shared = owners.acks.add_queue();
        let running = OpenJournal {
            shared,
            stop: Arc::default(),
            threads: Mutex::new(Threads { writer: None, others: Vec::new(), held: Some(held) }),
            owners,
        };
        running.start().map_err(FileError::of("start the threads of", running.owners.log.dir()))?;
        let running = Arc::new(running);
        Ok((Journal { running }, recovery))
    }

    /// A way into the journal for one worker.
    pub fn appender(&self) -> Appender {
        let owners = &self.running.owners;
        if owners.log.settings().ack == Ack::Memory {
            return self.common_appender();
        }
        Appender::new(owners, owners.acks.add_queue(), true)
    }

    /// A way into the journal for threads that are no workers, one for all of them: for records
    /// that are large.
    pub fn common_appender(&self) -> Appender {
        Appender::new(&self.running.owners, self.running.shared.clone(), false)
    }

    /// Takes one record from any task and waits until it is acknowledged, in `memory` until it is
    /// written; gives its position. For the few records that do not come from a worker.
    pub async fn append_from_anywhere(
        &self,
        kind: u8,
        items: u32,
        control: bool,
        payload: &[&[u8]],
    ) -> Result<Position, AppendAndWaitError> {
        let (Owners { log, acks, .. }, queue) = (&self.running.owners, &self.running.shared);
        let label = Label { kind, items, control };
        let placed: Placed = Arc::new(AtomicU64::new(0));
        let number = appender::append(log, acks, queue, label, payload, Some(&placed))?;
        acks.wait(queue, number).await?;
        Ok(Position(placed.load(Ordering::Acquire)))
    }

    /// The end of everything that is acknowledged by now: a consumer that has come so far has seen
    /// it. In `memory` this waits until what is acknowledged is written, too.
    pub async fn acknowledged_end(&self) -> Result<Position, AckError> {
        let Owners { log, acks, cursors } = &self.running.owners;
        if log.settings().ack == Ack::Memory {
            let queue = &self.running.shared;
            acks.wait(queue, queue.last()).await?;
        }
        Ok(cursors.ends().released)
    }

    /// Marks the end of everything that has been appended by now, acknowledged or not.
    pub fn mark(&self) -> Mark {
        let Owners { acks, cursors, .. } = &self.running.owners;
        Mark { waiting: acks.unacknowledged(), cursors: cursors.clone() }
    }

    /// Opens the cursor of this name where it was left, or makes one at `start`. The cursor is
    /// on disk when this returns. Blocks on the disk for a moment.
    pub fn consumer(&self, name: &str, start: Start) -> Result<Consumer, CursorError> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(CursorError::Name { name: name.to_owned() });
        }
        let owners = &self.running.owners;
        let Owners { log, cursors, .. } = owners;
        let _membership = cursors.membership();
        let claimed = match cursors.claim(name, start, || log.oldest())? {
            Claim::Known(claimed) => claimed,
            Claim::New(account) => make_cursor(owners, name, account)?,
        };
        Ok(Consumer::new(owners, name, claimed))
    }

    /// The account of one cursor; `None` where there is none of this name.
    pub fn cursor(&self, name: &str) -> Option<CursorStatus> {
        self.running.owners.cursors.status(name)
    }

    /// The end of what consumers may see: whatever was acknowledged is before it.
    pub fn end(&self) -> Position {
        self.running.owners.cursors.ends().released
    }

    /// The account of every cursor, all of the same moment.
    pub fn cursors(&self) -> Vec<CursorStatus> {
        self.running.owners.cursors.statuses()
    }

    /// Cursors with a backlog that are not in `names`: their records would never be delivered.
    pub fn unclaimed(&self, names: &[&str]) -> Vec<CursorStatus> {
        let mut cursors = self.cursors();
        cursors.retain(|cursor| !names.contains(&cursor.name.as_str()) && has_backlog(cursor));
        cursors
    }

    /// Removes cursors that have no backlog and are not in `names`; gives the names removed.
    pub fn forget_finished(&self, names: &[&str]) -> Result<Vec<String>, CursorError> {
        let mut cursors = self.cursors();
        cursors.retain(|cursor| !names.contains(&cursor.name.as_str()) && !has_backlog(cursor));
        let gone = cursors.into_iter().map(|cursor| cursor.name);
        gone.map(|name| self.forget(&name).map(|status| status.name)).collect()
    }

    /// Removes a cursor that no consumer has, with its backlog; gives its last account.
    pub fn forget(&self, name: &str) -> Result<CursorStatus, CursorError> {
        let cursors = &self.running.owners.cursors;
        let _membership = cursors.membership();
        cursors.forget(name)
    }

    /// The state of the whole journal.
    pub fn status(&self) -> Status {
        running::status(&self.running.owners.log, &self.running.owners.cursors)
    }

    /// Refuses new records, writes and syncs what was taken, persists the cursors and stops the
    /// threads. A second call waits for the first.
    pub async fn close(&self) {
        let running = self.running.clone();
        // A join error means that the runtime is being shut down: dropping then closes.
        let _ = tokio::task::spawn_blocking(move || running.shut_down()).await;
    }
}

/// The end of what had been appended at one moment.
#[derive(Debug)]
pub struct Mark {
    cursors: Arc<Cursors>,
    /// Queues with records that are not written yet, and the last of them.
    waiting: Vec<(Arc<AppendQueue>, u64)>,
}

impl Mark {
    /// A position behind all of it; `None` while some of it is not written.
    pub fn position(&mut self) -> Option<Position> {
        self.waiting.retain(|(queue, last)| queue.acknowledged() < *last);
        // A group is released before it is acknowledged.
        self.waiting.is_empty().then(|| self.cursors.ends().released)
    }
}

/// Makes a new cursor, which is on the disk when this returns. The caller holds the membership.
fn make_cursor(
    owners: &Owners,
    name: &str,
    account: Account,
) -> Result<ClaimedCursor, CursorError> {
    let Owners { log, cursors, .. } = owners;
    if log.gate().poisoned().is_some() {
        return Err(CursorError::Poisoned);
    }
    if cursors.ends().synced < account.position {
        // No cursor is persisted past the synced end.
        syncer::flush(owners);
        if log.gate().poisoned().is_some() {
            return Err(CursorError::Poisoned);
        }
    }
    Ok(cursors.create(name, account)?)
}

fn has_backlog(cursor: &CursorStatus) -> bool {
    cursor.waiting.bytes > 0
}

impl OpenJournal {
    fn start(&self) -> io::Result<()> {
        let thread =
            |name: &str| std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_LEN);
        let mut threads = lock(&self.threads);
        let writer = Writer::new(self.owners.clone());
        threads.writer = Some(thread("weir-journal").spawn(move || writer.run())?);
        let (owners, stop) = (self.owners.clone(), self.stop.clone());
        let keep = thread("weir-keeper").spawn(move || housekeeping::run(&owners, &stop))?;
        threads.others.push(keep);
        if !self.owners.log.is_durable() {
            let (owners, stop) = (self.owners.clone(), self.stop.clone());
            // Joined last to first: cursors are persisted after the last sync.
            let sync = thread("weir-syncer").spawn(move || syncer::run(&owners, &stop))?;
            threads.others.push(sync);
        }
        Ok(())
    }

    fn shut_down(&self) {
        // Held to the end, so that a second call returns when the journal is closed.
        let mut threads = lock(&self.threads);
        let Owners { log, acks, cursors } = &self.owners;
        log.gate().close();
        log.announce();
        acks.writer().wake();
        if let Some(writer) = threads.writer.take() {
            let _ = writer.join();
        }
        if !log.is_durable() && log.gate().poisoned().is_none() {
            // Before the housekeeping thread persists the cursors a last time.
            syncer::flush(&self.owners);
        }
        self.stop.store(true, Ordering::Release);
        log.syncer().wake();
        log.housekeeping().wake();
        for thread in threads.others.drain(..) {
            let _ = thread.join();
        }
        threads.held = None;
        cursors.wake_waiting();
    }
}

impl Drop for OpenJournal {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Removes a cursor from a journal that no process has open; gives its last account.
pub fn forget(dir: &Path, name: &str) -> Result<CursorStatus, CursorError> {
    crate::inspect::forget(dir, name)
}
