//! A worker's servers and clients.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ticket::Deliverer;
use super::{Client, Pause, Service, Settings, Ticket};
use crate::lane::{Handle, Orphan, Protocol, Why};
use crate::lanes::{self, Group, LaneParts, Norm, NotOpened, ServerRecord as _, Upkeep};
use crate::outlet::Outlet;
use crate::pool::{self, Budget, Counts, LeaseError, OpenError, Opener, Pool};
use crate::scratch::Scratch;

/// How often a worker looks for what takes too long.
const LOOK: Duration = Duration::from_millis(50);
/// A lane whose head has had so many times the time that a request may take is given up.
const HUNG: u32 = 2;

pub(super) type Lanes<S> =
    Group<<S as Service>::Protocol, Ticket<S>, <S as Service>::Record, <S as Service>::Error>;

/// A worker's servers and clients.
pub struct Fabric<S: Service> {
    service: Rc<S>,
    settings: RefCell<Rc<Settings>>,
    pub(super) pool: Pool<Connector<S>>,
    pub(super) groups: RefCell<HashMap<usize, Rc<Lanes<S>>>>,
    /// Who may have a connection to a server for itself.
    pub(super) permits: RefCell<HashMap<usize, Arc<Semaphore>>>,
    clients: RefCell<HashMap<u64, Weak<Client<S>>>>,
    next: Cell<u64>,
    norm: Norm,
    scratch: Scratch,
    /// How many connections that requests went by have broken, by their server.
    pub(super) breaks: RefCell<HashMap<usize, u64>>,
    /// What is held back.
    pub(super) paused: Cell<Option<Pause>>,
    /// When a pause ended last.
    pub(super) resumed: Cell<Option<Instant>>,
}

/// One lane at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneFigures {
    /// The number of its server.
    pub server: usize,
    /// Requests that are not answered.
    pub in_flight: usize,
    /// Bytes that its server has not taken.
    pub unsent: usize,
    /// For how long its server has had the request at the head to itself.
    pub head_age: Duration,
    /// For how long it has been open.
    pub age: Duration,
}

/// What goes on in a fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Clients that are connected.
    pub clients: usize,
    /// Lanes to all servers.
    pub lanes: usize,
    /// Requests on them that are not answered.
    pub in_flight: usize,
}

/// Opens connections of the pool.
pub(super) struct Connector<S>(Rc<S>);

impl<S: Service> Opener for Connector<S> {
    type Key = usize;
    type Connection = S::Connection;
    type Error = S::Error;

    async fn open(self: Rc<Self>, key: usize) -> Result<S::Connection, OpenError<S::Error>> {
        let opened = Rc::clone(&self.0).connect(key).await;
        opened.map_err(|error| OpenError { error, is_final: true })
    }

    fn budgets(&self, key: &usize) -> Vec<Budget> {
        self.0.budget(*key).into_iter().collect()
    }

    fn is_good(&self, connection: &mut S::Connection) -> bool {
        self.0.is_good(connection)
    }
}

/// A connection of the pool, to be driven by a lane.
pub(super) struct Leased<S: Service>(pool::Lease<Connector<S>>);

impl<S: Service> Leased<S> {
    pub(super) fn connection(&self) -> &S::Connection {
        &self.0
    }

    pub(super) fn connection_mut(&mut self) -> &mut S::Connection {
        &mut self.0
    }

    pub(super) fn give_back(self) {
        self.0.give_back();
    }

    fn io(self: Pin<&mut Self>) -> Pin<&mut S::Connection> {
        Pin::new(&mut *self.get_mut().0)
    }
}

// The connection is `Unpin` itself.
impl<S: Service> Unpin for Leased<S> {}

impl<S: Service> AsyncRead for Leased<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.io().poll_read(cx, buf)
    }
}

impl<S: Service> AsyncWrite for Leased<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io().poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_shutdown(cx)
    }
}

impl<S: Service> Fabric<S> {
    /// A fabric without clients. Needs the worker's runtime: a local task looks after it until it
    /// is dropped.
    pub fn new(service: S, settings: Settings, scratch: Scratch, counts: Counts) -> Rc<Self> {
        let service = Rc::new(service);
        let connector = Rc::new(Connector(Rc::clone(&service)));
        let fabric = Rc::new(Self {
            pool: Pool::new(connector, settings.pool.clone(), counts),
            service,
            settings: RefCell::new(Rc::new(settings)),
            groups: RefCell::default(),
            permits: RefCell::default(),
            clients: RefCell::default(),
            next: Cell::new(0),
            norm: Norm::default(),
            scratch,
            breaks: RefCell::default(),
            paused: Cell::default(),
            resumed: Cell::default(),
        });
        tokio::task::spawn_local(look_after(Rc::downgrade(&fabric)));
        fabric
    }

    /// The gateway's protocol and servers.
    pub fn service(&self) -> &Rc<S> {
        &self.service
    }

