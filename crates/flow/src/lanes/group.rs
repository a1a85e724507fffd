//! Lanes that are alike, on one worker.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::opening::REST;
use super::turns::Turns;
use super::{Lane, Limits, Picked, ServerRecord, Turn};
use crate::lane::{Handle, Protocol};

/// A line of fewer requests is as good as an empty one: each wake of a server process costs more
/// than such a request waits behind the others, and what comes on one connection comes at once.
const SHORT: usize = 4;
/// As long as what waits there is done within this time.
const SHORT_WAIT: Duration = Duration::from_micros(500);

/// A head that has run for so many times what others do stands still, beyond
/// [`head_max`](Limits::head_max).
const HEAD_NORMS: u32 = 8;

/// How many requests a line has that is no longer short, where requests run for the `norm`.
#[inline]
fn short_line(norm: Duration, depth: usize) -> usize {
    let wait = SHORT_WAIT.as_nanos().checked_div(norm.as_nanos()).unwrap_or(0);
    usize::try_from(wait).unwrap_or(usize::MAX).clamp(1, SHORT.min(depth.max(1)))
}

/// The lanes of one worker that are alike. `P`: where replies end; `T`: what goes along with a
/// request; `K`: what is known of the server; `E`: why a lane could not be opened.
pub struct Group<P, T, K, E> {
    lanes: RefCell<Vec<Rc<Lane<P, T, K>>>>,
    limits: Cell<Limits>,
    opening: Cell<Opening>,
    failed: RefCell<Option<Failed<E>>>,
    changed: Notify,
    turns: Turns,
    /// When a request was last put on one of them.
    used: Cell<Instant>,
}

/// Whether a lane is being opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    No,
    Yes,
    /// For longer than those wait who came after an attempt that has failed at once.
    Late,
}

/// The last attempt to open a lane failed.
struct Failed<E> {
    at: Instant,
    /// When the next one may be made.
    until: Instant,
    /// Why; `None` where there was no room for it.
    why: Option<E>,
}

impl<P: Protocol, T, K: ServerRecord, E: Clone> Group<P, T, K, E> {
    /// A group without lanes, the first of which is opened for the first request.
    pub fn new(limits: Limits) -> Self {
        Self {
            lanes: RefCell::default(),
            limits: Cell::new(limits),
            opening: Cell::new(Opening::No),
            failed: RefCell::default(),
            changed: Notify::new(),
            turns: Turns::default(),
            used: Cell::new(Instant::now()),
        }
    }

    /// The first lane with a short line, else that with the fewest requests; `open` is called when
    /// another should be opened. A lane whose head has run for many times the `norm` is passed by.
    #[inline]
    pub fn pick(&self, now: Instant, norm: Duration, open: impl FnOnce()) -> Picked<P, T, K, E> {
        self.used.set(now);
        let lanes = self.lanes.borrow();
        let limits = self.limits.get();
        let head_max = limits.head_max.max((norm * HEAD_NORMS).min(limits.head_limit));
        let short = short_line(norm, limits.depth);
        let mut best: Option<(usize, &Rc<_>)> = None;
        // Where every head has run for long the machine is busy: more server processes would make
        // it busier, so the shortest line that moves at all will do.
        let mut slow: Option<(usize, &Rc<_>)> = None;
        let takes = |handle: &Handle<P, T>| !handle.is_quarantined() && !handle.is_stalled();
        for lane in lanes.iter().filter(|lane| takes(&lane.handle)) {
            if !lane.known.is_current() {
                // It is not what it was: let it finish.
                lane.handle.quarantine();
                continue;
            }
            let depth = lane.handle.depth();
            let age = lane.handle.head_age(now).filter(|_| depth > 0).unwrap_or_default();
            let line = if age <= head_max { &mut best } else { &mut slow };
            if age <= limits.head_limit && line.is_none_or(|(least, _)| depth < least) {
                *line = Some((depth, lane));
                if depth < short && age <= head_max {
                    break;
                }
            }
        }
        let best = best.or(slow);
        // One that is kept by a large reply is none of those that others could take meanwhile.
        let kept = lanes.iter().filter(|lane| lane.handle.is_stalled()).count();
        if best.is_none_or(|(depth, _)| depth >= short)
            && lanes.len() - kept < limits.count
            && self.may_open(now)
        {
            // Of what was so long ago nobody is told while this attempt lasts.
            let is_old = |of: &mut Failed<E>| now.saturating_duration_since(of.until) > REST;
            self.failed.borrow_mut().take_if(is_old);
            self.opening.set(Opening::Yes);
            open();
        }
        match best {
            Some((depth, lane)) if depth < limits.depth => Picked::Lane(lane.clone()),
            Some(_) => Picked::Busy,
            None if !lanes.is_empty() => Picked::Busy,
            None => match &*self.failed.borrow() {
                Some(_) if self.opening.get() == Opening::Yes => Picked::Opening,
                Some(Failed { why: None, .. }) if self.is_opening() => Picked::Opening,
                Some(Failed { why: Some(why), .. }) => Picked::Failed(why.clone()),
                Some(Failed { why: None, .. }) => Picked::Busy,
                None => Picked::Opening,
            },
        }
    }

