//! Rounds of one client through its lease, in every order of what is sent, what arrives and what is
//! heard, beside a model of a server. At each step one thing comes between: the server's end, the
//! client's, an order to close the client, what was notified, and a limit that is reached.
//!
//! What two orders have come to alike goes on alike: such a state is gone through once.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;
use std::time::Instant;

use proptest::prelude::*;
use wire::postgres::backend::Status;

use super::sent::ClientRound::{self, Query, Runs};
use super::sent::{ALL, FAILS, INSERT, LISTEN, MORE, PARTS, SELECT, SET};
use super::server::Server;
use super::through::{DebugHasher, Through, Worker};
use crate::pipeline::lease::client::{ClientStep, CloseOrder, EndStep, StreamEnd};
use crate::pipeline::lease::expectation::Expectation;
use crate::pipeline::lease::incoming::ClientStream;
use crate::pipeline::lease::loss::Loss;
use crate::pipeline::lease::machine::Lease;
use crate::pipeline::round::{self, Round};

/// What a client hears that has a server for itself.
fn alone(rounds: &[ClientRound]) -> Vec<u8> {
    let mut server = Server::new(false);
    rounds.iter().for_each(|round| takes(&mut server, &round.bytes()));
    server.said
}

/// A server reads these messages.
fn takes(server: &mut Server, messages: &[u8]) {
    round::messages(messages).for_each(|message| server.takes(message));
}

fn worker() -> Rc<Worker> {
    Worker::new(&[SELECT, INSERT, SET, FAILS, LISTEN])
}

/// Whether what a client has heard ends with a reply's end, or is nothing.
fn ends_a_reply(heard: &[u8]) -> bool {
    heard.is_empty() || heard.ends_with(b"Z\0\0\0\x05I") || {
        let last = heard.len().saturating_sub(6);
        heard[last..].starts_with(b"Z\0\0\0\x05")
    }
}

/// Whoever has the connection next hears what they would hear alone, too.
fn passes_on(mut through: Through) {
    let is_bare = through.session.settings.is_as_begun() && !through.lease.is_pinned;
    if !is_bare || through.lease.is_open() {
        return;
    }
    through.is_another_s();
    through.sends(&Runs(SELECT).bytes());
    through.settles();
    assert_eq!(through.session.heard, alone(&[Runs(SELECT)]));
}

/// What can happen next.
#[derive(Debug, Clone, Copy)]
enum Event {
    Sends(ClientRound),
    Arrives,
    Hears,
    /// A server is known to listen to the channel, or none does for Weir.
    Joins(bool),
    /// The client's connection ends from its side.
    Ends(StreamEnd),
}

/// A client, its lease and its server, beside the same client with a server for itself.
#[derive(Clone)]
struct Situation {
    through: Through,
    alone: Server,
    /// What the client is to hear and has not heard.
    due: Vec<u8>,
    /// Rounds that it may still send.
    left: usize,
    /// What the last ReadyForQuery that it has heard said; `None` within a reply.
    heard: Option<Status>,
    /// The same, of the reply before.
    stands: Status,
    /// Changes that the server has done and not told it.
    untold_writes: usize,
    /// Its first round, which may be asked of another server, until something is told of its
    /// reply.
    request: Option<ClientRound>,
    /// Nothing is left to do for it.
    is_gone: bool,
    path: Vec<Event>,
}

