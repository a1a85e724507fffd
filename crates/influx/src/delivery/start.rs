//! Starting the deliveries.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flow::rate::RateLimit;
use journal::{Consumer, CursorError, Journal, Position};
use store::Store;
use tokio::runtime::Handle;
use watch::metrics::{Encoder, Registry};

use super::batch::Limits;
use super::client::ClientError;
use super::dead_letters::{DeadLetters, LetterError, dir_of};
use super::instruments::Instruments;
use super::intake::Intake;
use super::sender::{Pace, Sender};
use super::sizing::Sizing;
use super::task::Task;
use crate::backends::{Backend, Backends};
use crate::catalogue::{Catalogue, CatalogueError};
use crate::embedded::{Embedded, Feed};
use crate::settings::{BackendSettings, Start};

/// How often a backend that nothing is heard of is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// Why delivery cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A backend's password or certificate files cannot be read.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A backend's cursor cannot be opened.
    #[error("influx.backend {backend:?}: {source}")]
    Cursor {
        /// The backend's name.
        backend: String,
        /// What the journal says.
        source: CursorError,
    },
    /// A backend's dead letters cannot be opened.
    #[error("influx.backend {backend:?}: {source}")]
    Letters {
        /// The backend's name.
        backend: String,
        /// What is wrong with them.
        source: LetterError,
    },
    /// The catalogue cannot be read.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
}

impl Backends {
    /// Starts one delivery a backend on `control`, with the catalogue and the dead letters in
    /// `dir`.
    ///
    /// # Errors
    /// When a backend's files, cursor or dead letters cannot be used.
    pub fn start(
        settings: &[BackendSettings],
        store: Option<&Arc<Store>>,
        journal: &Journal,
        dir: &Path,
        registry: &Registry,
        control: &Handle,
    ) -> Result<(Arc<Self>, Arc<Catalogue>), StartError> {
        let place = Place { journal, dir, registry, control };
        Self::start_in(settings, store, &place, Pace::default())
    }

    /// As [`Backends::start`], with other waits; for tests.
    ///
    /// # Errors
    /// As [`Backends::start`].
    #[cfg(test)]
    pub fn start_at(
        settings: &[BackendSettings],
        journal: &Journal,
        dir: &Path,
        registry: &Registry,
        control: &Handle,
        pace: Pace,
    ) -> Result<(Arc<Self>, Arc<Catalogue>), StartError> {
        Self::start_in(settings, None, &Place { journal, dir, registry, control }, pace)
    }

    fn start_in(
        settings: &[BackendSettings],
        store: Option<&Arc<Store>>,
        place: &Place<'_>,
        pace: Pace,
    ) -> Result<(Arc<Self>, Arc<Catalogue>), StartError> {
        let Place { journal, dir, registry, control } = *place;
        let backends = Arc::new(Self::new(settings, journal, registry)?);
        let asked = backends.all().iter().filter(|one| one.settings().kind.has_catalogue());
        let asked = asked.map(|one| (one.name().to_owned(), Arc::clone(one.queries())));
        let catalogue = Arc::new(Catalogue::open(dir, asked)?);
        let embedded = settings.iter().find(|settings| settings.embedded).zip(store);
        let feed =
            embedded.map(|(settings, store)| backends.feed(settings, store, &catalogue, place));
        let feed = feed.transpose()?;
        let mut tasks = Vec::new();
        for backend in backends.all() {
            tasks.push(backends.task(backend, &catalogue, journal, dir, registry, pace)?);
        }
        let mut running: Vec<_> = tasks.into_iter().map(|task| control.spawn(task.run())).collect();
        running.extend(feed.map(|feed| control.spawn_blocking(move || feed.run())));
        let fresh = Arc::clone(&catalogue);
        let drain = backends.drain.clone();
        running.push(control.spawn(async move { fresh.keep_fresh(drain).await }));
        running.push(control.spawn(ping(Arc::clone(&backends))));
        backends.tasks.lock().unwrap_or_else(PoisonError::into_inner).extend(running);
        let accounts = journal.clone();
        registry.collect(move |encoder| encode(&accounts, encoder));
        Ok((backends, catalogue))
    }

    /// The embedded store behind its cursor, known to all and not fed yet.
    fn feed(
        self: &Arc<Self>,
        settings: &BackendSettings,
        store: &Arc<Store>,
        catalogue: &Arc<Catalogue>,
        place: &Place<'_>,
    ) -> Result<Feed, StartError> {
        let Place { journal, dir, registry, control } = *place;
        let name = settings.name.as_str();
        let mut consumer = open_cursor(settings, journal)?;
        let embedded = Embedded::new(settings, store, &mut consumer, journal, registry);
        self.set_embedded(&embedded);
        let cursor = consumer.position();
        catalogue.add(name, embedded.listing());
        catalogue.executed(name, Position(cursor.0.saturating_sub(1)));
        let letters = open_letters(settings, dir, cursor)?;
        Ok(Feed::new(
            embedded,
            consumer,
            letters,
            registry,
            Arc::clone(self),
            Arc::clone(catalogue),
            journal,
            control.clone(),
        ))
    }

