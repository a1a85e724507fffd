//! Up to four requests of one client over two lanes, a lease and the gateway itself: every order
//! in which they are pushed, sent and answered, cut anywhere, with one disturbance at each step.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::Instant;

use crate::answers::{AnswerPlace, Filled, Line, NotedAnswer, Verdict};
use crate::lane::{Event, Fate, Lane, Limits, Protocol, Step, What};

/// A capital ends a reply; every other letter is a part of one.
#[derive(Debug, Clone)]
struct Letters;

impl Protocol for Letters {
    fn scan(&mut self, bytes: &[u8]) -> Step {
        let is_end = bytes[0].is_ascii_uppercase();
        Step { len: 1, what: if is_end { What::End } else { What::Part } }
    }
}

/// Who answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// A read on the first lane, which may be asked again.
    Read,
    /// A write on one of the two lanes.
    Write(usize),
    /// A read with a part on each lane.
    Parts,
    /// A write on the client's lease.
    Lease,
    /// The gateway itself, by words of its own.
    Gateway,
}

const ALL: [By; 6] = [By::Read, By::Write(0), By::Write(1), By::Parts, By::Lease, By::Gateway];
const LEASE: usize = 2;

impl By {
    fn repeats(self) -> bool {
        matches!(self, Self::Read | Self::Parts)
    }

    fn lanes(self) -> &'static [usize] {
        match self {
            Self::Read | Self::Write(0) => &[0],
            Self::Write(_) => &[1],
            Self::Parts => &[0, 1],
            Self::Lease => &[LEASE],
            Self::Gateway => &[],
        }
    }
}

/// What the gateway says in the place of an answer.
const NOT_SENT: u8 = b'-';
const MAY_HAVE_RUN: u8 = b'?';
const LATE: u8 = b'~';
const KILLED: u8 = b'!';

/// A server's side of a lane, from which a connection goes to it.
#[derive(Debug, Clone)]
struct Server {
    lane: Lane<Letters, AnswerPlace>,
    /// What it has answered and the lane has not read.
    wire: Vec<u8>,
}

impl Server {
    fn new() -> Self {
        Self { lane: Lane::new(Letters, Limits::default()), wire: Vec::new() }
    }
}

/// What disturbs, once in a world.
#[derive(Debug, Clone, Copy)]
enum Disturbance {
    /// The connection of a lane ends.
    End(usize),
    /// A request takes too long, or is cancelled.
    GiveUp(usize),
    /// The client is killed.
    Kill,
}

#[derive(Clone)]
struct World<'a> {
    requests: &'a [By],
    line: Line,
    servers: [Server; 3],
    places: Vec<AnswerPlace>,
    heard: Vec<u8>,
    /// What the gateway was told of each request.
    told: Vec<NotedAnswer>,
    /// How often each request ran.
    ran: Vec<usize>,
    /// Requests of which nobody will know whether they ran, and how many had been taken then.
    unknown: Vec<(usize, usize)>,
    disturbed: Option<String>,
    is_closed: bool,
}

/// The answer of a request: its letter twice.
fn answer(request: usize) -> [u8; 2] {
    [b'a' + request as u8, b'A' + request as u8]
}

impl<'a> World<'a> {
    fn new(requests: &'a [By]) -> Self {
        Self {
            requests,
            line: Line::new(1000),
            servers: [Server::new(), Server::new(), Server::new()],
            places: Vec::new(),
            heard: Vec::new(),
            told: Vec::new(),
            ran: vec![0; requests.len()],
            unknown: Vec::new(),
            disturbed: None,
            is_closed: false,
        }
    }

    fn key(&self) -> (Vec<u8>, Vec<usize>, Option<String>, bool) {
        let mut at = vec![self.places.len(), self.line.waiting(), self.told.len()];
        for server in &self.servers {
            at.extend([server.lane.depth(), server.lane.unsent(), server.wire.len()]);
        }
        (self.heard.clone(), at, self.disturbed.clone(), self.is_closed)
    }

