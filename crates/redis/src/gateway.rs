//! The whole gateway as the program sees it: opened, bound, run on each worker, reloaded, drained.
//!
//! Pools come and go with the settings, and so do the addresses of each: [`listening`] binds them
//! before anything changes, and [`serving`] has each worker serve its share.

mod listening;
mod serving;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use flow::endpoint::Endpoint;
use flow::front::{self, Addresses, BindError, Calls, PreparedSettings, Share, Sockets};
use flow::limit::Limit;
use flow::memory::{self, Memory};
use flow::tls::{ServerTls, TlsError};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::mpsc;
use units::Duration;
use watch::metrics::Registry;

use crate::metrics::Metrics;
use crate::metrics::times::Times;
use crate::named;
use crate::pool::{Pool, PoolError, Ready};
use crate::replica::Follower;
use crate::server_memory::ServerMemories;
use crate::settings::{Settings, SettingsError};
use crate::status::Status;
use listening::{PoolListeners, Sockets as Bound};
use serving::{Change, Served};

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
    /// An address of a pool that is new can't be had.
    #[error("redis: {0}")]
    Bind(#[from] BindError),
    /// An address of a pool that is new is still another one's.
    #[error(
        "redis: pool {pool:?} can't have {at} while pool {other:?} has it: take it away there \
         first, and give it away with another reload"
    )]
    Taken {
        /// Who is to have it.
        pool: String,
        /// The address or the path of the socket.
        at: String,
        /// The pool that has the address now.
        other: String,
    },
}

/// The Redis gateway of one process.
pub struct Gateway {
    /// Those that are served, in the order of their settings.
    pools: Mutex<Vec<Arc<Pool>>>,
    /// Where they are served.
    listening: Mutex<PoolListeners>,
    /// What is counted of pools that are there or have been, by their names.
    times: Mutex<HashMap<String, Times>>,
    /// The way to the workers, and what these hear until each attends to it.
    calls: Calls<Change>,
    heard: Mutex<Vec<Option<mpsc::Receiver<Change>>>>,
    follower: Option<Arc<Follower>>,
    memories: ServerMemories,
    registry: Registry,
    endpoint: Endpoint,
    connections: Limit,
    memory: Memory,
    tls: Option<ServerTls>,
}

/// What is to be done where other settings are put in force.
struct Changes {
    /// Those that stay, with their settings.
    stay: Vec<(Arc<Pool>, Ready)>,
    /// All that will be there, in the order of their settings.
    pools: Vec<Arc<Pool>>,
    /// Those that are there no more.
    leave: Vec<Arc<Pool>>,
    /// The sockets of those that will be there which are not open yet.
    bound: Bound,
}

impl Gateway {
    /// Opens the gateway. No server is asked for anything yet. The console shows what the
    /// follower does, where there is one; `memories` is shared with the guard.
    ///
    /// # Errors
    /// What in the settings stands in the way.
    pub fn open(
        settings: Settings,
        follower: Option<&Arc<Follower>>,
        memories: ServerMemories,
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
        let gateway = Self {
            pools: Mutex::default(),
            listening: Mutex::default(),
            times: Mutex::default(),
            calls: Calls::default(),
            heard: Mutex::default(),
            follower: follower.cloned(),
            memories,
            registry: registry.clone(),
            endpoint,
            connections,
            memory,
            tls,
        };
        for (name, settings) in settings.pools() {
            let pool = gateway.open_pool(&name, settings)?;
            gateway.pools.lock().push(pool);
        }
        Ok(Arc::new(gateway))
    }

    fn open_pool(&self, name: &str, settings: Settings) -> Result<Arc<Pool>, PoolError> {
        let mut times = self.times.lock();
        let new = || Times::new(name, named::name_of, &self.registry);
        let times = times.entry(name.to_owned()).or_insert_with(new).clone();
        let follower = self.follower.clone();
        let memory = (self.memory.clone(), self.memories.clone());
        Pool::open(name, settings, follower, memory, times, &self.registry).map(Arc::new)
    }

    fn pools(&self) -> Vec<Arc<Pool>> {
        self.pools.lock().clone()
    }

