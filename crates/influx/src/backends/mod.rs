//! The backends as all parts of the gateway see them: how each is, whom to ask, what came of a
//! statement. The deliveries write here; the front end, `/metrics` and `weir status` read.

mod everywhere;
mod list;
mod state;
mod statements;
mod status;
mod tables;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use flow::drain::Drain;
use flow::health::{self, Breaker};
use futures_util::future::join_all;
use http::{HeaderMap, Response};
use hyper::body::Incoming;
use journal::{CursorStatus, Journal};
use tokio::task::JoinHandle;
use watch::metrics::Registry;

use self::list::{BackendList, ListChange, ListedBackend};
pub use self::state::{DeliveryState, Phase};
use self::statements::StatementWaiters;
pub use self::statements::{Ran, StatementTicket};
pub use self::status::BackendStatus;
pub(crate) use self::status::status_of;
use self::tables::TableGreeting;
use crate::client::{Client, ClientError, Greeting, TransportError};
use crate::placement::{Placement, Set, Unfit};
use crate::settings::{BackendKind, BackendSettings, ServerSettings};

/// A backend whose oldest waiting point is younger than this counts as caught up.
const CAUGHT_UP: Duration = Duration::from_secs(1);

/// How long a request under way may still take when deliveries end.
pub const STOP_GRACE: Duration = Duration::from_secs(3);

/// A backend that is reached over HTTP.
#[derive(Debug)]
pub struct Backend {
    settings: ServerSettings,
    /// For the delivery alone. A connection is driven by the runtime that opened it, so that
    /// whatever workers ask must not share these: batches would be written on a worker's thread.
    delivery: Arc<Client>,
    /// For queries of clients and everything else that workers ask.
    queries: Arc<Client>,
    breaker: Breaker,
    standing: DeliveryState,
    /// Whether it may be used, where it is a member of a cluster.
    placement: Arc<Placement>,
    /// Tells its delivery to end.
    drain: Drain,
}

/// A breaker as operators see it.
fn breaker(name: &str, registry: &Registry) -> Breaker {
    let labels = [("backend", name)];
    let shown = health::Shown {
        state: registry.gauge(
            "weir_backend_breaker_state",
            "Whether the backend is asked: 0 yes, 1 one trial is under way, 2 no.",
            &labels,
        ),
        opened: registry.counter(
            "weir_backend_breaker_opened_total",
            "Times the backend failed so often that it was left alone for a while.",
            &labels,
        ),
    };
    Breaker::new(name, health::Settings::default(), shown)
}

impl Backend {
    /// A backend that nothing has been delivered to yet, whose delivery ends with `drain`.
    ///
    /// # Errors
    /// When its password or certificate files cannot be read.
    fn new(
        settings: &ServerSettings,
        placement: &Arc<Placement>,
        registry: &Registry,
        drain: Drain,
    ) -> Result<Self, ClientError> {
        let (table, backend) = (Arc::clone(placement), settings.delivery.name.clone());
        let greeting: Arc<dyn Greeting> = Arc::new(TableGreeting { placement: table, backend });
        Ok(Self {
            settings: settings.clone(),
            delivery: Arc::new(Client::new(settings, Some(Arc::clone(&greeting)))?),
            queries: Arc::new(Client::new(settings, Some(greeting))?),
            breaker: breaker(&settings.delivery.name, registry),
            standing: DeliveryState::new(&settings.delivery.name, registry),
            placement: Arc::clone(placement),
            drain,
        })
    }

    /// The backend's name in the configuration.
    pub fn name(&self) -> &str {
        &self.settings.delivery.name
    }

    /// The backend's part of the configuration.
    pub fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// The client of its delivery.
    pub fn client(&self) -> &Arc<Client> {
        &self.delivery
    }

    /// The client of queries, which workers may use.
    pub fn queries(&self) -> &Arc<Client> {
        &self.queries
    }

    /// Whether the backend answers, or is left alone for a while.
    pub fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// What its delivery is doing.
    pub fn standing(&self) -> &DeliveryState {
        &self.standing
    }

    /// What tells its delivery to end.
    pub fn drain(&self) -> &Drain {
        &self.drain
    }

    /// How old the oldest point is that it has still to get; `None` when it is caught up.
    pub fn behind(&self) -> Option<Duration> {
        Some(self.standing.behind()).filter(|behind| *behind >= CAUGHT_UP)
    }

    /// Passes a query on; see [`Client::query`]. Its answer or failure moves the breaker.
    ///
    /// # Errors
    /// When there was no answer's head; another backend may be asked instead.
    pub async fn query(
        &self,
        form: (HeaderMap, Bytes),
        headers: &HeaderMap,
    ) -> Result<Response<Incoming>, TransportError> {
        let answer = match self.is_fit(&self.queries).await {
            Ok(()) => self.queries.query(form, headers).await,
            Err(error) => Err(error),
        };
        match &answer {
            Ok(_) => self.answered(),
            Err(error) => self.breaker.failure(&error.to_string()),
        }
        answer
    }

    /// Notes that the backend answered, whatever it said.
    pub fn answered(&self) {
        // A lock for each batch or query is nothing; but most of the time there is nothing to say.
        if self.breaker.state() != health::State::Closed {
            self.breaker.success();
        }
    }

    /// Reads password and token files again.
    ///
    /// # Errors
    /// When one cannot be read; the former credentials stay.
    pub fn read_credentials(&self) -> Result<(), ClientError> {
        self.delivery.read_credentials()?;
        self.queries.read_credentials()
    }

    /// How good it is to ask this backend: the smaller the better.
    fn rank(&self) -> (bool, u8, Duration) {
        let kind = match self.settings.kind {
            BackendKind::Influxdb => 0,
            BackendKind::Influxdb2 => 1,
            // It answers `/query` with nothing but lists of series.
            BackendKind::VictoriaMetrics => 2,
        };
        let ill = self.breaker.state() != health::State::Closed || self.standing.is_stopped();
        (ill, kind, self.behind().unwrap_or_default())
    }

    fn status(&self, cursors: &[CursorStatus]) -> BackendStatus {
        let failure = || {
            let failure = self.breaker.last_failure()?;
            Some((failure.reason.to_string(), failure.at))
        };
        let ServerSettings { delivery, kind, url, .. } = &self.settings;
        let mut status = status_of(delivery, (kind.name(), url), &self.standing, cursors, failure);
        status.breaker = self.breaker.state().name();
        status
    }
}

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
        Backend::new(settings, &self.placement, &self.registry, drain).map(Arc::new)
    }

    /// Every backend but the embedded one, in the configuration's order.
    pub fn all(&self) -> Vec<Arc<Backend>> {
        self.list().servers().cloned().collect()
    }

    /// Where points lie, where backends share them out.
    pub fn placement(&self) -> &Arc<Placement> {
        &self.placement
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

    /// Whom to ask of a cluster's set, best first.
    pub fn members(&self, set: &Set) -> Vec<Arc<Backend>> {
        let mut list = self.candidates();
        list.retain(|backend| {
            let is_member = set.members.iter().any(|member| member == backend.name());
            // One whose table was not read for a while is asked for it by its next connection.
            is_member && !matches!(self.placement.is_fit(backend.name()), Err(Unfit::Differs(_)))
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