    fn task(
        self: &Arc<Self>,
        backend: &Arc<Backend>,
        catalogue: &Arc<Catalogue>,
        journal: &Journal,
        dir: &Path,
        registry: &Registry,
        pace: Pace,
    ) -> Result<Task, StartError> {
        let (settings, name) = (backend.settings(), backend.name());
        let consumer = open_cursor(settings, journal)?;
        let cursor = consumer.position();
        let letters = open_letters(settings, dir, cursor)?;
        // The record at the cursor has not been executed, everything before it has.
        catalogue.executed(name, Position(cursor.0.saturating_sub(1)));
        let limits =
            Limits { points: settings.batch_points.into(), bytes: settings.batch_bytes.len() };
        let instruments = Instruments::new(name, registry);
        let intake = Intake::new(consumer, instruments.unreadable.clone());
        let sender = Sender::new(
            Arc::clone(backend),
            Arc::clone(catalogue),
            instruments,
            Sizing::new(limits),
            self.drain.clone(),
            pace,
        );
        // A batch more than the rate allows in a tenth of a second would make waves.
        let rate = RateLimit::new(settings.catch_up_rate, settings.catch_up_rate / 10);
        Ok(Task {
            sender,
            intake,
            letters: Arc::new(Mutex::new(letters)),
            backends: Arc::clone(self),
            rate,
            drain: self.drain.clone(),
        })
    }
}

/// What all deliveries work with.
#[derive(Clone, Copy)]
struct Place<'a> {
    journal: &'a Journal,
    dir: &'a Path,
    registry: &'a Registry,
    control: &'a Handle,
}

fn open_cursor(settings: &BackendSettings, journal: &Journal) -> Result<Consumer, StartError> {
    let start = match settings.start {
        Start::End => journal::Start::End,
        Start::Oldest => journal::Start::Oldest,
    };
    let consumer = journal.consumer(&settings.name, start);
    consumer.map_err(|source| StartError::Cursor { backend: settings.name.clone(), source })
}

fn open_letters(
    settings: &BackendSettings,
    dir: &Path,
    cursor: Position,
) -> Result<DeadLetters, StartError> {
    let (name, letters_max) = (&settings.name, settings.dead_letters_max.bytes());
    DeadLetters::open(&dir_of(dir), name, letters_max, cursor.0)
        .map_err(|source| StartError::Letters { backend: name.clone(), source })
}

async fn ping(backends: Arc<Backends>) {
    let drain = backends.drain.clone();
    loop {
        backends.ping_silent().await;
        tokio::select! {
            () = tokio::time::sleep(PING_INTERVAL) => {}
            () = drain.started() => return,
        }
    }
}

/// The account of every cursor, all of one moment: accepted is the sum of the others.
fn encode(journal: &Journal, encoder: &mut Encoder) {
    for cursor in journal.cursors() {
        let labels = [("backend", cursor.name.as_str())];
        let mut counter = |name: &str, help: &str, value: u64| {
            encoder.counter(name, help, &labels, value);
        };
        counter(
            "weir_influx_backend_accepted_points_total",
            "Points accepted for a backend: delivered, dead-lettered, dropped and waiting ones.",
            cursor.accepted,
        );
        counter(
            "weir_influx_backend_delivered_points_total",
            "Points the backend has stored.",
            cursor.delivered,
        );
        counter(
            "weir_influx_backend_dead_lettered_points_total",
            "Points in the backend's dead letters.",
            cursor.dead_lettered,
        );
        counter(
            "weir_influx_backend_dropped_statements_total",
            "Statements the backend will never get, because their records were dropped or lost.",
            cursor.dropped_controls,
        );
        for (reason, value) in [
            ("oldest", cursor.dropped_oldest),
            ("damaged", cursor.dropped_damaged),
            ("unreadable", cursor.dropped),
        ] {
            encoder.counter(
                "weir_influx_backend_dropped_points_total",
                "Points the backend will never get: given up at max-size, lost to damage of the \
                 disk, or not readable by this version.",
                &[labels[0], ("reason", reason)],
                value,
            );
        }
        encoder.gauge(
            "weir_influx_backend_waiting_points",
            "Points accepted and not yet settled.",
            &labels,
            cursor.waiting.items,
        );
        encoder.gauge(
            "weir_influx_backend_waiting_bytes",
            "Bytes of the journal that wait for the backend.",
            &labels,
            cursor.waiting.bytes,
        );
        encoder.gauge(
            "weir_influx_backend_waiting_age_seconds",
            "Age of the oldest point that waits for the backend.",
            &labels,
            cursor.waiting.oldest_age.unwrap_or_default().as_secs_f64(),
        );
    }
}
