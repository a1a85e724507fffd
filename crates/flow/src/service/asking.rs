//! What a client asks, on its way to a lane.
//!
//! A client keeps to one lane of a server while anything of it is in flight there, and changes
//! lane, or takes a lease, only after: so it reads its own writes. What finds no lane waits, and
//! behind it all that was asked later.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use super::apart::Begin;
use super::lease::Lease;
use super::{Client, Effect, Fabric, Request, Route, Service, Ticket, Unanswered};
use crate::answers::AnswerPlace;
use crate::lane::Placement;
use crate::lanes::{self, Picked, Turn};

/// A lane of a fabric.
pub(super) type Lane<S> = lanes::Lane<<S as Service>::Protocol, Ticket<S>, <S as Service>::Record>;

/// A lane on which something of a client is in flight.
pub(super) struct RiddenLane<S: Service> {
    server: usize,
    lane: Rc<Lane<S>>,
    in_flight: usize,
}

/// What waits for a lane or a lease.
pub(super) enum Pending {
    /// A request; with a detour, one that had no effect where it was sent first.
    Ask { place: AnswerPlace, request: Request, detour: Option<Detour> },
    /// The client is to have a connection for itself, and then to hear `words`.
    Hold { place: Option<AnswerPlace>, server: usize, words: Vec<u8> },
    /// The client gives that connection back, and then hears `words`.
    Free { place: Option<AnswerPlace>, server: usize, words: Vec<u8> },
    /// The beginning of a request whose other bytes follow, on the client's own connection.
    Begin { place: AnswerPlace, request: Request },
    /// What is asked of nobody here; `None`: it has begun.
    Apart { place: AnswerPlace, begin: Option<Begin> },
}

/// What a request waits for that is asked in the place of one that had no effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Detour {
    /// Until what its client has sent to this server is answered: that may have an effect there.
    pub(super) from: usize,
    /// Until this moment, where there is one.
    pub(super) not_before: Option<Instant>,
    /// What its client asked later about the same has had an effect.
    pub(super) is_overtaken: bool,
}

impl Pending {
    /// A request that is asked for the first time.
    pub(super) fn ask(place: AnswerPlace, request: Request) -> Self {
        Self::Ask { place, request, detour: None }
    }

    pub(super) fn place(&self) -> Option<AnswerPlace> {
        match self {
            Self::Ask { place, .. } | Self::Begin { place, .. } | Self::Apart { place, .. } => {
                Some(*place)
            }
            Self::Hold { place, .. } | Self::Free { place, .. } => *place,
        }
    }
}

/// A request whose bytes are still coming.
#[derive(Debug)]
pub(super) struct Stream {
    /// Bytes that are to come.
    pub(super) left: u64,
    /// The connection is given back at the end: it was taken for this request alone.
    pub(super) frees: bool,
    /// To whom they go.
    pub(super) server: usize,
    /// Where its answer belongs.
    pub(super) place: AnswerPlace,
}

impl<S: Service> Client<S> {
    /// Sends a request on its way, or has it wait behind those that do.
    pub(super) fn submit(self: &Rc<Self>, what: Pending) {
        self.note_placement(what.place());
        let is_first = self.pending.borrow().is_empty();
        self.pending.borrow_mut().push_back(what);
        if is_first {
            self.go_on();
        }
    }

    /// Something is to be asked again in its place: before all that was asked after it.
    pub(super) fn ask_again(
        self: &Rc<Self>,
        place: AnswerPlace,
        what: impl IntoIterator<Item = Pending>,
    ) {
        let mut pending = self.pending.borrow_mut();
        let later = |what: &Pending| what.place().is_none_or(|other| other > place);
        let at = pending.iter().position(later).unwrap_or(pending.len());
        for (n, what) in what.into_iter().enumerate() {
            pending.insert(at + n, what);
        }
        drop(pending);
        self.wake();
    }

    /// Sends what waits, as far as it can be.
    pub(super) fn go_on(self: &Rc<Self>) {
        loop {
            // It is out of the line while it is looked at: giving it up may close the client.
            let Some(what) = self.pending.borrow_mut().pop_front() else { break };
            if let Some(what) = self.go(what) {
                self.pending.borrow_mut().push_front(what);
                return self.hand_on(Turn::is_called);
            }
        }
        // Who waits for nothing has no use for its turn.
        self.hand_on(|_| true);
    }

    /// Gives up such a turn. One that was called and not used would be called again and again: what
    /// is first waits for something else, and what is behind it takes another turn in its time.
    fn hand_on(&self, is_such: impl FnOnce(&Turn) -> bool) {
        let turn = self.turn.borrow_mut().take_if(|(_, turn)| is_such(turn));
        drop(turn);
    }

