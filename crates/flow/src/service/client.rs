//! A client: what it has asked, and where its answers come from.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::asking::{Pending, RiddenLane, Stream};
use super::events::Events;
use super::joining::JoinedRequest;
use super::lease::Leases;
use super::unread::Keeps;
use super::{Fabric, Request, Service, Unanswered};
use crate::answers::{AnswerPlace, Filled, Join, Line};
use crate::lanes::Turn;
use crate::memory::MemoryShare;
use crate::outlet::Outlet;

/// A client of a worker. What its [`Dialogue`](super::Dialogue) asks is answered in the order in
/// which it was asked.
pub struct Client<S: Service> {
    pub(super) fabric: Rc<Fabric<S>>,
    /// Its number on this worker.
    id: u64,
    pub(super) outlet: Outlet,
    pub(super) line: RefCell<Line>,
    /// Since when its requests are under way that are not known to be answered, in their order.
    asked: RefCell<VecDeque<RequestArrival>>,
    /// The number behind the last of its requests of which anything was sent.
    pub(super) sent: Cell<u64>,
    /// What has this number or a later one waits for the answers to all before it, which were
    /// placed otherwise.
    pub(super) fence: Cell<u64>,
    /// The [`placement`](Service::placement) of what it has asked last.
    pub(super) placement: Cell<u64>,
    pub(super) joined: JoinedRequest,
    /// The last of its requests that wait for what others do.
    waits: Cell<Option<u64>>,
    /// The lanes on which something of it is in flight, one for each server.
    pub(super) ridden: RefCell<Vec<RiddenLane<S>>>,
    /// What waits for a lane or a lease, in its order.
    pub(super) pending: RefCell<VecDeque<Pending>>,
    /// How many of those are asked in the place of one that had no effect.
    pub(super) detours: Cell<usize>,
    /// Its place among those who wait for a lane of a server.
    pub(super) turn: RefCell<Option<(usize, Turn)>>,
    pub(super) leases: RefCell<Leases<S>>,
    /// What it holds of the memory for all, beside its requests.
    pub(super) share: RefCell<MemoryShare>,
    /// Bytes that came of the next request.
    pub(super) inbox: Cell<usize>,
    /// A request whose bytes are still coming.
    pub(super) stream: RefCell<Option<Stream>>,
    /// It does not hear the answers to what is asked now.
    hears_no_answers: Cell<bool>,
    /// It is closed behind its answers, with these words.
    parting: OnceCell<Vec<u8>>,
    /// It is, and does not wait any longer for what others do.
    is_cut_short: Cell<bool>,
    /// Nothing more is to be told.
    is_over: Cell<bool>,
    /// What its dialogue has to be told, or will have to.
    pub(super) events: Events<S>,
    /// It is there to be sent what it has not asked for.
    is_listening: Cell<bool>,
    pub(super) keeps: Cell<Keeps>,
    /// When it was last seen to have answers that it had not taken.
    untaken_at: Cell<Option<Instant>>,
    /// Its task does not read, since too much waits.
    pub(super) is_paused: Cell<bool>,
    /// Its task has something to look at.
    is_called: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// How a client stands at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientFigures {
    /// Requests that are not answered.
    pub unanswered: u64,
    /// Bytes of answers that wait for their turn.
    pub waiting: usize,
    /// Bytes of answers that it has not taken.
    pub unread: usize,
    /// It has a connection for itself, or waits for one.
    pub is_holding: bool,
    /// It waits for what others do.
    pub waits_for_others: bool,
    /// What it asks next is held back by a pause.
    pub is_paused: bool,
}

/// A request that came.
#[derive(Debug, Clone, Copy)]
struct RequestArrival {
    request: u64,
    server: usize,
    /// When it came, or was sent if it had to wait.
    at: Instant,
}