    /// How it is run.
    pub fn settings(&self) -> Rc<Settings> {
        self.settings.borrow().clone()
    }

    /// Changes how it is run, for what begins from now on.
    pub fn set_settings(&self, settings: Settings) {
        self.pool.set_settings(settings.pool.clone());
        for group in self.groups.borrow().values() {
            group.set_limits(settings.lanes);
            group.retire_beyond_limit();
            group.lanes().iter().for_each(|lane| lane.handle.set_limits(settings.lane));
        }
        if self.settings.borrow().leases != settings.leases {
            // Those that are lent count towards the former ones, until they are given back.
            self.permits.borrow_mut().clear();
        }
        *self.settings.borrow_mut() = Rc::new(settings);
    }

    /// A client by its number.
    pub fn client(&self, id: u64) -> Option<Rc<Client<S>>> {
        self.clients.borrow().get(&id)?.upgrade()
    }

    /// How many connections to a server that several clients shared have ended since the start, and
    /// others that ended by themselves. What was answered before may be lost with a server that was
    /// started again since.
    pub fn breaks(&self, server: usize) -> u64 {
        let all = self.breaks.borrow();
        let own = all.iter().filter(|(of, _)| self.service.are_of_one(**of, server));
        own.map(|(_, count)| count).sum()
    }

    /// Ends at once what goes to servers that are not what they were: nothing that was not sent yet
    /// is sent there.
    pub fn close_outdated(&self) {
        let groups: Vec<_> = self.groups.borrow().values().cloned().collect();
        groups.iter().for_each(|group| group.close_lost(|lane| !lane.known.is_current()));
        let clients: Vec<_> = self.clients.borrow().values().filter_map(Weak::upgrade).collect();
        clients.iter().for_each(|client| client.close_outdated_leases());
    }

    /// Nobody asks for anything any more: all connections end, once what is on them is answered.
    pub fn close(&self) {
        self.groups.borrow().values().for_each(|group| group.retire());
        self.pool.close();
    }

    /// What was answered by a server before may be lost, or is with another one.
    pub fn broke(&self, server: usize) {
        *self.breaks.borrow_mut().entry(server).or_default() += 1;
    }

    /// What goes on in it at this moment.
    pub fn figures(&self) -> Figures {
        let groups = self.groups.borrow();
        let sum = groups.values().map(|group| group.figures());
        let (lanes, in_flight) = sum.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        Figures { clients: self.clients.borrow().len(), lanes, in_flight }
    }

    /// Each lane to each server.
    pub fn lanes(&self) -> Vec<LaneFigures> {
        let now = Instant::now();
        let groups = self.groups.borrow();
        let lanes = groups.iter().flat_map(|(server, group)| {
            group.lanes().into_iter().map(move |lane| LaneFigures {
                server: *server,
                in_flight: lane.handle.depth(),
                unsent: lane.handle.unsent(),
                head_age: lane.handle.head_age(now).unwrap_or_default(),
                age: now.saturating_duration_since(lane.opened),
            })
        });
        lanes.collect()
    }

    /// Connections to servers, those of lanes among them, by the number of the server.
    pub fn connections(&self) -> Vec<(usize, pool::Figures)> {
        self.pool.groups().iter().map(|group| (*group.key(), group.figures())).collect()
    }

    pub(super) fn all_clients(&self) -> Vec<Rc<Client<S>>> {
        self.clients.borrow().values().filter_map(Weak::upgrade).collect()
    }

    pub(super) fn scratch(&self) -> Scratch {
        self.scratch.clone()
    }

    pub(super) fn norm(&self) -> Duration {
        self.norm.get()
    }

    #[inline]
    pub(super) fn answered(&self, ran: Duration) {
        self.norm.note(ran);
    }

    pub(super) fn enter(self: &Rc<Self>, outlet: Outlet) -> Rc<Client<S>> {
        let id = self.next.get();
        self.next.set(id + 1);
        let client = Client::new(Rc::clone(self), id, outlet);
        self.clients.borrow_mut().insert(id, Rc::downgrade(&client));
        client
    }

    pub(super) fn leave(&self, client: &Client<S>) {
        self.clients.borrow_mut().remove(&client.id());
        client.leave();
    }

    pub(super) fn group(&self, server: usize) -> Rc<Lanes<S>> {
        if let Some(group) = self.groups.borrow().get(&server) {
            return Rc::clone(group);
        }
        let group = Rc::new(Group::new(self.settings().lanes));
        self.groups.borrow_mut().insert(server, Rc::clone(&group));
        group
    }

    /// A permit to have a connection to a server, which is in force until it is dropped.
    pub(super) async fn permit(
        &self,
        server: usize,
        deadline: Instant,
    ) -> Option<OwnedSemaphorePermit> {
        let permits = {
            let new = || Arc::new(Semaphore::new(self.settings.borrow().leases));
            Arc::clone(self.permits.borrow_mut().entry(server).or_insert_with(new))
        };
        tokio::time::timeout_at(deadline.into(), permits.acquire_owned()).await.ok()?.ok()
    }

