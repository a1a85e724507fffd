//! Lanes of one key, and which of them a request takes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::lane::Handle;
use tokio::sync::Notify;
use watch::metrics::Counter;
use wire::postgres::Refusal;
use wire::sql::Strings;

use super::{Limits, Replies, Ticket};
use crate::backends::{Backend, Login};
use crate::metrics::Latencies;
use crate::server::CancelKey;
use crate::session::client::Client;
use crate::session::prepared::Prepared;
use crate::session::settings::Applied;
use crate::worker::{Record, SlowLimit};

/// After a lane could not be opened, how long until the next attempt.
const REST: Duration = Duration::from_millis(500);

/// A line of fewer requests is as good as an empty one: each wake of a server process costs more
/// than such a request waits behind the others, and what comes on one connection comes at once.
const SHORT: usize = 4;
/// As long as what waits there is done within this time.
const SHORT_WAIT: Duration = Duration::from_micros(500);

/// A head that has run for so many times what others do stands still, beyond
/// `lanes.head-of-line`.
const HEAD_NORMS: u32 = 8;
/// And at this age it does in any case.
const HEAD_NORMS_MAX: Duration = Duration::from_millis(100);

/// Whose statements a lane takes: nothing that a statement can see differs between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The backend's number.
    pub backend: usize,
    /// The database's name on the backend.
    pub database: Arc<str>,
    /// The user on the backend.
    pub user: Arc<str>,
    /// The session's settings.
    pub settings: Applied,
}

/// A lane.
pub struct Lane {
    /// To put requests on it.
    pub handle: Handle<Replies, Ticket>,
    /// What is known of the server at its end.
    pub known: Rc<Known>,
    /// The backend's epoch when it was opened.
    pub epoch: u64,
    /// Its backend's count of changed logins when its own was looked at last.
    pub logins_generation: Cell<u64>,
    /// What its own is.
    pub login: Login,
    /// When it was opened.
    pub opened: Instant,
}

/// What is known of the server at a lane's end.
pub struct Known {
    /// The statements it has prepared.
    pub prepared: RefCell<Prepared>,
    /// How to have what it runs cancelled.
    pub cancel: Option<CancelKey>,
    /// Reads under way at that backend.
    pub load: Load,
    /// What the console shows of its connection.
    pub record: Rc<Record>,
    /// How long its requests take.
    pub latencies: Latencies,
    /// Requests that it has answered.
    pub answered: Cell<u64>,
    /// When bytes came from it last.
    pub heard: Cell<Instant>,
    /// How long those on all lanes of the worker run.
    pub norm: Norm,
    /// Which of them are logged.
    pub slow: SlowLimit,
    /// The server is a replica.
    pub is_replica: bool,
    /// How it reads strings.
    pub strings: Strings,
    /// A cancel is under way: an answer that says so may not be for whom it is.
    pub cancelled: Cell<bool>,
}

/// What [`Group::pick`] found.
pub enum Picked {
    /// A lane with room.
    Lane(Rc<Lane>),
    /// The first lane is being opened: wait for [`Group::changed`].
    Opening,
    /// Lanes are there and none has room, or none that does not stand still: take a lease.
    Busy,
    /// No lane could be opened.
    Failed(Refusal),
}

/// The reads of one worker that are under way at a backend, by lanes and leases. Clones count the
/// same ones.
#[derive(Debug, Clone)]
pub struct Load {
    under_way: Rc<Cell<usize>>,
    /// All that the backend was asked, by all workers.
    asked: Counter,
}

/// One read that is under way.
#[derive(Debug)]
pub struct Loaded(Rc<Cell<usize>>);

impl Load {
    /// None yet, of a backend that counts what it is asked.
    pub fn new(asked: Counter) -> Self {
        Self { under_way: Rc::default(), asked }
    }

    /// How many.
    #[inline]
    pub fn get(&self) -> usize {
        self.under_way.get()
    }

    /// One more, until it is dropped.
    #[inline]
    pub fn one(&self) -> Loaded {
        self.under_way.set(self.under_way.get() + 1);
        self.asked.inc();
        Loaded(self.under_way.clone())
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// How long reads run at present on a worker's lanes and leases, on average. Clones are the same
/// one.
///
/// Where the machine is busy everything takes longer: what is slow is told from what others take.
#[derive(Debug, Clone, Default)]
pub struct Norm(Rc<Cell<u64>>);

impl Norm {
    /// Takes note of a run; the average is over some 64 of them.
    #[inline]
    pub fn note(&self, ran: Duration) {
        let ran = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX / 64);
        let known = self.0.get();
        self.0.set(known - known / 64 + ran / 64);
    }

    /// The average.
    #[inline]
    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.0.get())
    }
}