impl<S: Service> Client<S> {
    pub(super) fn new(fabric: Rc<Fabric<S>>, id: u64, outlet: Outlet) -> Rc<Self> {
        let (waiting, memory) = (fabric.settings().waiting, fabric.settings().memory.none());
        let placement = Cell::new(fabric.service().placement());
        Rc::new(Self {
            fabric,
            id,
            outlet,
            line: RefCell::new(Line::new(waiting)),
            asked: RefCell::default(),
            sent: Cell::new(0),
            fence: Cell::new(0),
            placement,
            joined: JoinedRequest::default(),
            waits: Cell::new(None),
            ridden: RefCell::default(),
            pending: RefCell::default(),
            detours: Cell::new(0),
            turn: RefCell::default(),
            leases: RefCell::default(),
            share: RefCell::new(memory),
            inbox: Cell::new(0),
            stream: RefCell::default(),
            hears_no_answers: Cell::new(false),
            parting: OnceCell::new(),
            is_cut_short: Cell::new(false),
            is_over: Cell::new(false),
            events: Events::default(),
            is_listening: Cell::new(false),
            keeps: Cell::new(Keeps::Nothing),
            untaken_at: Cell::new(None),
            is_paused: Cell::new(false),
            is_called: Cell::new(false),
            waker: RefCell::default(),
        })
    }

    /// Its number on this worker, by which it is cancelled and killed.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How much of it waits at this moment, and for what.
    pub fn figures(&self) -> ClientFigures {
        let line = self.line.borrow();
        let requests = line.requests();
        ClientFigures {
            unanswered: requests.end - requests.start,
            waiting: line.waiting(),
            unread: self.outlet.spilled(),
            is_holding: self.is_holding(),
            waits_for_others: self.waits_for_others(),
            is_paused: self.pending.borrow().front().is_some_and(|of| self.is_paused_for(of)),
        }
    }

    /// Asks a server; the answer goes to the client in its turn.
    pub fn ask(self: &Rc<Self>, mut request: Request) {
        let place = self.line.borrow_mut().open();
        self.note_of(place, &mut request);
        self.submit_if_held(place, request);
    }

    pub(super) fn submit_if_held(self: &Rc<Self>, place: AnswerPlace, mut request: Request) {
        if self.holds_request(&mut request) {
            self.submit(Pending::ask(place, request));
        } else {
            self.is_not_sent(&request);
            self.give_up(place, &Unanswered::OutOfMemory);
        }
    }

    /// Asks several servers, or one several times, and answers with what `join` makes of it.
    pub fn ask_parts(self: &Rc<Self>, parts: Vec<Request>, join: Join) {
        let place = self.line.borrow_mut().open_parts(count_of(&parts), join);
        self.submit_parts(place, parts);
    }

    pub(super) fn submit_parts(self: &Rc<Self>, place: AnswerPlace, parts: Vec<Request>) {
        for (part, mut request) in (0..).zip(parts) {
            self.note_of(place, &mut request);
            self.submit_if_held(AnswerPlace { part, ..place }, request);
        }
    }

    /// Answers a request without asking any server.
    pub fn answer(&self, bytes: &[u8]) {
        let place = self.line.borrow_mut().open();
        self.fill(place, bytes, true);
    }

    /// Sends a message that belongs to no request, between two answers.
    pub fn push(&self, bytes: &[u8]) {
        self.push_behind(None, bytes);
    }

    /// The same, behind the answer to a request.
    pub(super) fn push_behind(&self, answered: Option<AnswerPlace>, bytes: &[u8]) {
        let send = |bytes: &[u8]| self.outlet.send(bytes);
        let pushed = self.line.borrow_mut().aside(bytes, answered, send);
        if pushed.is_err() {
            self.end_with(&Unanswered::TooMuchWaits);
        }
        self.count_held(None);
    }

    /// Says whether it hears the answers to what is asked from now on, and the words with which it
    /// is closed. What is asked goes its way all the same, and messages that belong to no request
    /// are heard.
    pub fn hears_answers(&self, hears: bool) {
        self.hears_no_answers.set(!hears);
        self.line.borrow_mut().hears_answers(hears);
    }

    /// Whether it does not hear the answers to what is asked now.
    pub fn hears_no_answers(&self) -> bool {
        self.hears_no_answers.get()
    }

    /// Who it is, where it has logged in: operators see it.
    pub fn set_user(&self, user: Option<&str>) {
        self.outlet.progress().set_user(user);
    }

    /// Says whether it is there to be sent what it has not asked for: then it is not idle.
    pub fn listens(&self, is_listening: bool) {
        self.is_listening.set(is_listening);
    }