    fn next(&self) -> Vec<Self> {
        let mut worlds = Vec::new();
        let mut with = |act: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            act(&mut world);
            while let Some(answer) = world.line.take_noted() {
                world.told.push(answer);
            }
            world.check();
            worlds.push(world);
        };
        if self.is_closed {
            return worlds;
        }
        if self.places.len() < self.requests.len() {
            with(&|world| world.ask());
        }
        for at in 0..self.servers.len() {
            for n in 1..=self.servers[at].lane.unsent() {
                with(&|world| world.send(at, n));
            }
            for n in 1..=self.servers[at].wire.len() {
                with(&|world| world.receive(at, n));
            }
        }
        if self.disturbed.is_none() {
            for what in self.disturbances() {
                with(&|world| world.disturb(what));
            }
        }
        worlds
    }

    fn ask(&mut self) {
        let request = self.places.len();
        let by = self.requests[request];
        let place = match by {
            By::Parts => self.line.open_parts(2, Rc::new(|parts: &[Vec<u8>]| parts.concat())),
            _ => self.line.open(),
        };
        self.line.note(place, request as u64);
        self.places.push(place);
        for (part, lane) in by.lanes().iter().enumerate() {
            self.push(AnswerPlace { part: part as u32, ..place }, *lane);
        }
        if by == By::Gateway {
            self.fill(place, &answer(request), true);
        }
    }

    fn push(&mut self, place: AnswerPlace, at: usize) {
        let lane = &mut self.servers[at].lane;
        lane.push(place, 1, Instant::now(), |out| out.push(place.request as u8)).unwrap();
    }

    fn fill(&mut self, place: AnswerPlace, bytes: &[u8], is_last: bool) -> Filled {
        let heard = &mut self.heard;
        self.line.fill(place, bytes, is_last, |sent| heard.extend_from_slice(sent))
    }

    fn give_up(&mut self, place: AnswerPlace, words: u8) {
        let heard = &mut self.heard;
        let given_up = self.line.give_up(place, &[words], |sent| heard.extend_from_slice(sent));
        // A part of the answer was told.
        self.is_closed |= given_up.is_err();
    }

    fn send(&mut self, at: usize, n: usize) {
        let server = &mut self.servers[at];
        for request in server.lane.outgoing()[..n].iter().copied() {
            server.wire.extend(answer(request.into()));
            self.ran[usize::from(request)] += 1;
        }
        server.lane.sent(n, Instant::now());
    }

    fn receive(&mut self, at: usize, n: usize) {
        let bytes: Vec<u8> = self.servers[at].wire.drain(..n).collect();
        let mut pieces = Vec::new();
        let used = self.servers[at].lane.received(&bytes, Instant::now(), |event| {
            if let Event::Reply { ticket, bytes, last } = event {
                pieces.push((*ticket, bytes.to_vec(), last.is_some()));
            }
        });
        assert_eq!(used, Ok(n));
        for (place, bytes, is_last) in pieces {
            let given_up = self.disturbed.is_some();
            let filled = self.fill(place, &bytes, is_last);
            assert!(filled == Filled::Taken || given_up, "{filled:?}");
        }
    }

    fn disturbances(&self) -> Vec<Disturbance> {
        let ends = (0..self.servers.len()).map(Disturbance::End);
        let given_up = (0..self.places.len()).map(Disturbance::GiveUp);
        ends.chain(given_up).chain([Disturbance::Kill]).collect()
    }

    fn disturb(&mut self, what: Disturbance) {
        self.disturbed = Some(format!("{what:?} {:?}", self.ran));
        match what {
            Disturbance::End(at) => self.end(at),
            Disturbance::GiveUp(request) => self.give_up(self.places[request], LATE),
            Disturbance::Kill => {
                for place in self.places.clone() {
                    self.give_up(place, KILLED);
                }
                self.is_closed = true;
            }
        }
    }

    /// A connection ends; what may be asked again is, on one that is opened in its place.
    fn end(&mut self, at: usize) {
        let mut old = std::mem::replace(&mut self.servers[at], Server::new());
        for orphan in old.lane.orphans() {
            let (place, request) = (orphan.ticket, orphan.ticket.request as usize);
            let repeats = self.requests[request].repeats();
            match self.line.orphaned(place, orphan.fate, repeats) {
                // What a lease had on its connection is gone with it.
                Verdict::Again if at == LEASE => self.give_up(place, NOT_SENT),
                Verdict::Again => {
                    assert!(orphan.fate == Fate::Unsent || repeats, "a write is not repeated");
                    let behind = |(of, taken): &(usize, usize)| *of < request && request < *taken;
                    let held = orphan.fate == Fate::Unsent && self.unknown.iter().any(behind);
                    assert!(!held, "one before it may yet run");
                    self.push(place, at);
                }
                Verdict::NotSent => self.give_up(place, NOT_SENT),
                Verdict::MayHaveRun => {
                    self.unknown.push((request, self.places.len()));
                    self.give_up(place, MAY_HAVE_RUN);
                }
                Verdict::Close => self.is_closed = true,
                Verdict::Late => {}
            }
        }
    }

    /// What the client heard: its own answers in its order, or words that are true. The gateway was
    /// told the same of each.
    fn check(&self) {
        let mut rest = &self.heard[..];
        let name = || format!("{:?} heard {}", self.requests, self.heard.escape_ascii());
        for (request, by) in self.requests.iter().enumerate().take(self.places.len()) {
            let whole = answer(request).repeat(by.lanes().len().max(1));
            let ran = self.ran[request];
            let told = self.told.get(request).map(|of| (of.mark, of.begins.as_deref()));
            match rest.first() {
                None => return assert_eq!(told, None, "{}", name()),
                Some(&NOT_SENT) => assert_eq!(ran, 0, "{}", name()),
                Some(&MAY_HAVE_RUN) => {
                    let is_write = ran == 1 && !by.repeats();
                    assert!(is_write || *by == By::Parts, "{}", name());
                }
                Some(&(LATE | KILLED)) => assert!(self.disturbed.is_some(), "{}", name()),
                Some(_) if rest.len() < whole.len() => {
                    assert_eq!(told, None, "{}", name());
                    return assert!(whole.starts_with(rest), "{}", name());
                }
                Some(_) => {
                    assert!(rest.starts_with(&whole), "{}", name());
                    assert!(by.repeats() || ran <= 1, "it ran twice: {}", name());
                    assert_eq!(told, Some((request as u64, Some(&*whole))), "{}", name());
                    rest = &rest[whole.len()..];
                    continue;
                }
            }
            assert_eq!(told, Some((request as u64, None)), "{}", name());
            rest = &rest[1..];
        }
        assert!(rest.is_empty(), "heard too much: {}", name());
    }

    /// Nothing is left to happen: everything is answered.
    fn is_over(&self) {
        assert!(self.is_closed || self.line.is_empty(), "{:?}: {:?}", self.requests, self.line);
        assert!(self.is_closed || self.line.waiting() == 0);
        assert!(self.is_closed || self.told.len() == self.requests.len());
    }
}

