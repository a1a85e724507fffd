//! What the console shows of a server connection, from its login to its end.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::backends::Backend;
use crate::server::Dialled;

/// Whose a leased connection is: nothing else may be done with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The number of the backend.
    pub backend: usize,
    /// The database's name there.
    pub database: Arc<str>,
    /// The user on the backend.
    pub user: Arc<str>,
}

/// What a server connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// One client has it.
    Active,
    /// Anybody may have it.
    Idle,
    /// It is a lane.
    Lane,
    /// It is being made ready for the next client.
    Resetting,
    /// It is being opened and logged in.
    Login,
    /// A cancel request that is meant for it is under way.
    BeingCancelled,
}

/// What the console shows of a server connection. It is there for as long as the connection.
#[derive(Debug)]
pub struct Record {
    /// Its number, which no other of this process has or had.
    pub id: u64,
    /// The backend, database and user that it is for.
    pub key: Key,
    /// The backend that it leads to.
    pub backend: Arc<Backend>,
    /// When it was begun.
    pub begun: SystemTime,
    reached: OnceCell<Reached>,
    state: Cell<ServerState>,
    client: Cell<Option<i32>>,
    asked: Cell<Option<Instant>>,
    prepared: Cell<usize>,
    cancels: Cell<usize>,
    outdated: Cell<bool>,
    application_name: RefCell<Box<str>>,
}

/// What is known once it is logged in.
#[derive(Debug)]
pub struct Reached {
    /// The server's end; `None` is a Unix socket.
    pub address: Option<SocketAddr>,
    /// This end; `None` is a Unix socket.
    pub local: Option<SocketAddr>,
    /// The process id of the server's backend process.
    pub process: u32,
    /// Version and cipher; empty without TLS.
    pub tls: String,
}

impl Record {
    /// Of a connection that is about to be opened.
    pub fn new(id: u64, key: Key, backend: Arc<Backend>) -> Rc<Self> {
        Rc::new(Self {
            id,
            key,
            backend,
            begun: SystemTime::now(),
            reached: OnceCell::new(),
            state: Cell::new(ServerState::Login),
            client: Cell::new(None),
            asked: Cell::new(None),
            prepared: Cell::new(0),
            cancels: Cell::new(0),
            outdated: Cell::new(false),
            application_name: RefCell::default(),
        })
    }

    /// It is logged in.
    pub fn reached(&self, dialled: &Dialled) {
        let (local, address) = dialled.socket.addresses();
        let process = dialled.key.as_ref().map_or(0, |key| key.process_id.unsigned_abs());
        let tls = dialled.socket.encryption().unwrap_or_default();
        let _ = self.reached.set(Reached { address, local, process, tls });
        self.name(dialled.parameter("application_name").unwrap_or_default());
        self.state.set(ServerState::Idle);
    }

    /// What is known since it is logged in.
    pub fn place(&self) -> Option<&Reached> {
        self.reached.get()
    }

    /// A client has it for itself.
    pub fn lent(&self, client: i32) {
        self.state.set(ServerState::Active);
        self.client.set(Some(client));
    }

    /// It does something that is not a client's, or nothing.
    pub fn is_now(&self, state: ServerState) {
        self.state.set(state);
        self.client.set(None);
    }

    /// What it does now; a cancel request under way goes first.
    pub fn state(&self) -> ServerState {
        if self.cancels.get() > 0 { ServerState::BeingCancelled } else { self.state.get() }
    }

    /// The client that has it.
    pub fn client(&self) -> Option<i32> {
        self.client.get()
    }

    /// Notes that statements were sent now.
    #[inline]
    pub fn asked(&self, now: Instant) {
        self.asked.set(Some(now));
    }

    /// When statements were sent last.
    pub fn asked_last(&self) -> Option<Instant> {
        self.asked.get()
    }

    /// So many statements are prepared on it.
    #[inline]
    pub fn has_prepared(&self, count: usize) {
        self.prepared.set(count);
    }

    /// How many statements are prepared on it.
    pub fn prepared(&self) -> usize {
        self.prepared.get()
    }

    /// Cancel requests that are on their way: until they have arrived nobody else may have the
    /// connection.
    pub fn cancels(&self) -> usize {
        self.cancels.get()
    }

    /// A cancel request is on its way until the guard goes.
    pub fn cancelled(self: &Rc<Self>) -> Cancelling {
        self.cancels.set(self.cancels.get() + 1);
        Cancelling(self.clone())
    }

    /// It is to be closed once its client has no use for it any more.
    pub fn outdate(&self) {
        self.outdated.set(true);
    }

    /// Whether it is closed once nobody uses it.
    pub fn is_outdated(&self) -> bool {
        self.outdated.get()
    }

    /// The `application_name` that the server reports.
    pub fn name(&self, name: &str) {
        *self.application_name.borrow_mut() = name.into();
    }

    /// The `application_name` that the server has reported.
    pub fn application_name(&self) -> String {
        self.application_name.borrow().to_string()
    }
}

/// A cancel request that is on its way.
#[derive(Debug)]
pub struct Cancelling(Rc<Record>);

impl Drop for Cancelling {
    fn drop(&mut self) {
        self.0.cancels.set(self.0.cancels.get() - 1);
    }
}
