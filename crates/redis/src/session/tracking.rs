//! `CLIENT TRACKING`: a client is told of keys that others change, so that it may keep them itself.
//!
//! A server tells that to the connection that has read the keys, so the client has one for itself
//! to each server for as long as it tracks: all that it asks goes by these, and what a server says
//! by itself reaches it behind the answer before it. Where keys go to other servers, or one of the
//! connections ends, the client is closed: what it keeps may be out of date, and nobody would tell
//! it.
//!
//! All servers are told the same, so what may be said is decided here. `CLIENT CACHING` is told to
//! a server just before the command that it is for.

mod options;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use flow::service::Request;
use wire::resp::{Command, put_command, put_integer};

use super::dispatch::{Change, TransactionStanding};
use super::{Asking, Session, Taken};
use crate::commands;
use crate::front::Front;
use crate::server::Place;
use options::{Mode, Options, Wanted};

const NOT_TRACKING: &str = "ERR CLIENT CACHING can be called only when the client is in tracking \
                            mode with OPTIN or OPTOUT mode enabled";

/// What a client has said of tracking.
#[derive(Debug)]
pub(super) struct Tracking {
    client: Asking,
    /// The places of its connections, one at each server.
    places: Vec<usize>,
    terms: Rc<Terms>,
    /// `CLIENT CACHING` was said for the next command.
    caches_next: Cell<bool>,
    /// It was said for the command, or the transaction, that is under way.
    caches: Cell<bool>,
    /// The places that were told so.
    told: RefCell<Vec<usize>>,
}

/// What holds of it, as others have said.
#[derive(Debug, Default)]
struct Terms {
    state: Cell<State>,
    options: RefCell<Options>,
}

/// What the servers have said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Not all of them have answered yet.
    #[default]
    Awaited,
    /// They tell the client of keys.
    On,
    /// One refuses.
    Refused,
}

/// Hears what servers say to `CLIENT TRACKING ON`. Where it is dropped and has heard nothing, one
/// of them could not be asked.
struct Hearing {
    front: Rc<Front>,
    /// The number of the client on this worker.
    client: u64,
    terms: Rc<Terms>,
    has_heard: Cell<bool>,
}

impl Hearing {
    fn hear(&self, agree: bool) {
        self.has_heard.set(true);
        let state = &self.terms.state;
        match (state.get(), agree) {
            (State::Awaited | State::On, true) => state.set(State::On),
            (State::Awaited | State::Refused, false) => state.set(State::Refused),
            // Some servers go by what was said before, and others do not.
            (State::On, false) | (State::Refused, true) => self.front.lose_tracking(self.client),
        }
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        if !self.has_heard.get() {
            self.hear(false);
        }
    }
}

impl Session {
    /// Lets go of a connection that the client has for itself, unless it tracks by it.
    pub(super) fn release(&self, place: usize, client: &Asking) {
        if self.tracking.is_none() {
            client.release(place);
        }
    }

    /// Before a command: ends what a server has refused by now, and has `CLIENT CACHING` hold for
    /// the command that it is for, which may be a whole transaction.
    #[inline]
    pub(super) fn look_at_tracking(&mut self, name: &[u8]) {
        let Some(of) = &self.tracking else { return };
        if of.terms.state.get() == State::Refused {
            return self.end_tracking();
        }
        if self.transaction.standing() != TransactionStanding::Begun {
            let is_client = name.eq_ignore_ascii_case(b"CLIENT");
            of.caches.set(!is_client && of.caches_next.take());
            of.told.borrow_mut().clear();
        }
    }

    /// Nothing is told to the client any more: the connections are undone before anybody has them.
    pub(super) fn end_tracking(&mut self) {
        let Some(of) = self.tracking.take() else { return };
        self.card.tracks.set(false);
        of.places.iter().for_each(|place| of.client.release(*place));
    }

    /// The same, so that all that servers have said of keys by then comes before what the client
    /// hears next, whatever becomes of that.
    pub(super) fn end_tracking_in_order(&mut self, client: &Asking) {
        self.unheard(client, |session| session.ask_all_tracked(&off(), client));
        self.end_tracking();
    }

    /// `CLIENT TRACKING`.
    pub(super) fn track(&mut self, command: &Command<'_>, client: &Asking) -> Taken {
        match (options::read(command)?, self.tracking.is_some()) {
            (Some(wanted), _) => return self.begin_tracking(wanted, client),
            (None, false) => self.say_ok(client),
            (None, true) => {
                self.standing().allows(Change::Tracking)?;
                self.ask_all_tracked(&off(), client);
                self.end_tracking();
            }
        }
        Ok(())
    }

    fn begin_tracking(&mut self, wanted: Wanted, client: &Asking) -> Taken {
        self.standing().allows(Change::Tracking)?;
        let before = self.tracking.as_ref().map(|of| of.terms.options.borrow());
        let options = wanted.after(before.as_deref())?;
        drop(before);
        // Of a key that there is not no node says that it is with another one now.
        if self.front.is_cluster() && options.mode != Mode::Broadcast {
            return Err(
                "ERR weir: before a Cluster, whose keys move, CLIENT TRACKING takes BCAST".into()
            );
        }
        if self.tracking.is_none() {
            let places = self.places_to_track();
            places.iter().for_each(|place| client.take(*place));
            self.card.tracks.set(true);
            self.tracking = Some(Tracking::new(client, places));
        }
        if let Some(of) = &self.tracking {
            self.tell(of, &wanted, options);
            self.front.metrics.leased.inc();
        }
        Ok(())
    }

