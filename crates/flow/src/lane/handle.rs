//! A lane as its users see it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::{Full, Lane, Limits, Placement, Protocol};

/// What users and the lane's task share.
pub(super) struct SharedLane<P, T> {
    pub(super) lane: RefCell<Lane<P, T>>,
    /// As of the last push or chunk: it can be read while a reply is handed over.
    pub(super) depth: Cell<usize>,
    waker: RefCell<Option<Waker>>,
    /// The task will run anyway, or can not write: there is no need to wake it.
    pub(super) awake: Cell<bool>,
    /// When bytes came last, or were not read because of whoever takes them.
    pub(super) heard: Cell<Instant>,
    /// Somebody waits for room.
    pub(super) wanted: Cell<bool>,
    /// A reply is large, or not taken as fast as it comes: no request is taken meanwhile.
    pub(super) stalled: Cell<bool>,
    /// The server is not read from until a client has taken what came for it.
    pub(super) untaken: Cell<bool>,
    pub(super) quarantined: Cell<bool>,
    pub(super) closed: Cell<bool>,
    handles: Cell<usize>,
}

impl<P: Protocol, T> SharedLane<P, T> {
    pub(super) fn new(protocol: P, limits: Limits) -> Rc<Self> {
        Rc::new(Self {
            lane: RefCell::new(Lane::new(protocol, limits)),
            depth: Cell::new(0),
            waker: RefCell::new(None),
            awake: Cell::new(true),
            heard: Cell::new(Instant::now()),
            wanted: Cell::new(false),
            stalled: Cell::new(false),
            untaken: Cell::new(false),
            quarantined: Cell::new(false),
            closed: Cell::new(false),
            handles: Cell::new(0),
        })
    }
}

