//! What the clients of one worker share: lanes, leases, statements and plans. Nothing in here is
//! seen by another thread.

mod commits;
mod console;
mod flights;
mod lanes;
mod limits;
mod opening;
mod reported;
mod servers;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use flow::outlet::Outlet;
use flow::pool::{self, Pool};
use flow::scratch::Scratch;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use wire::postgres::{Refusal, sqlstate};
use wire::sql::Lifted;

use crate::auth::Credentials;
use crate::backends::{Backend, Backends};
use crate::client::{Client, Target};
use crate::connection::{Connection, Key, Record, ServerState};
use crate::database::Database;
use crate::lanes::{Group, Key as GroupKey, Load, Norm};
use crate::metrics::BackendLatencies;
use crate::pipeline::script::Script;
use crate::pipeline::settings::Applied;
use crate::pipeline::statements::Statements;
use crate::server;
use crate::settings::Settings;
use crate::shared::{Call, GatewayContext};
use crate::slow::SlowNotes;
use servers::{pool_settings, stopping};

pub use commits::{ConfirmedCommit, SharedCommit, UnconfirmedCommit, unconfirmed};
pub use flights::Flown;
pub use lanes::HUNG;
pub use servers::{Servers, after, some};

/// How often lanes are looked after.
const UPKEEP: std::time::Duration = std::time::Duration::from_secs(1);

/// How long a lease waits before it is looked whether a lane is to give up its connection, and how
/// often while leases wait: with what a timer adds within 5 ms.
const MAKE_WAY: std::time::Duration = std::time::Duration::from_millis(3);

/// How often it is looked whether the last client has gone, while the worker drains.
const LOOK: std::time::Duration = std::time::Duration::from_millis(20);

/// A server connection that one client has for itself.
pub type Leased = pool::Lease<Servers>;

/// Gives a connection back that is as good as it was, with nothing of its client's left on it. One
/// that would be another if it were opened now is closed, and so is one that an answer is due on.
pub fn give_back(mut lease: Leased) {
    lease.report_imbalance();
    if lease.is_free() && lease.is_current() && !lease.record.is_outdated() {
        lease.record.is_now(ServerState::Idle);
        lease.give_back();
    }
}

/// What a message is written into before it goes to a lane, kept so that none has to be made.
#[derive(Default)]
pub struct Draft {
    /// The messages for the server.
    pub out: Vec<u8>,
    /// What will be answered.
    pub script: Script,
    /// Numbers of the statements that the messages prepare; see `Composer::fresh`.
    pub fresh: Vec<u64>,
    /// The point statement that was made of a text, if it was one.
    pub lifted: Lifted,
}

/// What the clients of one worker share.
pub struct WorkerContext {
    /// What it shares with the other workers.
    pub shared: Arc<GatewayContext>,
    pub backends: Arc<Backends>,
    pub worker: flow::Worker,
    /// The worker's read buffer.
    pub scratch: Scratch,
    /// The statements that clients have prepared.
    pub statements: Statements,
    /// Buffers for one message, used again for each; see [`Draft`].
    pub draft: RefCell<Draft>,
    databases: RefCell<HashMap<Arc<str>, Rc<Database>>>,
    groups: RefCell<HashMap<GroupKey, Rc<Group>>>,
    pool: Pool<Servers>,
    servers: Rc<Servers>,
    clients: RefCell<HashMap<i32, Weak<Client>>>,
    reported: reported::ReportCache,
    flights: flights::Flights,
    commits: commits::CommitLines,
    /// Pools whose leases wait, for which lanes are being looked at.
    short: RefCell<HashSet<Key>>,
    loads: RefCell<Vec<Option<Load>>>,
    latencies: RefCell<HashMap<usize, Rc<BackendLatencies>>>,
    client_bytes: usize,
    /// Which statements are logged.
    pub slow: SlowNotes,
    /// How long requests on lanes run at present.
    pub norm: Norm,
    /// How long writes by lease run at present.
    pub write_norm: Norm,
    me: Weak<WorkerContext>,
}

