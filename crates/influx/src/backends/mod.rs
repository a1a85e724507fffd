//! The backends as all parts of the gateway see them: how each is, whom to ask, what came of a
//! statement. The deliveries write here; the front end, `/metrics` and `weir status` read.

mod backend;
mod everywhere;
mod in_cluster;
mod list;
mod pause;
mod state;
mod statements;
mod status;
mod tables;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use flow::drain::Drain;
use flow::health;
use futures_util::future::join_all;
use journal::{CursorStatus, Journal};
use tokio::task::JoinHandle;
use watch::metrics::Registry;

pub use self::backend::Backend;
pub use self::in_cluster::{InClusterError, StatementEffect};
use self::list::{BackendList, ListChange, ListedBackend};
use self::pause::Pause;
pub use self::pause::PauseLine;
pub use self::state::{DeliveryState, Phase};
use self::statements::StatementWaiters;
pub use self::statements::{Ran, StatementTicket};
pub use self::status::BackendStatus;
pub(crate) use self::status::status_of;
use crate::client::ClientError;
use crate::placement::{Placement, Set, Unfit};
use crate::settings::{BackendSettings, ServerSettings};

/// How long a request under way may still take when deliveries end.
pub const STOP_GRACE: Duration = Duration::from_secs(3);

/// All backends, with their deliveries.
#[derive(Debug)]
pub struct Backends {
    list: ArcSwap<BackendList>,
    placement: Arc<Placement>,
    registry: Registry,
    journal: Journal,
    waiting: Arc<StatementWaiters>,
    /// Whose turn it is among equal candidates.
    turn: AtomicUsize,
    pause: Pause,
    /// Held by the statement that runs on all members of a cluster.
    in_cluster: tokio::sync::Mutex<()>,
    /// Tells all that runs for them to end.
    pub(crate) drain: Drain,
    running: Mutex<BackendTasks>,
}

/// The tasks that end when all deliveries do.
#[derive(Debug, Default)]
struct BackendTasks {
    /// The deliveries, by the backend's name.
    deliveries: BTreeMap<String, JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
}

/// Backends that are ready to be in force.
#[derive(Debug)]
pub struct PreparedBackends {
    list: BackendList,
    change: DeliveryChange,
    /// The names of those that need a restart to take effect.
    restart: Vec<String>,
}

/// What the deliveries have to do so that a reload is carried out.
#[derive(Debug)]
pub struct DeliveryChange {
    pub added: Vec<Arc<Backend>>,
    pub replaced: Vec<ReplacedBackend>,
    pub removed: Vec<Arc<Backend>>,
}

/// A backend that is delivered to by other settings.
#[derive(Debug)]
pub struct ReplacedBackend {
    pub before: Arc<Backend>,
    pub after: Arc<Backend>,
}

impl Backends {
    /// The backends of the configuration, in its order.
    ///
    /// # Errors
    /// When one's password or certificate files cannot be read.
    pub fn new(
        settings: &[BackendSettings],
        placement: &Arc<Placement>,
        journal: &Journal,
        registry: &Registry,
    ) -> Result<Self, ClientError> {
        let new = Self {
            list: ArcSwap::default(),
            placement: Arc::clone(placement),
            registry: registry.clone(),
            journal: journal.clone(),
            waiting: Arc::default(),
            turn: AtomicUsize::new(0),
            pause: Pause::default(),
            in_cluster: tokio::sync::Mutex::default(),
            drain: Drain::new(),
            running: Mutex::default(),
        };
        let listed = settings.iter().map(|of| match of {
            BackendSettings::Server(server) => new.backend(server).map(ListedBackend::Server),
            BackendSettings::Embedded(delivery) => Ok(ListedBackend::Embedded(delivery.clone())),
        });
        new.list.store(Arc::new(BackendList(listed.collect::<Result<_, _>>()?)));
        Ok(new)
    }

    fn backend(&self, settings: &ServerSettings) -> Result<Arc<Backend>, ClientError> {
        let drain = self.drain.part();
        Backend::new(settings, &self.placement, &self.journal, &self.registry, drain).map(Arc::new)
    }

