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
use crate::fleet::{self, Fleet};
use crate::front::{Call, Front, InForce, Placing, Shared};
use crate::health::Health;
use crate::hub::{self, Hubs};
use crate::metrics::Metrics;
use crate::metrics::times::Times;
use crate::named;
use crate::replica::Follower;
use crate::scripts::Scripts;
use crate::server::Server;
use crate::servers::Servers;
use crate::settings::{EjectSettings, Settings};

/// After how long a connection is closed that nobody has used.
const IDLE: std::time::Duration = std::time::Duration::from_secs(60);

/// How often a worker looks at who has keys, though nobody asks it for any.
const LOOK: std::time::Duration = std::time::Duration::from_secs(1);

/// Within a stop, how long clients may take to come to an end.
const DRAIN: std::time::Duration = std::time::Duration::from_secs(1);

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
    pub shared: Arc<Shared>,
    /// What is counted.
    pub metrics: Metrics,
    /// Where connections to its servers are counted.
    pub counts: Counts,
    in_force: Arc<ArcSwap<InForce>>,
    /// Of a ring.
    placing: Option<Placing>,
    scripts: Arc<Scripts>,
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
        memory: Memory,
        registry: &Registry,
    ) -> Result<Self, PoolError> {
        let wrong = |what: String| PoolError { pool: name.to_owned(), what };
        let servers: Result<Vec<Server>, String> =
            settings.backend.iter().map(Server::new).collect();
        let mut servers = servers.map_err(wrong)?;
        if settings.passes() {
            servers = servers.into_iter().map(Server::passing).collect();
        }
        let placing = Placing::new(&settings);
        if placing.is_none() && !settings.is_cluster() {
            return Err(wrong("the weights leave no server any key".to_owned()));
        }
        let names: Vec<&str> = settings.backend.iter().map(|of| of.name.as_str()).collect();
        let rule = settings.eject.as_ref().map(EjectSettings::rule);
        let health = Arc::new(Health::new(name, &names, rule, registry));
        let times = Times::new(name, named::name_of, registry);
        names.iter().for_each(|server| drop(times.add(server)));
        let in_force = InForce::new(&settings);
        let fleet = match settings.is_cluster() {
            true => Fleet::of_cluster(servers, health, settings.allow_cleartext),
            false => Fleet::of_ring(servers, health, settings.allow_cleartext),
        };
        let shared = Shared {
            name: name.to_owned(),
            settings: ArcSwap::from_pointee(settings),
            fleet,
            times,
            desk: Arc::default(),
            calls: Calls::default(),
            slowing: Arc::default(),
            follower,
            memory,
        };
        Ok(Self {
            shared: Arc::new(shared),
            metrics: Metrics::new(name, registry),
            counts: counts(name, registry),
            in_force: Arc::new(ArcSwap::from_pointee(in_force)),
            placing,
            scripts: Arc::default(),
        })
    }

    /// Its settings, as they are in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.shared.settings.load_full()
    }

    /// What the clients of a worker share, and the task that hears what other threads want there,
    /// which ends after [`leave`](Self::leave).
    pub fn attend(&self, worker: &flow::Worker) -> (Rc<Front>, JoinHandle<()>) {
        let mut calls = self.shared.calls.attend(worker.index);
        let front = Rc::new(self.front(worker));
        let called = Rc::clone(&front);
        let attending = tokio::task::spawn_local(async move {
            while let Some(call) = calls.recv().await {
                call(&called);
            }
        });
        tokio::task::spawn_local(look_after(Rc::downgrade(&front)));
        if worker.index == 0 {
            let (fleet, shared) = (Arc::clone(&self.shared.fleet), Arc::clone(&self.shared));
            let wanted = move || {
                let settings = shared.settings.load();
                settings.reads_replicas().then(|| settings.max_replica_lag.get())
            };
            let read = fleet::read(Arc::clone(&fleet), wanted);
            let _read = tokio::task::spawn_local(read);
            let _followed = match front.is_cluster() {
                true => tokio::task::spawn_local(fleet::keep(fleet)),
                false => tokio::task::spawn_local(fleet::follow(fleet)),
            };
        }
        (front, attending)
    }

    /// A worker serves it no more.
    pub fn leave(&self, worker: usize) {
        self.shared.calls.leave(worker);
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
            self.placing.clone(),
        )
    }

    /// Puts in force what can be while it serves; gives the keys that need a restart.
    pub fn put_in_force(&self, wanted: Settings) -> Vec<String> {
        let former = self.shared.settings.load();
        let fixed = former.fixed(&self.shared.name, &wanted);
        // What needs a restart stays as it runs, so that it is named again until there was one.
        let mut wanted = wanted;
        former.keep_fixed(&mut wanted);
        self.in_force.store(Arc::new(InForce::new(&wanted)));
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
        self.shared.settings.store(Arc::new(wanted));
        fixed
    }
}

/// Where connections to the servers of a pool are counted.
fn counts(pool: &str, registry: &Registry) -> Counts {
    let labels = [("pool", pool)];
    let count = |what: &str, help: &str| {
        registry.counter(&format!("weir_redis_server_connections_{what}_total"), help, &labels)
    };
    Counts {
        waited: registry.histogram(
            "weir_redis_lease_wait_seconds",
            "How long was waited for a connection to a Redis server.",
            &labels,
        ),
        opened: count("opened", "Connections to Redis servers that were opened."),
        closed: count("closed", "Connections to Redis servers that were closed."),
        failed: count("failed", "Connections to Redis servers that could not be opened."),
    }
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
        // Lanes of many users are not to stay for ever.
        idle: settings.passes().then_some(IDLE),
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
        drain: DRAIN,
        waiting: settings.max_waiting.len(),
        spill: settings.max_unread.len(),
        request: settings.max_command.len(),
        memory: memory.clone(),
    }
}