/// Where a session's statements go, and as whom.
pub struct SessionTarget {
    pub database: Rc<Database>,
    /// The user on the servers.
    pub user: Arc<str>,
    /// The user that logged in here.
    pub client_user: Arc<str>,
}

/// Why no connection was leased.
#[derive(Debug, Clone)]
pub enum LeaseError {
    /// None came free in time.
    Waited,
    /// None can be opened.
    Failed(Refusal),
}

impl LeaseError {
    /// What a client is told.
    pub fn refusal(self) -> Refusal {
        match self {
            Self::Waited => Refusal::error(
                sqlstate::QUERY_CANCELED,
                "no server connection came free within postgres.timeouts.query-wait",
            ),
            Self::Failed(refusal) => refusal,
        }
    }
}

impl WorkerContext {
    /// What the clients of a worker share, empty; each of them takes so many bytes of memory beside
    /// what it points to.
    pub fn new(shared: Arc<GatewayContext>, worker: flow::Worker, client_bytes: usize) -> Rc<Self> {
        let settings = shared.settings();
        let servers = Servers::new(shared.clone());
        let kept = pool_settings(&settings, shared.workers());
        let pool = Pool::new(servers.clone(), kept, shared.pool_counts());
        let slow = SlowNotes { forms: shared.slow.clone(), ..SlowNotes::default() };
        slow.limit.set(settings.slow_statement.get());
        let front = Rc::new_cyclic(|me| Self {
            backends: shared.backends.clone(),
            scratch: worker.connections.scratch().clone(),
            worker,
            statements: Statements::new(limits::of_client(&settings)),
            draft: RefCell::default(),
            databases: RefCell::default(),
            groups: RefCell::default(),
            pool,
            servers,
            clients: RefCell::default(),
            reported: reported::ReportCache::default(),
            flights: flights::Flights::default(),
            commits: commits::CommitLines::default(),
            short: RefCell::default(),
            loads: RefCell::default(),
            latencies: RefCell::default(),
            slow,
            client_bytes,
            norm: Norm::default(),
            write_norm: Norm::default(),
            me: me.clone(),
            shared: shared.clone(),
        });
        *front.servers.front.borrow_mut() = Rc::downgrade(&front);
        front
    }

    /// The settings as of the last reload.
    #[inline]
    pub fn settings(&self) -> arc_swap::Guard<Arc<Settings>> {
        self.shared.settings()
    }

    /// Where a client's statements go that has logged in with these credentials.
    ///
    /// # Errors
    /// There is no such database here.
    pub fn place(
        &self,
        database: &str,
        user: &str,
        credentials: Credentials,
    ) -> Result<SessionTarget, Refusal> {
        let settings = self.settings();
        if !settings.has_database(database) {
            let what = format!("database \"{database}\" does not exist");
            return Err(Refusal::fatal(sqlstate::UNDEFINED_DATABASE, what));
        }
        if self.shared.is_disabled(database) {
            let what = format!("database \"{database}\" is disabled");
            return Err(Refusal::fatal(sqlstate::CONNECTION_REJECTED, what));
        }
        let entry = settings.database(database);
        let there = entry.map_or(database, |entry| entry.server_name(database));
        let forced = entry.filter(|entry| !entry.user.is_empty());
        let (user_there, credentials) = match forced {
            Some(entry) => (
                &*entry.user,
                Credentials::Password(crate::auth::Secret::new(entry.password.reveal())),
            ),
            None => (user, credentials),
        };
        let user_there: Arc<str> = user_there.into();
        let of = forced.map(|_| there.into());
        self.servers.credentials.borrow_mut().note(of, user_there.clone(), credentials);
        Ok(SessionTarget {
            database: self.database(database, there, settings.plan_cache),
            user: user_there,
            client_user: user.into(),
        })
    }

