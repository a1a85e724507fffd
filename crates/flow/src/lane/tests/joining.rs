//! Equal requests that wait together: every order of events, cut at each byte.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::{Letters, receive, send};
use crate::lane::sharing::{KEPT_MAX, hash};
use crate::lane::{Event, Fate, Full, Lane, Limits, Orphan, Placement};

const TICKETS: usize = 3;

/// A request as the server sees it, and those who hear its reply, the first of them first.
#[derive(Clone, Debug)]
struct ServerRequest {
    bytes: [u8; 2],
    tickets: Vec<usize>,
}

/// One case of the model. The server answers its n-th request by `n`, `Z`, with an aside between
/// the two, once it has both bytes of it.
#[derive(Clone)]
struct Case {
    lane: Lane<Letters, usize>,
    asked: Vec<ServerRequest>,
    pushed: usize,
    sent: usize,
    received: usize,
    delivered: [Vec<u8>; TICKETS],
}

fn answers() -> Vec<u8> {
    (0..TICKETS as u8).flat_map(|n| [b'0' + n, b'!', b'Z']).collect()
}

impl Case {
    fn new() -> Self {
        Self {
            lane: Lane::new(Letters, Limits { depth: TICKETS, ..Limits::default() }),
            asked: Vec::new(),
            pushed: 0,
            sent: 0,
            received: 0,
            delivered: Default::default(),
        }
    }

    fn key(&self) -> String {
        let Self { lane, asked, pushed, received, delivered, .. } = self;
        format!("{lane:?} {asked:?} {pushed} {received} {delivered:?}")
    }

    /// All cases that one action makes of this one.
    fn next(&self, now: Instant) -> Vec<Self> {
        let mut cases = Vec::new();
        if self.pushed < TICKETS {
            for bytes in [*b"pp", *b"pq"] {
                cases.extend([false, true].map(|may_join| self.push(bytes, may_join, now)));
            }
            cases.push(self.push_alone(*b"pp", now));
        }
        for n in 1..=self.asked.len() * 2 - self.sent {
            let mut case = self.clone();
            case.lane.sent(n, now);
            case.sent += n;
            cases.push(case);
        }
        for n in 1..=self.sent / 2 * 3 - self.received {
            cases.push(self.receive(n, now));
        }
        cases
    }

    fn push(&self, bytes: [u8; 2], may_join: bool, now: Instant) -> Self {
        let mut case = self.clone();
        let placement = case.lane.push_or_join(self.pushed, may_join, now, &bytes).unwrap();
        // Nothing is known of those that a ticket of `usize::MAX` marks.
        let is_joinable = |(at, of): &(usize, &mut ServerRequest)| {
            at * 2 >= self.sent && of.bytes == bytes && of.tickets[0] != usize::MAX
        };
        let equal = case.asked.iter_mut().enumerate().rev().find(is_joinable);
        match equal.filter(|_| may_join) {
            Some((_, of)) => {
                assert_eq!(placement, Placement::Joined);
                of.tickets.push(self.pushed);
            }
            None => {
                assert_eq!(placement, Placement::Pushed);
                case.asked.push(ServerRequest { bytes, tickets: vec![self.pushed] });
            }
        }
        case.pushed += 1;
        case
    }

    /// One that must not be joined, whose ticket is of no matter here.
    fn push_alone(&self, bytes: [u8; 2], now: Instant) -> Self {
        let mut case = self.clone();
        case.lane.push(usize::MAX, 1, now, |out| out.extend(bytes)).unwrap();
        case.asked.push(ServerRequest { bytes, tickets: vec![usize::MAX] });
        case.pushed += 1;
        case
    }

    fn receive(&self, n: usize, now: Instant) -> Self {
        let mut case = self.clone();
        let bytes = answers()[case.received..case.received + n].to_vec();
        let delivered = &mut case.delivered;
        let used = case.lane.received(&bytes, now, |event| match event {
            Event::Reply { ticket, bytes, .. } if *ticket < TICKETS => {
                delivered[*ticket].extend_from_slice(bytes);
            }
            Event::Shared { ticket, bytes, .. } => {
                assert!(delivered[*ticket].is_empty(), "it hears all at once");
                delivered[*ticket].extend_from_slice(bytes);
            }
            Event::Apart(_) => panic!("no reply is that long"),
            Event::Reply { .. } | Event::Aside(_) => {}
        });
        assert_eq!(used, Ok(n));
        case.received += n;
        case
    }

    /// What must hold in every case.
    fn check(&self) {
        let (whole, part) = (self.received / 3, self.received % 3);
        for (at, asked) in self.asked.iter().enumerate() {
            let answer = [b'0' + at as u8, b'Z'];
            for (n, ticket) in asked.tickets.iter().enumerate().filter(|(_, t)| **t < TICKETS) {
                let heard = match (at < whole, n == 0) {
                    (true, _) => 2,
                    (false, true) if at == whole => part.min(1),
                    (false, _) => 0,
                };
                assert_eq!(self.delivered[*ticket], answer[..heard], "{asked:?}");
            }
        }
        // The connection breaks here: those who joined may ask again, whatever was handed over.
        let orphans: Vec<_> = self.lane.clone().orphans().collect();
        let expected = self.asked.iter().enumerate().skip(whole).flat_map(|(at, asked)| {
            let sent = if self.sent > at * 2 { Fate::Sent } else { Fate::Unsent };
            let first = if at == whole && part > 0 { Fate::Answered } else { sent };
            let fate = move |n| if n == 0 { first } else { sent };
            let tickets = asked.tickets.iter().enumerate();
            tickets.map(move |(n, ticket)| Orphan { ticket: *ticket, fate: fate(n) })
        });
        assert_eq!(orphans, expected.collect::<Vec<_>>());
    }
}