    pub(super) fn is_listening(&self) -> bool {
        self.is_listening.get()
    }

    /// A piece of an answer has come.
    #[inline]
    pub(super) fn fill(&self, place: AnswerPlace, bytes: &[u8], is_last: bool) {
        let send = |bytes: &[u8]| self.outlet.send(bytes);
        let filled = self.line.borrow_mut().fill(place, bytes, is_last, send);
        match filled {
            Filled::Over => self.end_with(&Unanswered::TooMuchWaits),
            Filled::TooLarge => self.give_up(place, &Unanswered::PartsTooLarge),
            Filled::Taken | Filled::Late | Filled::Held => {}
        }
        self.count_held(None);
        if is_last {
            self.wake_if_called();
        }
    }

    /// Puts the gateway's words in the place of an answer.
    pub(super) fn give_up(&self, place: AnswerPlace, why: &Unanswered<S::Error>) {
        let words = self.fabric.service().words(why);
        let send = |bytes: &[u8]| self.outlet.send(bytes);
        let given_up = self.line.borrow_mut().give_up(place, &words, send);
        if given_up.is_err() {
            self.close();
        }
        self.wake_if_called();
    }

    /// Gives up every request that is not answered.
    pub(super) fn give_up_all(&self, why: &Unanswered<S::Error>) {
        let requests = self.line.borrow().requests();
        requests.for_each(|request| self.give_up(AnswerPlace { request, part: 0 }, why));
    }

    /// Gives up what the client waits for: each request is answered in its turn, and what comes
    /// for it later reaches nobody.
    pub fn cancel(&self) {
        if !self.line.borrow().is_amid_answer() {
            return self.give_up_all(&Unanswered::Cancelled);
        }
        // What has begun goes on.
        let requests = self.line.borrow().requests();
        for request in requests.skip(1) {
            self.give_up(AnswerPlace { request, part: 0 }, &Unanswered::Cancelled);
        }
    }

    /// Closes the client, with the gateway's words in the place of each answer that it waits for.
    pub fn kill(&self) {
        self.end_all(&Unanswered::Killed);
    }

    pub(super) fn end_all(&self, why: &Unanswered<S::Error>) {
        self.give_up_all(why);
        self.part(Vec::new());
    }

    /// As [`part`](Self::part), and does not wait for what others do.
    pub fn cut_short(&self, words: Vec<u8>) {
        self.is_cut_short.set(true);
        self.part(words);
    }

    /// Whether it is to wait no longer, and does.
    pub(super) fn takes_cut(&self) -> bool {
        self.is_cut_short.take() && self.waits_for_others()
    }

    /// Closes the client once it has its answers and, behind them, these words. May be called from
    /// whatever hears an answer.
    pub fn part(&self, words: Vec<u8>) {
        let words = if self.hears_no_answers() { Vec::new() } else { words };
        let _ = self.parting.set(words);
        self.wake();
    }

    /// The words behind its last answer, if it is to be closed.
    pub(super) fn parting(&self) -> Option<&[u8]> {
        self.parting.get().map(Vec::as_slice)
    }

    /// Ends the client at once, with words where no answer is cut off by them.
    pub(super) fn end_with(&self, why: &Unanswered<S::Error>) {
        if !self.line.borrow().is_amid_answer() && !self.hears_no_answers() {
            self.outlet.send(&self.fabric.service().words(why));
        }
        self.line.borrow_mut().clear();
        self.part(Vec::new());
    }

    /// Closes the client at once.
    pub(super) fn close(&self) {
        self.line.borrow_mut().clear();
        self.outlet.close();
        self.is_over.set(true);
        self.wake();
    }

    /// The client is gone: nothing of what it asked reaches anybody.
    pub(super) fn leave(&self) {
        self.is_over.set(true);
        self.line.borrow_mut().clear();
        // What waits may answer its place as it goes, and look here.
        let pending = self.pending.take();
        drop(pending);
        self.turn.borrow_mut().take();
        self.abandon_leases();
        self.share.borrow_mut().shrink_to(0);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.get() || self.outlet.is_closed()
    }

