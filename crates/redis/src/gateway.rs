//! The whole gateway as the program sees it: opened, bound, run on each worker, reloaded, drained.

use std::rc::Rc;
use std::sync::Arc;

use arc_swap::ArcSwap;
use flow::endpoint::Endpoint;
use flow::front::{self, Addresses, BindError, Calls, Prepared, Serving, Share, Sockets};
use flow::limit::Limit;
use flow::pool::Counts;
use flow::service::{self, Fabric};
use flow::tls::{ServerTls, TlsError};
use serde::Serialize;
use tokio::sync::oneshot;
use watch::metrics::Registry;
use watch::units::Duration;

use crate::front::{Front, InForce, Placing};
use crate::metrics::Metrics;
use crate::server::{Server, Servers};
use crate::session::Session;
use crate::settings::{BackendSettings, Settings, SettingsError};
use crate::status::{self, Status};

/// What the status calls the addresses.
const LISTEN: &str = "redis";

/// What one more connection than `max-connections` hears.
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// After how long a connection is closed that nobody has used.
const IDLE: std::time::Duration = std::time::Duration::from_secs(60);

/// Why the gateway can not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings can't work.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A file of clients' TLS can't be used.
    #[error("redis.tls: {0}")]
    Tls(#[from] TlsError),
    /// A backend's files can't be used.
    #[error("redis: {0}")]
    Backend(String),
}

/// What another thread has a worker do.
type Call = Box<dyn FnOnce(&Rc<Fabric<Servers>>) + Send>;

/// The Redis gateway of one process.
pub struct Gateway {
    settings: ArcSwap<Settings>,
    in_force: Arc<ArcSwap<InForce>>,
    servers: Vec<Server>,
    placing: Placing,
    endpoint: Endpoint,
    connections: Limit,
    tls: Option<ServerTls>,
    metrics: Metrics,
    counts: Counts,
    calls: Calls<Call>,
}

impl Gateway {
    /// Opens the gateway. No server is asked for anything yet.
    ///
    /// # Errors
    /// What in the settings stands in the way.
    pub fn open(settings: Settings, registry: &Registry) -> Result<Arc<Self>, OpenError> {
        settings.validate()?;
        let tls = settings.tls.as_ref().map(|tls| ServerTls::new(&tls.pair(), &[])).transpose()?;
        let connections = Limit::new(settings.max_connections);
        let timeouts = flow::progress::Timeouts {
            write: settings.write_timeout,
            handshake: settings.read_timeout,
            header: settings.read_timeout,
            body: Duration::from_secs(0),
            idle: settings.idle_timeout,
            body_rate: 0,
            answer_rate: 0,
        };
        let endpoint = Endpoint::new("redis", connections.clone(), &timeouts, registry)
            .with_tls(tls.clone())
            .with_refusal(TOO_MANY);
        let servers: Result<Vec<Server>, String> =
            settings.backend.iter().map(Server::new).collect();
        let placing = Placing::new(&settings).ok_or_else(|| {
            OpenError::Backend("the weights of the backends leave no server".to_owned())
        })?;
        let in_force = Arc::new(ArcSwap::from_pointee(InForce::new(&settings)));
        Ok(Arc::new(Self {
            metrics: Metrics::new(registry),
            settings: ArcSwap::from_pointee(settings),
            in_force,
            placing,
            servers: servers.map_err(OpenError::Backend)?,
            endpoint,
            connections,
            tls,
            counts: counts(registry),
            calls: Calls::default(),
        }))
    }
}

/// Where connections to servers are counted.
fn counts(registry: &Registry) -> Counts {
    let count = |what: &str, help: &str| {
        registry.counter(&format!("weir_redis_server_connections_{what}_total"), help, &[])
    };
    Counts {
        waited: registry.histogram(
            "weir_redis_lease_wait_seconds",
            "How long was waited for a connection to a Redis server.",
            &[],
        ),
        opened: count("opened", "Connections to Redis servers that were opened."),
        closed: count("closed", "Connections to Redis servers that were closed."),
        failed: count("failed", "Connections to Redis servers that could not be opened."),
    }
}

