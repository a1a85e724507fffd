//! Writes of many clients in one transaction: what each of them would commit by itself is committed
//! at once, with one flush of the server's log.
//!
//! Only statements come here that are transactions of their own and whose plans say that nothing
//! tells (see `plan::point`). A client hears of its statement once the transaction of all has been
//! committed. Where anything fails the server has undone all of it, and each statement runs again
//! by itself, so a client hears the error of its own statement and of no other.
//!
//! The one path: [`Batches::join`] puts a statement into the line of its database, user and
//! settings; while a batch is under way others wait there, and go together with the next. A batch
//! holds its locks a little longer than its statements would, and waits for those of others only
//! for [`Limits::lock_timeout`], so that it is never what a deadlock is resolved by.

mod batch;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::spawn_local;
use wire::sql::{Lifted, Strings};

use crate::backends::{Backend, BackendState};
use crate::client::Client;
use crate::connection::Key;
use crate::database::Database;
use crate::lanes;
use crate::pipeline::round::Round;
use crate::pipeline::settings::Applied;
use crate::plan::Plan;
use crate::settings::Settings;
use crate::worker::{Leased, SharedCommit, WorkerContext, after, give_back, some};

/// Bytes of the statements in one batch, as their clients sent them: past that no more go with it.
const BATCH_BYTES: usize = 256 * 1024;

/// How batches are run; from `[postgres.batches]`.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Batches of a worker under way at once for one database, user and settings.
    pub count: usize,
    /// Statements that one batch has at most.
    pub statements: usize,
    /// How long one waits for a lock.
    pub lock_timeout: Duration,
    /// How long one waits for a server connection.
    pub wait: Option<Duration>,
    /// How long one may run.
    pub run: Option<Duration>,
}

impl Limits {
    /// As the settings have them.
    fn new(settings: &Settings) -> Self {
        Self {
            count: settings.batches.count,
            statements: settings.batches.statements,
            lock_timeout: settings.batches.lock_timeout.get(),
            wait: some(settings.timeouts.query_wait),
            run: some(settings.timeouts.query),
        }
    }
}

/// The lines of one worker.
pub struct Lines {
    /// What the clients of that worker share.
    pub front: Rc<WorkerContext>,
    known: RefCell<HashMap<LineKey, Rc<Batches>>>,
    limits: Rc<Cell<Limits>>,
}

impl Lines {
    pub fn new(front: Rc<WorkerContext>) -> Rc<Self> {
        let limits = Rc::new(Cell::new(Limits::new(&front.settings())));
        Rc::new(Self { front, known: RefCell::default(), limits })
    }

    /// Those with these settings that share transactions on a backend, whose commits are confirmed
    /// together with others' or not.
    pub fn line(
        &self,
        backend: Arc<Backend>,
        key: Key,
        settings: &Applied,
        shares_commits: bool,
    ) -> Rc<Batches> {
        let connections = lanes::Key {
            backend: key.backend,
            database: key.database.clone(),
            user: key.user.clone(),
            settings: settings.clone(),
        };
        let (front, settings) = (Rc::downgrade(&self.front), settings.clone());
        let new = || {
            let (waiting, under_way) = Default::default();
            let limits = self.limits.clone();
            Rc::new(Batches {
                front,
                limits,
                backend,
                key,
                settings,
                shares_commits,
                waiting,
                under_way,
            })
        };
        let of = LineKey { connections, shares_commits };
        self.known.borrow_mut().entry(of).or_insert_with(new).clone()
    }

    /// Takes on the settings of the last reload, and forgets lines that no session knows.
    pub fn look_after(&self) {
        self.limits.set(Limits::new(&self.front.settings()));
        self.known.borrow_mut().retain(|_, of| Rc::strong_count(of) > 1);
    }
}

/// Who may share a transaction.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LineKey {
    /// The server connections that are alike for them.
    connections: lanes::Key,
    /// Whether their commits are confirmed together with others'.
    shares_commits: bool,
}

/// A statement that is to run in a batch.
pub struct Member {
    pub client: Rc<Client>,
    pub database: Rc<Database>,
    pub plan: Rc<Plan>,
    /// The round, as its client sent it.
    pub round: Round,
    /// Where it came as text: its constants and the rest.
    pub lifted: Option<Box<Lifted>>,
    /// How its text was read.
    pub strings: Strings,
    /// It is in a batch that is under way.
    pub is_taken: Rc<Cell<bool>>,
    /// Who waits for what becomes of it.
    pub done: oneshot::Sender<Outcome>,
}

/// What became of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is committed, or has failed by itself, and its client has heard so.
    Told,
    /// Nothing of it is left: it is to run by itself.
    Alone,
    /// The server is gone; whether it took effect is not known.
    Unknown,
    /// It is committed, and whether that lasts could not be confirmed.
    Unconfirmed,
}