    /// Every backend but the embedded one, in the configuration's order.
    pub fn all(&self) -> Vec<Arc<Backend>> {
        self.list().servers().cloned().collect()
    }

    /// Where points lie, where backends share them out.
    pub fn placement(&self) -> &Arc<Placement> {
        &self.placement
    }

    /// What a delivery to a cluster's member stops at.
    pub fn pause(&self) -> PauseLine {
        self.pause.line()
    }

    fn list(&self) -> Guard<Arc<BackendList>> {
        self.list.load()
    }

    /// Whom to ask for a query, best first: healthy and caught up ones take turns, then whoever is
    /// the least behind; ill ones last, for when there is no other.
    pub fn candidates(&self) -> Vec<Arc<Backend>> {
        let mut list = self.all();
        if !list.is_empty() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let len = list.len();
            list.rotate_left(turn % len);
        }
        list.sort_by_cached_key(|backend| backend.rank());
        list
    }

    /// Whom to ask of a cluster's set, best first; last those that will say why they can't be used.
    pub fn members(&self, set: &Set) -> Vec<Arc<Backend>> {
        let mut list = self.candidates();
        list.retain(|backend| set.members.iter().any(|member| member == backend.name()));
        // One whose table was not read for a while is asked for it by its next connection.
        list.sort_by_cached_key(|backend| {
            matches!(self.placement.is_fit(backend.name()), Err(Unfit::Differs(_)))
        });
        list
    }

    /// Every backend with the account of its points; that of the embedded one is asked for.
    pub fn status(
        &self,
        embedded: impl Fn(&[CursorStatus]) -> Option<BackendStatus>,
    ) -> Vec<BackendStatus> {
        let (cursors, list) = (self.journal.cursors(), self.list());
        let status = |of: &ListedBackend| match of {
            ListedBackend::Server(backend) => Some(backend.status(&cursors)),
            ListedBackend::Embedded(_) => embedded(&cursors),
        };
        list.0.iter().filter_map(status).collect()
    }

    /// Begins to wait for a statement: its id goes into the journal's record. Call this before the
    /// record is appended, so that no result is missed.
    pub fn statement(&self) -> StatementTicket {
        let names = self.list().0.iter().map(|of| of.name().to_owned()).collect();
        StatementTicket::new(&self.waiting, names)
    }

    /// Tells whoever waits for a statement what came of it on a backend.
    pub fn statement_ran(&self, id: u64, backend: &str, ran: &Ran) {
        self.waiting.tell(id, backend, ran);
    }

    /// Makes ready what other settings need.
    ///
    /// # Errors
    /// When the password or certificate files of a new or changed backend cannot be read.
    pub fn prepare(&self, wanted: &[BackendSettings]) -> Result<PreparedBackends, ClientError> {
        let list = self.list();
        let running = list.settings();
        let ListChange { added, replaced, removed, settings, restart } =
            ListChange::between(&running, wanted);
        let all = |servers: Vec<&ServerSettings>| {
            servers.into_iter().map(|server| self.backend(server)).collect::<Result<Vec<_>, _>>()
        };
        let (added, replacing) = (all(added)?, all(replaced)?);
        let listed = settings.into_iter().filter_map(|of| match of {
            BackendSettings::Embedded(delivery) => Some(ListedBackend::Embedded(delivery)),
            BackendSettings::Server(server) => {
                let mut new = added.iter().chain(&replacing);
                let new = new.find(|backend| backend.settings() == &*server);
                let backend = new.or_else(|| list.server(&server.delivery.name))?;
                Some(ListedBackend::Server(Arc::clone(backend)))
            }
        });
        let listed = BackendList(listed.collect());
        let replaced = replacing.into_iter().filter_map(|after| {
            let before = Arc::clone(list.server(after.name())?);
            // Nobody takes it for caught up before its first batch.
            after.standing().take_over(before.standing());
            Some(ReplacedBackend { before, after })
        });
        let replaced = replaced.collect();
        let removed = removed.into_iter().filter_map(|name| list.server(name)).cloned().collect();
        let change = DeliveryChange { added, replaced, removed };
        Ok(PreparedBackends { list: listed, change, restart })
    }

    /// Puts backends in force for all but the deliveries, and reads password and token files of
    /// those that stay again. Gives what the deliveries have to do, and the settings that need a
    /// restart to take effect.
    pub fn put_in_force(&self, prepared: PreparedBackends) -> (DeliveryChange, Vec<String>) {
        let PreparedBackends { mut list, change, restart } = prepared;
        // One of those that stay may have been withdrawn meanwhile.
        list.0.retain(|of| match of {
            ListedBackend::Server(backend) => !backend.drain.is_started(),
            ListedBackend::Embedded(_) => true,
        });
        for backend in list.servers() {
            if let Err(error) = backend.read_credentials() {
                tracing::error!(%error, "credentials are not read again");
            }
        }
        // What is accepted from now on goes nowhere by the settings of before.
        change.replaced.iter().for_each(|of| of.before.drain.trigger());
        self.list.store(Arc::new(list));
        let restart = restart.into_iter().map(|name| format!("influx.backend {name:?}"));
        (change, restart.collect())
    }

    /// Takes a backend out of force again whose delivery cannot begin, so that the next reload
    /// tries it anew.
    pub(crate) fn withdraw(&self, backend: &Arc<Backend>) {
        backend.drain.trigger();
        let stays = |of: &&ListedBackend| match of {
            ListedBackend::Server(server) => !Arc::ptr_eq(server, backend),
            ListedBackend::Embedded(_) => true,
        };
        self.list.rcu(|list| BackendList(list.0.iter().filter(stays).cloned().collect()));
        if !self.has_server(backend.name()) {
            self.statements_gone(backend.name());
        }
    }

    /// Whether a server of this name is in force.
    pub(crate) fn has_server(&self, name: &str) -> bool {
        self.list().server(name).is_some()
    }

    /// Keeps the task of a backend's delivery, unless all are to end.
    pub(crate) fn delivers(&self, backend: &str, task: JoinHandle<()>) {
        let mut running = self.running();
        if self.drain.is_started() {
            task.abort();
        } else {
            running.deliveries.insert(backend.to_owned(), task);
        }
    }

    /// Keeps another task that ends with all deliveries.
    pub(crate) fn runs(&self, task: JoinHandle<()>) {
        self.running().others.push(task);
    }

    fn running(&self) -> MutexGuard<'_, BackendTasks> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the delivery to a backend that has been told to, as [`stop`](Self::stop) ends all.
    pub(crate) async fn end_delivery(&self, backend: &str) {
        let task = self.running().deliveries.remove(backend);
        if let Some(task) = task {
            end(task).await;
        }
    }

    /// Tells whoever waits for a statement on a backend that has gone.
    pub(crate) fn statements_gone(&self, backend: &str) {
        self.waiting.gone(backend);
    }

    /// Ends the deliveries: each may finish the request it has under way, if that takes no longer
    /// than a few seconds; the rest stays in the journal.
    pub async fn stop(&self) {
        self.drain.trigger();
        let BackendTasks { deliveries, others } = std::mem::take(&mut *self.running());
        join_all(deliveries.into_values().chain(others).map(end)).await;
    }

    /// Sees whether backends that fail, or of which nothing is heard otherwise, answer `/ping`.
    pub async fn ping_silent(&self) {
        let due = |backend: &&Arc<Backend>| {
            let failing = backend.breaker.state() != health::State::Closed;
            !failing || backend.breaker.allows(Instant::now())
        };
        let all = self.all();
        let pings = all.iter().filter(due).map(|backend| async move {
            match backend.delivery.ping().await {
                Ok(()) => backend.answered(),
                Err(error) => backend.breaker.failure(&error.to_string()),
            }
        });
        join_all(pings).await;
    }
}

/// Ends a task that has been told to: it may finish the request it has under way, if that takes no
/// longer than a few seconds.
async fn end(mut task: JoinHandle<()>) {
    // A task that panicked has said so; there is nothing left to stop.
    if tokio::time::timeout(STOP_GRACE, &mut task).await.is_err() {
        task.abort();
        let _ = task.await;
        tracing::warn!("a batch was under way; it will be sent again");
    }
}