    /// Why there is no lane, for one who has waited for the attempt to open one that has failed,
    /// whether another is made since or not: who comes after it may try again.
    pub fn failure(&self, turn: &Turn) -> Option<E> {
        let failed = self.failed.borrow();
        let is_told = |of: &&Failed<E>| self.lanes.borrow().is_empty() && turn.since() <= of.at;
        failed.as_ref().filter(is_told)?.why.clone()
    }

    fn may_open(&self, now: Instant) -> bool {
        let failed = self.failed.borrow();
        !self.is_opening() && failed.as_ref().is_none_or(|failed| now >= failed.until)
    }

    /// Waits until a lane was opened or has ended, or could not be opened.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits in line for room on a lane.
    pub fn wait(&self) -> Turn {
        self.want_room();
        self.turns.join()
    }

    /// Whoever was called found no room: waits on, before those who came later.
    pub fn wait_on(&self, turn: &Turn) {
        self.want_room();
        turn.wait_on();
    }

    fn want_room(&self) {
        self.lanes.borrow().iter().for_each(|lane| lane.handle.want_room());
    }

    /// Whether somebody waits in line, before whom nobody else goes.
    #[inline]
    pub fn is_waited_for(&self) -> bool {
        !self.turns.is_empty()
    }

    /// There is room for `count` requests: calls as many of those who wait.
    pub fn room(&self, count: usize) {
        self.turns.call(count);
    }

    /// A lane is there.
    pub fn opened(&self, lane: Rc<Lane<P, T, K>>) {
        self.opening.set(Opening::No);
        *self.failed.borrow_mut() = None;
        self.lanes.borrow_mut().push(lane);
        self.has_changed();
    }

    /// A lane could not be opened; none is for so long.
    pub fn failed(&self, why: E, rest: Duration) {
        self.opening.set(Opening::No);
        let at = Instant::now();
        *self.failed.borrow_mut() = Some(Failed { at, until: at + rest, why: Some(why) });
        self.has_changed();
    }

    /// The lane that is being opened takes long: where the attempt before has failed at once,
    /// those who wait are told why that was.
    pub(super) fn opens_late(&self) {
        let is_at_once = |of: &Failed<E>| of.why.is_some() && of.until < of.at + REST;
        if self.failed.borrow().as_ref().is_some_and(is_at_once) {
            self.opening.set(Opening::Late);
            self.has_changed();
        }
    }

    /// There is no room for another lane.
    pub fn refused(&self, now: Instant) {
        self.opening.set(Opening::No);
        self.rest(now);
        self.has_changed();
    }