#[test]
fn every_order_of_events_of_requests_that_join_is_right() {
    let now = Instant::now();
    let (mut seen, mut open, mut joined) = (HashSet::new(), vec![Case::new()], 0);
    while let Some(case) = open.pop() {
        if seen.insert(case.key()) {
            case.check();
            joined += usize::from(case.asked.iter().any(|of| of.tickets.len() > 1));
            open.extend(case.next(now));
        }
    }
    assert!(seen.len() > 1000 && joined > 100, "{} {joined}", seen.len());
}

fn lane_of(bytes: &[u8], tickets: usize) -> Lane<Letters, usize> {
    let mut lane = Lane::new(Letters, Limits::default());
    for ticket in 0..tickets {
        lane.push_or_join(ticket, true, Instant::now(), bytes).unwrap();
    }
    lane
}

#[test]
fn requests_of_one_hash_are_told_apart_by_their_bytes() {
    let mut by_hash = HashMap::new();
    let collision = (0_u64..).find_map(|n| {
        // Numbers in a row have hashes in a row.
        let bytes = n.wrapping_mul(n).wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
        by_hash.insert(hash(&bytes), bytes).map(|other| [other, bytes])
    });
    let [one, other] = collision.unwrap();
    let mut lane = Lane::new(Letters, Limits::default());
    let placements = [one, other, one, other]
        .map(|bytes| lane.push_or_join(0, true, Instant::now(), &bytes).unwrap());
    assert_eq!(placements[..2], [Placement::Pushed; 2]);
    assert_eq!(placements[2..], [Placement::Joined; 2]);
    assert_eq!(lane.outgoing(), [one, other].concat());
}

#[test]
fn who_joined_is_asked_by_itself_as_soon_as_a_reply_is_seen_to_be_long() {
    let mut lane = lane_of(b"q", 3);
    send(&mut lane);
    let most = vec![b'a'; KEPT_MAX];
    assert_eq!(receive(&mut lane, &most).0.len(), 1, "it may end here");
    let (seen, used) = receive(&mut lane, b"aA");
    assert_eq!((seen, used), (vec!["0:aA.".into(), "1 apart".into(), "2 apart".into()], Ok(2)));
    assert_eq!(lane.depth(), 0);
    // To the last byte that is kept, however it is cut.
    for cut in [1, KEPT_MAX - 1] {
        let mut lane = lane_of(b"q", 2);
        send(&mut lane);
        let whole = [&most[1..], b"A"].concat();
        assert_eq!(receive(&mut lane, &whole[..cut]).0.len(), 1);
        let (seen, _) = receive(&mut lane, &whole[cut..]);
        assert_eq!(seen.last().map(String::len), Some("1=".len() + KEPT_MAX));
    }
}

#[test]
fn whoever_waits_for_the_same_reply_waits_behind_a_slow_one() {
    let mut lane = lane_of(b"q", 1);
    let are_of_one = |one: &usize, other: &usize| one % 2 == other % 2;
    assert!(!lane.is_waited_for(are_of_one));
    lane.push_or_join(2, true, Instant::now(), b"q").unwrap();
    assert!(!lane.is_waited_for(are_of_one), "it is of the same client");
    lane.push_or_join(1, true, Instant::now(), b"q").unwrap();
    assert_eq!(lane.depth(), 1);
    assert!(lane.is_waited_for(are_of_one));
}

#[test]
fn a_reply_is_for_so_many_at_most_and_those_behind_them_have_one_of_their_own() {
    let mut lane = lane_of(b"q", 600);
    assert_eq!((lane.depth(), lane.outgoing()), (3, &b"qqq"[..]));
    send(&mut lane);
    lane.push_or_join(600, true, Instant::now(), b"q").unwrap();
    assert_eq!(lane.depth(), 4, "what was sent is not joined");
    let (seen, _) = receive(&mut lane, b"ABC");
    assert_eq!(seen.len(), 600);
    assert_eq!((&*seen[257], &*seen[599]), ("257:B.", "599=C"));
}

#[test]
fn an_equal_request_is_joined_where_no_other_is_taken() {
    let limits =
        [Limits { depth: 1, ..Limits::default() }, Limits { unsent: 1, ..Limits::default() }];
    for limits in limits {
        let mut lane = Lane::new(Letters, limits);
        let now = Instant::now();
        assert_eq!(lane.push_or_join(0, true, now, b"q"), Ok(Placement::Pushed));
        assert_eq!(lane.push_or_join(1, true, now, b"q"), Ok(Placement::Joined));
        assert_eq!(lane.push_or_join(2, true, now, b"r"), Err(Full(2)));
        assert_eq!(lane.push_or_join(3, false, now, b"q"), Err(Full(3)));
        lane.quarantine();
        assert_eq!(lane.push_or_join(4, true, now, b"q"), Err(Full(4)), "it is to end");
    }
}

#[test]
fn the_server_has_a_request_of_all_who_joined_it() {
    let mut lane = lane_of(b"q", 3);
    lane.push_or_join(3, true, Instant::now(), b"r").unwrap();
    assert_eq!(lane.head_tickets().collect::<Vec<_>>(), [&0, &1, &2]);
    send(&mut lane);
    assert_eq!(receive(&mut lane, b"A").1, Ok(1));
    assert_eq!(lane.head_tickets().collect::<Vec<_>>(), [&3]);
}
