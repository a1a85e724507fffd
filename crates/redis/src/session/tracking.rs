//! `CLIENT TRACKING`: a client is told of keys that others change, so that it may keep them itself.
//!
//! A server tells that to the connection that has read the keys, so the client has one for itself
//! for as long as it tracks: all that it asks goes there, and what the server says by itself
//! reaches it between two answers. The server is the only one of its pool, and where that changes,
//! or the connection ends, the client is closed: what it keeps may be out of date, and nobody would
//! tell it.

use std::cell::Cell;
use std::rc::Rc;

use flow::service::Request;
use wire::resp::{Command, put_array, put_bulk, put_command, put_integer, put_map, put_set};

use super::{Asking, Session, Taken};

/// What a client has said of tracking.
#[derive(Debug)]
pub(super) struct Tracking {
    /// The place of its connection.
    place: usize,
    answer: Rc<Cell<Answer>>,
}

/// What the server has said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Answer {
    /// Nothing yet.
    #[default]
    Awaited,
    /// It tells the client of keys.
    On,
    /// It refuses.
    Refused,
}

/// What a sub-command of `CLIENT TRACKING` says.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    On,
    Off,
}

impl Session {
    pub(super) fn is_tracking(&self) -> bool {
        self.tracking.is_some()
    }

    /// Lets go of the connection that the client has for itself, unless it tracks by it.
    pub(super) fn release(&self, place: usize, client: &Asking) {
        if !self.is_tracking() {
            client.release(place);
        }
    }

    /// Ends what a server has refused by now.
    #[inline]
    pub(super) fn look_at_tracking(&mut self, client: &Asking) {
        if self.tracking.as_ref().is_some_and(|of| of.answer.get() == Answer::Refused) {
            self.end_tracking(client);
        }
    }

    /// Nothing is told to the client any more: the connection is undone before anybody has it.
    pub(super) fn end_tracking(&mut self, client: &Asking) {
        if let Some(of) = self.tracking.take() {
            self.card.tracks.set(false);
            client.release(of.place);
        }
    }

    /// `CLIENT TRACKING`.
    pub(super) fn track(&mut self, command: &Command<'_>, client: &Asking) -> Taken {
        match wish(command)? {
            Wish::On => self.begin_tracking(command, client),
            Wish::Off if !self.is_tracking() => {
                self.say_ok(client);
                Ok(())
            }
            Wish::Off => {
                self.check_watches()?;
                let mut bytes = Vec::new();
                put_command(&mut bytes, ["CLIENT", "TRACKING", "OFF"].iter());
                self.ask_tracking(bytes, client);
                self.end_tracking(client);
                Ok(())
            }
        }
    }

    fn begin_tracking(&mut self, command: &Command<'_>, client: &Asking) -> Taken {
        let Some(only) = self.front.only().filter(|_| !self.front.is_cluster()) else {
            return Err(
                "ERR weir: CLIENT TRACKING is for pools with one server: of several, none \
                        could tell of all keys"
                    .to_owned(),
            );
        };
        self.check_watches()?;
        let is_new = self.tracking.is_none();
        if is_new {
            self.tracking = Some(Tracking { place: 0, answer: Rc::default() });
            let place = self.at(only);
            client.take(place);
            if let Some(of) = &mut self.tracking {
                of.place = place;
            }
            self.card.tracks.set(true);
        }
        let Some(Tracking { place, answer }) = &self.tracking else { return Ok(()) };
        let answer = Rc::clone(answer);
        let request = self.request_at(*place, command.bytes());
        let joined = move |answers: &[Vec<u8>]| {
            let said = answers.first().cloned().unwrap_or_default();
            // What was on before stays on where the server refuses to change it.
            answer.set(match (said.first(), answer.get()) {
                (Some(b'+'), _) | (_, Answer::On) => Answer::On,
                _ => Answer::Refused,
            });
            said
        };
        client.ask_parts(vec![request], Rc::new(joined));
        self.front.metrics.leased.inc();
        Ok(())
    }

    fn check_watches(&self) -> Taken {
        match self.transaction.is_none() {
            true => Ok(()),
            false => Err("ERR weir: CLIENT TRACKING is refused while keys are watched".to_owned()),
        }
    }

    /// What else of `CLIENT` is about tracking: asked on the connection that is tracked by.
    pub(super) fn ask_of_tracking(&self, command: &Command<'_>, client: &Asking) {
        self.ask_tracking(command.bytes().to_vec(), client);
    }

    fn ask_tracking(&self, bytes: Vec<u8>, client: &Asking) {
        if let Some(of) = &self.tracking {
            client.ask(self.request_at(of.place, bytes));
            self.front.metrics.leased.inc();
        }
    }

    /// `CLIENT TRACKINGINFO` of a client that does not track.
    pub(super) fn put_tracking_off(&self, out: &mut Vec<u8>) {
        put_map(out, 3, self.version);
        put_bulk(out, b"flags");
        put_set(out, 1, self.version);
        put_bulk(out, b"off");
        put_bulk(out, b"redirect");
        put_integer(out, -1);
        put_bulk(out, b"prefixes");
        put_array(out, 0);
    }

    /// What would change the connection is refused while the client tracks by it.
    pub(super) fn check_tracking(&self, what: &str) -> Taken {
        match self.is_tracking() {
            true => Err(format!("ERR weir: {what} is refused while CLIENT TRACKING is on")),
            false => Ok(()),
        }
    }

    /// The request as a client has it that tracks: by its own connection.
    pub(super) fn as_tracked(&self, request: Request) -> Request {
        Request { own: request.own || self.is_tracking(), ..request }
    }
}

fn wish(command: &Command<'_>) -> Result<Wish, String> {
    let is = |at: usize, word: &str| {
        command.get(at).is_some_and(|of| of.eq_ignore_ascii_case(word.as_bytes()))
    };
    let mut at = 3;
    while at < command.len() {
        at += match at {
            _ if is(at, "REDIRECT") => {
                return Err(
                    "ERR weir: CLIENT TRACKING REDIRECT is refused: a server knows its own \
                            clients only, and none of Weir's; use RESP3"
                        .to_owned(),
                );
            }
            _ if is(at, "PREFIX") && at + 1 < command.len() => 2,
            _ if ["BCAST", "OPTIN", "OPTOUT", "NOLOOP"].iter().any(|of| is(at, of)) => 1,
            _ => return Err("ERR syntax error".to_owned()),
        };
    }
    match () {
        () if is(2, "ON") => Ok(Wish::On),
        () if is(2, "OFF") => Ok(Wish::Off),
        () => Err("ERR syntax error".to_owned()),
    }
}