    /// Has all servers track keys so; the client hears what they say to that.
    fn tell(&self, of: &Tracking, wanted: &Wanted, options: Options) {
        *of.terms.options.borrow_mut() = options;
        let (front, terms) = (Rc::clone(&self.front), Rc::clone(&of.terms));
        let hearing = Hearing { front, client: of.client.id(), terms, has_heard: Cell::new(false) };
        let joined = move |answers: &[Vec<u8>]| {
            hearing.hear(answers.iter().all(|answer| answer.first() == Some(&b'+')));
            agreed(answers)
        };
        of.client.ask_parts(self.requests(of, &wanted.command()), Rc::new(joined));
    }

    /// Where the servers are that have keys now, for a client that tracks.
    fn places_to_track(&self) -> Vec<usize> {
        let number = |server: usize| {
            let place = Place { tracks: true, ..self.place(server) };
            self.front.fabric.service().number(&self.account, place)
        };
        self.front.live().into_iter().map(number).collect()
    }

    fn requests(&self, of: &Tracking, bytes: &[u8]) -> Vec<Request> {
        let bytes: Rc<[u8]> = bytes.into();
        of.places.iter().map(|place| self.request_at(*place, Rc::clone(&bytes))).collect()
    }

    /// Asks all servers by the connections that are tracked by: what any of them said before, the
    /// client hears before the answer.
    pub(super) fn ask_all_tracked(&self, bytes: &[u8], client: &Asking) {
        if let Some(of) = &self.tracking {
            client.ask_parts(self.requests(of, bytes), Rc::new(agreed));
            self.front.metrics.leased.inc();
        }
    }

    /// `CLIENT CACHING`.
    pub(super) fn cache(&self, word: &[u8], client: &Asking) -> Taken {
        let of = self.tracking.as_ref().ok_or(NOT_TRACKING)?;
        of.terms.options.borrow().check_caching(word)?;
        of.caches_next.set(true);
        self.say_ok(client);
        Ok(())
    }

    /// `CLIENT GETREDIR`.
    pub(super) fn put_redirect(&self, out: &mut Vec<u8>) {
        put_integer(out, if self.tracking.is_some() { 0 } else { -1 });
    }

    /// `CLIENT TRACKINGINFO`.
    pub(super) fn put_tracking(&self, out: &mut Vec<u8>) {
        match &self.tracking {
            Some(of) => {
                let is_caching = of.caches_next.get();
                of.terms.options.borrow().put_info(is_caching, self.version, out);
            }
            None => options::put_off(self.version, out),
        }
    }

    /// Whether `CLIENT CACHING` is for the command that is under way: that is asked once only, as
    /// it would not hold for what is asked in its place.
    pub(super) fn caches(&self) -> bool {
        self.tracking.as_ref().is_some_and(|of| of.caches.get())
    }

    /// The request as a client has it that tracks: by its own connection, where `CLIENT CACHING`
    /// comes before it if that was said.
    pub(super) fn as_tracked(&self, request: Request) -> Request {
        let Some(of) = &self.tracking else { return request };
        let place = request.server;
        if of.caches.get() && !of.told.borrow().contains(&place) {
            of.told.borrow_mut().push(place);
            let caching = Request::new(place, of.terms.options.borrow().caching());
            let route = caching.route.own();
            of.tell_caching(Request { route, tag: tag_of_client(), ..caching });
        }
        Request { route: request.route.own(), ..request }
    }
}

impl Tracking {
    /// By connections to these places; nothing was asked yet.
    fn new(client: &Asking, places: Vec<usize>) -> Self {
        Self {
            client: Rc::clone(client),
            places,
            terms: Rc::default(),
            caches_next: Cell::default(),
            caches: Cell::default(),
            told: RefCell::default(),
        }
    }

    /// Tells a server that the next command is one to be cached, or not. The client has its answer
    /// already, so it is closed where the server refuses.
    fn tell_caching(&self, request: Request) {
        let client = Rc::downgrade(&self.client);
        let joined = move |answers: &[Vec<u8>]| {
            let refused = answers.iter().find(|answer| answer.first() != Some(&b'+'));
            if let (Some(words), Some(client)) = (refused, client.upgrade()) {
                client.part(words.clone());
            }
            Vec::new()
        };
        self.client.ask_parts(vec![request], Rc::new(joined));
    }
}

/// What ends tracking at a server.
fn off() -> Vec<u8> {
    let mut bytes = Vec::new();
    put_command(&mut bytes, ["CLIENT", "TRACKING", "OFF"].iter());
    bytes
}

/// What `CLIENT` is counted by.
fn tag_of_client() -> u32 {
    let found = commands::find_numbered(b"CLIENT");
    found.and_then(|(_, number)| u32::try_from(number).ok()).unwrap_or(u32::MAX)
}

/// The first answer that is an error, or else the first of all.
fn agreed(answers: &[Vec<u8>]) -> Vec<u8> {
    let error = answers.iter().find(|answer| answer.first() == Some(&b'-'));
    error.or_else(|| answers.first()).cloned().unwrap_or_default()
}
