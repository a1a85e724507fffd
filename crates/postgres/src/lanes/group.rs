//! Lanes of one key: where they go, and what is known of the servers at their ends.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::lanes::{self, Load, Norm};
use watch::latencies::Latencies;
use watch::metrics::Counter;
use wire::postgres::Refusal;
use wire::sql::Strings;

use super::{Replies, Ticket};
use crate::backends::{Backend, Login};
use crate::client::Client;
use crate::connection::Record;
use crate::pipeline::prepared::PreparedStatements;
use crate::pipeline::settings::Applied;
use crate::server::CancelKey;
use crate::slow::SlowNotes;

/// Whose statements a lane takes: nothing that a statement can see differs between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The number of the backend.
    pub backend: usize,
    /// The database's name on the backend.
    pub database: Arc<str>,
    /// The user on the backend.
    pub user: Arc<str>,
    /// The settings that sessions on these lanes have.
    pub settings: Applied,
}

/// A server connection that reads of many sessions share.
pub type Lane = lanes::Lane<Replies, Ticket, LaneServer>;

/// What [`Group::pick`](lanes::Group::pick) finds: where that is no lane with room, take a lease.
pub type Picked = lanes::Picked<Replies, Ticket, LaneServer, Refusal>;

/// What is known of the server at a lane's end.
pub struct LaneServer {
    /// The statements it has prepared.
    pub prepared: RefCell<PreparedStatements>,
    /// How to have what it runs cancelled.
    pub cancel: Option<CancelKey>,
    /// Reads under way at that backend.
    pub load: Load,
    /// What the console shows of its connection.
    pub record: Rc<Record>,
    /// Counts reads that are answered by what was asked for an equal one.
    pub shared: Counter,
    /// How long its requests take.
    pub latencies: Latencies,
    /// Requests that it has answered.
    pub answered: Cell<u64>,
    /// When bytes came from it last.
    pub heard: Cell<Instant>,
    /// How long those on all lanes of the worker run.
    pub norm: Norm,
    /// What becomes of those that are slow.
    pub slow: SlowNotes,
    /// The server is a replica.
    pub is_replica: bool,
    /// How it reads strings.
    pub strings: Strings,
    /// A cancel is under way: an answer that says so may not be for whom it is.
    pub cancelled: Cell<bool>,
    /// A setting has changed there on its own.
    pub is_doubtful: Cell<bool>,
    /// The backend's epoch when the lane was opened.
    pub epoch: u64,
    /// The backend's count of changed logins when the lane's own was looked at last.
    pub logins_generation: Cell<u64>,
    /// What its own is.
    pub login: Login,
}

impl lanes::ServerRecord for LaneServer {
    #[inline]
    fn is_current(&self) -> bool {
        let backend = &self.record.backend;
        self.epoch == backend.epoch() && self.has_its_login(backend)
    }
}

impl LaneServer {
    /// Whether a lane that is opened now would have the same from its login.
    #[inline]
    fn has_its_login(&self, backend: &Backend) -> bool {
        let generation = backend.logins().generation();
        (self.logins_generation.get() == generation && !self.login.is_new()) || {
            let key = &self.record.key;
            let now = backend.logins().of(&key.user, &key.database);
            if now == self.login {
                self.logins_generation.set(generation);
            }
            now == self.login
        }
    }
}

/// Whether a lane's server has this client's request to itself, and a cancel there takes an answer
/// from nobody: all who asked for it have had it cancelled, or have left.
pub fn is_to_cancel(lane: &Lane, client: &Rc<Client>) -> bool {
    lane.handle.has_head(|ticket| ticket.is_of(client), Ticket::is_for_nobody)
}

/// The lanes of one key on one worker.
pub struct Group {
    /// What the sessions on these lanes have in common.
    pub key: Key,
    /// The backend that the lanes lead to.
    pub backend: Arc<Backend>,
    /// Reads under way at that backend, those of other groups too.
    pub load: Load,
    lanes: lanes::Group<Replies, Ticket, LaneServer, Refusal>,
}

impl Deref for Group {
    type Target = lanes::Group<Replies, Ticket, LaneServer, Refusal>;

    fn deref(&self) -> &Self::Target {
        &self.lanes
    }
}

impl Group {
    /// A group without lanes, the first of which is opened for the first request.
    pub fn new(key: Key, backend: Arc<Backend>, load: Load, limits: lanes::Limits) -> Self {
        Self { key, backend, load, lanes: lanes::Group::new(limits) }
    }

    /// The lane on which what this client asks [is to be cancelled](is_to_cancel).
    pub fn lane_to_cancel(&self, client: &Rc<Client>) -> Option<Rc<Lane>> {
        self.lanes.find(|lane| is_to_cancel(lane, client))
    }

    /// Whether a lane leads to a server that is not what it was, or that is not of use while a
    /// request on the lane has run for longer than `hung`: no answer may ever come.
    pub fn is_lost(&self, lane: &Lane, now: Instant, hung: Duration) -> bool {
        let hangs = || lane.handle.head_age(now).is_some_and(|age| age > hung);
        lane.known.epoch != self.backend.epoch()
            || (!self.backend.standing().is_of_use() && hangs())
    }
}