/// The line of those that may go together.
pub struct Batches {
    front: Weak<WorkerContext>,
    limits: Rc<Cell<Limits>>,
    /// The server that the batches run on, while it is the primary.
    pub backend: Arc<Backend>,
    key: Key,
    /// The settings of their sessions.
    settings: Applied,
    /// Whether their commits are confirmed together with others'.
    shares_commits: bool,
    waiting: RefCell<VecDeque<Member>>,
    /// Batches that are under way, or wait for a server connection.
    under_way: Cell<usize>,
}

impl Batches {
    /// Whether settings of a session's leave what a batch sets for itself.
    pub fn go_with(applied: &Applied) -> bool {
        !applied.contains("lock_timeout")
    }

    /// Puts a statement into the line.
    pub fn join(self: &Rc<Self>, member: Member) {
        let Some(front) = self.front.upgrade() else { return };
        self.waiting.borrow_mut().push_back(member);
        if self.under_way.get() < self.limits.get().count {
            self.under_way.set(self.under_way.get() + 1);
            spawn_local(self.clone().run(front));
        }
    }

    /// Runs batches until nobody waits.
    async fn run(self: Rc<Self>, front: Rc<WorkerContext>) {
        while !self.waiting.borrow().is_empty() {
            let Some(mut lease) = self.leased(&front).await else {
                // Each finds out for itself, and waits there or hears why.
                self.waiting.borrow_mut().drain(..).for_each(|member| member.end(Outcome::Alone));
                break;
            };
            while lease.is_free() && self.may_keep(&front, &mut lease) {
                let members = self.next();
                if members.is_empty() {
                    break;
                }
                let commit = self.shared_commit(&front, &lease);
                batch::run(&front, &mut lease, members, commit, self.limits.get().run).await;
            }
            if lease.is_free() && lease.record.cancels() == 0 {
                lease.record.has_prepared(lease.prepared.count());
                give_back(lease);
            }
        }
        self.under_way.set(self.under_way.get() - 1);
    }

    /// How the next batch may commit without waiting; `None` where it is to wait for itself.
    fn shared_commit(&self, front: &WorkerContext, lease: &Leased) -> Option<SharedCommit> {
        let is_alone = self.waiting.borrow().is_empty();
        self.shares_commits.then(|| front.share_commit(lease, is_alone)).flatten()
    }

    /// Whether nobody has asked for the connection back.
    fn may_keep(&self, front: &WorkerContext, lease: &mut Leased) -> bool {
        let is_wanted = lease.record.is_outdated() || front.shared.is_paused(&self.key.database);
        !is_wanted && self.is_of_use(lease) && lease.is_current()
    }

    fn is_of_use(&self, lease: &Leased) -> bool {
        lease.epoch == self.backend.epoch() && self.backend.standing() == BackendState::Primary
    }

    /// A server connection with the settings; `None` where none is to be had.
    async fn leased(&self, front: &WorkerContext) -> Option<Leased> {
        let limits = self.limits.get();
        let lock_timeout = limits.lock_timeout.as_millis().max(1);
        let settings = format!("{}SET lock_timeout = {lock_timeout};", self.settings).into();
        let deadline = after(Instant::now(), limits.wait);
        let mut changes = front.backends.changes();
        let is_primary = || self.backend.standing() == BackendState::Primary;
        let lost = async { while is_primary() && changes.changed().await.is_ok() {} };
        let leased = front.lease(self.key.clone(), &settings, deadline);
        let mut lease = tokio::select! {
            biased;
            leased = leased => leased.ok()?,
            () = lost => return None,
        };
        if !self.is_of_use(&lease) {
            return None;
        }
        lease.take_on(&settings);
        if lease.unsent() > 0 {
            lease.settle_in_time(&front.scratch).await.ok()?;
        }
        Some(lease)
    }

    /// Those that go next.
    fn next(&self) -> Vec<Member> {
        let most = self.limits.get().statements;
        let mut waiting = self.waiting.borrow_mut();
        let (mut members, mut bytes) = (Vec::with_capacity(most.min(waiting.len())), 0);
        while members.len() < most
            && bytes < BATCH_BYTES
            && let Some(member) = waiting.pop_front()
        {
            // Whoever waited for it has called it off otherwise.
            if !member.done.is_closed() {
                member.is_taken.set(true);
                bytes += member.round.bytes().len();
                members.push(member);
            }
        }
        members
    }
}

impl Member {
    /// It is no longer in a batch.
    fn end(self, outcome: Outcome) {
        // Whoever does not wait any more has gone.
        let _ = self.done.send(outcome);
    }
}
