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

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use flow::answers::NotedAnswer;
use flow::service::Request;
use wire::resp::{Command, put_command, put_integer};

use super::dedicated::options::{self, Mode, Options, Wanted};
use super::dispatch::{Change, TransactionStanding};
use super::{Asking, Session, Taken};
use crate::commands;
use crate::server::Place;

const NOT_TRACKING: &str = "ERR CLIENT CACHING can be called only when the client is in tracking \
                            mode with OPTIN or OPTOUT mode enabled";

/// What a client has said of tracking.
#[derive(Debug)]
pub(super) struct Tracking {
    client: Asking,
    /// The places of its connections, one at each server.
    places: Vec<usize>,
    state: State,
    options: Options,
    /// The marks of each `CLIENT TRACKING ON` that is not answered yet.
    awaited: Vec<u64>,
    /// The marks of each `CLIENT CACHING` that is not.
    caching: RefCell<Vec<u64>>,
    /// `CLIENT CACHING` was said for the next command.
    caches_next: Cell<bool>,
    /// It was said for the command, or the transaction, that is under way.
    caches: Cell<bool>,
    /// The places that were told so.
    told: RefCell<Vec<usize>>,
}

/// What the servers have said to `CLIENT TRACKING ON`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Not all of them have answered yet.
    #[default]
    Awaited,
    /// They tell the client of keys.
    On,
    /// One refuses, or could not be asked.
    Refused,
    /// Some servers go by what was said before, and others do not.
    Torn,
}

impl State {
    /// All servers agree to what was said once more, or not.
    fn and(self, agree: bool) -> Self {
        match (self, agree) {
            (Self::Awaited | Self::On, true) => Self::On,
            (Self::Awaited | Self::Refused, false) => Self::Refused,
            (Self::On, false) | (Self::Refused, true) | (Self::Torn, _) => Self::Torn,
        }
    }
}

/// Takes a mark out of those that are awaited; whether it was one.
fn is_awaited(awaited: &mut Vec<u64>, mark: u64) -> bool {
    let at = awaited.iter().position(|of| *of == mark);
    at.map(|at| awaited.swap_remove(at)).is_some()
}

impl Session {
    /// Before a command: has `CLIENT CACHING` hold for the command that it is for, which may be a
    /// whole transaction.
    #[inline]
    pub(super) fn look_at_tracking(&mut self, name: &[u8]) {
        let Some(of) = &self.tracking else { return };
        if self.dedicated.standing() != TransactionStanding::Begun {
            let is_client = name.eq_ignore_ascii_case(b"CLIENT");
            of.caches.set(!is_client && of.caches_next.take());
            of.told.borrow_mut().clear();
        }
    }

    /// A `CLIENT TRACKING ON` or a `CLIENT CACHING` has come to its end.
    ///
    /// # Errors
    /// The client is closed with these words: it has its answer to `CLIENT CACHING` already.
    pub(super) fn hears_of_tracking(&mut self, answer: &NotedAnswer) -> Result<(), Vec<u8>> {
        let Some(of) = &mut self.tracking else { return Ok(()) };
        let is_ok = |begins: &Vec<u8>| begins.first() == Some(&b'+');
        if is_awaited(&mut of.awaited, answer.mark) {
            of.state = of.state.and(answer.begins.as_ref().is_some_and(is_ok));
            match of.state {
                State::Refused => self.end_tracking(),
                State::Torn => self.front.lose_tracking(of.client.id()),
                State::Awaited | State::On => {}
            }
        } else if is_awaited(of.caching.get_mut(), answer.mark)
            && let Some(words) = answer.begins.as_ref().filter(|begins| !is_ok(begins))
        {
            return Err(words.clone());
        }
        Ok(())
    }

    /// Nothing is told to the client any more: the connections are undone before anybody has them.
    pub(super) fn end_tracking(&mut self) {
        let Some(of) = self.tracking.take() else { return };
        self.dedicated.set_keeps(false);
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
        let options = wanted.after(self.tracking.as_ref().map(|of| &of.options))?;
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
            self.dedicated.set_keeps(true);
        }
        let mark = self.mark();
        // Has all servers track keys so; the client hears what they say to that.
        let requests = self.tracking.as_ref().map(|of| self.requests(of, &wanted.command()));
        if let (Some(of), Some(requests)) = (&mut self.tracking, requests) {
            of.options = options;
            of.awaited.push(mark);
            client.ask_parts_noted(requests, Rc::new(agreed), mark);
            self.front.metrics.leased.inc();
        }
        Ok(())
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
        of.options.check_caching(word)?;
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
                of.options.put_info(is_caching, self.version, out);
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
        let (place, client) = (request.server, &of.client);
        if of.caches.get() && !of.told.borrow().contains(&place) {
            of.told.borrow_mut().push(place);
            let caching = Request::new(place, of.options.caching());
            let route = caching.route.own();
            // The client has its answer already.
            let hears = !client.hears_no_answers();
            client.hears_answers(false);
            let (mark, tag) = (self.mark(), tag_of_client());
            client.ask_noted(Request { route, tag, ..caching }, mark);
            client.hears_answers(hears);
            of.caching.borrow_mut().push(mark);
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
            state: State::default(),
            options: Options::default(),
            awaited: Vec::new(),
            caching: RefCell::default(),
            caches_next: Cell::default(),
            caches: Cell::default(),
            told: RefCell::default(),
        }
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

#[cfg(test)]
mod tests {
    use super::State::{Awaited, On, Refused, Torn};

    #[test]
    fn what_some_servers_go_by_and_others_do_not_is_no_state_to_go_on_with() {
        assert_eq!([Awaited.and(true), Awaited.and(false)], [On, Refused]);
        assert_eq!([On.and(true), On.and(false)], [On, Torn]);
        assert_eq!([Refused.and(true), Refused.and(false)], [Torn, Refused]);
        assert_eq!([Torn.and(true), Torn.and(false)], [Torn, Torn]);
    }
}