impl Situation {
    fn new(left: usize, request: Option<ClientRound>) -> Self {
        let round = |sent: ClientRound| Round::query(sent.bytes().into(), Instant::now());
        Self {
            through: Through::new(&worker(), Lease::new(request.map(round))),
            alone: Server::new(false),
            due: Vec::new(),
            left,
            heard: Some(Status::Idle),
            stands: Status::Idle,
            untold_writes: 0,
            request,
            is_gone: false,
            path: Vec::new(),
        }
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.through.fingerprint(), &self.due, self.untold_writes, self.is_gone).hash(&mut hasher);
        let of_client = (&self.alone, self.heard, self.stands, self.request);
        DebugHasher(&mut hasher).write(&of_client);
        hasher.finish()
    }

    fn events(&self, alphabet: &[ClientRound]) -> Vec<Event> {
        let mut events = Vec::new();
        if self.is_gone {
            return events;
        }
        events.extend(self.through.has_said().then_some(Event::Hears));
        events.extend(self.through.has_sent().then_some(Event::Arrives));
        let joins = [Event::Joins(true), Event::Joins(false)];
        events.extend(joins.into_iter().filter(|_| self.through.is_joining()));
        if events.is_empty() {
            self.rests();
        }
        if self.through.lease.client == ClientStream::Open {
            events.extend([StreamEnd::Closed, StreamEnd::Broken].map(Event::Ends));
            if self.left > 0 {
                events.extend(alphabet.iter().copied().map(Event::Sends));
            }
        }
        events
    }

    fn goes_on(&self, event: Event) -> Self {
        let mut next = self.clone();
        next.path.push(event);
        match event {
            Event::Sends(round) => {
                next.left -= 1;
                takes(&mut next.alone, &round.bytes());
                next.due.append(&mut next.alone.said);
                next.alone.writes = 0;
                next.through.sends(&round.bytes());
            }
            Event::Arrives => {
                next.through.arrives();
                next.untold_writes += std::mem::take(&mut next.through.server.writes);
            }
            Event::Hears => next.through.hears(usize::MAX),
            Event::Joins(is_confirmed) => next.through.joins(is_confirmed),
            Event::Ends(how) => {
                let progress = next.through.progress();
                next.is_gone = next.through.lease.client_ends(how, &progress) == EndStep::Gone;
                assert!(!next.is_gone || how == StreamEnd::Broken || next.due.is_empty());
                next.through.turns();
            }
        }
        next.hears();
        let client = next.through.lease.client;
        match next.through.lease.client_step(&next.through.progress()) {
            ClientStep::Gone if !next.is_gone => {
                next.is_gone = true;
                let is_deaf = client == ClientStream::Leaving;
                assert!(is_deaf || next.due.is_empty(), "it has not heard all");
            }
            // What the server says to that is all for the client.
            ClientStep::CloseServer => next.is_gone = true,
            _ => {}
        }
        assert!(!next.through.session.gives_up || client == ClientStream::Ended);
        assert!(!next.through.session.is_killed);
        next
    }

    /// The client hears what it is to hear, and nothing else.
    fn hears(&mut self) {
        let heard = std::mem::take(&mut self.through.session.heard);
        let (told, due) = (heard.escape_ascii().to_string(), self.due.escape_ascii().to_string());
        assert!(self.due.starts_with(&heard), "heard {told}, due {due}");
        self.due.drain(..heard.len());
        for message in round::messages(&heard) {
            self.request = None;
            self.heard = None;
            match message.tag {
                b'Z' => {
                    self.stands = Status::of_byte(message.body[0]).unwrap();
                    self.heard = Some(self.stands);
                }
                b'C' if matches!(message.body, b"INSERT 0 1\0" | b"COPY 1\0") => {
                    self.untold_writes -= 1;
                }
                _ => {}
            }
        }
    }

    /// Nothing more happens by itself.
    fn rests(&self) {
        assert!(self.through.lease.client == ClientStream::Open, "it is not let go");
        let is_within = self.through.lease.rounds.is_within();
        assert!(self.due.is_empty() && self.through.rests(), "something waits for ever");
        assert!(is_within || self.through.is_over());
        let is_idle = self.heard == Some(Status::Idle) && !is_within;
        assert_eq!(self.through.lease.tells_mail(true, false), is_idle);
        assert_eq!(self.through.lease.closes(CloseOrder::OnceIdle), is_idle);
        if !is_within {
            passes_on(self.through.clone());
        }
    }

    /// One thing comes between.
    fn disturb(&self) {
        let Self { through: Through { lease, .. }, .. } = self;
        // Its connection is given back.
        if lease.is_quiet() && self.through.is_free() {
            assert!(self.through.server.is_clean() && !self.through.has_said());
        }
        if self.is_gone {
            return;
        }
        self.loses();
        // It is told of notifications, and closed by a drain, between its replies.
        assert!(!lease.tells_mail(true, true) || self.heard.is_some());
        assert!(!lease.tells_mail(true, false) || self.heard == Some(Status::Idle));
        assert!(!lease.closes(CloseOrder::OnceIdle) || self.heard == Some(Status::Idle));
        // It is closed at once, by an administrator or since a limit is reached.
        assert!(lease.closes(CloseOrder::AtOnce));
        match lease.expects(!self.through.has_sent(), || false) {
            Expectation::Rest => panic!("each message is whole"),
            Expectation::Answer(_) => {
                let is_within = lease.rounds.is_within();
                assert!(is_within || !self.due.is_empty() || self.through.has_sent());
            }
            Expectation::Round { in_transaction } => {
                assert_eq!(self.heard.map(|status| status != Status::Idle), Some(in_transaction));
            }
        }
    }

    /// The server is gone: what may have been written is not asked again, and its client knows.
    fn loses(&self) {
        let mut lease = self.through.lease.clone();
        let is_unheard = self.untold_writes > 0;
        let may_have_written = lease.may_have_written() && !lease.rounds.is_empty();
        match lease.lose() {
            Loss::HandOver(round) => {
                assert!(!is_unheard);
                assert_eq!(self.request.map(ClientRound::bytes).as_deref(), Some(round.bytes()));
            }
            Loss::Unnoticed => assert!(!is_unheard && self.heard == Some(Status::Idle)),
            Loss::Dismissed => panic!("nothing was said"),
            Loss::Closed => assert!(!is_unheard || may_have_written),
            Loss::Failed(_) => {
                assert!(!is_unheard || may_have_written);
                assert_eq!(self.heard, Some(Status::Idle), "it is told within a reply");
            }
        }
    }
}

