//! The whole gateway as the program sees it: opened, bound, run on each worker, reloaded, drained.

use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use flow::endpoint::Endpoint;
use flow::front::{self, Addresses, BindError, PreparedSettings, Serving, Share, Sockets};
use flow::limit::Limit;
use flow::memory::{self, Memory, MemoryShare};
use flow::tls::{Renewal, ServerTls, TlsError};
use flow::udp;
use journal::Journal;
use sched::Slice;
use serde::Serialize;
use store::{Store, StoreSize};
use tokio::runtime::Handle;
use watch::metrics::Registry;

use super::answer::{self, Answer};
use super::auth::Authenticator;
use super::live::Live;
use super::metrics::Metrics;
use super::parking::Parking;
use super::udp::Receiver;
use super::{Front, http as connection, short};
use crate::admission::{Admission, WorkerAdmission};
use crate::aside::Aside;
use crate::assembly::{Deliveries, Parts, PreparedDeliveries};
use crate::backends::{BackendStatus, STOP_GRACE};
use crate::collisions::{Collisions, CollisionsStatus, WARN_EVERY};
use crate::delivery::{Pace, StartError};
use crate::embedded::{Embedded, Queries};
use crate::placement::{CheckedTable, Placement, PlacementError, PreparedTable, WrittenTable};
use crate::settings::{BackendError, BackendSettings, FixedSettings, Settings, SettingsError};

