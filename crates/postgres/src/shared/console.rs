//! What the console and `/status` ask of the whole shared: a picture of all workers, and commands
//! for them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::oneshot;

use super::{Call, GatewayContext};
use crate::backends::BackendStatus;
use crate::connection::ServerState;
use crate::console::{
    Action, ActionError, Averages, BackendRow, DatabaseRow, PlanRow, Snapshot, UserRow, Wait,
};
use crate::settings::Settings;
use crate::status::Status;

/// How often the picture for `/status` is made anew.
const REFRESH: Duration = Duration::from_secs(2);
/// How long a worker may take to give its part of that, and of what commands wait for.
const PART_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it may take where an operator wants to see all.
const SHOW_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked whether a pause is complete.
const LOOK: Duration = Duration::from_millis(50);

/// What commands have changed, and what was seen last.
#[derive(Default)]
pub struct Operated {
    /// Whether anything is paused or disabled: one look for those who ask for every lease.
    any: AtomicBool,
    held: parking_lot::Mutex<HeldDatabases>,
    averages: parking_lot::Mutex<Averages>,
    shown: ArcSwap<Status>,
}

#[derive(Default)]
struct HeldDatabases {
    all: bool,
    /// By their names on the servers.
    paused: HashSet<String>,
    /// By their names for clients.
    disabled: HashSet<String>,
}

/// What a worker is told.
#[derive(Debug, Clone)]
pub enum Order {
    /// What is paused has changed.
    Paused,
    /// Close server connections once they are given back; of one database (its name there) or all.
    Reconnect(Option<String>),
    /// Close the clients of a database (its name here), or all.
    Kill(Option<String>),
}

impl GatewayContext {
    /// Whether no connection to a database (by its name there) is to be lent.
    pub(crate) fn is_paused(&self, database: &str) -> bool {
        if !self.operated.any.load(Ordering::Relaxed) {
            return false;
        }
        let held = self.operated.held.lock();
        held.all || held.paused.contains(database)
    }

    /// Whether a database takes no clients, by its name for them.
    pub(crate) fn is_disabled(&self, database: &str) -> bool {
        self.operated.any.load(Ordering::Relaxed)
            && self.operated.held.lock().disabled.contains(database)
    }

    /// Changes what is held back; gives what `change` gives.
    fn hold<R>(&self, change: impl FnOnce(&mut HeldDatabases) -> R) -> R {
        let mut held = self.operated.held.lock();
        let result = change(&mut held);
        let any = held.all || !held.paused.is_empty() || !held.disabled.is_empty();
        self.operated.any.store(any, Ordering::Relaxed);
        result
    }

    /// What was seen last, for `/status`.
    pub fn status(&self) -> Status {
        Status::clone(&self.operated.shown.load())
    }

    /// Shows the backends, with what the workers are known to have there.
    pub(super) fn show(&self, seen: &Snapshot) {
        let backends = self.backends.status();
        let backends = backends.iter().map(|of| self.backend(of, seen)).collect();
        let snapshot = Snapshot { backends, ..seen.clone() };
        let primary = self.backends.primary().ok();
        let status = Status {
            slow: self.slow.shown(),
            expiring: primary.map(|primary| primary.expiring()).unwrap_or_default(),
            ..Status::of(&snapshot)
        };
        self.operated.shown.store(Arc::new(status));
    }

    /// Makes the picture for `/status` anew, for as long as the gateway is there.
    pub(super) async fn watch(shared: std::sync::Weak<Self>) {
        let mut last = Snapshot::default();
        loop {
            tokio::time::sleep(REFRESH).await;
            let Some(shared) = shared.upgrade() else { return };
            let snapshot = shared.snapshot(false, PART_TIMEOUT).await;
            // Without a worker's part all that was counted would go back for a while.
            if snapshot.missing == 0 {
                shared.operated.averages.lock().note(Instant::now(), &snapshot.totals);
                last = snapshot;
            }
            shared.show(&last);
        }
    }

    /// A picture of all workers for an operator to look at; `clients`: every client, too.
    pub(crate) async fn shown(&self, clients: bool) -> Snapshot {
        self.snapshot(clients, SHOW_TIMEOUT).await
    }

    /// A picture of all workers that give their parts in time; `clients`: every client, too.
    async fn snapshot(&self, clients: bool, limit: Duration) -> Snapshot {
        let parts = self.calls.asked_all(|part| Call::Snapshot(clients, part));
        let until = tokio::time::Instant::now() + limit;
        let mut whole = Snapshot::default();
        for part in parts {
            match tokio::time::timeout_at(until, part).await {
                Ok(Ok(part)) => whole.merge(part),
                // It has ended, and has nothing any more.
                Ok(Err(_)) => {}
                Err(_) => whole.missing += 1,
            }
        }
        let settings = self.settings();
        whole.backends = self.backends.status().iter().map(|of| self.backend(of, &whole)).collect();
        whole.databases = self.databases(&settings, &whole);
        whole.users = users(&settings, &whole);
        whole.plans = self.plans();
        whole.averages = self.operated.averages.lock().clone();
        whole.paused = self.operated.held.lock().all;
        whole
    }

