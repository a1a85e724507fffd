//! The front ends of the process, each there or not, in the order in which they stand on each
//! other.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use flow::front::{Front, PreparedSettings};
use journal::{Journal, Position};
use serde::Serialize;
use store::Store;
use tokio::runtime::Handle;
use watch::metrics::Registry;

use crate::config::Settings;
use crate::exit::Failure;

/// What serves clients, and what that stands on.
pub type Fronts = flow::front::Fronts<Settings>;

/// Opens those that the configuration has. They are stopped from the list's end, so that what was
/// taken is kept, and what was delivered is known to be: the journal last.
pub fn open(settings: &Settings, registry: &Registry) -> Result<Fronts, Failure> {
    let mut fronts = Fronts::default();
    if settings.has_influx() {
        let (gateway, journal) = open_influx(settings, registry)?;
        fronts.add(Arc::new(JournalFront(journal)), |_| None);
        fronts.add(gateway, |wanted| Some(wanted.influx.clone()));
    }
    if let Some(postgres) = settings.postgres.clone() {
        let gateway = postgres::Gateway::open(postgres, registry, Handle::current());
        fronts.add(gateway.map_err(Failure::other)?, |wanted| wanted.postgres.clone());
    }
    if let Some(redis) = settings.redis.clone() {
        open_redis(redis, registry, &mut fronts)?;
    }
    Ok(fronts)
}

fn open_redis(
    settings: redis::settings::Settings,
    registry: &Registry,
    fronts: &mut Fronts,
) -> Result<(), Failure> {
    let follower = settings.aof.clone().map(|aof| redis::Follower::open(aof, registry));
    let follower = follower.transpose().map_err(Failure::other)?;
    if let Some(follower) = &follower {
        fronts.add(Arc::clone(follower), |wanted| wanted.redis.as_ref()?.aof.clone());
    }
    let memories = redis::ServerMemories::default();
    if settings.has_guard() {
        let (follower, memories) = (follower.as_ref(), memories.clone());
        let guard = redis::Guard::open(&settings, follower, memories, registry, &Handle::current());
        let guard = guard.map_err(Failure::other)?;
        fronts.add(guard, |wanted| wanted.redis.clone());
    }
    if settings.has_gateway() {
        let gateway = redis::Gateway::open(settings, follower.as_ref(), memories, registry);
        let gateway = gateway.map_err(Failure::other)?;
        fronts.add(gateway, |wanted| wanted.redis.clone().filter(|of| of.has_gateway()));
    }
    Ok(())
}

/// The journal. It serves nobody, and is closed once the gateway that stands on it has stopped.
struct JournalFront(Journal);

impl Front for JournalFront {
    const NAME: &'static str = "journal";
    type Settings = Infallible;
    type Error = Infallible;

    fn prepare(self: &Arc<Self>, wanted: Infallible) -> Result<PreparedSettings<'_>, Infallible> {
        match wanted {}
    }

    fn status(&self) -> impl Serialize {
        self.0.status()
    }

    async fn stop(&self, _: Duration) {
        self.0.close().await;
    }
}

fn open_influx(
    settings: &Settings,
    registry: &Registry,
) -> Result<(Arc<influx::Gateway>, Journal), Failure> {
    let store = open_store(settings, registry)?;
    let floor = store.as_ref().map_or(Position::ZERO, |store| Position(store.position()));
    let journal = open_journal(settings, floor, registry)?;
    let (influx, dir) = (settings.influx.clone(), settings.influx_dir());
    let (kept, control) = (journal.clone(), Handle::current());
    let gateway = influx::Gateway::open(influx, store.as_ref(), kept, &dir, registry, control);
    Ok((gateway.map_err(Failure::other)?, journal))
}

/// Opens the store within the process where the configuration has one.
fn open_store(settings: &Settings, registry: &Registry) -> Result<Option<Arc<Store>>, Failure> {
    if !settings.has_store() {
        return Ok(None);
    }
    let store = Store::open(settings.store.clone(), registry).map_err(Failure::other)?;
    let dir = settings.store.dir.display();
    tracing::info!(%dir, position = store.position(), "the store is open");
    Ok(Some(store))
}

/// Opens the journal, says what was found in it, and refuses to leave a backlog behind whose
/// backend is not in the configuration any more.
///
/// Positions go on behind `floor`, also where the journal itself was lost: the store takes what
/// comes before for something it has.
fn open_journal(
    settings: &Settings,
    floor: Position,
    registry: &Registry,
) -> Result<Journal, Failure> {
    let opened = Journal::open_past(settings.journal.clone(), registry, floor);
    let (journal, recovery) = opened.map_err(Failure::other)?;
    if recovery.is_clean() {
        tracing::info!("the journal is open: {recovery}");
    } else {
        tracing::warn!("the journal is open and was not as it should be: {recovery}");
    }
    let names: Vec<&str> = settings.influx.backend.iter().map(|of| of.name.as_str()).collect();
    if let Some(cursor) = journal.unclaimed(&names).first() {
        let (name, waiting) = (&cursor.name, cursor.waiting.items);
        return Err(Failure::other(format!(
            "{waiting} points wait for backend {name:?}, which is not in the configuration: put it \
             back, or give them up with `weir journal forget {name}`"
        )));
    }
    for name in journal.forget_finished(&names).map_err(Failure::other)? {
        tracing::info!("backend {name:?} is gone from the configuration; it had everything");
    }
    Ok(journal)
}