/// Says by which way a test has come to where it fails.
struct OnPanic<'a>(&'a [Event]);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("behind {:?}", self.0);
        }
    }
}

/// Goes through every order of events from there on; how many situations there were.
fn explore(from: Situation, alphabet: &[ClientRound]) -> usize {
    let mut known: HashMap<u64, usize> = HashMap::new();
    let mut stack = vec![from];
    while let Some(situation) = stack.pop() {
        let left = known.entry(situation.fingerprint());
        match left {
            std::collections::hash_map::Entry::Occupied(left) if *left.get() >= situation.left => {
                continue;
            }
            left => drop(left.insert_entry(situation.left)),
        }
        let _says = OnPanic(&situation.path);
        situation.disturb();
        let events = situation.events(alphabet);
        stack.extend(events.into_iter().map(|event| {
            let path = [&situation.path[..], &[event]].concat();
            let _says = OnPanic(&path);
            situation.goes_on(event)
        }));
    }
    known.len()
}

/// How many rounds a client sends: three, or as many as a soak asks for.
fn rounds() -> usize {
    std::env::var("WEIR_TEST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// Each kind once, or with others where a soak asks for more.
fn alphabet() -> Vec<ClientRound> {
    let more = if rounds() > 3 { &MORE[..] } else { &[] };
    [&ALL[..], more].concat()
}

#[test]
fn every_order_of_events_of_three_rounds_is_right() {
    let known = explore(Situation::new(rounds(), None), &alphabet());
    assert!(known > 10_000, "{known}");
}

#[test]
fn every_order_of_events_amid_rounds_is_right() {
    let known = explore(Situation::new(rounds(), None), &PARTS);
    assert!(known > 1_000, "{known}");
}

#[test]
fn every_order_of_events_behind_a_read_that_another_server_could_answer_is_right() {
    let read = Query(SELECT);
    let asked = Situation::new(rounds(), Some(read)).goes_on(Event::Sends(read));
    let known = explore(asked, &alphabet());
    assert!(known > 1_000, "{known}");
}

#[test]
fn logins_have_changed_once_the_transaction_has_ended_that_changes_them() {
    let mut through = Through::new(&worker(), Lease::default());
    through.sends(&Query("BEGIN").bytes());
    through.settles();
    // What follows the end of the transaction is sent before that is answered.
    through.sends(&[Query("COMMIT").bytes(), Query("ALTER ROLE a LOGIN").bytes()].concat());
    through.arrives();
    let committed = "C....COMMIT.Z.....".len();
    through.hears(committed);
    assert!(!through.lease.is_open() && through.session.logins_changed == 0);
    through.settles();
    assert_eq!(through.session.logins_changed, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]
    #[test]
    fn rounds_that_come_and_are_answered_in_pieces_are_right(
        rounds in proptest::collection::vec(proptest::sample::select(&ALL[..]), 1..8),
        pace in proptest::collection::vec(0..40_usize, 1..24),
    ) {
        let sent: Vec<u8> = rounds.iter().flat_map(|round| round.bytes()).collect();
        let mut through = Through::new(&worker(), Lease::default());
        let (mut rest, mut pace) = (&sent[..], pace.iter().copied().cycle());
        while !rest.is_empty() {
            let len = (pace.next().unwrap_or(0) + 1).min(rest.len());
            through.sends(&rest[..len]);
            rest = &rest[len..];
            if pace.next().unwrap_or(0) % 2 == 0 {
                through.arrives();
            }
            through.hears(pace.next().unwrap_or(0));
            prop_assert!(!through.session.gives_up && !through.session.is_killed);
            let is_between = through.session.script.is_between();
            let is_told = through.lease.tells_mail(is_between, true);
            prop_assert!(!is_told || ends_a_reply(&through.session.heard), "{:?}", rounds);
        }
        through.settles();
        prop_assert!(through.is_over());
        let heard = std::mem::take(&mut through.session.heard);
        let (heard, alone) = (heard.escape_ascii(), alone(&rounds));
        prop_assert_eq!(heard.to_string(), alone.escape_ascii().to_string());
        passes_on(through);
    }

    #[test]
    fn a_client_that_ends_anywhere_has_the_answers_to_all_that_was_whole(
        rounds in proptest::collection::vec(proptest::sample::select(&ALL[..]), 1..5),
        at in any::<proptest::sample::Index>(),
        pace in proptest::collection::vec(0..40_usize, 1..24),
    ) {
        let sent: Vec<u8> = rounds.iter().flat_map(|round| round.bytes()).collect();
        let sent = &sent[..at.index(sent.len() + 1)];
        let mut through = Through::new(&worker(), Lease::default());
        for (piece, pace) in sent.chunks(23).zip(pace.iter().copied().cycle()) {
            through.sends(piece);
            if pace % 2 == 0 {
                through.arrives();
            }
            through.hears(pace);
        }
        let progress = through.progress();
        if through.lease.client_ends(StreamEnd::Closed, &progress) != EndStep::Gone {
            through.turns();
            through.settles();
            let step = through.lease.client_step(&through.progress());
            // Amid a round or the data of a COPY the server is told that nothing more comes.
            let is_told = through.session.gives_up && step == ClientStep::CloseServer;
            prop_assert!(is_told || step == ClientStep::Gone, "{:?}", step);
        }
        let mut alone = Server::new(false);
        takes(&mut alone, sent);
        let heard = through.session.heard.escape_ascii().to_string();
        prop_assert_eq!(heard, alone.said.escape_ascii().to_string());
    }
}
