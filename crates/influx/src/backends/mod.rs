//! The backends as all parts of the gateway see them: how each is, whom to ask, what came of a
//! statement. The deliveries write here; the front end, `/metrics` and `weir status` read.

mod state;
mod statements;
mod status;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flow::drain::Drain;
use flow::health::{self, Breaker};
use futures_util::future::join_all;
use http::{HeaderMap, Response};
use hyper::body::Incoming;
use journal::{CursorStatus, Journal};
use tokio::task::JoinHandle;
use watch::metrics::Registry;

pub use self::state::{DeliveryState, Phase};
use self::statements::StatementWaiters;
pub use self::statements::{Ran, StatementTicket};
pub use self::status::BackendStatus;
pub(crate) use self::status::status_of;
use crate::client::{Client, ClientError, TransportError};
use crate::settings::{BackendKind, BackendSettings, ServerSettings};

/// A backend whose oldest waiting point is younger than this counts as caught up.
const CAUGHT_UP: Duration = Duration::from_secs(1);
/// How long a statement about users may take on each backend.
const EVERYWHERE_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// A backend that nothing has been delivered to yet.
    ///
    /// # Errors
    /// When its password or certificate files cannot be read.
    pub fn new(settings: &ServerSettings, registry: &Registry) -> Result<Self, ClientError> {
        Ok(Self {
            settings: settings.clone(),
            delivery: Arc::new(Client::new(settings)?),
            queries: Arc::new(Client::new(settings)?),
            breaker: breaker(&settings.delivery.name, registry),
            standing: DeliveryState::new(&settings.delivery.name, registry),
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
        let answer = self.queries.query(form, headers).await;
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

/// Why a statement did not run on all backends.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EverywhereError {
    /// Not all backends can be reached, so that none was asked.
    #[error(
        "statements about users and their rights run on all backends or on none, and cannot be \
         kept for later; not reachable: {}", .0.join(", ")
    )]
    Unreachable(Vec<String>),
    /// A backend could be reached and then gave no answer: it may or may not have run the
    /// statement.
    #[error(
        "the statement may not have run on backend {backend}: {error}; run it again when it answers"
    )]
    Broken {
        /// The backend's name in the configuration.
        backend: String,
        /// Why there was no answer.
        error: TransportError,
    },
}

/// All backends, with their deliveries.
#[derive(Debug)]
pub struct Backends {
    /// All but the embedded one.
    list: Vec<Arc<Backend>>,
    /// Those of all, in the configuration's order.
    settings: Vec<BackendSettings>,
    journal: Journal,
    waiting: Arc<StatementWaiters>,
    /// Whose turn it is among equal candidates.
    turn: AtomicUsize,
    /// Tells the deliveries to end.
    pub(crate) drain: Drain,
    pub(crate) tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Backends {
    /// The backends of the configuration, in its order.
    ///
    /// # Errors
    /// When one's password or certificate files cannot be read.
    pub fn new(
        settings: &[BackendSettings],
        journal: &Journal,
        registry: &Registry,
    ) -> Result<Self, ClientError> {
        let servers = settings.iter().filter_map(BackendSettings::server);
        let list: Result<Vec<_>, _> =
            servers.map(|settings| Backend::new(settings, registry).map(Arc::new)).collect();
        Ok(Self {
            list: list?,
            settings: settings.to_vec(),
            journal: journal.clone(),
            waiting: Arc::default(),
            turn: AtomicUsize::new(0),
            drain: Drain::new(),
            tasks: Mutex::default(),
        })
    }

    /// Every backend but the embedded one, in the configuration's order.
    pub fn all(&self) -> &[Arc<Backend>] {
        &self.list
    }

    /// Whom to ask for a query, best first: healthy and caught up ones take turns, then whoever is
    /// the least behind; ill ones last, for when there is no other.
    pub fn candidates(&self) -> Vec<Arc<Backend>> {
        let mut list = self.list.clone();
        if !list.is_empty() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let len = list.len();
            list.rotate_left(turn % len);
        }
        list.sort_by_cached_key(|backend| backend.rank());
        list
    }