/// How many requests a line has that is no longer short, where reads run for the `norm`.
#[inline]
fn short_line(norm: Duration, depth: usize) -> usize {
    let wait = SHORT_WAIT.as_nanos().checked_div(norm.as_nanos()).unwrap_or(0);
    usize::try_from(wait).unwrap_or(usize::MAX).clamp(1, SHORT.min(depth.max(1)))
}

/// The lanes of one key on one worker.
pub struct Group {
    /// Whose they are.
    pub key: Key,
    /// Where they go.
    pub backend: Arc<Backend>,
    /// Reads under way at that backend, those of other groups too.
    pub load: Load,
    lanes: RefCell<Vec<Rc<Lane>>>,
    limits: Cell<Limits>,
    opening: Cell<bool>,
    /// When the last attempt to open one failed, and why; `None` where there was no room for it.
    failed: RefCell<Option<(Instant, Option<Refusal>)>>,
    changed: Notify,
    /// When a request was last put on one of them.
    used: Cell<Instant>,
}

impl Group {
    /// No lanes yet.
    pub fn new(key: Key, backend: Arc<Backend>, load: Load, limits: Limits) -> Self {
        Self {
            key,
            backend,
            load,
            lanes: RefCell::default(),
            limits: Cell::new(limits),
            opening: Cell::new(false),
            failed: RefCell::default(),
            changed: Notify::new(),
            used: Cell::new(Instant::now()),
        }
    }

    /// The first lane with a short line, else that with the fewest requests; `open` is called when
    /// another should be opened. A lane whose head has run for many times the `norm` is passed by.
    #[inline]
    pub fn pick(&self, now: Instant, norm: Duration, open: impl FnOnce()) -> Picked {
        self.used.set(now);
        let lanes = self.lanes.borrow();
        let limits = self.limits.get();
        let head_max = limits.head_max.max((norm * HEAD_NORMS).min(HEAD_NORMS_MAX));
        let short = short_line(norm, limits.depth);
        let mut best: Option<(usize, &Rc<Lane>)> = None;
        // Where every head has run for long the machine is busy: more server processes would make
        // it busier, so the shortest line that moves at all will do.
        let mut slow: Option<(usize, &Rc<Lane>)> = None;
        let (epoch, logins) = (self.backend.epoch(), self.backend.logins().generation());
        for lane in lanes.iter().filter(|lane| !lane.handle.is_quarantined()) {
            if lane.epoch != epoch || !self.is_current(lane, logins) {
                // It is not what it was: let it finish.
                lane.handle.quarantine();
                continue;
            }
            let depth = lane.handle.depth();
            let age = lane.handle.head_age(now).filter(|_| depth > 0).unwrap_or_default();
            let line = if age <= head_max { &mut best } else { &mut slow };
            if age <= HEAD_NORMS_MAX && line.is_none_or(|(least, _)| depth < least) {
                *line = Some((depth, lane));
                if depth < short && age <= head_max {
                    break;
                }
            }
        }
        let best = best.or(slow);
        if best.is_none_or(|(depth, _)| depth >= short)
            && lanes.len() < limits.count
            && self.may_open(now)
        {
            self.opening.set(true);
            open();
        }
        match best {
            Some((depth, lane)) if depth < limits.depth => Picked::Lane(lane.clone()),
            Some(_) => Picked::Busy,
            None if !lanes.is_empty() => Picked::Busy,
            None => match &*self.failed.borrow() {
                Some(_) if self.opening.get() => Picked::Opening,
                Some((_, Some(refusal))) => Picked::Failed(refusal.clone()),
                Some((_, None)) => Picked::Busy,
                None => Picked::Opening,
            },
        }
    }

    /// Whether a lane that is opened now would have the same from its login.
    #[inline]
    fn is_current(&self, lane: &Lane, logins: u64) -> bool {
        (lane.logins_generation.get() == logins && !lane.login.is_new()) || {
            let now = self.backend.logins().of(&self.key.user, &self.key.database);
            if now == lane.login {
                lane.logins_generation.set(logins);
            }
            now == lane.login
        }
    }

    /// Lets lanes finish whose login is not what it was.
    pub fn retire_outdated(&self) {
        let logins = self.backend.logins().generation();
        let lanes = self.lanes.borrow();
        let outdated = lanes.iter().filter(|lane| !self.is_current(lane, logins));
        outdated.for_each(|lane| lane.handle.quarantine());
    }

