//! Rounds of one client through its lease, in every order of what is sent, what arrives and what is
//! heard, with the end of the server at each step, beside a model of a server.

use std::time::Instant;

use proptest::prelude::*;
use wire::postgres::frame;
use wire::postgres::message;

use super::server::Server;
use super::through::Through;
use crate::pipeline::lease::loss::Loss;
use crate::pipeline::lease::machine::Lease;
use crate::pipeline::round::Round;

/// A round of a client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Query(&'static str),
    /// A statement in the unnamed one, prepared and run.
    Runs(&'static str),
    /// A statement is given a name, and run by that.
    Names(&'static str),
    /// The statement with the name is run.
    RunsNamed,
    /// A COPY, its data and their end.
    Copies,
}

use Sent::{Copies, Names, Query, Runs, RunsNamed};

const SELECT: &str = "SELECT 1";
const INSERT: &str = "INSERT INTO t VALUES (1)";
const SET_LOCAL: &str = "SET LOCAL search_path = a";
const SET: &str = "SET search_path = b";
const FAILS: &str = "SELECT 1/0";
const LISTEN: &str = "LISTEN a";

const ALL: [Sent; 12] = [
    Query(SELECT),
    Query(INSERT),
    Query("BEGIN"),
    Query("COMMIT"),
    Query(SET_LOCAL),
    Runs(SELECT),
    Runs(SET),
    Runs(FAILS),
    Names(SELECT),
    RunsNamed,
    Copies,
    Runs(LISTEN),
];

impl Sent {
    fn bytes(self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |tag: u8, parts: &[&[u8]]| {
            message(&mut out, tag, |out| out.extend_from_slice(&parts.concat()));
        };
        match self {
            Query(sql) => put(b'Q', &[sql.as_bytes(), b"\0"]),
            Copies => {
                put(b'Q', &[b"COPY t FROM STDIN\0"]);
                put(b'd', &[b"1\n"]);
                put(b'c', &[]);
            }
            Runs(_) | Names(_) | RunsNamed => {
                let name: &[u8] = if matches!(self, Runs(_)) { b"" } else { b"s" };
                if let Runs(sql) | Names(sql) = self {
                    put(b'P', &[name, b"\0", sql.as_bytes(), b"\0\0\0"]);
                }
                put(b'B', &[b"\0", name, b"\0\0\0\0\0\0\0"]);
                put(b'E', &[b"\0\0\0\0\0"]);
                put(b'S', &[]);
            }
        }
        out
    }
}

/// What a client hears that has a server for itself.
fn alone(rounds: &[Sent]) -> Vec<u8> {
    let mut server = Server::new(false);
    for round in rounds {
        let bytes = round.bytes();
        let mut rest = &bytes[..];
        while let Ok(Some(message)) = frame::next(rest, usize::MAX) {
            server.takes(message);
            rest = &rest[message.whole.len()..];
        }
    }
    server.said
}

/// What can happen next.
#[derive(Debug, Clone, Copy)]
enum Event {
    Sends,
    Arrives,
    Hears,
    /// A server is known to listen to the channel, or none does for Weir.
    Joins(bool),
    /// The server ends the connection.
    Ends,
}

/// Goes through the events that these choices name, and on with the first of what can happen; what
/// was chosen, of how many.
fn run(rounds: &[Sent], request: Option<&[u8]>, choices: &[usize]) -> Vec<(usize, usize)> {
    let mut through =
        Through::new(Lease::new(request.map(|bytes| Round::query(bytes.into(), Instant::now()))));
    let mut made = Vec::new();
    let mut next = 0;
    loop {
        let mut events = Vec::new();
        events.extend(through.has_said().then_some(Event::Hears));
        events.extend(through.has_sent().then_some(Event::Arrives));
        let joins = [Event::Joins(true), Event::Joins(false)];
        events.extend(joins.into_iter().filter(|_| through.is_joining()));
        events.extend((next < rounds.len()).then_some(Event::Sends));
        if events.is_empty() {
            break;
        }
        events.push(Event::Ends);
        let choice = choices.get(made.len()).copied().unwrap_or(0);
        made.push((choice, events.len()));
        match events[choice] {
            Event::Sends => {
                through.sends(&rounds[next].bytes());
                next += 1;
            }
            Event::Arrives => through.arrives(),
            Event::Hears => through.hears(usize::MAX),
            Event::Joins(is_confirmed) => through.joins(is_confirmed),
            Event::Ends => {
                loses(&mut through, rounds);
                return made;
            }
        }
        assert!(!through.session.lost, "{rounds:?} {made:?}");
    }
    assert!(through.is_over(), "{rounds:?} {made:?}: something waits for ever");
    let heard = through.session.heard.take();
    assert_eq!(
        heard.escape_ascii().to_string(),
        alone(rounds).escape_ascii().to_string(),
        "{rounds:?} {made:?}"
    );
    passes_on(through, rounds);
    made
}

/// Whoever has the connection next hears what they would hear alone, too.
fn passes_on(mut through: Through, rounds: &[Sent]) {
    let is_bare = through.session.settings.is_as_begun() && !through.session.pinned;
    if !is_bare || through.lease.is_open() {
        return;
    }
    through.is_another_s();
    through.sends(&Runs(SELECT).bytes());
    through.settles();
    let heard = through.session.heard.take();
    assert_eq!(heard, alone(&[Runs(SELECT)]), "behind {rounds:?}");
}

/// The server is gone: what may have been written is not asked again, and its client knows.
fn loses(through: &mut Through, rounds: &[Sent]) {
    let heard = through.session.heard.take();
    let told = |tag: &[u8]| heard.windows(tag.len()).filter(|part| *part == tag).count();
    let unheard = through.server.writes > told(b"INSERT 0 1") + told(b"COPY 1");
    let may_have_written = through.lease.may_have_written();
    let is_quiet = through.lease.rounds.is_empty();
    match through.lease.lose(through.session.pinned) {
        Loss::HandOver(request) => {
            assert!(heard.is_empty() && through.server.writes == 0, "{rounds:?}");
            assert_eq!(*request.bytes(), *rounds[0].bytes());
        }
        Loss::Unnoticed => assert!(!unheard, "{rounds:?}"),
        Loss::Dismissed => panic!("{rounds:?}: nothing was said"),
        Loss::Closed | Loss::Failed(_) => {
            assert!(!unheard || (may_have_written && !is_quiet), "{rounds:?}");
        }
    }
}

/// Tries every order of the events of these rounds; how many there were.
fn every_order(rounds: &[Sent], request: Option<&[u8]>) -> usize {
    let (mut choices, mut orders) = (Vec::new(), 0);
    loop {
        let mut made = run(rounds, request, &choices);
        orders += 1;
        while made.last().is_some_and(|(choice, of)| choice + 1 == *of) {
            made.pop();
        }
        let Some(last) = made.last_mut() else { return orders };
        last.0 += 1;
        choices = made.into_iter().map(|(choice, _)| choice).collect();
    }
}

#[test]
fn logins_have_changed_once_the_transaction_has_ended_that_changes_them() {
    let mut through = Through::new(Lease::default());
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

#[test]
fn every_order_of_events_of_two_rounds_is_right() {
    let mut orders = 0;
    for first in ALL {
        for second in ALL {
            orders += every_order(&[first, second], None);
        }
    }
    // The first one may be asked of another server.
    let first = Query(SELECT);
    for second in ALL {
        orders += every_order(&[first, second], Some(&first.bytes()));
    }
    assert!(orders > 1_000, "{orders}");
}

#[test]
fn every_order_of_events_of_three_rounds_is_right() {
    let some = [
        Query(INSERT),
        Query("BEGIN"),
        Query("COMMIT"),
        Query(SET_LOCAL),
        Runs(FAILS),
        Names(SELECT),
        RunsNamed,
    ];
    let mut orders = 0;
    for first in some {
        for second in some {
            for third in some {
                orders += every_order(&[first, second, third], None);
            }
        }
    }
    assert!(orders > 10_000, "{orders}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]
    #[test]
    fn rounds_that_come_and_are_answered_in_pieces_are_right(
        rounds in proptest::collection::vec(proptest::sample::select(&ALL[..]), 1..8),
        pace in proptest::collection::vec(0..40_usize, 1..24),
    ) {
        let sent: Vec<u8> = rounds.iter().flat_map(|round| round.bytes()).collect();
        let mut through = Through::new(Lease::default());
        let (mut rest, mut pace) = (&sent[..], pace.iter().copied().cycle());
        while !rest.is_empty() {
            let len = (pace.next().unwrap_or(0) + 1).min(rest.len());
            through.sends(&rest[..len]);
            rest = &rest[len..];
            if pace.next().unwrap_or(0) % 2 == 0 {
                through.arrives();
            }
            through.hears(pace.next().unwrap_or(0));
            prop_assert!(!through.session.lost);
        }
        through.settles();
        prop_assert!(through.is_over());
        let heard = through.session.heard.take();
        let (heard, alone) = (heard.escape_ascii(), alone(&rounds));
        prop_assert_eq!(heard.to_string(), alone.escape_ascii().to_string());
        passes_on(through, &rounds);
    }
}
