//! The front ends of the process, each there or not, opened and run and stopped together.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flow::{Worker, Workers};
use journal::{Journal, Position};
use serde_json::{Value, json};
use store::Store;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use watch::metrics::Registry;

use crate::config::Settings;
use crate::exit::Failure;

/// What serves clients.
#[derive(Clone)]
pub struct Fronts {
    /// The InfluxDB gateway and the journal it stands on.
    pub influx: Option<(Arc<influx::Gateway>, Journal)>,
    /// The PostgreSQL gateway.
    pub postgres: Option<Arc<postgres::Gateway>>,
}

/// Where clients connect.
#[derive(Debug, Clone)]
pub struct Addresses {
    influx: Option<influx::Addresses>,
    postgres: Vec<SocketAddr>,
}

/// A worker's share of all sockets.
type Share = (Option<influx::Share>, Option<postgres::Share>);

impl Fronts {
    /// Opens those that the configuration has.
    pub fn open(settings: &Settings, registry: &Registry) -> Result<Self, Failure> {
        let influx = settings.has_influx().then(|| open_influx(settings, registry)).transpose()?;
        let postgres = settings.postgres.clone().map(|postgres| {
            postgres::Gateway::open(postgres, registry, Handle::current()).map_err(Failure::other)
        });
        Ok(Self { influx, postgres: postgres.transpose()? })
    }

    /// What a console asks to reload; closed where there is none.
    pub fn reloads(&self) -> mpsc::Receiver<postgres::Reload> {
        self.postgres.as_ref().map_or_else(|| mpsc::channel(1).1, |gateway| gateway.reloads())
    }

    /// Binds every socket before the first is served, so that a port which is taken is an error of
    /// the start, and serves them on `count` workers.
    pub fn serve(
        &self,
        count: usize,
        registry: &Registry,
    ) -> Result<(Workers, Addresses), Failure> {
        let mut shares: Vec<Share> = (0..count).map(|_| (None, None)).collect();
        let mut addresses = Addresses { influx: None, postgres: Vec::new() };
        if let Some((gateway, _)) = &self.influx {
            let listeners = gateway.bind(count).map_err(Failure::other)?;
            addresses.influx = Some(listeners.addresses().clone());
            shares.iter_mut().zip(listeners.shares()).for_each(|(of, share)| of.0 = Some(share));
        }
        if let Some(gateway) = &self.postgres {
            let listeners = gateway.bind(count).map_err(Failure::other)?;
            addresses.postgres = listeners.addresses().to_vec();
            shares.iter_mut().zip(listeners.shares()).for_each(|(of, share)| of.1 = Some(share));
        }
        let workers = self.start(count, shares, registry)?;
        addresses.announce(count);
        Ok((workers, addresses))
    }

    fn start(
        &self,
        count: usize,
        shares: Vec<Share>,
        registry: &Registry,
    ) -> Result<Workers, Failure> {
        let shares = Arc::new(Mutex::new(shares));
        let fronts = self.clone();
        let body = move |worker: Worker| async move {
            let (influx, postgres) = take(&shares, worker.index);
            let gateway = fronts.influx.map(|(gateway, _)| gateway);
            let influx =
                gateway.zip(influx).map(|(of, share)| of.run_worker(share, worker.clone()));
            let postgres = fronts.postgres.zip(postgres);
            let postgres = postgres.map(|(of, share)| of.run_worker(share, worker));
            tokio::join!(served(influx), served(postgres));
        };
        Workers::start(count, registry, body)
            .map_err(|error| Failure::other(format!("{count} workers can't be started: {error}")))
    }

    /// Why the process should get no clients now.
    pub fn ready(&self) -> Result<(), String> {
        if let Some((gateway, _)) = &self.influx {
            gateway.ready()?;
        }
        self.postgres.as_ref().map_or(Ok(()), |gateway| gateway.ready())
    }

    /// What `weir status` shows of them.
    pub fn status(&self) -> Value {
        let mut status = json!({});
        if let Some((gateway, journal)) = &self.influx {
            status["journal"] = json!(journal.status());
            status["influx"] = json!(gateway.status());
        }
        if let Some(gateway) = &self.postgres {
            status["postgres"] = json!(gateway.status());
        }
        status
    }

    /// Takes the process apart in the order of a write's way, so that what was taken is kept, and
    /// what was delivered is known to be.
    pub async fn stop(&self, timeout: Duration, workers: Workers) {
        let drained = workers.drain(timeout).await;
        if drained.cut + drained.stuck > 0 {
            let (cut, stuck) = (drained.cut, drained.stuck);
            tracing::warn!(cut, stuck, "not everything was done within drain-timeout");
        }
        if let Some((gateway, journal)) = &self.influx {
            if tokio::time::timeout(timeout, gateway.drain()).await.is_err() {
                tracing::warn!("not everything was delivered that could have been");
            }
            journal.close().await;
        }
        tracing::info!("stopped");
    }
}

impl Addresses {
    /// As `weir status` shows them.
    pub fn status(&self) -> Value {
        let mut status = self.influx.as_ref().map_or_else(|| json!({}), |influx| json!(influx));
        if !self.postgres.is_empty() {
            status["postgres"] = json!(self.postgres);
        }
        status
    }

    fn announce(&self, workers: usize) {
        if let Some(influx) = &self.influx {
            let (http, udp) = (&influx.http, &influx.udp);
            tracing::info!(?http, ?udp, workers, "writes are taken");
        }
        if !self.postgres.is_empty() {
            tracing::info!(listen = ?self.postgres, workers, "PostgreSQL clients are taken");
        }
    }
}

/// A worker's share of all sockets, which it takes once.
fn take(shares: &Mutex<Vec<Share>>, worker: usize) -> Share {
    let mut shares = shares.lock().unwrap_or_else(PoisonError::into_inner);
    shares.get_mut(worker).map(std::mem::take).unwrap_or_default()
}

async fn served(front: Option<impl Future<Output = ()>>) {
    if let Some(front) = front {
        front.await;
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
