//! Feeding the store: records from the journal are applied in order, the journal's cursor follows
//! the store's files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use flow::drain::Drain;
use journal::{Chunk, ConsumeError, Consumer, Done, Journal, Position};
use serde_json::json;
use store::Store;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use watch::metrics::Registry;

use super::room::AHEAD_MAX;
use super::{Embedded, Queries};
use crate::backends::{Backends, Ran, Standing};
use crate::catalogue::Catalogue;
use crate::delivery::dead_letters::DeadLetters;
use crate::delivery::instruments::Instruments;
use crate::delivery::letter::{Id, Letter};
use crate::record::{Points, Record, Statement};
use crate::settings::BackendSettings;

/// Bytes asked of the journal at once.
const CHUNK_BYTES: usize = 1 << 20;
/// A chunk smaller than this is no sign of a backlog: the next one may gather for a moment.
const SMALL_CHUNK: u64 = 64 << 10;
/// For how long, unless somebody waits for the store.
const NAP: Duration = Duration::from_millis(3);
/// How often is looked whether a flush has moved the store's position.
const TICK: Duration = Duration::from_millis(100);
/// How long is waited after a failure that someone has to set right.
const RETRY: Duration = Duration::from_secs(5);
/// A backlog older than this is being caught up with.
const CATCHING_UP: Duration = Duration::from_secs(2);

/// The one who applies, on a thread of its own.
pub(crate) struct Feed {
    embedded: Arc<Embedded>,
    consumer: Consumer,
    letters: DeadLetters,
    instruments: Instruments,
    backends: Arc<Backends>,
    catalogue: Arc<Catalogue>,
    journal_max: u64,
    drain: Drain,
    control: Handle,
    /// What the store had in files when it was opened is not applied again.
    skip_to: u64,
    /// Up to where the cursor was told to go.
    committed: u64,
    flushing: Arc<AtomicBool>,
}

/// What comes next.
enum Event {
    Chunk(Result<Chunk, ConsumeError>),
    FlushWanted,
    Tick,
    Stop,
}

impl Embedded {
    /// The store behind its cursor, before its delivery runs.
    pub(crate) fn new(
        settings: &BackendSettings,
        store: &Arc<Store>,
        consumer: &mut Consumer,
        journal: &Journal,
        registry: &Registry,
    ) -> Arc<Self> {
        let start = consumer.position().0;
        Arc::new(Self {
            settings: settings.clone(),
            store: Arc::clone(store),
            standing: Standing::new(&settings.name, registry),
            pin: consumer.pin(),
            ahead_max: AHEAD_MAX,
            reached: tokio::sync::watch::Sender::new(start),
            replay_end: journal.status().released_end.0,
            waiting: AtomicUsize::new(0),
            hurry: Notify::new(),
            queries: Queries::new(store.settings()),
        })
    }
}

impl Feed {
    /// A delivery that begins at the consumer's cursor.
    #[expect(clippy::too_many_arguments, reason = "each is a part it works with")]
    pub(crate) fn new(
        embedded: Arc<Embedded>,
        consumer: Consumer,
        letters: DeadLetters,
        registry: &Registry,
        backends: Arc<Backends>,
        catalogue: Arc<Catalogue>,
        journal: &Journal,
        control: Handle,
    ) -> Self {
        let position = embedded.store.position();
        Self {
            instruments: Instruments::new(embedded.name(), registry),
            drain: backends.drain.clone(),
            journal_max: journal.status().bytes_max,
            skip_to: position,
            committed: 0,
            flushing: Arc::default(),
            embedded,
            consumer,
            letters,
            backends,
            catalogue,
            control,
        }
    }

    /// Applies until the drain starts or the journal is closed, and then writes what is in memory
    /// as files, so that the next start has nothing to replay.
    pub(crate) fn run(mut self) {
        let control = self.control.clone();
        loop {
            match control.block_on(self.next()) {
                Event::Chunk(Ok(chunk)) => {
                    if !self.chunk(&chunk) {
                        break;
                    }
                }
                Event::Chunk(Err(ConsumeError::Closed)) | Event::Stop => break,
                Event::Chunk(Err(error)) => {
                    self.embedded.standing.stopped(&error.to_string());
                    if !self.pause() {
                        break;
                    }
                }
                Event::FlushWanted => self.flush(),
                Event::Tick => {}
            }
            self.reached();
            if self.embedded.wants_flush(self.journal_max) {
                self.flush();
            }
            self.keep_cursor();
        }
        if let Err(error) = self.embedded.store.flush() {
            tracing::warn!(%error, "the store's memory is not written; the journal has it all");
        }
        self.keep_cursor();
        self.embedded.store.close();
    }