    fn may_open(&self, now: Instant) -> bool {
        let failed = self.failed.borrow();
        !self.opening.get()
            && failed.as_ref().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= REST)
    }

    /// Waits until a lane was opened, or could not be.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// A lane is there.
    pub fn opened(&self, lane: Rc<Lane>) {
        self.opening.set(false);
        *self.failed.borrow_mut() = None;
        self.lanes.borrow_mut().push(lane);
        self.changed.notify_waiters();
    }

    /// A lane could not be opened.
    pub fn failed(&self, refusal: Refusal) {
        self.opening.set(false);
        *self.failed.borrow_mut() = Some((Instant::now(), Some(refusal)));
        self.changed.notify_waiters();
    }

    /// There is no room for another lane; requests go by lease where there is none at all.
    pub fn refused(&self, now: Instant) {
        self.opening.set(false);
        self.rest(now);
        self.changed.notify_waiters();
    }

    /// Opens no lane for a while.
    pub fn rest(&self, now: Instant) {
        *self.failed.borrow_mut() = Some((now, None));
    }

    /// Whether a lane is being opened.
    pub fn is_opening(&self) -> bool {
        self.opening.get()
    }

    /// A lane has ended.
    pub fn ended(&self, lane: &Rc<Lane>) {
        self.lanes.borrow_mut().retain(|known| !Rc::ptr_eq(known, lane));
        self.changed.notify_waiters();
    }

    /// The lane whose server has this client's request to itself.
    pub fn lane_of(&self, client: &Rc<Client>) -> Option<Rc<Lane>> {
        let is_its = |ticket: &Ticket| Rc::ptr_eq(&ticket.client, client);
        let lanes = self.lanes.borrow();
        lanes.iter().find(|lane| lane.handle.with_head(is_its) == Some(true)).cloned()
    }

    /// Lets all lanes finish what they have and end: as after a change of roles.
    pub fn retire(&self) {
        self.lanes.borrow().iter().for_each(|lane| lane.handle.quarantine());
    }

    /// Lets the lane with the fewest requests finish and end.
    pub fn retire_one(&self) {
        let lanes = self.lanes.borrow();
        // One at a time: the connection of one that is finishing is as good as free.
        if lanes.iter().any(|lane| lane.handle.is_quarantined()) {
            return;
        }
        if let Some(lane) = lanes.iter().min_by_key(|lane| lane.handle.depth()) {
            lane.handle.quarantine();
        }
    }

    /// Lets a lane finish where there are more than there may be.
    pub fn retire_beyond_limit(&self) {
        if self.figures().0 > self.limits.get().count {
            self.retire_one();
        }
    }

    /// Ends the lanes to a server that is not what it was, or that is not of use while a request
    /// on them has run for longer than `hung`: no answer may ever come.
    pub fn close_lost(&self, now: Instant, hung: Duration) {
        let (epoch, of_use) = (self.backend.epoch(), self.backend.standing().is_of_use());
        let hangs = |lane: &Lane| lane.handle.head_age(now).is_some_and(|age| age > hung);
        let lanes = self.lanes.borrow();
        let lost = lanes.iter().filter(|lane| lane.epoch != epoch || (!of_use && hangs(lane)));
        lost.for_each(|lane| lane.handle.close());
    }

    /// Retires lanes that are older than `age`, one at a time.
    pub fn retire_old(&self, now: Instant, age: Duration) {
        let lanes = self.lanes.borrow();
        let old = |lane: &&Rc<Lane>| now.saturating_duration_since(lane.opened) > age;
        if let Some(lane) = lanes.iter().filter(|lane| !lane.handle.is_quarantined()).find(old) {
            lane.handle.quarantine();
        }
    }

    /// When a request was last put on one of them.
    pub fn used(&self) -> Instant {
        self.used.get()
    }

    /// Requests that one lane takes.
    pub fn depth(&self) -> usize {
        self.limits.get().depth
    }

    /// Changes what is allowed.
    pub fn set_limits(&self, limits: Limits) {
        self.limits.set(limits);
    }

    /// The lanes there are.
    pub fn lanes(&self) -> Vec<Rc<Lane>> {
        self.lanes.borrow().clone()
    }

    /// Lanes, and requests on them.
    pub fn figures(&self) -> (usize, usize) {
        let lanes = self.lanes.borrow();
        (lanes.len(), lanes.iter().map(|lane| lane.handle.depth()).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_short_while_what_waits_in_it_is_soon_done() {
        let short = |norm_us, depth| short_line(Duration::from_micros(norm_us), depth);
        assert_eq!(short(50, 256), SHORT, "quick reads share a lane");
        assert_eq!(short(200, 256), 2);
        assert_eq!(short(10_000, 256), 1, "behind slow ones nobody waits by choice");
        assert_eq!(short(0, 256), 1, "nothing is known yet");
        assert_eq!(short(50, 2), 2, "no more than a lane takes");
    }
}