    fn database(&self, name: &str, there: &str, plans_max: usize) -> Rc<Database> {
        let databases = self.databases.borrow();
        if let Some(known) = databases.get(name).filter(|known| &*known.name_there == there) {
            return known.clone();
        }
        let catalogue = self.shared.catalogue(there);
        Rc::new(Database::new(name, there, catalogue, plans_max))
    }

    /// A server has let a client into this database, so it exists and is kept; what the worker's
    /// clients share of it.
    pub fn entered(&self, database: &Rc<Database>) -> Rc<Database> {
        let mut databases = self.databases.borrow_mut();
        let known = databases.get(&database.name);
        if let Some(known) = known.filter(|known| known.name_there == database.name_there) {
            return known.clone();
        }
        self.shared.load(&database.catalogue);
        if let Some(former) = databases.insert(database.name.clone(), database.clone()) {
            database.count(|totals| totals.add(&former.totals()));
        }
        database.clone()
    }

    /// The lanes to a backend with these settings.
    pub fn group(
        &self,
        backend: Arc<Backend>,
        database: &Arc<str>,
        user: &Arc<str>,
        settings: &Applied,
    ) -> Rc<Group> {
        let key = GroupKey {
            backend: backend.number(),
            database: database.clone(),
            user: user.clone(),
            settings: settings.clone(),
        };
        let mut groups = self.groups.borrow_mut();
        if let Some(group) = groups.get(&key) {
            return group.clone();
        }
        let (load, limits) = (self.load(&backend), self.lane_limits(&backend));
        let group = Rc::new(Group::new(key.clone(), backend, load, limits));
        groups.insert(key, group.clone());
        group
    }

    /// Reads of this worker that are under way at a backend.
    #[inline]
    pub fn in_flight(&self, backend: usize) -> usize {
        self.loads.borrow().get(backend).and_then(Option::as_ref).map_or(0, Load::get)
    }

    /// Counts the reads under way at a backend.
    pub fn load(&self, backend: &Backend) -> Load {
        let mut loads = self.loads.borrow_mut();
        let number = backend.number();
        if loads.len() <= number {
            loads.resize_with(number + 1, || None);
        }
        loads[number].get_or_insert_with(|| Load::new(backend.reads().clone())).clone()
    }

    /// How long rounds to a backend take.
    pub fn latencies(&self, backend: &Backend) -> Rc<BackendLatencies> {
        let mut known = self.latencies.borrow_mut();
        let new = || Rc::new(self.shared.metrics.latencies(backend.name()));
        known.entry(backend.number()).or_insert_with(new).clone()
    }

    /// Leases a connection, preferring one that has these settings already.
    pub async fn lease(
        &self,
        key: Key,
        settings: &Applied,
        deadline: Instant,
    ) -> Result<Leased, LeaseError> {
        let prefer = |connection: &Connection| match &connection.settings {
            Some(applied) if applied == settings => 2,
            Some(applied) if applied.is_empty() => 1,
            _ => 0,
        };
        let group = self.pool.group(&key);
        if self.shared.is_paused(&key.database) {
            // One that was made after the pause has not heard of it.
            group.pause(true);
        }
        let make_way = async {
            tokio::time::sleep(MAKE_WAY).await;
            self.watch_lanes(group.key());
            std::future::pending().await
        };
        let leased = tokio::select! {
            biased;
            leased = group.lease(prefer, deadline) => leased,
            // It never ends.
            never = make_way => never,
        };
        leased.map_err(|error| match error {
            pool::LeaseError::Late => LeaseError::Waited,
            pool::LeaseError::Open(refusal) => LeaseError::Failed(refusal),
            pool::LeaseError::Closed => LeaseError::Failed(stopping()),
        })
    }

    /// A client has logged in.
    pub fn came(&self, outlet: Outlet) -> Rc<Client> {
        let limits = limits::of_client(&self.settings());
        let client = Client::new(outlet, self.shared.number(), limits);
        self.clients.borrow_mut().insert(client.id, Rc::downgrade(&client));
        client
    }

