//! Puts the backends, the catalogue and the embedded store together, and starts a delivery to each.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use journal::{Journal, Position};
use store::Store;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, OwnedPermit, error::TrySendError};
use watch::metrics::{Encoder, Registry};

use crate::backends::{BackendStatus, Backends, DeliveryChange, PreparedBackends};
use crate::catalogue::Catalogue;
use crate::delivery::{Pace, StartError, open_cursor, open_letters};
use crate::delivery_tasks::DeliveryTasks;
use crate::embedded::{Embedded, Feed};
use crate::placement::Placement;
use crate::settings::{BackendSettings, DeliverySettings};

/// How often a backend that nothing is heard of is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// Reloads that may wait to be carried out.
const CHANGES_MAX: usize = 16;

/// What all deliveries are made of.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    pub journal: &'a Journal,
    /// Where the catalogue and the dead letters are.
    pub dir: &'a Path,
    pub registry: &'a Registry,
    /// The runtime that deliveries run on.
    pub control: &'a Handle,
    /// How long a delivery waits before it tries again.
    pub pace: Pace,
    /// Where points lie, where backends share them out.
    pub placement: &'a Arc<Placement>,
}

/// The deliveries as all other parts see them.
pub struct Deliveries {
    pub backends: Arc<Backends>,
    pub catalogue: Arc<Catalogue>,
    /// The store within this process, where a backend is that.
    pub embedded: Option<Arc<Embedded>>,
    /// Takes what reloads change, which is carried out in order.
    changes: mpsc::Sender<DeliveryChange>,
}

/// A reload of backends that can be put in force.
pub struct PreparedDeliveries {
    backends: PreparedBackends,
    /// Where the change goes; nowhere once the deliveries have ended.
    room: Option<OwnedPermit<DeliveryChange>>,
}

impl Deliveries {
    /// Starts one delivery a backend, that to `store` under the name of the embedded one.
    ///
    /// # Errors
    /// When a backend's files, cursor or dead letters cannot be used.
    pub fn start(
        settings: &[BackendSettings],
        store: Option<&Arc<Store>>,
        parts: &Parts<'_>,
    ) -> Result<Self, StartError> {
        let Parts { journal, dir, registry, control, pace, placement } = *parts;
        let backends = Arc::new(Backends::new(settings, placement, journal, registry)?);
        let catalogue = Arc::new(Catalogue::open(dir)?);
        let fed = settings.iter().find_map(|settings| match settings {
            BackendSettings::Embedded(delivery) => Some(delivery),
            BackendSettings::Server(_) => None,
        });
        let fed = fed.zip(store);
        let fed = fed.map(|(settings, store)| feed(settings, store, &backends, &catalogue, parts));
        let (embedded, feed) = fed.transpose()?.unzip();
        let deliveries = Arc::new(DeliveryTasks {
            backends: Arc::clone(&backends),
            catalogue: Arc::clone(&catalogue),
            journal: journal.clone(),
            dir: dir.to_owned(),
            registry: registry.clone(),
            control: control.clone(),
            pace,
        });
        let all = backends.all();
        let tasks =
            all.iter().map(|backend| deliveries.open(backend)).collect::<Result<Vec<_>, _>>()?;
        for (backend, task) in all.iter().zip(tasks) {
            deliveries.begin(backend, task);
        }
        if let Some(feed) = feed {
            backends.runs(control.spawn_blocking(move || feed.run()));
        }
        let (fresh, drain) = (Arc::clone(&catalogue), backends.drain.clone());
        backends.runs(control.spawn(async move { fresh.keep_fresh(drain).await }));
        backends.runs(control.spawn(ping(Arc::clone(&backends))));
        let (readers, keepers) = (Arc::clone(&backends), Arc::clone(&backends));
        let drain = backends.drain.clone();
        backends.runs(control.spawn(async move { readers.keep_tables_read(drain).await }));
        let drain = backends.drain.clone();
        backends.runs(control.spawn(async move { keepers.keep_agreed(drain).await }));
        let (changes, changed) = mpsc::channel(CHANGES_MAX);
        backends.runs(control.spawn(deliveries.run(changed)));
        let accounts = journal.clone();
        registry.collect(move |encoder| encode(&accounts, encoder));
        Ok(Self { backends, catalogue, embedded, changes })
    }

    /// Makes ready what other backends need.
    ///
    /// # Errors
    /// When the files of a new or changed backend cannot be read, or too many reloads are not
    /// carried out yet.
    pub fn prepare(&self, wanted: &[BackendSettings]) -> Result<PreparedDeliveries, StartError> {
        let room = match self.changes.clone().try_reserve_owned() {
            Ok(room) => Some(room),
            Err(TrySendError::Full(_)) => return Err(StartError::TooManyReloads),
            Err(TrySendError::Closed(_)) => None,
        };
        Ok(PreparedDeliveries { backends: self.backends.prepare(wanted)?, room })
    }

    /// Puts other backends in force; gives the settings that need a restart to take effect.
    pub fn put_in_force(&self, prepared: PreparedDeliveries) -> Vec<String> {
        let (change, restart) = self.backends.put_in_force(prepared.backends);
        if let Some(room) = prepared.room {
            room.send(change);
        }
        restart
    }

    /// Every backend with the account of its points, in the configuration's order.
    pub fn status(&self) -> Vec<BackendStatus> {
        let embedded = self.embedded.as_ref();
        self.backends.status(|cursors| embedded.map(|embedded| embedded.status(cursors)))
    }
}

/// The embedded store behind its cursor, not fed yet, and what will feed it.
fn feed(
    settings: &DeliverySettings,
    store: &Arc<Store>,
    backends: &Arc<Backends>,
    catalogue: &Arc<Catalogue>,
    parts: &Parts<'_>,
) -> Result<(Arc<Embedded>, Feed), StartError> {
    let Parts { journal, dir, registry, control, .. } = *parts;
    let name = settings.name.as_str();
    let mut consumer = open_cursor(settings, journal)?;
    let embedded = Embedded::new(settings, store, &mut consumer, journal, registry);
    let cursor = consumer.position();
    catalogue.add(name, embedded.listing());
    catalogue.executed(name, Position(cursor.0.saturating_sub(1)));
    let letters = open_letters(settings, dir, cursor)?;
    let feed = Feed::new(
        Arc::clone(&embedded),
        consumer,
        letters,
        registry,
        Arc::clone(backends),
        Arc::clone(catalogue),
        journal,
        control.clone(),
    );
    Ok((embedded, feed))
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
            "Points accepted for a backend: delivered, dead-lettered, dropped and waiting ones, \
             and those for other sets.",
            cursor.accepted,
        );
        counter(
            "weir_influx_backend_delivered_points_total",
            "Points the backend has stored.",
            cursor.delivered,
        );
        counter(
            "weir_influx_backend_dead_lettered_points_total",
            "Points that were ever put into the backend's dead letters; replay and drop do not \
             lower it.",
            cursor.dead_lettered,
        );
        counter(
            "weir_influx_backend_elsewhere_points_total",
            "Points that are not for the backend but for other sets of its cluster.",
            cursor.elsewhere,
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
            "Age of the oldest point or statement that waits for the backend.",
            &labels,
            cursor.waiting.oldest_age.unwrap_or_default().as_secs_f64(),
        );
    }
}
