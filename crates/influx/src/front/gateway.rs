//! The whole gateway as the program sees it: opened, bound, run on each worker, reloaded, drained.

use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use flow::limit::Limit;
use flow::memory::{Memory, MemoryShare};
use flow::tls::{Renewal, ServerTls, TlsError};
use flow::{tcp, udp};
use http::HeaderValue;
use journal::Journal;
use sched::Slice;
use serde::Serialize;
use store::Store;
use tokio::runtime::Handle;
use watch::metrics::Registry;

use super::answer::{self, Answer};
use super::aside::Aside;
use super::auth::Authenticator;
use super::body::Limits;
use super::metrics::Metrics;
use super::settings::{Settings, SettingsError};
use super::udp::Receiver;
use super::{Front, http as connection, short};
use crate::backends::{BackendStatus, Backends};
use crate::catalogue::Catalogue;
use crate::delivery::StartError;

/// What one more connection than `max-connections` hears.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
    Content-Type: application/json\r\nContent-Length: 33\r\nConnection: close\r\n\r\n\
    {\"error\":\"too many connections\"}\n";

/// How often is looked whether memory can be given back, and after how many bytes it is worth it.
const GIVE_BACK_LOOK: Duration = Duration::from_secs(5);
const GIVE_BACK_MIN: u64 = 64 << 20;

/// Why the gateway could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings cannot work.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A certificate or key cannot be used.
    #[error("influx.tls: {0}")]
    Tls(#[from] TlsError),
    /// A backend's delivery could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// The settings a request reads, in the form it needs them; replaced by a reload.
pub(super) struct Live {
    pub settings: Settings,
    pub limits: Limits,
    pub version: HeaderValue,
}

impl Live {
    fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.validate()?;
        let version = HeaderValue::from_str(&settings.version).map_err(|_| SettingsError {
            at: "version".to_owned(),
            what: "cannot be sent in a header".to_owned(),
        })?;
        Ok(Self { limits: settings.limits(), version, settings })
    }
}

/// The InfluxDB gateway of one process.
pub struct Gateway {
    live: ArcSwap<Live>,
    pub(super) journal: Journal,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) backends: Arc<Backends>,
    pub(super) auth: Authenticator,
    pub(super) metrics: Metrics,
    http: tcp::Endpoint,
    udp: udp::Endpoint,
    tls: Option<ServerTls>,
    connections: Limit,
    /// What bodies of requests take until they are in the journal.
    pub(super) bodies: Memory,
    /// What answers to queries take until their clients have read them.
    pub(super) answers: Memory,
    /// Where what takes time runs: queries of the embedded store.
    pub(super) control: Handle,
    /// What would hold a worker for too long.
    pub(super) aside: Aside,
    /// Takes what comes from there.
    pub(super) appender: journal::Appender,
    /// Held while a database is made for a write, so that it is made once.
    pub(super) creating: tokio::sync::Mutex<()>,
}

/// All sockets of the gateway, bound and not yet served.
pub struct Listeners {
    http: Vec<Vec<tcp::Listener>>,
    udp: Vec<Vec<udp::Socket>>,
    addresses: Addresses,
}

/// Where the gateway listens.
#[derive(Debug, Clone, Serialize)]
pub struct Addresses {
    /// HTTP, or HTTPS with `tls`.
    pub http: Vec<SocketAddr>,
    /// UDP.
    pub udp: Vec<SocketAddr>,
}