    fn backend(&self, of: &BackendStatus, seen: &Snapshot) -> BackendRow {
        let servers = seen.servers.iter().filter(|server| server.backend == of.name);
        let lanes = seen.lanes.iter().filter(|lane| lane.backend == of.name);
        let busy = servers.clone().filter(|server| server.state == ServerState::Active).count();
        let on_lanes: u64 = lanes.map(|lane| lane.depth).sum();
        let latencies = self.metrics.latencies(&of.name);
        BackendRow {
            lane: latencies.lane.percentiles(),
            lease: latencies.lease.percentiles(),
            batch: latencies.batch.percentiles(),
            ..BackendRow::new(of, servers.count() as u64, busy as u64 + on_lanes)
        }
    }

    /// What statements were taken for, of all databases together.
    fn plans(&self) -> Vec<PlanRow> {
        let row = |kind, reason, statements| PlanRow {
            database: "*".to_owned(),
            kind,
            reason,
            statements,
        };
        let ridden = row("read", "", self.metrics.ridden.get());
        let batched = row("write", "", self.metrics.batched.get());
        let others = self.metrics.reasons();
        let others = others.map(|(reason, count)| row("other", reason.as_str(), count));
        [ridden, batched].into_iter().chain(others).collect()
    }

    fn databases(&self, settings: &Settings, seen: &Snapshot) -> Vec<DatabaseRow> {
        let mut names: Vec<&str> = settings.database.iter().map(|entry| &*entry.name).collect();
        names.extend(seen.pools.iter().map(|pool| &*pool.database));
        names.sort_unstable();
        names.dedup();
        let primary = self.backends.primary().ok();
        let address = primary.as_ref().map(|backend| backend.server().target.address.clone());
        let (host, port) = match &address {
            Some(flow::dial::Address::Tcp { host, port }) => (Some(host.clone()), *port),
            Some(flow::dial::Address::Unix(path)) => (Some(path.display().to_string()), 0),
            None => (None, 0),
        };
        let row = |name: &str| {
            let entry = settings.database(name);
            let there = entry.map_or(name, |entry| entry.server_name(name)).to_owned();
            let of = |figure: fn(&crate::console::PoolRow) -> u64| {
                seen.pools.iter().filter(|pool| pool.database == name).map(figure).sum()
            };
            DatabaseRow {
                name: name.to_owned(),
                host: host.clone(),
                port: u64::from(port),
                user: entry.map(|entry| entry.user.clone()).filter(|user| !user.is_empty()),
                pool_size: number(settings.pool_size(entry, "")),
                min_idle: number(entry.and_then(|e| e.min_idle).unwrap_or(settings.pool.min_idle)),
                max_age: entry.and_then(|e| e.max_age).unwrap_or(settings.pool.max_age).get(),
                mode: entry.and_then(|entry| entry.mode),
                servers_max: number(settings.servers_of_database(entry)),
                servers: of(crate::console::PoolRow::servers),
                clients_max: number(settings.clients_of_database(name)),
                clients: of(|pool| pool.clients_active + pool.clients_waiting),
                paused: self.is_paused(&there),
                disabled: self.is_disabled(name),
                dbname: there,
            }
        };
        names.into_iter().map(row).collect()
    }

    /// Returns once all workers have done it.
    async fn order(&self, order: &Order) {
        for done in self.calls.asked_all(|done| Call::Order(order.clone(), done)) {
            let _ = done.await;
        }
    }

    /// The name on the servers of a database that clients may name.
    fn there(&self, name: &str) -> Result<String, ActionError> {
        let settings = self.settings();
        if !settings.has_database(name) {
            return Err(ActionError::NoSuchDatabase(name.to_owned()));
        }
        Ok(settings.database(name).map_or(name, |entry| entry.server_name(name)).to_owned())
    }

    /// Does what the console was told.
    ///
    /// # Errors
    /// Why it was not done.
    pub(crate) async fn act(&self, action: &Action) -> Result<(), ActionError> {
        let there = action.database().map(|name| self.there(name)).transpose()?;
        tracing::info!(command = action.word(), database = action.database(), "the console");
        match action {
            Action::Pause(_) => {
                self.pause(there.clone()).await?;
                self.emptied(there.as_deref()).await;
            }
            Action::Resume(_) => self.resume(there).await?,
            Action::Reconnect(_) => self.order(&Order::Reconnect(there)).await,
            Action::WaitClose(_) => self.closed(there.as_deref()).await,
            Action::Kill(name) => {
                self.pause(there).await?;
                self.order(&Order::Kill(name.clone())).await;
            }
            Action::KillClient(id) => self.kill_client(*id).await?,
            Action::Disable(name) => {
                self.hold(|held| held.disabled.insert(name.clone()));
            }
            Action::Enable(name) => {
                self.hold(|held| held.disabled.remove(name));
            }
            Action::Reload => self.reload_all().await?,
            Action::Shutdown(Wait::None | Wait::Servers | Wait::Clients) => terminate()?,
        }
        Ok(())
    }