    /// Makes ready for other pools: all that may fail is done here.
    fn changes(&self, wanted: &Settings) -> Result<Changes, OpenError> {
        let (before, wanted) = (self.pools(), wanted.pools());
        let named = |name: &str| before.iter().find(|pool| pool.shared.name == *name);
        let (mut pools, mut stay, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
        for (name, settings) in wanted {
            let pool = match named(&name) {
                Some(pool) => {
                    let ready = pool.prepare(settings)?;
                    sockets.push((name, ready.settings().clone()));
                    stay.push((Arc::clone(pool), ready));
                    Arc::clone(pool)
                }
                None => {
                    let pool = self.open_pool(&name, settings)?;
                    sockets.push((name, Settings::clone(&pool.settings())));
                    pool
                }
            };
            pools.push(pool);
        }
        let is_gone = |pool: &&Arc<Pool>| !pools.iter().any(|of| Arc::ptr_eq(of, pool));
        let leave = before.iter().filter(is_gone).cloned().collect();
        let bound = self.listening.lock().bind(&sockets)?;
        Ok(Changes { stay, pools, leave, bound })
    }

    /// Puts other pools in force; gives the keys that need a restart.
    fn put_in_force(&self, changes: Changes) -> Vec<String> {
        let Changes { stay, pools, leave, bound } = changes;
        let fixed = stay.into_iter().flat_map(|(pool, ready)| pool.put_in_force(ready)).collect();
        let workers = self.heard.lock().len();
        for pool in &leave {
            tracing::info!(pool = pool.shared.name, "a pool is served no more");
            (0..workers).for_each(|of| self.calls.ask(of, Change::Leaves(Arc::clone(pool))));
        }
        let changed = self.listening.lock().put_in_force(&pools, bound);
        for (worker, changes) in changed.into_iter().enumerate() {
            changes.into_iter().for_each(|change| self.calls.ask(worker, change));
        }
        *self.pools.lock() = pools;
        fixed
    }
}

impl front::Front for Gateway {
    const NAME: &'static str = "redis";
    type Settings = Settings;
    type Error = OpenError;

    fn bind(&self, sockets: &mut Sockets) -> Result<(), BindError> {
        let workers = 0..sockets.workers();
        *self.heard.lock() = workers.map(|worker| Some(self.calls.attend(worker))).collect();
        let all = self.pools().into_iter().map(|pool| pool.settings());
        let listen: Vec<SocketAddr> = all.flat_map(|settings| settings.listen.clone()).collect();
        if !listen.is_empty() {
            sockets.tcp(LISTEN, &listen)?;
        }
        for settings in self.pools().iter().map(|pool| pool.settings()) {
            for path in &settings.unix_sockets {
                sockets.unix(path, settings.unix_mode())?;
            }
        }
        *self.listening.lock() = PoolListeners::new(&self.pools(), sockets.workers());
        Ok(())
    }

    fn announce(&self, addresses: &Addresses, workers: usize) {
        let mut listen = addresses.of(LISTEN).iter();
        for pool in self.pools() {
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
        let heard = self.heard.lock().get_mut(worker.index).and_then(Option::take);
        let Some(mut heard) = heard else { return };
        if worker.index == 0 {
            tokio::task::spawn_local(memory::give_back(vec![self.memory.clone()]));
        }
        let mut served = Served::new(worker.clone(), self.endpoint.clone());
        for change in self.listening.lock().first(share, worker.index) {
            served.change(change);
        }
        loop {
            tokio::select! {
                () = worker.drain.started() => break,
                Some(change) = heard.recv() => served.change(change),
            }
        }
        served.ended().await;
        self.calls.leave(worker.index);
    }

    fn prepare(self: &Arc<Self>, wanted: Settings) -> Result<PreparedSettings<'_>, OpenError> {
        wanted.validate()?;
        let tls = self.tls.as_ref().map(ServerTls::renew).transpose()?;
        let changes = self.changes(&wanted)?;
        Ok(PreparedSettings::new(move || {
            if let Some(tls) = tls {
                tls.put_in_force();
            }
            self.connections.set_max(wanted.max_connections);
            self.memory.set_max(wanted.max_memory.len());
            self.put_in_force(changes)
        }))
    }

    fn status(&self) -> impl Serialize {
        let pools = self.pools();
        let sum = |of: &dyn Fn(&Pool) -> u64| pools.iter().map(|pool| of(pool)).sum();
        let commands = |pool: &Pool| {
            let Metrics { ridden, leased, split, answered, refused, .. } = &pool.metrics;
            [ridden, leased, split, answered, refused].iter().map(|way| way.get()).sum()
        };
        Status {
            connections: self.connections.used() as u64,
            commands: sum(&commands),
            lane_commands: sum(&|pool| pool.metrics.ridden.get()),
            shared_reads: sum(&|pool| pool.shared.times.sums().values().map(|of| of.shared).sum()),
            refused: sum(&|pool| pool.metrics.refused.get()),
            failed_connections: sum(&|pool| pool.counts.failed.get()),
            backends: pools.iter().flat_map(|pool| pool.shared.backends()).collect(),
        }
    }
}