/// What `weir status` shows of the gateway.
#[derive(Debug, Serialize)]
pub struct Status {
    /// Each backend.
    pub backends: Vec<BackendStatus>,
    /// Points acknowledged since the start.
    pub points_accepted: u64,
    /// Connections open now.
    pub connections: usize,
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
        let live = Live::new(settings)?;
        let settings = &live.settings;
        let protocols = ["http/1.1"];
        let tls = settings.tls.as_ref().map(|tls| ServerTls::new(tls, &protocols)).transpose()?;
        let connections = Limit::new(settings.max_connections);
        let http = tcp::Endpoint::new("influx", connections.clone(), &settings.timeouts, registry)
            .with_tls(tls.clone())
            .with_refusal(TOO_MANY);
        let (backends, catalogue) =
            Backends::start(&settings.backend, store, &journal, dir, registry, &control)?;
        let secret = settings.token_secret()?;
        let bodies = Memory::new(settings.bodies_memory_max());
        let answers = Memory::new(settings.answers_memory_max());
        Metrics::show_memory(registry, &bodies, &answers);
        control.spawn(give_back(bodies.clone(), answers.clone()));
        Ok(Arc::new(Self {
            bodies,
            answers,
            aside: Aside::new(control.clone()),
            appender: journal.common_appender(),
            auth: Authenticator::new(&settings.user, secret),
            control,
            metrics: Metrics::new(registry),
            udp: udp::Endpoint::new("influx", registry),
            live: ArcSwap::from_pointee(live),
            journal,
            catalogue,
            backends,
            http,
            tls,
            connections,
            creating: tokio::sync::Mutex::default(),
        }))
    }

    /// Opens every socket, one a worker for each address, so that a port that is taken is an
    /// error of the start.
    ///
    /// # Errors
    /// The first address that cannot be had.
    pub fn bind(&self, workers: usize) -> Result<Listeners, tcp::BindError> {
        let settings = &self.live().settings;
        let mut listeners = Listeners {
            http: (0..workers).map(|_| Vec::new()).collect(),
            udp: (0..workers).map(|_| Vec::new()).collect(),
            addresses: Addresses { http: Vec::new(), udp: Vec::new() },
        };
        for address in &settings.listen {
            let bound = tcp::bind(*address, workers)?;
            listeners.addresses.http.extend(bound.first().map(tcp::Listener::address));
            listeners.http.iter_mut().zip(bound).for_each(|(of, one)| of.push(one));
        }
        for port in &settings.udp {
            let bound = udp::bind(port.listen, workers, port.receive_buffer.len())?;
            listeners.addresses.udp.extend(bound.first().map(udp::Socket::address));
            listeners.udp.iter_mut().zip(bound).for_each(|(of, one)| of.push(one));
        }
        Ok(listeners)
    }

    /// Serves one worker's share of the sockets until the worker drains.
    pub async fn run_worker(self: Arc<Self>, share: Share, worker: flow::Worker) {
        // A write waits for this thread twice, beside programs that compute.
        sched::set_slice(Slice::Short);
        let front = Rc::new(Front::new(self.clone(), worker.clone(), self.journal.appender()));
        // Ends with the runtime: connections are served until the last of them has ended.
        tokio::task::spawn_local(short::run(front.clone()));
        let mut serving = tokio::task::JoinSet::new();
        for listener in share.http {
            let (endpoint, worker, front) = (self.http.clone(), worker.clone(), front.clone());
            serving.spawn_local(async move {
                let serve = move |stream, peer| connection::serve(front.clone(), stream, peer);
                endpoint.serve(listener, &worker, serve).await
            });
        }
        let ports = self.live().settings.udp.clone();
        for (socket, port) in share.udp.into_iter().zip(ports) {
            let (endpoint, worker) = (self.udp.clone(), worker.clone());
            let mut receiver = Receiver::new(front.clone(), port);
            serving
                .spawn_local(async move { endpoint.serve(socket, &worker, &mut receiver).await });
        }
        while let Some(ended) = serving.join_next().await {
            if let Ok(Err(error)) = ended {
                tracing::error!(%error, worker = worker.index, "a listener cannot be served");
            }
        }
    }

    /// Whether writes are taken; what stands in the way otherwise.
    ///
    /// # Errors
    /// Why a load balancer should send nothing here.
    pub fn ready(&self) -> Result<(), String> {
        let status = self.journal.status();
        match status.poisoned {
            Some(why) => Err(format!("the journal is poisoned: {why}")),
            None if status.disk_full => Err("the journal's disk is full".to_owned()),
            None if status.full => Err("the journal has reached max-size".to_owned()),
            None => match self.backends.embedded() {
                Some(embedded) => {
                    embedded.started().map_err(|starting| starting.to_string())?;
                    embedded.behind().map_or(Ok(()), |behind| Err(behind.to_string()))
                }
                None => Ok(()),
            },
        }
    }

    /// The state of the gateway.
    pub fn status(&self) -> Status {
        Status {
            backends: self.backends.status(),
            points_accepted: self.metrics.accepted.get(),
            connections: self.connections.used(),
        }
    }

    /// Makes ready to put in force what can change while connections are served: users, the token
    /// secret, the stamp, body limits, memory, the connection limit, certificates and the backends'
    /// credentials.
    ///
    /// # Errors
    /// What is wrong with the new settings.
    pub fn prepare(&self, settings: Settings) -> Result<Prepared<'_>, OpenError> {
        let live = Live::new(settings)?;
        let secret = live.settings.token_secret()?;
        let tls = self.tls.as_ref().filter(|_| live.settings.tls.is_some());
        let tls = tls.map(ServerTls::renew).transpose()?;
        Ok(Prepared { gateway: self, live, secret, tls })
    }

    /// Stops the deliveries after the batches under way, with their cursors persisted.
    pub async fn drain(&self) {
        self.backends.stop().await;
    }

    /// A share of what answers may take.
    ///
    /// # Errors
    /// 503 where there is none left.
    pub(super) fn answer_share(&self, bytes: usize) -> Result<MemoryShare, Answer> {
        self.answers.take(bytes).ok_or_else(|| self.no_answer_memory())
    }

    /// The answer where all answers that are not read yet take as much memory as they may.
    pub(super) fn no_answer_memory(&self) -> Answer {
        self.metrics.queries_refused.inc();
        answer::unavailable("too many answers are not read yet; see answers-memory", 1)
    }

    /// The answer where no other query's answer was read while one waited for its turn.
    pub(super) fn no_turn(&self) -> Answer {
        self.metrics.queries_refused.inc();
        answer::unavailable("too many queries are under way, or their answers are not read", 1)
    }

    pub(super) fn live(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }
}