    async fn reload_all(&self) -> Result<(), ActionError> {
        let (answer, reloaded) = oneshot::channel();
        let owner = self.reloads.lock().clone();
        owner.send(answer).await.map_err(|_| ActionError::Stopping)?;
        let taken = reloaded.await.map_err(|_| ActionError::Stopping)?;
        if taken { Ok(()) } else { Err(ActionError::NotReloaded) }
    }

    async fn pause(&self, there: Option<String>) -> Result<(), ActionError> {
        let changed = self.hold(|held| match there {
            None => !std::mem::replace(&mut held.all, true),
            Some(_) if held.all => false,
            Some(name) => {
                held.paused.insert(name);
                true
            }
        });
        self.order(&Order::Paused).await;
        if changed { Ok(()) } else { Err(ActionError::AlreadyPaused) }
    }

    async fn resume(&self, there: Option<String>) -> Result<(), ActionError> {
        let resumed = self.hold(|held| match &there {
            // KILL pauses each database; RESUME without a name ends that as well.
            None => std::mem::take(&mut held.all) | !std::mem::take(&mut held.paused).is_empty(),
            Some(name) => held.paused.remove(name),
        });
        self.order(&Order::Paused).await;
        match (resumed, there) {
            (true, _) => Ok(()),
            (false, Some(name)) => Err(ActionError::DatabaseNotPaused(name)),
            (false, None) => Err(ActionError::NotPaused),
        }
    }

    /// Waits until no server connection is in use, of a database or at all, and nobody waits to
    /// have a commit confirmed. What a worker has that
    /// stands still is not known.
    async fn emptied(&self, there: Option<&str>) {
        loop {
            self.order(&Order::Paused).await;
            let sum = self.snapshot(false, PART_TIMEOUT).await;
            let ours = |name: &str| there.is_none() || self.there(name).ok().as_deref() == there;
            let pools = sum.pools.iter().filter(|pool| ours(&pool.database));
            let under_way = pools.map(|pool| pool.servers_in_use() + pool.clients_unconfirmed);
            if sum.missing == 0 && under_way.sum::<u64>() == 0 {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until no server connection is left that is to be closed, of a database or at all.
    async fn closed(&self, there: Option<&str>) {
        loop {
            let seen = self.snapshot(false, PART_TIMEOUT).await;
            let ours = |name: &str| there.is_none() || self.there(name).ok().as_deref() == there;
            let mut closing = seen.servers.iter().filter(|server| server.closing);
            if seen.missing == 0 && !closing.any(|server| ours(&server.database)) {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn kill_client(&self, id: u64) -> Result<(), ActionError> {
        let id = i32::try_from(id).map_err(|_| ActionError::NoSuchClient)?;
        let worker = self.cancels.lock().get(&id).map(|cancel| cancel.worker);
        let worker = worker.ok_or(ActionError::NoSuchClient)?;
        let _ = self.calls.asked(worker, |done| Call::Disconnect(id, done)).await;
        Ok(())
    }
}

fn users(settings: &Settings, seen: &Snapshot) -> Vec<UserRow> {
    let mut names: Vec<&str> = settings.user.iter().map(|entry| &*entry.name).collect();
    names.extend(seen.pools.iter().map(|pool| &*pool.user));
    names.sort_unstable();
    names.dedup();
    let row = |name: &str| {
        let entry = settings.user(name);
        let of = |figure: fn(&crate::console::PoolRow) -> u64| {
            seen.pools.iter().filter(|pool| pool.user == name).map(figure).sum()
        };
        UserRow {
            name: name.to_owned(),
            pool_size: entry.and_then(|entry| entry.pool_size).map(number),
            mode: entry.and_then(|entry| entry.mode),
            servers_max: number(settings.servers_of_user(name)),
            servers: of(crate::console::PoolRow::servers),
            clients_max: number(settings.clients_of_user(name)),
            clients: of(|pool| pool.clients_active + pool.clients_waiting),
        }
    };
    names.into_iter().map(row).collect()
}

fn number(count: usize) -> u64 {
    count as u64
}

/// SHUTDOWN is about every front end of the process, which knows what the signal means.
fn terminate() -> Result<(), ActionError> {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)
        .map_err(|error| ActionError::Other(format!("the process can't be told: {error}")))
}