    /// A session has ended.
    pub fn left(&self, client: i32) {
        self.clients.borrow_mut().remove(&client);
        self.shared.unregister(client);
    }

    /// Waits until no client is left.
    pub async fn emptied(&self) {
        while self.clients.borrow().values().any(|client| client.strong_count() > 0) {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Does what other threads ask of this worker, until nobody can any more: while it drains, too.
    /// Whenever lanes are looked after so is what `upkeep` knows of.
    pub async fn attend(self: Rc<Self>, mut calls: mpsc::Receiver<Call>, upkeep: impl Fn()) {
        let mut turn = tokio::time::interval(UPKEEP);
        loop {
            let call = tokio::select! {
                call = calls.recv() => call,
                _ = turn.tick() => {
                    self.look_after_lanes(Instant::now());
                    upkeep();
                    continue;
                }
            };
            match call {
                Some(Call::Cancel(client, telling)) => {
                    if let Some(client) = self.client(client) {
                        self.cancel(&client, telling);
                    }
                }
                Some(Call::Disconnect(client, done)) => {
                    if let Some(client) = self.client(client) {
                        console::disconnect(&client);
                    }
                    drop(done);
                }
                Some(Call::Snapshot(clients, asker)) => {
                    let _ = asker.send(self.snapshot(clients));
                }
                Some(Call::Order(order, done)) => {
                    self.order(&order);
                    drop(done);
                }
                None => return,
            }
        }
    }

    /// Cancels what a client runs. On a lane only what the server has to itself now, and for nobody
    /// else, is cancelled there, and the lane takes nothing more until it has ended; what waits
    /// behind others or with them is answered here when its turn comes. `telling` goes once the
    /// server has been told.
    fn cancel(&self, client: &Rc<Client>, telling: oneshot::Sender<()>) {
        client.cancel();
        if let Some(Target { record, key }) = client.leased() {
            return self.spawn_cancel(&record, key, telling);
        }
        let groups = self.groups.borrow();
        let lane = groups.values().find_map(|group| group.lane_to_cancel(client));
        if let Some(lane) = lane.or_else(|| self.flights.lane_to_cancel(client))
            && let Some(key) = lane.known.cancel.clone()
        {
            lane.known.cancelled.set(true);
            lane.handle.quarantine();
            self.spawn_cancel(&lane.known.record, key, telling);
        }
    }

    /// Has what runs on a server connection cancelled; `kept` goes once the server has been told,
    /// or can't be.
    pub(crate) fn spawn_cancel(
        &self,
        record: &Rc<Record>,
        key: server::CancelKey,
        kept: impl Sized + 'static,
    ) {
        let cancelling = record.cancelled();
        let limit = self.settings().timeouts.cancel.get();
        let record = record.clone();
        tokio::task::spawn_local(async move {
            let cancel = server::cancel(record.backend.server(), &key);
            let told = tokio::time::timeout(limit, cancel).await;
            match &told {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "a statement could not be cancelled"),
                Err(_) => tracing::warn!("a cancel took longer than postgres.timeouts.cancel"),
            }
            if !matches!(told, Ok(Ok(()))) {
                // It may still arrive, when the connection is somebody else's.
                record.outdate();
            }
            drop((cancelling, kept));
        });
    }

    fn client(&self, number: i32) -> Option<Rc<Client>> {
        self.clients.borrow().get(&number).and_then(Weak::upgrade)
    }

    /// Lets clients go on until they are idle, and closes them then.
    pub fn drain(&self) {
        let clients: Vec<_> = self.clients.borrow().values().filter_map(Weak::upgrade).collect();
        for client in clients {
            client.part(Refusal::fatal(
                sqlstate::ADMIN_SHUTDOWN,
                "terminating connection due to administrator command",
            ));
        }
    }
}