    async fn next(&mut self) -> Event {
        let (drain, pin) = (self.drain.clone(), Arc::clone(&self.embedded.pin));
        tokio::select! {
            biased;
            () = drain.started() => Event::Stop,
            () = pin.wanted() => Event::FlushWanted,
            chunk = self.consumer.next(CHUNK_BYTES) => Event::Chunk(chunk),
            () = tokio::time::sleep(TICK) => Event::Tick,
        }
    }

    /// Waits before something is tried again; false when there is no again.
    fn pause(&self) -> bool {
        let drain = self.drain.clone();
        self.control.block_on(async move {
            tokio::select! {
                () = tokio::time::sleep(RETRY) => true,
                () = drain.started() => false,
            }
        })
    }

    /// Applies a chunk; false when the delivery is to end before all of it is settled.
    fn chunk(&mut self, chunk: &Chunk) -> bool {
        let oldest = chunk.records().next().map_or(0, |record| record.written_at);
        let age = age_of(oldest);
        self.embedded.standing.set_oldest(oldest);
        self.instruments.queue_age.observe(age);
        let mut done = Done::default();
        for record in chunk.records() {
            let Some(more) = self.record(&record) else { return false };
            done = done + more;
        }
        self.consumer.settle(chunk.end(), done);
        self.instruments.points_sent.add(done.delivered);
        self.embedded.standing.delivered(age > CATCHING_UP);
        if chunk.bytes() < SMALL_CHUNK {
            self.reached();
            self.nap();
        }
        true
    }

    /// Lets some company gather for the next record: to wake for each group of the journal costs
    /// more than what it brings.
    fn nap(&self) {
        if self.embedded.waiting.load(Ordering::Acquire) == 0 {
            let hurry = self.embedded.hurry.notified();
            let _ = self.control.block_on(async { tokio::time::timeout(NAP, hurry).await });
        }
    }

    /// Applies a record; `None` when the delivery is to end before.
    fn record(&mut self, record: &journal::Record<'_>) -> Option<Done> {
        if record.end.0 <= self.skip_to {
            return Some(self.in_files(record));
        }
        match Record::read(record.kind, record.payload) {
            Ok(Record::Points(points)) => self.points(record, &points),
            Ok(Record::Statement(statement)) => {
                self.statement(record, &statement);
                Some(Done::default())
            }
            Err(error) => {
                self.instruments.unreadable.inc();
                let position = record.position.0;
                tracing::error!(position, %error, "journal record is left out");
                Some(Done { dropped: record.items.into(), ..Done::default() })
            }
        }
    }

    /// What became of a record whose points are in files already.
    fn in_files(&self, record: &journal::Record<'_>) -> Done {
        let dead_lettered = self.letters.of(record.position.0);
        let delivered = u64::from(record.items).saturating_sub(dead_lettered);
        Done { delivered, dead_lettered, dropped: 0 }
    }

    fn points(&mut self, record: &journal::Record<'_>, points: &Points<'_>) -> Option<Done> {
        let ids = match points.ids {
            Some(ids) => Some(ids),
            None => self.resolve(record, points),
        };
        let Some(ids) = ids else {
            return Some(Done { dropped: record.items.into(), ..Done::default() });
        };
        let mut dead = Vec::new();
        let mut seen = Seen::default();
        let mut refused = |line: &[u8], why: &str| {
            let index = seen.index(points.lines, line);
            dead.push(letter(record.position, index, points, line, why));
        };
        let store = &self.embedded.store;
        let applied = store.apply_points(record.end.0, ids, points.lines, &mut refused);
        let dead_lettered = dead.len() as u64;
        if !dead.is_empty() && !self.keep_letters(&dead) {
            return None;
        }
        let dropped = applied.dropped.saturating_sub(dead_lettered);
        Some(Done { delivered: applied.points, dead_lettered, dropped })
    }

    /// The ids of a record that was written before there was a store; the names are made where
    /// they are missing, as for every other backend.
    fn resolve(
        &self,
        record: &journal::Record<'_>,
        points: &Points<'_>,
    ) -> Option<store::catalogue::Ids> {
        let store = &self.embedded.store;
        let known = store.catalogue().resolve(points.db, points.rp);
        if let Some(target) = known {
            return Some(target.ids);
        }
        let mut at = record.position.0;
        for text in self.catalogue.snapshot().creation(points.db, points.rp) {
            // Within the record: no other statement can have these places.
            at += 1;
            if at >= record.end.0 {
                break;
            }
            self.change(at, &text, "", "", "", record.written_at).ok()?;
        }
        self.embedded_listing(record.position);
        let target = store.catalogue().resolve(points.db, points.rp)?;
        Some(target.ids)
    }

