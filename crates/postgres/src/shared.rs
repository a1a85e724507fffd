//! What the gateway and its workers share: the settings in force, the servers, what is counted and
//! limited over all workers, whom the door lets in, and what one thread asks of a worker.

mod budgets;
mod console;
mod logins;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, Guard};
use flow::front::{Calls, Reload};
use flow::memory::Memory;
use flow::pool;
use flow::tls::{ServerTls, TlsError};
use parking_lot::Mutex;
use rand::RngCore;
use subtle::ConstantTimeEq;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, oneshot};
use watch::metrics::Registry;

pub use console::Order;
use logins::Logins;

use crate::backends::{Backends, ClientLogin, StartError};
use crate::catalogue::Catalogue;
use crate::console::Snapshot;
use crate::door::{DoorError, Doors};
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::settings::{Settings, SettingsError};
use crate::slow::SlowForms;

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
    Door(#[from] DoorError),
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

/// What the gateway of one process and its workers share.
pub struct GatewayContext {
    settings: ArcSwap<Settings>,
    pub backends: Arc<Backends>,
    /// Who listens to what.
    pub notifier: Notifier,
    pub metrics: Metrics,
    /// Where what takes time runs.
    pub control: Handle,
    pub(crate) logins: Logins,
    /// Where long statements are looked into.
    studies: Arc<Semaphore>,
    tls: Option<ServerTls>,
    /// Kept by the workers' databases.
    catalogues: Mutex<HashMap<String, Weak<Catalogue>>>,
    /// Shared by the workers' pools, by what they limit.
    budgets: budgets::Budgets,
    counts: pool::Counts,
    /// Statements that were slow.
    pub(crate) slow: SlowForms,
    /// For what clients have sent and is not sent on yet.
    pub(crate) held: Memory,
    /// Clients by user and by database, where that is limited.
    admitted: budgets::Admitted,
    cancels: Mutex<HashMap<i32, Cancel>>,
    /// What other threads ask of the workers.
    pub(crate) calls: Calls<Call>,
    next_client: AtomicI32,
    next_server: AtomicU64,
    /// How many there are, as of `bind`.
    workers: AtomicUsize,
    operated: console::Operated,
    /// Where the console's RELOAD goes.
    reloads: Mutex<mpsc::Sender<Reload>>,
}

impl GatewayContext {
    /// Has the servers asked for their roles from now on.
    ///
    /// # Errors
    /// What in the settings stands in the way.
    pub(crate) fn open(
        settings: Settings,
        tls: Option<ServerTls>,
        registry: &Registry,
        control: Handle,
    ) -> Result<Arc<Self>, OpenError> {
        let backends = Backends::start(&settings, registry, &control)?;
        let held_max = settings.held_messages.len();
        let shared = Arc::new(Self {
            logins: Logins::open(&settings)?,
            studies: Arc::new(Semaphore::new(STUDIES_MAX)),
            settings: ArcSwap::from_pointee(settings),
            notifier: Notifier::new(backends.clone(), registry, &control),
            backends,
            budgets: budgets::Budgets::default(),
            counts: pool_counts(registry),
            slow: SlowForms::default(),
            held: Memory::new(held_max),
            metrics: Metrics::new(registry),
            control,
            tls,
            catalogues: Mutex::default(),
            admitted: budgets::Admitted::default(),
            cancels: Mutex::default(),
            calls: Calls::default(),
            next_client: AtomicI32::new(1),
            next_server: AtomicU64::new(1),
            workers: AtomicUsize::new(1),
            operated: console::Operated::default(),
            reloads: Mutex::new(mpsc::channel(1).0),
        });
        shared.show(&Snapshot::default());
        shared.make_passwords_ready();
        shared.control.spawn(Self::watch(Arc::downgrade(&shared)));
        let shown = Arc::downgrade(&shared);
        registry.collect(move |out| {
            if let Some(shared) = shown.upgrade() {
                shared.status().encode(out);
            }
        });
        Ok(shared)
    }

    /// Whom these settings let in.
    ///
    /// # Errors
    /// A user's password cannot be read.
    pub(crate) fn doors(&self, settings: &Settings) -> Result<Doors, DoorError> {
        Doors::new(settings, &self.logins.salts)
    }

    /// Puts settings in force, and whom they let in; gives the keys that differ and need a restart.
    pub(crate) fn put_in_force(self: &Arc<Self>, settings: Settings, doors: Doors) -> Vec<String> {
        self.logins.doors.store(Arc::new(doors));
        self.make_passwords_ready();
        let (settings, fixed) = settings.keep_fixed(&self.settings());
        self.budgets.reload(&settings);
        self.admitted.reload(&settings);
        self.held.set_max(settings.held_messages.len());
        self.settings.store(Arc::new(settings));
        fixed
    }

    /// There are to be so many workers.
    pub(crate) fn set_workers(&self, workers: usize) {
        self.workers.store(workers, Ordering::Relaxed);
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

    /// What the console is told to reload goes there from now on; without anybody there, RELOAD is
    /// an error.
    pub(crate) fn reload_by(&self, ask: mpsc::Sender<Reload>) {
        *self.reloads.lock() = ask;
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
        let mut known = self.catalogues.lock();
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
        let catalogue = self.catalogues.lock().get(database).and_then(Weak::upgrade);
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
        self.cancels.lock().insert(client, Cancel { secret: secret.clone(), worker });
        secret
    }

    /// The client is gone.
    pub(crate) fn unregister(&self, client: i32) {
        self.cancels.lock().remove(&client);
    }

    /// Cancels what a client runs, if the secret is its own. Returns once the server has been told,
    /// as a server closes the connection of a cancel request once it has sent the signal: what the
    /// client runs afterwards is not hit by it.
    pub(crate) async fn cancel(&self, client: i32, secret: &[u8]) {
        let worker = {
            let cancels = self.cancels.lock();
            let Some(cancel) = cancels.get(&client) else { return };
            if !bool::from(cancel.secret.ct_eq(secret)) {
                return;
            }
            cancel.worker
        };
        let _ = self.calls.asked(worker, |done| Call::Cancel(client, done)).await;
    }
}

fn pool_counts(registry: &Registry) -> pool::Counts {
    pool::Counts::register(
        registry,
        (
            "weir_postgres_wait_seconds",
            "How long clients waited for a server connection, those included that did not.",
        ),
        "weir_postgres_servers",
        "Server connections",
        &[],
    )
}