impl<P, T> SharedLane<P, T> {
    /// Whether requests are taken, where there is room.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        !self.quarantined.get() && !self.closed.get() && !self.stalled.get()
    }

    /// Remembers whom to wake, which is almost always whom it was before.
    #[inline]
    pub(super) fn park(&self, waker: &Waker) {
        let mut parked = self.waker.borrow_mut();
        if !parked.as_ref().is_some_and(|parked| parked.will_wake(waker)) {
            *parked = Some(waker.clone());
        }
    }

    fn wake(&self) {
        self.awake.set(true);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// A lane, to put requests on. Clones are the same lane; when the last goes, the lane ends as by
/// [`quarantine`](Self::quarantine).
pub struct Handle<P, T>(Rc<SharedLane<P, T>>);

impl<P: Protocol, T> Handle<P, T> {
    pub(super) fn new(shared: &Rc<SharedLane<P, T>>) -> Self {
        shared.handles.set(shared.handles.get() + 1);
        Self(Rc::clone(shared))
    }

    /// Puts a request on the lane, see [`Lane::push`], and sees to it that it is sent. The lane's
    /// task is woken by the first push after it ran, not by those that follow.
    ///
    /// # Errors
    /// The lane takes no request now: at a limit, in quarantine, ended, or called from within
    /// its [`Owner`](super::Owner).
    #[inline]
    pub fn push(
        &self,
        ticket: T,
        replies: u32,
        now: Instant,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Full<T>> {
        self.put(ticket, |lane, ticket| lane.push(ticket, replies, now, write))
    }

    /// The same of a request that equal ones may join, see [`Lane::push_or_join`].
    ///
    /// # Errors
    /// As [`push`](Self::push).
    #[inline]
    pub fn push_or_join(
        &self,
        ticket: T,
        may_join: bool,
        now: Instant,
        bytes: &[u8],
    ) -> Result<Placement, Full<T>> {
        self.put(ticket, |lane, ticket| lane.push_or_join(ticket, may_join, now, bytes))
    }

    /// Puts a request on the lane so, and wakes the lane's task where it sleeps.
    #[inline]
    fn put<R>(
        &self,
        ticket: T,
        how: impl FnOnce(&mut Lane<P, T>, T) -> Result<R, Full<T>>,
    ) -> Result<R, Full<T>> {
        let shared = &*self.0;
        if !shared.is_open() {
            shared.wanted.set(true);
            return Err(Full(ticket));
        }
        let Ok(mut lane) = shared.lane.try_borrow_mut() else { return Err(Full(ticket)) };
        let taken = how(&mut lane, ticket);
        if taken.is_err() {
            shared.wanted.set(true);
            return taken;
        }
        shared.depth.set(lane.depth());
        drop(lane);
        if !shared.awake.get() {
            shared.wake();
        }
        taken
    }

    /// Whether a request would be taken.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.0.is_open() && self.0.lane.try_borrow().is_ok_and(|lane| lane.has_room())
    }

    /// Whether a large reply, or one that is taken slowly, keeps it from taking requests.
    #[inline]
    pub fn is_stalled(&self) -> bool {
        self.0.stalled.get()
    }

    /// Has [`Owner::room`](super::Owner::room) called once there is room, which there is not now.
    pub fn want_room(&self) {
        self.0.wanted.set(true);
    }

    /// Whether more of the last request may still be sent; see [`Lane::may_grow`].
    pub fn may_grow(&self) -> bool {
        self.0.lane.try_borrow().is_ok_and(|lane| lane.may_grow())
    }

    /// Sends more of the last request; see [`Lane::grow`]. Not from within its
    /// [`Owner`](super::Owner).
    pub fn grow(&self, is_last: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let Ok(mut lane) = self.0.lane.try_borrow_mut() else { return };
        lane.grow(is_last, write);
        drop(lane);
        if !self.0.awake.get() {
            self.0.wake();
        }
    }

    /// Requests that are not answered yet.
    #[inline]
    pub fn depth(&self) -> usize {
        self.0.depth.get()
    }

    /// Bytes that the server has not taken yet.
    pub fn unsent(&self) -> usize {
        self.0.lane.try_borrow().map_or(0, |lane| lane.unsent())
    }

    /// How long the request at the head has been running; see [`Lane::head_age`].
    #[inline]
    pub fn head_age(&self, now: Instant) -> Option<Duration> {
        self.0.lane.try_borrow().ok()?.head_age(now)
    }

    /// For how long the server has sent nothing that could have been read.
    pub fn silence(&self, now: Instant) -> Duration {
        if self.0.untaken.get() {
            return Duration::ZERO;
        }
        now.saturating_duration_since(self.0.heard.get())
    }

    /// Whether the server has a request to itself of which `is` holds for one ticket, and `are` for
    /// each; see [`Lane::head_tickets`].
    pub fn has_head(&self, is: impl Fn(&T) -> bool, are: impl Fn(&T) -> bool) -> bool {
        let Ok(lane) = self.0.lane.try_borrow() else { return false };
        lane.head_tickets().any(is) && lane.head_tickets().all(are)
    }

    /// Takes no more requests; once those on the lane are answered, its task ends.
    pub fn quarantine(&self) {
        self.0.quarantined.set(true);
        self.0.wake();
    }

    /// Whether requests are taken no more.
    #[inline]
    pub fn is_quarantined(&self) -> bool {
        self.0.quarantined.get() || self.0.closed.get()
    }

    /// Ends the lane at once; its requests are orphans.
    pub fn close(&self) {
        self.0.closed.set(true);
        self.0.wake();
    }

    /// Changes the limits. Not from within its [`Owner`](super::Owner), where it does nothing.
    pub fn set_limits(&self, limits: Limits) {
        if let Ok(mut lane) = self.0.lane.try_borrow_mut() {
            lane.set_limits(limits);
        }
    }

    /// Whether both are the same lane.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl<P, T> Clone for Handle<P, T> {
    fn clone(&self) -> Self {
        self.0.handles.set(self.0.handles.get() + 1);
        Self(Rc::clone(&self.0))
    }
}

impl<P, T> Drop for Handle<P, T> {
    fn drop(&mut self) {
        self.0.handles.set(self.0.handles.get() - 1);
        if self.0.handles.get() == 0 {
            self.0.quarantined.set(true);
            self.0.wake();
        }
    }
}

impl<P, T> fmt::Debug for Handle<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("depth", &self.0.depth.get())
            .field("quarantined", &self.0.quarantined.get())
            .field("closed", &self.0.closed.get())
            .finish_non_exhaustive()
    }
}