    /// Every backend with the account of its points; that of the embedded one is asked for.
    pub fn status(
        &self,
        embedded: impl Fn(&[CursorStatus]) -> Option<BackendStatus>,
    ) -> Vec<BackendStatus> {
        let cursors = self.journal.cursors();
        let status = |name: &str| {
            let backend = self.list.iter().find(|backend| backend.name() == name);
            backend.map_or_else(|| embedded(&cursors), |backend| Some(backend.status(&cursors)))
        };
        self.names().filter_map(status).collect()
    }

    /// Begins to wait for a statement: its id goes into the journal's record. Call this before the
    /// record is appended, so that no result is missed.
    pub fn statement(&self) -> StatementTicket {
        StatementTicket::new(&self.waiting, self.names().map(str::to_owned).collect())
    }

    /// Tells whoever waits for a statement what came of it on a backend.
    pub fn statement_ran(&self, id: u64, backend: &str, ran: &Ran) {
        self.waiting.tell(id, backend, ran);
    }

    /// Runs a statement about users on all backends at once, without the journal, and gives the
    /// body of one answer: of one that refused it, if any did. Backends that know no such
    /// statements are left out.
    ///
    /// # Errors
    /// When a backend cannot be reached; none has then been asked. When one gave no answer.
    pub async fn run_everywhere(&self, text: &str, db: &str) -> Result<Bytes, EverywhereError> {
        let asked = || self.list.iter().filter(|backend| backend.settings.kind.has_catalogue());
        let pings = join_all(asked().map(|backend| backend.queries.ping())).await;
        let unreachable: Vec<String> = asked()
            .zip(pings)
            .filter(|(_, ping)| ping.is_err())
            .map(|(backend, _)| backend.name().to_owned())
            .collect();
        if !unreachable.is_empty() {
            return Err(EverywhereError::Unreachable(unreachable));
        }
        let form = [("q", text), ("db", db)];
        let run = asked().map(|backend| backend.queries.ask(&form, EVERYWHERE_TIMEOUT));
        let mut answer = Bytes::from_static(b"{\"results\":[]}\n");
        let mut refused = false;
        for (backend, said) in asked().zip(join_all(run).await) {
            let backend = backend.name();
            let said =
                said.map_err(|error| EverywhereError::Broken { backend: backend.into(), error })?;
            if !refused {
                refused = said.refused().is_some();
                answer = said.body;
            }
        }
        Ok(answer)
    }

    /// Reads password and token files again; gives the settings that need a restart to take
    /// effect.
    pub fn reload(&self, settings: &[BackendSettings]) -> Vec<String> {
        for backend in &self.list {
            if let Err(error) = backend.read_credentials() {
                tracing::error!(%error, "credentials are not read again");
            }
        }
        let differs = |of: &&BackendSettings| !settings.contains(of);
        let servers = self.settings.iter().filter(|of| of.server().is_some());
        let others = self.settings.iter().filter(|of| of.server().is_none());
        let changed = servers.chain(others).filter(differs);
        let is_new = |of: &&BackendSettings| self.names().all(|name| name != of.name());
        let restart = changed.chain(settings.iter().filter(is_new));
        restart.map(|of| format!("influx.backend {:?}", of.name())).collect()
    }

    /// The names of all backends, in the configuration's order.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.settings.iter().map(BackendSettings::name)
    }

    /// Ends the deliveries: each may finish the request it has under way, if that takes no longer
    /// than a few seconds; the rest stays in the journal.
    pub async fn stop(&self) {
        self.drain.trigger();
        let tasks = {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *tasks)
        };
        let end = |mut task: JoinHandle<()>| async move {
            // A task that panicked has said so; there is nothing left to stop.
            if tokio::time::timeout(STOP_GRACE, &mut task).await.is_err() {
                task.abort();
                let _ = task.await;
                tracing::warn!("a batch was under way; it will be sent again after the next start");
            }
        };
        join_all(tasks.into_iter().map(end)).await;
    }

    /// Sees whether backends that fail, or of which nothing is heard otherwise, answer `/ping`.
    pub async fn ping_silent(&self) {
        let due = |backend: &&Arc<Backend>| {
            let failing = backend.breaker.state() != health::State::Closed;
            !failing || backend.breaker.allows(Instant::now())
        };
        let pings = self.list.iter().filter(due).map(|backend| async move {
            match backend.delivery.ping().await {
                Ok(()) => backend.answered(),
                Err(error) => backend.breaker.failure(&error.to_string()),
            }
        });
        join_all(pings).await;
    }
}