    /// Opens no lane for a while.
    pub fn rest(&self, now: Instant) {
        *self.failed.borrow_mut() = Some(Failed { at: now, until: now + REST, why: None });
    }

    /// Whether a lane is being opened.
    pub fn is_opening(&self) -> bool {
        self.opening.get() != Opening::No
    }

    /// A lane has ended.
    pub fn ended(&self, lane: &Rc<Lane<P, T, K>>) {
        self.lanes.borrow_mut().retain(|known| !Rc::ptr_eq(known, lane));
        self.has_changed();
    }

    fn has_changed(&self) {
        self.changed.notify_waiters();
        // Whoever finds no room after all waits on before the others.
        self.turns.call(usize::MAX);
    }

    /// Looks again after the rest that follows a failed attempt to open one.
    pub fn look_again(&self, now: Instant) {
        let lanes = self.lanes.borrow();
        let none_takes = lanes.iter().all(|lane| lane.handle.is_stalled());
        drop(lanes);
        if self.is_waited_for() && none_takes && self.may_open(now) {
            self.turns.call(1);
        }
    }

    /// The first of its lanes for which `is` holds.
    pub fn find(&self, is: impl Fn(&Lane<P, T, K>) -> bool) -> Option<Rc<Lane<P, T, K>>> {
        self.lanes.borrow().iter().find(|lane| is(lane)).cloned()
    }

    /// Lets lanes finish that are not what would be opened now.
    pub fn retire_outdated(&self) {
        let lanes = self.lanes.borrow();
        let outdated = lanes.iter().filter(|lane| !lane.known.is_current());
        outdated.for_each(|lane| lane.handle.quarantine());
    }

    /// Lets all lanes finish what they have and end.
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
        let free = lanes.iter().filter(|lane| !lane.handle.is_stalled());
        if let Some(lane) = free.min_by_key(|lane| lane.handle.depth()) {
            lane.handle.quarantine();
        }
    }

    /// Ends a lane without a request, where more than `spared` take requests; whether there is one.
    pub fn retire_empty(&self, spared: usize) -> bool {
        let lanes = self.lanes.borrow();
        let open = || lanes.iter().filter(|lane| !lane.handle.is_quarantined());
        let empty = open().find(|lane| lane.handle.depth() == 0 && !lane.handle.is_stalled());
        let empty = empty.filter(|_| open().count() > spared);
        if let Some(lane) = empty {
            lane.handle.quarantine();
        }
        empty.is_some()
    }

    /// Whether one of its lanes finishes what it has, and ends then.
    pub fn is_finishing(&self) -> bool {
        self.lanes.borrow().iter().any(|lane| lane.handle.is_quarantined())
    }

    /// Lets a lane finish where there are more than there may be.
    pub fn retire_beyond_limit(&self) {
        let lanes = self.lanes.borrow();
        let kept = lanes.iter().filter(|lane| lane.handle.is_stalled()).count();
        let is_beyond = lanes.len() - kept > self.limits.get().count;
        drop(lanes);
        if is_beyond {
            self.retire_one();
        }
    }

    /// Ends at once the lanes of which no answer is to be expected.
    pub fn close_lost(&self, is_lost: impl Fn(&Lane<P, T, K>) -> bool) {
        let lanes = self.lanes.borrow();
        lanes.iter().filter(|lane| is_lost(lane)).for_each(|lane| lane.handle.close());
    }

    /// Retires lanes that are older than `age`, one at a time.
    pub fn retire_old(&self, now: Instant, age: Duration) {
        let lanes = self.lanes.borrow();
        let old = |lane: &&Rc<Lane<P, T, K>>| now.saturating_duration_since(lane.opened) > age;
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
    pub fn lanes(&self) -> Vec<Rc<Lane<P, T, K>>> {
        self.lanes.borrow().clone()
    }

    /// How many lanes there are.
    pub fn count(&self) -> usize {
        self.lanes.borrow().len()
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