/// Tries every order of the events of these requests; gives how many worlds there were.
fn every_order(requests: &[By]) -> usize {
    let (mut seen, mut open) = (HashSet::new(), vec![World::new(requests)]);
    while let Some(world) = open.pop() {
        if !seen.insert(world.key()) {
            continue;
        }
        let next = world.next();
        let done = world.places.len() == requests.len();
        let idle = world.servers.iter().all(|at| at.lane.unsent() == 0 && at.wire.is_empty());
        if done && idle {
            world.is_over();
        }
        open.extend(next);
    }
    seen.len()
}

#[test]
fn every_order_of_events_of_three_requests_is_right() {
    let mut worlds = 0;
    for first in ALL {
        for second in ALL {
            for third in ALL {
                worlds += every_order(&[first, second, third]);
            }
        }
    }
    assert!(worlds > 100_000, "{worlds}");
}

#[test]
fn every_order_of_events_of_four_requests_is_right() {
    use By::{Gateway, Lease, Parts, Read, Write};
    let worlds: usize = [
        [Write(0), Write(1), Read, Lease],
        [Read, Write(0), Write(0), Gateway],
        [Parts, Write(0), Lease, Write(1)],
        [Write(1), Parts, Gateway, Write(1)],
    ]
    .iter()
    .map(|requests| every_order(requests))
    .sum();
    assert!(worlds > 30_000, "{worlds}");
}