    pub(super) fn note_of(&self, place: AnswerPlace, request: &mut Request) {
        if request.route.waits() {
            self.waits.set(Some(place.request));
        } else {
            request.came = Some(self.note(place, request.server));
        }
    }

    /// Whether it waits for what others do.
    pub(super) fn waits_for_others(&self) -> bool {
        let line = self.line.borrow();
        self.waits.get().is_some_and(|request| line.requests().contains(&request))
    }

    /// Takes note of when a request came, which is now.
    pub(super) fn note(&self, place: AnswerPlace, server: usize) -> Instant {
        let asked = RequestArrival { request: place.request, server, at: Instant::now() };
        let mut all = self.asked.borrow_mut();
        let head = self.line.borrow().requests().start;
        while all.front().is_some_and(|first| first.request < head) {
            all.pop_front();
        }
        all.push_back(asked);
        asked.at
    }

    /// A request is sent only now: its time begins.
    pub(super) fn note_sent(&self, place: AnswerPlace, now: Instant) {
        let mut all = self.asked.borrow_mut();
        let begin = all.partition_point(|of| of.request < place.request);
        let its = all.iter_mut().skip(begin).take_while(|of| of.request == place.request);
        its.for_each(|of| of.at = now);
    }

    /// Gives up what takes too long: to be sent, or to be answered.
    pub(super) fn look(&self, now: Instant) {
        self.count_held(None);
        let timeout = self.fabric.settings().timeout;
        let is_paused = self.fabric.paused().is_some();
        if self.outlet.spilled() > 0 {
            self.untaken_at.set(Some(now));
        }
        let head = self.line.borrow().requests().start;
        loop {
            let first = self.asked.borrow().front().copied();
            let Some(first) = first else { return };
            let since = self.waits_since(first.at);
            let is_held = is_paused && self.is_pending(first.request);
            let is_late = !is_held && now.saturating_duration_since(since) >= timeout;
            // What has begun ends with its lane, or with the client.
            let has_begun = first.request == head && self.line.borrow().is_amid_answer();
            if first.request >= head && (!is_late || has_begun || self.is_streaming()) {
                return;
            }
            self.asked.borrow_mut().pop_front();
            if first.request >= head {
                let place = AnswerPlace { request: first.request, part: 0 };
                let may_have_run = !self.is_pending(place.request);
                self.give_up(place, &Unanswered::Late { server: first.server, may_have_run });
            }
        }
    }

    /// When the clock of a request begins that came at this moment: a client that does not take
    /// its answers is not kept waiting for the next one.
    fn waits_since(&self, came: Instant) -> Instant {
        self.fabric.waits_since(came).max(self.untaken_at.get().unwrap_or(came))
    }

    /// Whether nothing of a request was sent yet.
    fn is_pending(&self, request: u64) -> bool {
        let pending = self.pending.borrow();
        pending.iter().any(|what| what.place().is_some_and(|place| place.request == request))
    }

    /// Whether every request is answered.
    pub(super) fn is_answered(&self) -> bool {
        self.line.borrow().is_empty()
    }

    /// Whether every request is answered and nothing waits.
    pub(super) fn is_settled(&self) -> bool {
        self.is_answered() && self.pending.borrow().is_empty()
    }

    /// Has its task look at what has changed, if it waits for that.
    #[inline]
    pub(super) fn wake_if_called(&self) {
        let is_called = !self.pending.borrow().is_empty()
            || self.parting.get().is_some()
            || self.events.are_due()
            || self.stream.borrow().is_some();
        if is_called || self.is_paused.get() {
            self.wake();
        }
    }

    pub(super) fn wake(&self) {
        self.is_called.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Ready when its task has something to look at beside what the client sends.
    #[inline]
    pub(super) fn poll_called(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_called.replace(false) {
            return Poll::Ready(());
        }
        let mut parked = self.waker.borrow_mut();
        if !parked.as_ref().is_some_and(|parked| parked.will_wake(cx.waker())) {
            *parked = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

pub(super) fn count_of(parts: &[Request]) -> u32 {
    u32::try_from(parts.len()).unwrap_or(u32::MAX)
}

impl<S: Service> fmt::Debug for Client<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.id)
            .field("line", &self.line.borrow())
            .finish_non_exhaustive()
    }
}