    /// Ready when it is this client's turn to have a lane.
    pub(super) fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &*self.turn.borrow() {
            Some((_, turn)) => turn.poll_called(cx),
            None => Poll::Pending,
        }
    }

    /// Sends one request; gives it back where it has to wait.
    fn go(self: &Rc<Self>, what: Pending) -> Option<Pending> {
        if what.place().is_some_and(|place| !self.is_awaited(place, &what)) {
            if let Pending::Ask { request, .. } = &what {
                self.is_not_sent(request);
            }
            return None;
        }
        if self.is_fenced(&what) || self.is_paused_for(&what) {
            return Some(what);
        }
        match what {
            Pending::Ask { place, request, detour } => {
                if let Some(detour) = detour {
                    self.detours.set(self.detours.get() - 1);
                    if detour.is_overtaken {
                        self.give_up(place, &Unanswered::Overtaken { server: detour.from });
                        return None;
                    }
                }
                self.put(place, request)
            }
            Pending::Hold { place, server, words } => self.hold_now(place, server, words),
            Pending::Free { place, server, words } => self.free_now(place, server, words),
            Pending::Begin { place, request } => self.begin_now(place, request),
            Pending::Apart { place, begin } => self.apart_now(place, begin),
        }
    }

    /// Whether somebody waits for the answer still; what is behind a request that may yet take
    /// effect is given up here.
    fn is_awaited(&self, place: AnswerPlace, what: &Pending) -> bool {
        let line = self.line.borrow();
        let is_held_back = line.is_in_doubt(place);
        let is_there = line.is_open(place);
        drop(line);
        if is_there
            && is_held_back
            && let Pending::Ask { request, .. } = what
        {
            self.give_up(place, &Unanswered::NotSent { server: request.server });
        }
        let is_awaited = is_there && !(is_held_back && matches!(what, Pending::Ask { .. }));
        if !is_awaited && matches!(what, Pending::Ask { detour: Some(_), .. }) {
            self.detours.set(self.detours.get() - 1);
        }
        is_awaited
    }

    fn put(self: &Rc<Self>, place: AnswerPlace, request: Request) -> Option<Pending> {
        let (server, now) = (request.server, Instant::now());
        let waited = request.waited(now);
        if self.is_busy_at_one_with(server) {
            return Some(Pending::ask(place, request));
        }
        if let Some(handle) = self.leased(server) {
            let (bytes, replies) = (request.bytes.clone(), request.replies);
            let taints = request.route.taints();
            let ticket = Ticket::leased(self, place, request);
            let write = |out: &mut Vec<u8>| out.extend_from_slice(&bytes);
            if let Err(full) = handle.push(ticket, replies, now, write) {
                return full.0.into_request().map(|request| Pending::ask(place, request));
            }
            self.lease_has_one_more(server, taints);
            self.has_sent(place, waited);
            return None;
        }
        let is_lost = matches!(self.leases.borrow().get(server), Some(Lease::Lost));
        if request.route != Route::Lane || is_lost {
            self.is_not_sent(&request);
            self.give_up(place, &self.without_lease(server));
            return None;
        }
        let lane = match self.lane(server, now) {
            LaneChoice::Lane(lane) => lane,
            LaneChoice::Wait => return Some(Pending::ask(place, request)),
            LaneChoice::Failed(error) => {
                if let Some(server) = self.elsewhere(&request) {
                    let turns = request.turns + 1;
                    return self.put(place, Request { server, turns, ..request });
                }
                self.give_up(place, &Unanswered::Unreachable { server, error });
                return None;
            }
        };
        match self.put_on(&lane, place, request, now) {
            None => {
                self.rides(server, lane);
                self.has_sent(place, waited);
                None
            }
            Some(request) => {
                // The lane took a request of another client between the two.
                self.wait_for(server);
                Some(Pending::ask(place, request))
            }
        }
    }

    /// Puts a request on a lane, or has it join an equal one there; gives it back where the lane
    /// takes none.
    fn put_on(
        self: &Rc<Self>,
        lane: &Lane<S>,
        place: AnswerPlace,
        request: Request,
        now: Instant,
    ) -> Option<Request> {
        let (bytes, replies) = (request.bytes.clone(), request.replies);
        let shares = request.effect == Effect::Shares;
        let may_join = shares && self.may_join(place);
        let ticket = Ticket::riding(self, place, request);
        let taken = if shares {
            lane.handle.push_or_join(ticket, may_join, now, &bytes)
        } else {
            let write = |out: &mut Vec<u8>| out.extend_from_slice(&bytes);
            lane.handle.push(ticket, replies, now, write).map(|()| Placement::Pushed)
        };
        match taken {
            Ok(Placement::Pushed) => None,
            Ok(Placement::Joined) => {
                self.joined.note(place);
                None
            }
            Err(full) => full.0.into_request(),
        }
    }

    /// Where a request goes whose server can not be reached.
    fn elsewhere(&self, request: &Request) -> Option<usize> {
        let other = self.fabric.service().elsewhere(request)?;
        (other != request.server && request.turns < super::again::TURNS_MAX).then_some(other)
    }

    /// A request is sent; `waited`: at this moment, after it has waited.
    pub(super) fn has_sent(&self, place: AnswerPlace, waited: Option<Instant>) {
        self.sent.set(self.sent.get().max(place.request + 1));
        if let Some(now) = waited {
            self.note_sent(place, now);
        }
    }

    /// The lane that a request for a server is to take.
    fn lane(self: &Rc<Self>, server: usize, now: Instant) -> LaneChoice<S> {
        if let Some(way) = self.ridden.borrow().iter().find(|way| way.server == server) {
            // Each answer has this client look again, the last one of them at the latest.
            let takes = !way.lane.handle.is_quarantined() && way.lane.handle.has_room();
            return if takes { LaneChoice::Lane(way.lane.clone()) } else { LaneChoice::Wait };
        }
        let group = self.fabric.group(server);
        let turn = self.turn.borrow();
        let turn_there = turn.as_ref().filter(|(of, _)| *of == server).map(|(_, turn)| turn);
        let is_called = turn_there.is_some_and(Turn::is_called);
        let failure = turn_there.and_then(|turn| group.failure(turn));
        drop(turn);
        if let Some(error) = failure {
            self.turn.borrow_mut().take();
            return LaneChoice::Failed(error);
        }
        if group.is_waited_for() && !is_called {
            self.wait_for(server);
            return LaneChoice::Wait;
        }
        let open = || Fabric::open_lane(&self.fabric, server);
        match group.pick(now, self.fabric.norm(), open) {
            Picked::Lane(lane) if lane.handle.has_room() => LaneChoice::Lane(lane),
            Picked::Failed(error) => {
                self.turn.borrow_mut().take();
                LaneChoice::Failed(error)
            }
            Picked::Lane(_) | Picked::Opening | Picked::Busy => {
                self.wait_for(server);
                LaneChoice::Wait
            }
        }
    }

    /// Waits in line for a lane of a server.
    fn wait_for(&self, server: usize) {
        let group = self.fabric.group(server);
        let mut turn = self.turn.borrow_mut();
        match &*turn {
            Some((of, turn)) if *of == server && turn.is_called() => group.wait_on(turn),
            Some((of, _)) if *of == server => {}
            _ => *turn = Some((server, group.wait())),
        }
    }

    /// A request of the client is on a lane.
    fn rides(&self, server: usize, lane: Rc<Lane<S>>) {
        let mut ridden = self.ridden.borrow_mut();
        let has_room = lane.handle.has_room();
        match ridden.iter_mut().find(|way| way.server == server) {
            Some(way) => way.in_flight += 1,
            None => ridden.push(RiddenLane { server, lane, in_flight: 1 }),
        }
        drop(ridden);
        // Whoever was called lets the next one look, too.
        let turn = self.turn.borrow_mut().take();
        if let Some((_, turn)) = turn {
            turn.done();
            if has_room {
                self.fabric.group(server).room(1);
            }
        }
    }

    /// A request is off its lane: answered, or the lane has ended.
    #[inline]
    pub(super) fn left_lane(&self, server: usize) {
        let mut ridden = self.ridden.borrow_mut();
        if let Some(at) = ridden.iter().position(|way| way.server == server) {
            ridden[at].in_flight -= 1;
            if ridden[at].in_flight == 0 {
                ridden.swap_remove(at);
            }
        }
        drop(ridden);
        if !self.pending.borrow().is_empty() {
            self.wake();
        }
    }

    /// Whether anything of the client is in flight on a lane of a server, or of one that is the
    /// same.
    pub(super) fn is_riding(&self, server: usize) -> bool {
        let service = self.fabric.service();
        self.ridden.borrow().iter().any(|way| service.are_one(way.server, server))
    }

    /// Whether anything of the client is in flight at a server.
    pub(super) fn is_busy_at(&self, server: usize) -> bool {
        self.leases.borrow().is_busy(|of| of == server) || self.is_riding(server)
    }

    /// Whether anything of the client is in flight at the same server by another number.
    fn is_busy_at_one_with(&self, server: usize) -> bool {
        let service = self.fabric.service();
        let is_other = |other: usize| other != server && service.are_one(other, server);
        self.ridden.borrow().iter().any(|way| is_other(way.server))
            || self.leases.borrow().is_busy(is_other)
    }
}

/// What was found for a request.
enum LaneChoice<S: Service> {
    Lane(Rc<Lane<S>>),
    Wait,
    Failed(S::Error),
}
