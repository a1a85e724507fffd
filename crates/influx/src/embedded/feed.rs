//! Feeding the store: records from the journal are applied in order, the journal's cursor follows
//! the store's files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flow::drain::Drain;
use journal::{Chunk, ConsumeError, Consumer, Journal, Outcome, Position};
use store::Store;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use watch::metrics::Registry;

use super::settling::{Settled, Settling};
use super::{Embedded, Queries};
use crate::backends::{Backends, DeliveryState};
use crate::catalogue::Catalogue;
use crate::delivery::dead_letters::DeadLetters;
use crate::delivery::instruments::Instruments;
use crate::settings::DeliverySettings;

/// Bytes asked of the journal at once.
const CHUNK_BYTES: usize = 1 << 20;
/// A chunk smaller than this is not a sign of a backlog: the next one may gather for a moment.
const SMALL_CHUNK: u64 = 64 << 10;
/// For how long, unless somebody waits for the store.
const NAP: Duration = Duration::from_millis(3);
/// How often is looked whether a flush has moved the store's position.
const TICK: Duration = Duration::from_millis(100);
/// The same while a settling is under way.
const SETTLING_TICK: Duration = Duration::from_millis(2);
/// How long is waited after a failure that someone has to set right.
const RETRY: Duration = Duration::from_secs(5);
/// A backlog older than this is being caught up with.
const CATCHING_UP: Duration = Duration::from_secs(2);

/// The one who applies, on a thread of its own.
pub(crate) struct Feed {
    pub(super) embedded: Arc<Embedded>,
    consumer: Consumer,
    pub(super) letters: DeadLetters,
    pub(super) instruments: Instruments,
    pub(super) backends: Arc<Backends>,
    pub(super) catalogue: Arc<Catalogue>,
    journal_max: u64,
    drain: Drain,
    control: Handle,
    /// What the store had in files when it was opened is not applied again.
    pub(super) skip_to: u64,
    /// Up to where the cursor was told to go.
    committed: u64,
    flushing: Arc<AtomicBool>,
    settling: Settling,
}

/// What the feed's thread is woken by.
enum Event {
    Chunk(Result<Chunk, ConsumeError>),
    FlushWanted,
    Tick,
    Stop,
}

impl Embedded {
    /// The store behind its cursor, before its delivery runs.
    pub(crate) fn new(
        settings: &DeliverySettings,
        store: &Arc<Store>,
        consumer: &mut Consumer,
        journal: &Journal,
        registry: &Registry,
    ) -> Arc<Self> {
        let start = consumer.position().0;
        Arc::new(Self {
            settings: settings.clone(),
            store: Arc::clone(store),
            standing: DeliveryState::new(&settings.name, registry),
            pin: consumer.pin(),
            ahead_max: store.settings().journal_ahead.bytes(),
            reached: tokio::sync::watch::Sender::new(start),
            replay_end: journal.status().released_end.0,
            waiting: AtomicUsize::new(0),
            hurry: Notify::new(),
            settled: Settled::default(),
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
        letters.last_reason().into_iter().for_each(|words| embedded.standing.refused(words));
        Self {
            instruments: Instruments::new(embedded.name(), registry),
            drain: backends.drain.clone(),
            journal_max: journal.status().bytes_max,
            skip_to: position,
            committed: 0,
            flushing: Arc::default(),
            settling: Settling::new(journal),
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
        self.embedded.store.set_replaying(self.embedded.started().is_err());
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
            self.settling.go_on(&self.embedded, self.consumer.place());
            if self.embedded.wants_flush(self.journal_max) {
                self.flush();
            }
            self.keep_cursor();
        }
        self.settling.end(&self.embedded);
        if let Err(error) = self.embedded.store.flush() {
            tracing::warn!(%error, "the store's memory is not written; the journal has it all");
        }
        self.keep_cursor();
        self.embedded.store.close();
    }

    async fn next(&mut self) -> Event {
        let (drain, pin) = (self.drain.clone(), Arc::clone(&self.embedded.pin));
        let embedded = Arc::clone(&self.embedded);
        let tick = if self.settling.is_under_way() { SETTLING_TICK } else { TICK };
        tokio::select! {
            biased;
            () = drain.started() => Event::Stop,
            () = pin.wanted() => Event::FlushWanted,
            chunk = self.consumer.next(CHUNK_BYTES) => Event::Chunk(chunk),
            () = embedded.hurry.notified() => Event::Tick,
            () = tokio::time::sleep(tick) => Event::Tick,
        }
    }

    /// Waits before something is tried again; false when there is no again.
    pub(super) fn pause(&self) -> bool {
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
        let mut done = Outcome::default();
        for record in chunk.records() {
            let Some(more) = self.record(&record) else { return false };
            done = done + more;
        }
        self.embedded.standing.settled(age > CATCHING_UP);
        self.consumer.settle(chunk.end(), done);
        self.instruments.points_sent.add(done.delivered);
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

    /// Tells who waits how far the store has come.
    fn reached(&self) {
        let place = self.consumer.place().0;
        self.embedded.reached.send_if_modified(|reached| {
            let further = place > *reached;
            *reached = place.max(*reached);
            further
        });
        self.embedded.store.set_replaying(self.embedded.started().is_err());
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

fn age_of(written_at: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(written_at))
}
