//! The whole gateway as the program sees it: opened, bound, run on each worker, reloaded, drained.

mod budgets;
mod console;
mod logins;
mod prepared;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use arc_swap::{ArcSwap, Guard};
use flow::limit::Limit;
use flow::pool;
use flow::tls::{ServerTls, TlsError};
use flow::{tcp, unix};
use rand::RngCore;
use subtle::ConstantTimeEq;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, oneshot};
use watch::metrics::Registry;
use watch::units::Duration;

pub use console::Order;
use logins::Logins;
pub use prepared::Prepared;

use crate::backends::{Backends, ClientLogin, StartError};
use crate::catalogue::Catalogue;
use crate::console::Snapshot;
use crate::lock;
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::session;
use crate::settings::{Settings, SettingsError};
use crate::worker::Front;

/// Calls that wait for a worker; each is dealt with at once.
const CALLS_MAX: usize = 1024;
/// Long statements that are looked into at once.
const STUDIES_MAX: usize = 2;

/// Why the gateway could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings cannot work.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A certificate or key cannot be used.
    #[error("postgres.tls: {0}")]
    Tls(#[from] TlsError),
    /// A backend's settings cannot be used.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The users cannot be read.
    #[error("postgres: {0}")]
    Door(#[from] crate::door::DoorError),
}

/// What one thread asks of a worker.
pub enum Call {
    /// Cancel what the client with this number runs; the sender goes once that has been done.
    Cancel(i32, oneshot::Sender<()>),
    /// Close it at once; the sender goes once that has been done.
    Disconnect(i32, oneshot::Sender<()>),
    /// Give its part of the picture; with every client or without.
    Snapshot(bool, oneshot::Sender<Snapshot>),
    /// Do what the console has ordered; the sender goes once that has been done.
    Order(Order, oneshot::Sender<()>),
}

/// Who may cancel a client's statements, and where it is served.
struct Cancel {
    secret: Box<[u8]>,
    worker: usize,
}

/// The PostgreSQL gateway of one process.
pub struct Gateway {
    settings: ArcSwap<Settings>,
    /// The servers.
    pub backends: Arc<Backends>,
    /// Who listens to what.
    pub notifier: Notifier,
    /// What is counted.
    pub metrics: Metrics,
    /// Where what takes time runs.
    pub control: Handle,
    logins: Logins,
    /// Where long statements are looked into.
    studies: Arc<Semaphore>,
    endpoint: tcp::Endpoint,
    tls: Option<ServerTls>,
    connections: Limit,
    /// Kept by the workers' databases.
    catalogues: Mutex<HashMap<String, Weak<Catalogue>>>,
    /// Shared by the workers' pools, by what they limit.
    budgets: budgets::Budgets,
    counts: pool::Counts,
    /// Clients by user and by database, where that is limited.
    admitted: budgets::Admitted,
    cancels: Mutex<HashMap<i32, Cancel>>,
    calls: Mutex<HashMap<usize, mpsc::Sender<Call>>>,
    next_client: AtomicI32,
    next_server: AtomicU64,
    /// How many there are, as of `bind`.
    workers: AtomicUsize,
    operated: console::Operated,
    /// Where the console's RELOAD goes.
    reloads: Mutex<mpsc::Sender<Reload>>,
}

/// A RELOAD of the console, which is about all of the process's configuration. Whoever owns that
/// answers it with whether the new one is in force.
pub type Reload = oneshot::Sender<bool>;

/// All sockets of the gateway, bound and not yet served.
pub struct Listeners {
    shares: Vec<Share>,
    addresses: Vec<SocketAddr>,
}

/// One worker's share of the sockets.
#[derive(Default)]
pub struct Share {
    tcp: Vec<tcp::Listener>,
    unix: Vec<unix::Listener>,
}

/// A socket could not be had.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A TCP address.
    #[error(transparent)]
    Tcp(#[from] tcp::BindError),
    /// A Unix socket.
    #[error(transparent)]
    Unix(#[from] unix::BindError),
}

impl Listeners {
    /// Where clients connect.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The share of each worker.
    pub fn shares(self) -> Vec<Share> {
        self.shares
    }
}

impl Gateway {
    /// Opens the gateway; the servers are asked for their roles from now on.
    ///
    /// # Errors
    /// What in the settings stands in the way.
    pub fn open(
        settings: Settings,
        registry: &Registry,
        control: Handle,
    ) -> Result<Arc<Self>, OpenError> {
        settings.validate()?;
        let tls = settings.tls.as_ref().map(|tls| {
            ServerTls::with_clients(&tls.pair(), &[crate::server::ALPN], tls.client_ca.as_deref())
        });
        let tls = tls.transpose()?;
        let connections = Limit::new(settings.max_connections);
        let timeouts = flow::progress::Timeouts {
            write: settings.timeouts.write,
            handshake: settings.timeouts.login,
            // Sessions have limits of their own, which end in an answer.
            header: Duration::from_secs(0),
            body: Duration::from_secs(0),
            idle: Duration::from_secs(0),
            body_rate: 0,
            answer_rate: 0,
        };
        let endpoint = tcp::Endpoint::new("postgres", connections.clone(), &timeouts, registry)
            .with_refusal(TOO_MANY);
        let backends = Backends::start(&settings, registry, &control)?;
        let gateway = Arc::new(Self {
            logins: Logins::open(&settings)?,
            studies: Arc::new(Semaphore::new(STUDIES_MAX)),
            settings: ArcSwap::from_pointee(settings),
            notifier: Notifier::new(backends.clone(), registry, &control),
            backends,
            budgets: budgets::Budgets::default(),
            counts: pool_counts(registry),
            metrics: Metrics::new(registry),
            control,
            endpoint,
            tls,
            connections,
            catalogues: Mutex::default(),
            admitted: budgets::Admitted::default(),
            cancels: Mutex::default(),
            calls: Mutex::default(),
            next_client: AtomicI32::new(1),
            next_server: AtomicU64::new(1),
            workers: AtomicUsize::new(1),
            operated: console::Operated::default(),
            reloads: Mutex::new(mpsc::channel(1).0),
        });
        gateway.show(&Snapshot::default());
        gateway.make_passwords_ready();
        gateway.control.spawn(Self::watch(Arc::downgrade(&gateway)));
        let shown = Arc::downgrade(&gateway);
        registry.collect(move |out| {
            if let Some(gateway) = shown.upgrade() {
                gateway.status().encode(out);
            }
        });
        Ok(gateway)
    }

    /// Opens every socket, one a worker for each address, so that a port that is taken is an
    /// error of the start.
    ///
    /// # Errors
    /// The first address that cannot be had.
    pub fn bind(&self, workers: usize) -> Result<Listeners, BindError> {
        let settings = self.settings();
        self.workers.store(workers, Ordering::Relaxed);
        let mut shares: Vec<Share> = (0..workers).map(|_| Share::default()).collect();
        let mut addresses = Vec::new();
        for address in &settings.listen {
            let bound = tcp::bind(*address, workers)?;
            addresses.extend(bound.first().map(tcp::Listener::address));
            shares.iter_mut().zip(bound).for_each(|(of, one)| of.tcp.push(one));
        }
        for dir in &settings.unix_sockets {
            let path = dir.join(format!(".s.PGSQL.{}", settings.unix_port()));
            let bound = unix::bind(&path, settings.unix_mode(), workers)?;
            shares.iter_mut().zip(bound).for_each(|(of, one)| of.unix.push(one));
        }
        Ok(Listeners { shares, addresses })
    }

    /// Serves one worker's share of the sockets until the worker drains.
    pub async fn run_worker(self: Arc<Self>, share: Share, worker: flow::Worker) {
        let (sender, calls) = mpsc::channel(CALLS_MAX);
        lock(&self.calls).insert(worker.index, sender);
        let front = Front::new(self.clone(), worker.clone());
        let attending = tokio::task::spawn_local(front.clone().attend(calls));
        let mut serving = tokio::task::JoinSet::new();
        for listener in share.unix {
            let (endpoint, worker, front) = (self.endpoint.clone(), worker.clone(), front.clone());
            serving.spawn_local(async move {
                let serve = move |stream| session::startup::serve(front.clone(), stream, None);
                if let Err(error) = endpoint.serve_unix(listener, &worker, serve).await {
                    tracing::error!(%error, worker = worker.index, "a listener cannot be served");
                }
            });
        }
        for listener in share.tcp {
            let (endpoint, worker, front) = (self.endpoint.clone(), worker.clone(), front.clone());
            serving.spawn_local(async move {
                let serve =
                    move |stream, peer| session::startup::serve(front.clone(), stream, Some(peer));
                if let Err(error) = endpoint.serve(listener, &worker, serve).await {
                    tracing::error!(%error, worker = worker.index, "a listener cannot be served");
                }
            });
        }
        worker.drain.started().await;
        front.drain();
        while serving.join_next().await.is_some() {}
        // Clients may still cancel what they wait for.
        front.emptied().await;
        lock(&self.calls).remove(&worker.index);
        let _ = attending.await;
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.workers.load(Ordering::Relaxed)
    }

    /// The settings as of the last reload.
    #[inline]
    pub fn settings(&self) -> Guard<Arc<Settings>> {
        self.settings.load()
    }

    /// Clients connected now.
    pub fn connections(&self) -> usize {
        self.connections.used()
    }

    /// The certificate that clients are shown.
    pub(crate) fn tls(&self) -> Option<ServerTls> {
        self.tls.clone()
    }

    /// Why this process should get no clients now.
    ///
    /// # Errors
    /// In words.
    pub fn ready(&self) -> Result<(), String> {
        match self.backends.primary() {
            Ok(_) => Ok(()),
            Err(why) => Err(format!("postgres: {why}")),
        }
    }

    /// What the console is told to reload arrives here from now on; without anybody there, RELOAD
    /// is an error.
    pub fn reloads(&self) -> mpsc::Receiver<Reload> {
        let (sender, receiver) = mpsc::channel(1);
        *lock(&self.reloads) = sender;
        receiver
    }

    /// Has something looked into away from the worker, few at a time; `None`: Weir is stopping.
    pub(crate) async fn study<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let place = self.studies.clone().acquire_owned().await.ok()?;
        let looked = self.control.spawn_blocking(move || {
            let looked = look();
            drop(place);
            looked
        });
        looked.await.ok()
    }

    /// The facts of a database, by its name on the servers; not loaded before
    /// [`load`](Self::load).
    pub(crate) fn catalogue(&self, database: &str) -> Arc<Catalogue> {
        let mut known = lock(&self.catalogues);
        if let Some(catalogue) = known.get(database).and_then(Weak::upgrade) {
            return catalogue;
        }
        let catalogue = Catalogue::new(database);
        known.retain(|_, catalogue| catalogue.strong_count() > 0);
        known.insert(database.to_owned(), Arc::downgrade(&catalogue));
        catalogue
    }

    /// A client's user was let into a database by a server.
    pub(crate) fn has_logged_in(&self, database: &str, login: ClientLogin) {
        let catalogue = lock(&self.catalogues).get(database).and_then(Weak::upgrade);
        if let Some(catalogue) = catalogue {
            catalogue.has_logged_in(login);
        }
    }

    /// Has the facts of a database loaded, which is known to exist, for as long as anybody has
    /// them.
    pub(crate) fn load(&self, catalogue: &Arc<Catalogue>) {
        if let Some(loader) = catalogue.loader() {
            self.control.spawn(loader.run(self.backends.clone()));
        }
    }

    /// Where the workers' pools count.
    pub(crate) fn pool_counts(&self) -> pool::Counts {
        self.counts.clone()
    }

    /// A number for a new client.
    pub(crate) fn number(&self) -> i32 {
        self.next_client.fetch_add(1, Ordering::Relaxed) & i32::MAX
    }

    /// A number for a new server connection.
    pub(crate) fn server_number(&self) -> u64 {
        self.next_server.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a client one that can be cancelled; the secret it is told. 4 bytes in protocol 3.0,
    /// 32 from 3.2 on.
    pub(crate) fn register(&self, client: i32, worker: usize, minor: u16) -> Box<[u8]> {
        let mut secret = vec![0; if minor >= 2 { 32 } else { 4 }].into_boxed_slice();
        rand::rng().fill_bytes(&mut secret);
        lock(&self.cancels).insert(client, Cancel { secret: secret.clone(), worker });
        secret
    }

    /// The client is gone.
    pub(crate) fn unregister(&self, client: i32) {
        lock(&self.cancels).remove(&client);
    }

    /// Cancels what a client runs, if the secret is its own. Returns once the server has been told,
    /// as a server closes the connection of a cancel request once it has sent the signal: what the
    /// client runs afterwards is not hit by it.
    pub(crate) async fn cancel(&self, client: i32, secret: &[u8]) {
        let worker = {
            let cancels = lock(&self.cancels);
            let Some(cancel) = cancels.get(&client) else { return };
            if !bool::from(cancel.secret.ct_eq(secret)) {
                return;
            }
            cancel.worker
        };
        let _ = self.told(worker, |done| Call::Cancel(client, done)).await;
    }

    /// Asks a worker for something. One that has so many calls before it is standing still, which
    /// the watchdog reports.
    pub(crate) fn call(&self, worker: usize, call: Call) {
        if let Some(calls) = lock(&self.calls).get(&worker) {
            let _ = calls.try_send(call);
        }
    }

    /// Tells a worker something; what is given ends once that has been done. Nothing is sent: it
    /// ends with the sender.
    fn told(
        &self,
        worker: usize,
        call: impl FnOnce(oneshot::Sender<()>) -> Call,
    ) -> oneshot::Receiver<()> {
        let (doing, done) = oneshot::channel();
        self.call(worker, call(doing));
        done
    }
}

fn pool_counts(registry: &Registry) -> pool::Counts {
    pool::Counts {
        waited: registry.histogram(
            "weir_postgres_wait_seconds",
            "How long clients waited for a server connection, those included that did not.",
            &[],
        ),
        opened: registry.counter(
            "weir_postgres_servers_opened_total",
            "Server connections that were opened.",
            &[],
        ),
        closed: registry.counter(
            "weir_postgres_servers_closed_total",
            "Server connections that were closed.",
            &[],
        ),
        failed: registry.counter(
            "weir_postgres_servers_failed_total",
            "Server connections that could not be opened.",
            &[],
        ),
    }
}

/// What one more connection than `max-connections` hears.
const TOO_MANY: &[u8] = b"E\0\0\0\x3bSFATAL\0VFATAL\0C53300\0Msorry, too many clients already\0\0";
