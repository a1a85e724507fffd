//! One pool: the servers that keys are spread over, who may use them, and what each worker has of
//! it.

use std::rc::{Rc, Weak};
use std::sync::Arc;

use arc_swap::ArcSwap;
use flow::front::Calls;
use flow::memory::Memory;
use flow::pool::Counts;
use flow::service::{self, Fabric};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use watch::metrics::Registry;

use crate::desk::Desk;
use crate::fleet::{self, Fleet, Hashing, WantedServer};
use crate::front::{Call, Front, InForce, PoolState};
use crate::health::Health;
use crate::hub::{self, Hubs};
use crate::metrics::Metrics;
use crate::metrics::times::Times;
use crate::replica::Follower;
use crate::scripts::Scripts;
use crate::server::Server;
use crate::server_memory::ServerMemories;
use crate::servers::Servers;
use crate::settings::{BackendSettings, EjectSettings, Settings};

/// After how long a connection is closed that nobody has used.
const IDLE: std::time::Duration = std::time::Duration::from_secs(60);

/// After how long a lane is closed that nobody has used: who wrote before hears of `WAIT` that it
/// is gone.
const IDLE_LANE: std::time::Duration = std::time::Duration::from_secs(600);

/// How often a worker looks at who has keys, though nobody asks it for any.
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);

/// Within a stop, how long clients may take to come to an end.
const DRAIN: std::time::Duration = std::time::Duration::from_secs(1);