/// Settings that can be used and are not in force yet.
#[must_use = "the former settings stay in force"]
pub struct Prepared<'a> {
    gateway: &'a Gateway,
    live: Live,
    secret: Option<String>,
    tls: Option<Renewal>,
}

impl Prepared<'_> {
    /// Puts them in force; gives the keys that differ and need a restart.
    pub fn put_in_force(self) -> Vec<String> {
        let Self { gateway, mut live, secret, tls } = self;
        if let Some(tls) = tls {
            tls.put_in_force();
        }
        let (settings, mut fixed) = live.settings.keep_fixed(&gateway.live().settings);
        live.settings = settings;
        fixed.extend(gateway.backends.reload(&live.settings.backend));
        gateway.auth.replace(&live.settings.user, secret);
        gateway.connections.set_max(live.settings.max_connections);
        gateway.bodies.set_max(live.settings.bodies_memory_max());
        gateway.answers.set_max(live.settings.answers_memory_max());
        gateway.live.store(Arc::new(live));
        fixed
    }
}

/// Gives memory back to the system that bodies and answers took, once none is under way.
async fn give_back(bodies: Memory, answers: Memory) {
    let mut given_back = 0;
    loop {
        tokio::time::sleep(GIVE_BACK_LOOK).await;
        let passed = bodies.passed() + answers.passed();
        let quiet = bodies.used() + answers.used() == 0;
        if quiet && passed - given_back >= GIVE_BACK_MIN {
            given_back = passed;
            let _ = tokio::task::spawn_blocking(sched::heap::give_back).await;
        }
    }
}

/// One worker's share of the sockets.
pub struct Share {
    http: Vec<tcp::Listener>,
    udp: Vec<udp::Socket>,
}

impl Listeners {
    /// Where the gateway listens.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The share of each worker, in their order.
    pub fn shares(self) -> impl Iterator<Item = Share> {
        self.http.into_iter().zip(self.udp).map(|(http, udp)| Share { http, udp })
    }
}
