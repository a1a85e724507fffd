//! The whole gateway as the program sees it: opened, bound, run on each worker, reloaded, drained.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use flow::endpoint::Endpoint;
use flow::front::{self, Addresses, BindError, Prepared, Serving, Share, Sockets};
use flow::limit::Limit;
use flow::memory::Memory;
use flow::tls::{ServerTls, TlsError};
use serde::Serialize;
use watch::metrics::Registry;
use watch::units::Duration;

use crate::metrics::Metrics;
use crate::pool::{Pool, PoolError};
use crate::replica::Follower;
use crate::session::Session;
use crate::settings::{Settings, SettingsError};
use crate::status::Status;

/// What the status calls the addresses.
const LISTEN: &str = "redis";

/// What one more connection than `max-connections` hears.
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// Why the gateway can not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings can't work.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A file of clients' TLS can't be used.
    #[error("redis.tls: {0}")]
    Tls(#[from] TlsError),
    /// A pool can't be opened.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// The Redis gateway of one process.
pub struct Gateway {
    /// Those that are served, in the order of their settings.
    pools: Vec<Pool>,
    endpoint: Endpoint,
    connections: Limit,
    memory: Memory,
    tls: Option<ServerTls>,
}

impl Gateway {
    /// Opens the gateway. No server is asked for anything yet. The console shows what the
    /// follower does, where there is one.
    ///
    /// # Errors
    /// What in the settings stands in the way.
    pub fn open(
        settings: Settings,
        follower: Option<&Arc<Follower>>,
        registry: &Registry,
    ) -> Result<Arc<Self>, OpenError> {
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
        let memory = Memory::new(settings.max_memory.len());
        let held = memory.clone();
        registry.collect(move |encoder| {
            encoder.gauge(
                "weir_redis_held_bytes",
                "Bytes of commands and answers that clients hold of redis.max-memory.",
                &[],
                held.used() as u64,
            );
        });
        let pools = settings.pools().into_iter();
        let open = |(name, settings): (String, Settings)| {
            Pool::open(&name, settings, follower.cloned(), memory.clone(), registry)
        };
        let pools = pools.map(open);
        let pools = pools.collect::<Result<_, _>>()?;
        Ok(Arc::new(Self { pools, endpoint, connections, memory, tls }))
    }
}

impl front::Front for Gateway {
    const NAME: &'static str = "redis";
    type Settings = Settings;
    type Error = OpenError;

    fn bind(&self, sockets: &mut Sockets) -> Result<(), BindError> {
        let all = self.pools.iter().map(Pool::settings);
        let listen: Vec<SocketAddr> = all.flat_map(|settings| settings.listen.clone()).collect();
        if !listen.is_empty() {
            sockets.tcp(LISTEN, &listen)?;
        }
        for settings in self.pools.iter().map(Pool::settings) {
            for path in &settings.unix_sockets {
                sockets.unix(path, settings.unix_mode())?;
            }
        }
        Ok(())
    }

    fn announce(&self, addresses: &Addresses, workers: usize) {
        let mut listen = addresses.of(LISTEN).iter();
        for pool in &self.pools {
            let count = pool.settings().listen.len();
            let listen: Vec<_> = listen.by_ref().take(count).collect();
            if !listen.is_empty() {
                tracing::info!(
                    pool = pool.shared.name,
                    ?listen,
                    workers,
                    "Redis clients are taken"
                );
            }
        }
    }

    async fn run(self: Arc<Self>, share: Share, worker: flow::Worker) {
        let (mut tcp, mut unix) = (share.tcp.into_iter(), share.unix.into_iter());
        let mut serving = Serving::new(&worker);
        let mut attending = Vec::new();
        for pool in &self.pools {
            let (front, attends) = pool.attend(&worker);
            attending.push(attends);
            let drain = worker.drain.clone();
            let serve = move |stream, from| {
                let session = Session::new(Rc::clone(&front), from);
                Rc::clone(&front.fabric).serve(stream, drain.clone(), session)
            };
            // Sockets come in the order in which they were bound.
            let settings = pool.settings();
            let unix = unix.by_ref().take(settings.unix_sockets.len()).collect();
            let tcp = tcp.by_ref().take(settings.listen.len()).collect();
            let local = serve.clone();
            serving.unix(unix, &self.endpoint, move |stream| local(stream, None));
            serving.tcp(tcp, &self.endpoint, move |stream, from| serve(stream, Some(from)));
        }
        serving.ended().await;
        for (pool, attends) in self.pools.iter().zip(attending) {
            pool.leave(worker.index);
            let _ = attends.await;
        }
    }

    fn prepare(self: &Arc<Self>, wanted: Settings) -> Result<Prepared<'_>, OpenError> {
        wanted.validate()?;
        let tls = self.tls.as_ref().map(ServerTls::renew).transpose()?;
        Ok(Prepared::new(move || {
            if let Some(tls) = tls {
                tls.put_in_force();
            }
            self.connections.set_max(wanted.max_connections);
            self.memory.set_max(wanted.max_memory.len());
            let mut wanted = wanted.pools();
            let mut fixed = Vec::new();
            for pool in &self.pools {
                match wanted.iter().position(|(name, _)| *name == pool.shared.name) {
                    Some(at) => fixed.extend(pool.put_in_force(wanted.remove(at).1)),
                    None => {
                        fixed.push(format!("redis.pool {:?}, which is gone,", pool.shared.name))
                    }
                }
            }
            let new = wanted.iter().map(|(name, _)| format!("redis.pool {name:?}, which is new,"));
            fixed.extend(new);
            fixed
        }))
    }

    fn status(&self) -> impl Serialize {
        let sum = |of: &dyn Fn(&Pool) -> u64| self.pools.iter().map(of).sum();
        let commands = |pool: &Pool| {
            let Metrics { ridden, leased, split, answered, refused, .. } = &pool.metrics;
            [ridden, leased, split, answered, refused].iter().map(|way| way.get()).sum()
        };
        Status {
            connections: self.connections.used() as u64,
            commands: sum(&commands),
            lane_commands: sum(&|pool| pool.metrics.ridden.get()),
            refused: sum(&|pool| pool.metrics.refused.get()),
            failed_connections: sum(&|pool| pool.counts.failed.get()),
            backends: self.pools.iter().flat_map(|pool| pool.shared.backends()).collect(),
        }
    }
}