    fn statement(&mut self, record: &journal::Record<'_>, statement: &Statement<'_>) {
        let Statement { id, db, rp, params, text } = *statement;
        let result = self.change(record.end.0, text, db, rp, params, record.written_at);
        let (backend, shown) = (self.embedded.name(), wire::influxql::redact(text));
        let document = match &result {
            Ok(()) => {
                self.instruments.statements.inc();
                tracing::info!(backend, statement = shown, db, "statement executed");
                json!({ "results": [{ "statement_id": 0 }] })
            }
            Err(reason) => {
                self.instruments.statements_failed.inc();
                tracing::warn!(backend, statement = shown, db, reason, "statement failed");
                json!({ "results": [{ "statement_id": 0, "error": reason }] })
            }
        };
        self.embedded_listing(record.position);
        self.embedded.reached.send_if_modified(|reached| {
            let further = record.end.0 > *reached;
            *reached = record.end.0.max(*reached);
            further
        });
        let ran = Ran::Answered(Bytes::from(document.to_string()));
        self.backends.statement_ran(id, self.embedded.name(), &ran);
    }

    fn change(
        &self,
        end: u64,
        text: &str,
        db: &str,
        rp: &str,
        params: &str,
        written_at: u64,
    ) -> Result<(), String> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let params = if params.is_empty() { "{}" } else { params };
        let params = wire::influxql::Params::from_json(params).map_err(|e| words(&e))?;
        let now = i64::try_from(written_at).unwrap_or(i64::MAX);
        for statement in wire::influxql::parse(text, &params).map_err(|e| words(&e))? {
            let store = &self.embedded.store;
            store.apply_change(end, &statement, db, rp, now).map_err(|e| words(&e))?;
        }
        Ok(())
    }

    /// Tells the catalogue of all backends what the store has now.
    fn embedded_listing(&self, executed: Position) {
        let name = self.embedded.name();
        self.catalogue.executed(name, executed);
        self.catalogue.listed(name, executed, self.embedded.listing());
    }

    /// Writes dead letters, however long it takes until there is room for them; false when the
    /// delivery is to end before.
    fn keep_letters(&mut self, dead: &[Letter]) -> bool {
        let backend = self.embedded.name();
        if let Some(Letter { db, reason, .. }) = dead.first() {
            let count = dead.len();
            tracing::warn!(backend, count, db, reason, "dead letters");
        }
        loop {
            match self.letters.append(dead) {
                Ok(()) => break,
                Err(error) => self.embedded.standing.stopped(&error.to_string()),
            }
            if !self.pause() {
                return false;
            }
        }
        self.instruments.dead_letters.add(dead.len() as u64);
        true
    }

    /// Tells who waits how far the store has come.
    fn reached(&self) {
        let place = self.consumer.place().0;
        self.embedded.reached.send_if_modified(|reached| {
            let further = place > *reached;
            *reached = place.max(*reached);
            further
        });
        if self.consumer.backlog().bytes == 0 {
            self.embedded.standing.caught_up();
        }
    }

    /// Has the store write files, beside the applying; one flush at a time.
    fn flush(&self) {
        if self.flushing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (store, flushing) = (Arc::clone(&self.embedded.store), Arc::clone(&self.flushing));
        self.control.spawn_blocking(move || {
            if let Err(error) = store.flush() {
                tracing::error!(%error, "the store's memory can't be written as files");
                // It is wanted again at once, and would only fail again.
                std::thread::sleep(Duration::from_secs(1));
            }
            flushing.store(false, Ordering::Release);
        });
    }

    /// Moves the journal's cursor to where the store's files reach.
    fn keep_cursor(&mut self) {
        let position = self.embedded.store.position();
        if position > self.committed {
            self.committed = position;
            self.consumer.commit_settled(Position(position));
            self.letters.committed(self.consumer.position().0);
        }
    }
}

/// Which point of a record a line is: they are refused in their order.
#[derive(Default)]
struct Seen {
    offset: usize,
    index: u32,
}

impl Seen {
    fn index(&mut self, lines: &[u8], line: &[u8]) -> u32 {
        let offset = (line.as_ptr() as usize).wrapping_sub(lines.as_ptr() as usize);
        let before = lines.get(self.offset..offset).unwrap_or_default();
        let passed = wire::line::points(before).count();
        self.index = self.index.saturating_add(u32::try_from(passed).unwrap_or(u32::MAX));
        self.offset = offset.max(self.offset);
        self.index
    }
}

fn letter(position: Position, index: u32, points: &Points<'_>, line: &[u8], why: &str) -> Letter {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Letter {
        id: Id { position: position.0, index },
        time_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        db: points.db.to_owned(),
        rp: points.rp.to_owned(),
        reason: why.to_owned(),
        line: line.strip_suffix(b"\n").unwrap_or(line).to_vec(),
    }
}

fn age_of(written_at: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(written_at))
}