/// How a worker's fabric is run.
fn fabric(settings: &Settings, drain: std::time::Duration) -> service::Settings {
    let timeout = settings.timeout.get();
    let lanes = flow::lanes::Limits {
        count: settings.lanes,
        depth: settings.lane_depth,
        head_max: timeout,
        head_limit: timeout,
    };
    service::Settings {
        lanes,
        lane: flow::lane::Limits {
            depth: lanes.depth,
            patience: settings.patience.get(),
            ..flow::lane::Limits::default()
        },
        pool: flow::pool::Settings {
            size_max: settings.pool_size,
            idle_time: Some(IDLE),
            age: None,
            ..flow::pool::Settings::default()
        },
        timeout,
        drain,
        waiting: settings.max_waiting.len(),
        spill: settings.max_unread.len(),
        request: settings.max_command.len(),
    }
}

/// Within a stop, how long clients may take to come to an end.
const DRAIN: std::time::Duration = std::time::Duration::from_secs(1);

impl front::Front for Gateway {
    const NAME: &'static str = "redis";
    type Settings = Settings;
    type Error = OpenError;

    fn bind(&self, sockets: &mut Sockets) -> Result<(), BindError> {
        let settings = self.settings.load();
        if !settings.listen.is_empty() {
            sockets.tcp(LISTEN, &settings.listen)?;
        }
        for path in &settings.unix_sockets {
            sockets.unix(path, settings.unix_mode())?;
        }
        Ok(())
    }

    fn announce(&self, addresses: &Addresses, workers: usize) {
        let listen = addresses.of(LISTEN);
        if !listen.is_empty() {
            tracing::info!(?listen, workers, "Redis clients are taken");
        }
    }

    async fn run(self: Arc<Self>, share: Share, worker: flow::Worker) {
        let mut calls = self.calls.attend(worker.index);
        let settings = self.settings.load_full();
        let front = Rc::new(self.front(&settings, &worker));
        let called = Rc::clone(&front.fabric);
        let attending = tokio::task::spawn_local(async move {
            while let Some(call) = calls.recv().await {
                call(&called);
            }
        });
        let drain = worker.drain.clone();
        let serve = move |stream| {
            let session = Session::new(Rc::clone(&front));
            Rc::clone(&front.fabric).serve(stream, drain.clone(), session)
        };
        let mut serving = Serving::new(&worker);
        serving.unix(share.unix, &self.endpoint, serve.clone());
        serving.tcp(share.tcp, &self.endpoint, move |stream, _| serve(stream));
        serving.ended().await;
        self.calls.leave(worker.index);
        let _ = attending.await;
    }

    fn prepare(self: &Arc<Self>, wanted: Settings) -> Result<Prepared<'_>, OpenError> {
        wanted.validate()?;
        let tls = self.tls.as_ref().map(ServerTls::renew).transpose()?;
        Ok(Prepared::new(move || {
            if let Some(tls) = tls {
                tls.put_in_force();
            }
            self.connections.set_max(wanted.max_connections);
            self.in_force.store(Arc::new(InForce::new(&wanted)));
            let running = fabric(&wanted, DRAIN);
            drop(self.calls.asked_all(|done: oneshot::Sender<()>| {
                let running = running.clone();
                let call: Call = Box::new(move |fabric| {
                    fabric.set_settings(running);
                    let _ = done.send(());
                });
                call
            }));
            let former = self.settings.load();
            let fixed = former.fixed(&wanted);
            // What needs a restart stays as it runs, so that it is named again until there was one.
            let mut running = wanted;
            former.keep_fixed(&mut running);
            self.settings.store(Arc::new(running));
            fixed
        }))
    }

    fn status(&self) -> impl Serialize {
        let settings = self.settings.load();
        let backend = |of: &BackendSettings| status::Backend {
            name: of.name.clone(),
            url: of.url.clone(),
            weight: of.weight,
        };
        let Metrics { ridden, leased, split, answered, refused, .. } = &self.metrics;
        let all = [ridden, leased, split, answered, refused];
        Status {
            connections: self.connections.used() as u64,
            commands: all.iter().map(|way| way.get()).sum(),
            lane_commands: ridden.get(),
            refused: refused.get(),
            failed_connections: self.counts.failed.get(),
            backends: settings.backend.iter().map(backend).collect(),
        }
    }
}

impl Gateway {
    /// What the clients of a worker share.
    fn front(&self, settings: &Settings, worker: &flow::Worker) -> Front {
        let servers = Servers::new(self.servers.clone());
        let running = fabric(settings, DRAIN);
        let scratch = worker.connections.scratch().clone();
        Front {
            fabric: Fabric::new(servers, running, scratch, self.counts.clone()),
            in_force: Arc::clone(&self.in_force),
            metrics: self.metrics.clone(),
            placing: self.placing.clone(),
            worker: worker.index,
        }
    }
}