/// What one more connection than `max-connections` hears.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
    Content-Type: application/json\r\nContent-Length: 33\r\nConnection: close\r\n\r\n\
    {\"error\":\"too many connections\"}\n";

/// What the status calls the addresses of each kind.
const HTTP: &str = "http";
const UDP: &str = "udp";

/// Why the gateway could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings cannot work.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The settings of a backend cannot work.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A certificate or key cannot be used.
    #[error("influx.tls: {0}")]
    Tls(#[from] TlsError),
    /// A cluster's table cannot be in force.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A backend's delivery could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Settings that can work, with what is made of them.
struct CheckedSettings {
    settings: Settings,
    backends: Vec<BackendSettings>,
    live: Live,
}

impl CheckedSettings {
    fn new(settings: Settings) -> Result<Self, OpenError> {
        settings.validate()?;
        let live = Live::of(&settings)?;
        Ok(Self { backends: settings.backends()?, live, settings })
    }

    /// The cluster's table, if it keeps what is in force.
    fn table(&self, placement: &Placement) -> Result<CheckedTable, OpenError> {
        let wanted = WrittenTable::of(&self.settings)?.map(|written| {
            let table = written.table(&self.backends)?;
            let cluster = self.settings.cluster.clone().unwrap_or_default();
            let check_interval = cluster.check_interval.get();
            Ok::<_, SettingsError>(PreparedTable { written, table, check_interval })
        });
        let configured: Vec<&str> = self.backends.iter().map(BackendSettings::name).collect();
        Ok(placement.check(wanted.transpose()?, &configured)?)
    }
}

/// The InfluxDB gateway of one process.
pub struct Gateway {
    live: ArcSwap<Live>,
    /// What a reload leaves as it is.
    pub(super) fixed: FixedSettings,
    pub(super) journal: Journal,
    pub(super) deliveries: Deliveries,
    pub(super) auth: Authenticator,
    pub(super) metrics: Metrics,
    ports: Ports,
    pub(super) memory: RequestMemory,
    /// Where what takes time runs: queries of the embedded store.
    pub(super) control: Handle,
    /// What would hold a worker for too long.
    pub(super) aside: Aside,
    /// The way of points and statements into the journal.
    pub(super) admission: Arc<Admission>,
    /// What looks for points that overwrite each other, unless that is off.
    pub(super) collisions: Option<Arc<Collisions>>,
    /// What queries share that run here on the points of a cluster's members, once there is one.
    fetches: OnceLock<Queries>,
}

/// The listeners, and how many connections they may have.
struct Ports {
    http: Endpoint,
    udp: udp::Endpoint,
    tls: Option<ServerTls>,
    connections: Limit,
}

/// What the requests of all clients may take together.
pub(super) struct RequestMemory {
    /// What bodies take until they are in the journal.
    pub bodies: Memory,
    /// What answers to queries take until their clients have read them.
    pub answers: Memory,
    /// The answers that are not read.
    pub parking: Arc<Parking>,
}

impl RequestMemory {
    fn new(settings: &Settings, registry: &Registry) -> Self {
        let bodies = Memory::new(settings.bodies_memory_max());
        let answers = Memory::new(settings.answers_memory_max());
        Metrics::show_memory(registry, &bodies, &answers);
        Self { bodies, answers, parking: Parking::new(registry) }
    }

    fn set_max(&self, settings: &Settings) {
        self.bodies.set_max(settings.bodies_memory_max());
        self.answers.set_max(settings.answers_memory_max());
    }
}

/// What `weir status` shows of the gateway.
#[derive(Debug, Serialize)]
struct Status {
    /// Each backend with its delivery.
    backends: Vec<BackendStatus>,
    /// Points acknowledged since the start.
    points_accepted: u64,
    /// Client connections that are open now.
    connections: usize,
    /// Points that overwrote others; absent where nobody looks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    collisions: Option<CollisionsStatus>,
    /// What is in the embedded store; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<StoreStatus>,
}

/// What `weir status` shows of the embedded store.
#[derive(Debug, Serialize)]
struct StoreStatus {
    #[serde(flatten)]
    size: StoreSize,
    /// Queries that run at this moment.
    queries: usize,
}

impl StoreStatus {
    fn of(embedded: &Embedded) -> Self {
        Self { size: embedded.store().size(), queries: embedded.queries().active() }
    }
}

impl Gateway {
    /// Opens the gateway: the catalogue is read from `dir`, each backend's delivery starts, that to
    /// `store` under the name of the embedded backend.
    ///
    /// # Errors
    /// What in the settings or on the disk stands in the way.
    pub fn open(
        settings: Settings,
        store: Option<&Arc<Store>>,
        journal: Journal,
        dir: &Path,
        registry: &Registry,
        control: Handle,
    ) -> Result<Arc<Self>, OpenError> {
        let checked = CheckedSettings::new(settings)?;
        let settings = &checked.settings;
        let protocols = ["http/1.1"];
        let tls = settings.tls.as_ref().map(|tls| ServerTls::new(tls, &protocols)).transpose()?;
        let connections = Limit::new(settings.max_connections);
        let http = Endpoint::new("influx", connections.clone(), &settings.timeouts, registry)
            .with_tls(tls.clone())
            .with_refusal(TOO_MANY);
        let udp = udp::Endpoint::new("influx", registry);
        let pace = Pace::default();
        let placement = &Arc::new(Placement::new(dir));
        placement.put_in_force(checked.table(placement)?);
        let parts = Parts { journal: &journal, dir, registry, control: &control, pace, placement };
        let deliveries = Deliveries::start(&checked.backends, store, &parts)?;
        let secret = settings.token_secret()?;
        let memory = RequestMemory::new(settings, registry);
        control.spawn(memory::give_back(vec![memory.bodies.clone(), memory.answers.clone()]));
        let metrics = Metrics::new(registry);
        let aside = Aside::new(control.clone());
        let collisions = Collisions::new(&settings.collisions, registry);
        if let Some(collisions) = &collisions {
            control.spawn(Arc::clone(collisions).warn(WARN_EVERY));
        }
        let admission = Admission::new(
            Arc::clone(&deliveries.catalogue),
            Arc::clone(&deliveries.backends),
            deliveries.embedded.clone(),
            &journal,
            aside.clone(),
            metrics.points_refused.clone(),
            collisions.clone(),
        );
        Ok(Arc::new(Self {
            memory,
            aside,
            admission,
            collisions,
            fetches: OnceLock::new(),
            auth: Authenticator::new(&settings.user, secret),
            control,
            metrics,
            fixed: FixedSettings::of(settings),
            live: ArcSwap::from_pointee(checked.live),
            journal,
            deliveries,
            ports: Ports { http, udp, tls, connections },
        }))
    }

    /// A share of what answers may take.
    ///
    /// # Errors
    /// 503 where there is none left.
    pub(super) fn answer_share(&self, bytes: usize) -> Result<MemoryShare, Answer> {
        self.memory.answers.take(bytes).ok_or_else(|| self.no_answer_memory())
    }

    /// The answer where all answers that are not read yet take as much memory as they may.
    pub(super) fn no_answer_memory(&self) -> Answer {
        self.metrics.queries_refused.inc();
        answer::unavailable("too many answers are not read yet; see answers-memory", 1)
    }

    /// The answer where no other query gave its turn back while one waited for it.
    pub(super) fn no_turn(&self) -> Answer {
        self.metrics.queries_refused.inc();
        answer::unavailable("too many queries are under way", 1)
    }

    /// What queries share that run here on the points of a cluster's members.
    pub(super) fn fetches(&self) -> &Queries {
        self.fetches.get_or_init(|| Queries::new(&store::Settings::default()))
    }

    /// Whether whoever sees the status may see clients' values.
    fn shows_values(&self) -> bool {
        self.auth.is_open() || self.fixed.collisions.show_values
    }

    pub(super) fn live(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// Closes the embedded store after a while, for its delivery may be waiting for files that
    /// can't be written; never returns.
    async fn close_store(&self) {
        if let Some(embedded) = self.deliveries.embedded.clone() {
            tokio::time::sleep(STOP_GRACE).await;
            let _ = tokio::task::spawn_blocking(move || embedded.store().close()).await;
        }
        std::future::pending().await
    }

    fn put_in_force(
        &self,
        CheckedSettings { settings, live, .. }: CheckedSettings,
        secret: Option<String>,
        tls: Option<Renewal>,
        (table, backends): (CheckedTable, PreparedDeliveries),
    ) -> Vec<String> {
        // First: whoever is added as a member gets no points but its own.
        self.deliveries.backends.placement().put_in_force(table);
        if let Some(tls) = tls {
            tls.put_in_force();
        }
        let mut fixed = self.fixed.differing(&settings);
        fixed.extend(self.deliveries.put_in_force(backends));
        self.auth.replace(&settings.user, secret);
        self.ports.connections.set_max(settings.max_connections);
        self.memory.set_max(&settings);
        self.live.store(Arc::new(live));
        fixed
    }
}

impl front::Front for Gateway {
    const NAME: &'static str = "influx";
    type Settings = Settings;
    type Error = OpenError;

    fn bind(&self, sockets: &mut Sockets) -> Result<(), BindError> {
        sockets.tcp(HTTP, &self.fixed.listen)?;
        let ports = self.fixed.udp.iter().map(|port| (port.listen, port.receive_buffer.len()));
        sockets.udp(UDP, ports)
    }

    fn announce(&self, addresses: &Addresses, workers: usize) {
        let (http, udp) = (addresses.of(HTTP), addresses.of(UDP));
        tracing::info!(?http, ?udp, workers, "writes are taken");
    }

    async fn run(self: Arc<Self>, share: Share, worker: flow::Worker) {
        // A write waits for this thread twice, beside programs that compute.
        sched::set_slice(Slice::Short);
        let admission =
            WorkerAdmission::new(self.admission.clone(), &self.journal, worker.pulse.clone());
        let front = Rc::new(Front::new(self.clone(), worker.clone(), admission));
        // Ends with the runtime: connections are served until the last of them has ended.
        tokio::task::spawn_local(short::run(front.clone()));
        // Else another gateway would run a statement that was sent behind a write to this one.
        self.deliveries.backends.placement().announced().await;
        let mut serving = Serving::new(&worker);
        let of_http = front.clone();
        let serve = move |stream, peer| connection::serve(of_http.clone(), stream, peer);
        serving.tcp(share.tcp, &self.ports.http, serve);
        let ports = self.fixed.udp.clone();
        for (socket, port) in share.udp.into_iter().zip(ports) {
            serving.udp(socket, &self.ports.udp, Receiver::new(front.clone(), port));
        }
        serving.ended().await;
    }

    /// What can change while connections are served: users, the token secret, the stamp, body
    /// limits, memory, the connection limit, certificates, the backends that are servers, and a
    /// cluster's sets and periods.
    fn prepare(self: &Arc<Self>, settings: Settings) -> Result<PreparedSettings<'_>, OpenError> {
        let checked = CheckedSettings::new(settings)?;
        let secret = checked.settings.token_secret()?;
        let tls = self.ports.tls.as_ref().filter(|_| checked.settings.tls.is_some());
        let tls = tls.map(ServerTls::renew).transpose()?;
        let table = checked.table(self.deliveries.backends.placement())?;
        let backends = self.deliveries.prepare(&checked.backends)?;
        Ok(PreparedSettings::new(move || {
            self.put_in_force(checked, secret, tls, (table, backends))
        }))
    }

    /// Whether writes are taken; what stands in the way otherwise.
    fn ready(&self) -> Result<(), String> {
        let status = self.journal.status();
        match status.poisoned {
            Some(why) => Err(format!("the journal is poisoned: {why}")),
            None if status.disk_full => Err("the journal's disk is full".to_owned()),
            None if status.full => Err("the journal has reached max-size".to_owned()),
            None => match &self.deliveries.embedded {
                Some(embedded) => {
                    embedded.started().map_err(|starting| starting.to_string())?;
                    embedded.behind().map_or(Ok(()), |behind| Err(behind.to_string()))
                }
                None => Ok(()),
            },
        }
    }

    fn status(&self) -> impl Serialize {
        Status {
            backends: self.deliveries.status(),
            points_accepted: self.metrics.accepted.get(),
            connections: self.ports.connections.used(),
            collisions: self.collisions.as_ref().map(|of| of.status(self.shows_values())),
            store: self.deliveries.embedded.as_deref().map(StoreStatus::of),
        }
    }

    /// Stops the deliveries after the batches under way, with their cursors persisted.
    async fn stop(&self, within: Duration) {
        let stop = async {
            tokio::select! {
                () = self.deliveries.backends.stop() => {}
                () = self.close_store() => {}
            }
        };
        if tokio::time::timeout(within, stop).await.is_err() {
            tracing::warn!("not everything was delivered that could have been");
        }
    }
}