    pub(super) async fn lease(
        &self,
        server: usize,
        deadline: Instant,
    ) -> Result<Leased<S>, LeaseError<S::Error>> {
        self.pool.lease(&server, |_| u8::MAX, deadline).await.map(Leased)
    }

    /// Opens another lane to a server, away from whoever wants it.
    pub(super) fn open_lane(fabric: &Rc<Self>, server: usize) {
        let group = fabric.group(server);
        lanes::open(LaneOpener { fabric: Rc::downgrade(fabric), group, server });
    }

    /// Gives up what takes too long.
    fn look(&self) {
        let now = Instant::now();
        let settings = self.settings();
        let hung = settings.timeout * HUNG;
        let upkeep = Upkeep { limits: settings.lanes, age: None, idle: settings.idle };
        self.look_at_pause(now);
        // Not borrowed meanwhile: a client may leave.
        for client in self.all_clients() {
            client.look(now);
            client.look_at_leases(now, hung);
        }
        let groups: Vec<_> = self.groups.borrow().iter().map(|(of, g)| (*of, g.clone())).collect();
        for (server, group) in groups {
            group.look_after(now, &upkeep, |lane| is_hung(&lane.handle, now, hung));
            // What has waited since before goes there still, and so may open a lane once more.
            if self.service.left(server).is_some() {
                group.retire();
            }
        }
        let connections = self.pool.groups().into_iter();
        let left = connections.filter(|group| self.service.left(*group.key()).is_some());
        left.for_each(|group| group.close_idle());
        self.make_room(now);
    }

    /// Whether what clients have for themselves at a server that has left ends now.
    pub(super) fn is_to_end(&self, server: usize, now: Instant) -> bool {
        let drain = self.settings.borrow().drain;
        let left = self.service.left(server);
        left.is_some_and(|since| now.saturating_duration_since(since) >= drain)
    }
}

/// Whether a request is not answered for too long.
pub(super) fn is_hung<P: Protocol, T>(handle: &Handle<P, T>, now: Instant, hung: Duration) -> bool {
    let is_late = handle.head_age(now).is_some_and(|age| age > hung);
    // A reply that is still coming is none that hangs, however long it takes.
    is_late && handle.silence(now) > hung
}

/// Opens one lane to a server.
struct LaneOpener<S: Service> {
    /// What is known of the fabric must not keep it from ending.
    fabric: Weak<Fabric<S>>,
    group: Rc<Lanes<S>>,
    server: usize,
}

impl<S: Service> lanes::Opener for LaneOpener<S> {
    type Protocol = S::Protocol;
    type Ticket = Ticket<S>;
    type Server = S::Record;
    type Error = S::Error;
    type Connection = Leased<S>;
    type Owner = Deliverer<S>;

    fn group(&self) -> &Lanes<S> {
        &self.group
    }

    async fn open(&self) -> Result<LaneParts<Self>, NotOpened<S::Error>> {
        let fabric = self.fabric.upgrade().ok_or(NotOpened::NoRoom)?;
        let settings = fabric.settings();
        let leased = fabric.lease(self.server, Instant::now() + settings.timeout).await;
        let connection = leased.map_err(|error| match error {
            LeaseError::Open(error) => NotOpened::Failed(error),
            LeaseError::Late | LeaseError::Closed => NotOpened::NoRoom,
        })?;
        let (protocol, known) = fabric.service.known(connection.connection());
        Ok(LaneParts {
            connection,
            protocol,
            known: Rc::new(known),
            owner: Deliverer::new(&fabric, self.server, None),
            limits: fabric.settings().lane,
            scratch: fabric.scratch(),
        })
    }

    fn rest(&self, why: &S::Error) -> Duration {
        let is_told = |of: Rc<Fabric<S>>| of.service.is_told_at_once(why);
        if self.fabric.upgrade().is_some_and(is_told) { lanes::REST_BRIEF } else { lanes::REST }
    }

    fn ended(&self, why: &Why, left: usize, connection: Leased<S>) {
        match why {
            Why::Drained => connection.give_back(),
            why => tracing::debug!(server = self.server, ?why, "a lane has ended"),
        }
        let Some(fabric) = self.fabric.upgrade() else { return };
        // Nobody would notice that a server was started again while no lane led to it.
        fabric.broke(self.server);
        if matches!(why, Why::Eof | Why::Failed(_)) && left > 0 {
            fabric.service.lost(self.server);
        }
        fabric.pool.look();
    }

    fn orphaned(&self, orphan: Orphan<Ticket<S>>) {
        orphan.ticket.orphaned(orphan.fate);
    }
}

async fn look_after<S: Service>(fabric: Weak<Fabric<S>>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(fabric) = fabric.upgrade() else { return };
        fabric.look();
    }
}

impl<S: Service> fmt::Debug for Fabric<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.figures().fmt(f)
    }
}