impl Attending {
    /// Ends all that a worker has of a pool, once no client is left.
    pub fn close(self) {
        self.front.fabric.close();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// What in a pool's settings, or in the files that they name, stands in the way.
#[derive(Debug, thiserror::Error)]
#[error("redis: pool {pool:?}: {what}")]
pub struct PoolError {
    pool: String,
    what: String,
}

/// A pool of one process.
pub struct Pool {
    /// What its workers share.
    pub shared: Arc<PoolState>,
    pub metrics: Metrics,
    /// Where connections to its servers are counted.
    pub counts: Counts,
    in_force: Arc<ArcSwap<InForce>>,
    scripts: Arc<Scripts>,
}

/// Settings of a pool that can be used and are not in force yet.
pub struct Ready {
    settings: Settings,
    in_force: InForce,
    servers: Vec<WantedServer>,
    fixed: Vec<String>,
}

impl Ready {
    /// What will be in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// What a worker has of a pool that it serves.
pub struct Attending {
    /// What its clients share.
    pub front: Rc<Front>,
    /// Hears what other threads want there, until the worker [leaves](Pool::leave).
    calls: JoinHandle<()>,
    /// They run until then.
    tasks: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Makes ready to serve a pool. No server is asked for anything yet.
    ///
    /// # Errors
    /// What in the settings stands in the way.
    pub fn open(
        name: &str,
        settings: Settings,
        follower: Option<Arc<Follower>>,
        (memory, memories): (Memory, ServerMemories),
        times: Times,
        registry: &Registry,
    ) -> Result<Self, PoolError> {
        let servers = servers(name, &settings, &|_, _| false)?;
        let names: Vec<&str> = settings.backend.iter().map(|of| of.name.as_str()).collect();
        let rule = settings.eject.as_ref().map(EjectSettings::rule);
        let health = Arc::new(Health::new(name, &names, rule, registry));
        names.iter().for_each(|server| drop(times.add(server)));
        let in_force = in_force(name, &settings)?;
        let fleet = match settings.is_cluster() {
            true => {
                let servers = servers.into_iter().map(|of| of.server).collect();
                Fleet::of_cluster(servers, health, settings.allow_cleartext)
            }
            false => {
                let hashing = Hashing::new(&settings);
                Fleet::of_ring(servers, hashing, health, settings.allow_cleartext)
            }
        };
        let shared = PoolState {
            name: name.to_owned(),
            settings: ArcSwap::from_pointee(settings),
            fleet,
            times,
            desk: Arc::default(),
            calls: Calls::default(),
            slowing: Arc::default(),
            follower,
            memories,
            memory,
        };
        Ok(Self {
            shared: Arc::new(shared),
            metrics: Metrics::new(name, registry),
            counts: counts(name, registry),
            in_force: Arc::new(ArcSwap::from_pointee(in_force)),
            scripts: Arc::default(),
        })
    }

    /// Its settings, as they are in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.shared.settings.load_full()
    }

    /// Begins to serve it on a worker.
    pub fn attend(&self, worker: &flow::Worker) -> Attending {
        let mut calls = self.shared.calls.attend(worker.index);
        let front = Rc::new(self.front(worker));
        let called = Rc::clone(&front);
        let calls = tokio::task::spawn_local(async move {
            while let Some(call) = calls.recv().await {
                call(&called);
            }
        });
        let mut tasks = vec![tokio::task::spawn_local(look_after(Rc::downgrade(&front)))];
        if worker.index == 0 {
            let (fleet, shared) = (Arc::clone(&self.shared.fleet), Arc::clone(&self.shared));
            let wanted = move || {
                let settings = shared.settings.load();
                settings.reads_replicas().then(|| settings.max_replica_lag.get())
            };
            let read = fleet::read(Arc::clone(&fleet), wanted);
            tasks.push(tokio::task::spawn_local(read));
            let asks = fleet::ask_memory(Arc::clone(&fleet), self.shared.memories.clone());
            tasks.push(tokio::task::spawn_local(asks));
            tasks.push(match front.is_cluster() {
                true => tokio::task::spawn_local(fleet::keep(fleet)),
                false => tokio::task::spawn_local(fleet::follow(fleet)),
            });
        }
        Attending { front, calls, tasks }
    }

    /// A worker serves it no more: nobody asks it for anything there.
    pub async fn leave(&self, worker: usize, mut attending: Attending) -> Attending {
        self.shared.calls.leave(worker);
        let _ = (&mut attending.calls).await;
        attending
    }

    fn front(&self, worker: &flow::Worker) -> Front {
        let (shared, scripts) = (Arc::clone(&self.shared), Arc::clone(&self.scripts));
        let settings = self.settings();
        let desk = Rc::new(Desk::new(Arc::clone(&shared.desk), settings.slow_command.get()));
        let (fleet, times) = (Arc::clone(&shared.fleet), shared.times.clone());
        let hubs = Hubs::new(Arc::clone(&fleet), heard(&settings));
        let servers =
            Servers::new(fleet, worker.index, scripts, times, desk, settings.user_connections);
        let running = fabric(&settings, &shared.memory);
        let scratch = worker.connections.scratch().clone();
        Front::new(
            Fabric::new(servers, running, scratch, self.counts.clone()),
            hubs,
            Arc::clone(&self.in_force),
            self.metrics.clone(),
            shared,
            worker,
        )
    }

    /// Makes ready to put other settings in force, as far as they can be while it serves.
    ///
    /// # Errors
    /// What in them stands in the way.
    pub fn prepare(&self, mut wanted: Settings) -> Result<Ready, PoolError> {
        let former = self.settings();
        let fixed = former.fixed(&self.shared.name, &wanted);
        // What needs a restart stays as it runs, so that it is named again until there was one.
        former.keep_fixed(&mut wanted);
        let view = self.shared.fleet.view();
        let is_known = |of: &BackendSettings, server: &Server| {
            let former = former.backend.iter().find(|former| former.name == of.name);
            former.is_some_and(|former| former.is_reached_as(of))
                && view.configured_as(&of.name).is_some_and(|of| of.is_entered_as(server))
        };
        let servers = servers(&self.shared.name, &wanted, &is_known)?;
        let in_force = in_force(&self.shared.name, &wanted)?;
        Ok(Ready { settings: wanted, in_force, servers, fixed })
    }

    /// Puts other settings in force; gives the keys that need a restart.
    pub fn put_in_force(&self, ready: Ready) -> Vec<String> {
        let Ready { settings: wanted, in_force, servers, fixed } = ready;
        self.in_force.store(Arc::new(in_force));
        self.shared.fleet.health().set_rule(wanted.eject.as_ref().map(EjectSettings::rule));
        let (running, heard) = (fabric(&wanted, &self.shared.memory), heard(&wanted));
        let (slow, user_connections) = (wanted.slow_command.get(), wanted.user_connections);
        drop(self.shared.calls.asked_all(|done: oneshot::Sender<()>| {
            let running = running.clone();
            let call: Call = Box::new(move |front| {
                front.fabric.set_settings(running);
                front.hubs.set_limits(heard);
                front.fabric.service().set_user_connections(user_connections);
                front.desk.slow_limit.set(slow);
                let _ = done.send(());
            });
            call
        }));
        servers.iter().for_each(|of| drop(self.shared.times.add(&of.server.name)));
        let (fleet, hashing) = (&self.shared.fleet, Hashing::new(&wanted));
        fleet.allow_cleartext(wanted.allow_cleartext);
        match wanted.is_cluster() {
            true => fleet.begin_at(servers.into_iter().map(|of| of.server).collect()),
            false => fleet.respread(servers, hashing),
        }
        self.shared.settings.store(Arc::new(wanted));
        fixed
    }
}

fn in_force(pool: &str, settings: &Settings) -> Result<InForce, PoolError> {
    InForce::new(settings).map_err(|what| PoolError { pool: pool.to_owned(), what })
}

/// The servers of a pool's settings.
fn servers(
    pool: &str,
    settings: &Settings,
    is_known: &dyn Fn(&BackendSettings, &Server) -> bool,
) -> Result<Vec<WantedServer>, PoolError> {
    let wrong = |what: String| PoolError { pool: pool.to_owned(), what };
    let wanted = |of: &BackendSettings| {
        let server = Server::new(of)?;
        let server = if settings.servers_know_users() { server.knowing_users() } else { server };
        let is_known = is_known(of, &server);
        Ok::<_, String>(WantedServer { server, weight: of.weight, is_known })
    };
    let wanted: Result<Vec<WantedServer>, String> = settings.backend.iter().map(wanted).collect();
    let wanted = wanted.map_err(wrong)?;
    match settings.is_cluster() || WantedServer::have_keys(&wanted, Hashing::new(settings)) {
        true => Ok(wanted),
        false => Err(wrong("the weights leave no server any key".to_owned())),
    }
}

/// Where connections to the servers of a pool are counted.
fn counts(pool: &str, registry: &Registry) -> Counts {
    Counts::register(
        registry,
        (
            "weir_redis_lease_wait_seconds",
            "How long was waited for a connection to a Redis server.",
        ),
        "weir_redis_server_connections",
        "Connections to Redis servers",
        &[("pool", pool)],
    )
}

/// Heeds what has changed of who has keys, for those who say nothing.
async fn look_after(front: Weak<Front>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(front) = front.upgrade() else { return };
        front.tick();
    }
}

/// How a worker's hub is run.
fn heard(settings: &Settings) -> hub::Limits {
    hub::Limits { timeout: settings.timeout.get(), message: settings.max_unread.len() }
}

/// How a worker's fabric is run.
fn fabric(settings: &Settings, memory: &Memory) -> service::Settings {
    let timeout = settings.timeout.get();
    let lanes = flow::lanes::Limits {
        count: settings.lanes,
        depth: settings.lane_depth,
        head_max: timeout,
        head_limit: timeout,
    };
    service::Settings {
        lanes,
        // Lanes of many users are not to stay for long.
        idle: Some(if settings.servers_know_users() { IDLE } else { IDLE_LANE }),
        lane: flow::lane::Limits {
            depth: lanes.depth,
            patience: settings.patience.get(),
            patience_with_large: timeout,
            ..flow::lane::Limits::default()
        },
        leases: settings.pool_size.saturating_sub(settings.lanes).max(1),
        pool: flow::pool::Settings {
            size_max: settings.pool_size,
            idle_time: Some(IDLE),
            age: None,
            ..flow::pool::Settings::default()
        },
        timeout,
        drain: DRAIN,
        waiting: settings.max_waiting.len(),
        spill: settings.max_unread.len(),
        request: settings.max_command.len(),
        memory: memory.clone(),
    }
}
