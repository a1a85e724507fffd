//! A lane by itself: all small cases one by one, and large ones at random.

mod joining;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{Event, Fate, Full, Lane, Limits, Orphan, Protocol, ProtocolError, Step, What};

/// Each byte is a message: a capital ends a reply, `!` is for nobody, `#` breaks the lane. `(`
/// wants to be seen together with the byte behind it, which then counts.
#[derive(Debug, Clone)]
struct Letters;

impl Protocol for Letters {
    fn scan(&mut self, bytes: &[u8]) -> Step {
        let (len, byte) = match bytes {
            [b'(', byte, ..] => (2, *byte),
            [b'('] => (0, b'('),
            [byte, ..] => (1, *byte),
            [] => panic!("there is nothing to say of nothing"),
        };
        let what = match byte {
            b'!' => What::Aside,
            b'#' => What::Broken("asked to"),
            b'A'..=b'Z' => What::End,
            _ => What::Part,
        };
        Step { len, what }
    }
}

type Letterbox = Lane<Letters, usize>;

fn lane(depth: usize) -> Letterbox {
    Lane::new(Letters, Limits { depth, ..Limits::default() })
}

fn push(lane: &mut Letterbox, ticket: usize, replies: u32, bytes: &[u8]) {
    lane.push(ticket, replies, Instant::now(), |out| out.extend_from_slice(bytes)).unwrap();
}

fn send(lane: &mut Letterbox) {
    let n = lane.outgoing().len();
    lane.sent(n, Instant::now());
}

/// What came of `bytes`: `3:ab` is a piece for ticket 3, `3:ab.` its last, `4=ab` all of it for one
/// that had joined, `-:!` for nobody.
fn receive(lane: &mut Letterbox, bytes: &[u8]) -> (Vec<String>, Result<usize, ProtocolError>) {
    let mut seen = Vec::new();
    let used = lane.received(bytes, Instant::now(), |event| {
        seen.push(match event {
            Event::Reply { ticket, bytes, last } => {
                let end = if last.is_some() { "." } else { "" };
                format!("{ticket}:{}{end}", bytes.escape_ascii())
            }
            Event::Shared { ticket, bytes, .. } => format!("{ticket}={}", bytes.escape_ascii()),
            Event::Apart(ticket) => format!("{ticket} apart"),
            Event::Aside(bytes) => format!("-:{}", bytes.escape_ascii()),
        });
    });
    (seen, used)
}

#[test]
fn replies_go_to_the_tickets_in_their_order() {
    let mut lane = lane(4);
    push(&mut lane, 0, 1, b"q");
    push(&mut lane, 1, 2, b"rs");
    assert_eq!(lane.outgoing(), b"qrs");
    send(&mut lane);
    let (seen, used) = receive(&mut lane, b"abAcC!d(");
    assert_eq!(seen, ["0:abA.", "1:cC", "-:!", "1:d"]);
    assert_eq!(used, Ok(7));
    push(&mut lane, 2, 1, b"t");
    assert_eq!(receive(&mut lane, b"(D"), (vec!["1:(D.".to_owned()], Ok(2)));
    assert_eq!(lane.depth(), 1);
    let orphans: Vec<_> = lane.orphans().collect();
    assert_eq!(orphans, [Orphan { ticket: 2, fate: Fate::Unsent }]);
    assert_eq!(lane.push(3, 1, Instant::now(), |_| ()), Err(Full(3)));
}

#[test]
fn limits_give_the_ticket_back() {
    let now = Instant::now();
    let limits = Limits { depth: 2, unsent: 10, unread: 100, ..Limits::default() };
    let mut lane = Lane::new(Letters, limits);
    let write = |out: &mut Vec<u8>| out.extend_from_slice(&[b'x'; 100]);
    lane.push(0, 1, now, write).unwrap();
    assert_eq!(lane.push(1, 1, now, write), Err(Full(1)), "too much is unsent");
    send(&mut lane);
    lane.push(1, 1, now, write).unwrap();
    send(&mut lane);
    assert_eq!(lane.push(2, 1, now, write), Err(Full(2)), "too many are in flight");
    receive(&mut lane, b"A").1.unwrap();
    lane.push(2, 1, now, write).unwrap();
    lane.quarantine();
    send(&mut lane);
    assert_eq!(receive(&mut lane, b"BC").0, ["1:B.", "2:C."]);
    assert_eq!(lane.push(3, 1, now, write), Err(Full(3)), "in quarantine");
}

#[test]
fn what_nobody_asked_for_breaks_the_lane() {
    let mut fresh = lane(4);
    assert_eq!(receive(&mut fresh, b"!").0, ["-:!"]);
    assert!(receive(&mut fresh, b"a").1.is_err());
    assert!(receive(&mut fresh, b"!").1.is_err(), "for good");
    assert_eq!(fresh.push(0, 1, Instant::now(), |_| ()), Err(Full(0)));

    let mut unsent = lane(4);
    push(&mut unsent, 0, 1, b"q");
    assert!(receive(&mut unsent, b"A").1.is_err(), "nothing of it was sent");

    let mut half = lane(4);
    push(&mut half, 0, 2, b"qr");
    half.sent(1, Instant::now());
    assert_eq!(receive(&mut half, b"aA").0, ["0:aA"]);
    assert!(receive(&mut half, b"B").1.is_err(), "not all of it was sent");

    let mut behind = lane(4);
    push(&mut behind, 0, 1, b"q");
    send(&mut behind);
    push(&mut behind, 1, 1, b"r");
    let (seen, used) = receive(&mut behind, b"Ab");
    assert_eq!(seen, ["0:A."]);
    assert!(used.is_err());
}

#[test]
fn a_request_s_time_begins_when_the_server_has_it_to_itself() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let mut lane = lane(4);
    let mut ran = Vec::new();
    let mut receive = |lane: &mut Letterbox, bytes: &[u8], now| {
        lane.received(bytes, now, |event| {
            if let Event::Reply { last: Some(last), .. } = event {
                ran.push(last.as_millis());
            }
        })
        .unwrap();
    };
    lane.push(0, 1, at(0), |out| out.push(b'q')).unwrap();
    lane.push(1, 1, at(1), |out| out.push(b'r')).unwrap();
    assert_eq!(lane.head_age(at(3)), Some(Duration::from_millis(3)));
    lane.sent(2, at(10));
    assert_eq!(lane.head_age(at(15)), Some(Duration::from_millis(5)));
    receive(&mut lane, b"A", at(30));
    lane.push(2, 1, at(40), |out| out.push(b's')).unwrap();
    receive(&mut lane, b"B", at(60));
    lane.sent(1, at(75));
    receive(&mut lane, b"C", at(80));
    assert_eq!(ran, [20, 30, 5]);
    assert_eq!(lane.head_age(at(90)), None);
}

/// One case of the model: `pushed` requests of two bytes each, which the server answers by `aA`
/// and `bB` each, `!` in between, as soon as it has both bytes of a request.
#[derive(Clone)]
struct Case {
    lane: Letterbox,
    pushed: usize,
    sent: usize,
    received: usize,
    delivered: Vec<Vec<u8>>,
    asides: usize,
}

const ANSWER: &[u8] = b"aA!bB";
const REQUESTS: usize = 3;

impl Case {
    fn new() -> Self {
        let delivered = vec![Vec::new(); REQUESTS];
        Self { lane: lane(REQUESTS), pushed: 0, sent: 0, received: 0, delivered, asides: 0 }
    }

    fn key(&self) -> String {
        let Self { lane, pushed, received, delivered, asides, .. } = self;
        format!("{lane:?} {pushed} {received} {delivered:?} {asides}")
    }

    /// All cases that one action makes of this one.
    fn next(&self, now: Instant) -> Vec<Self> {
        let mut cases = Vec::new();
        if self.pushed < REQUESTS {
            let mut case = self.clone();
            let name = b'p' + self.pushed as u8;
            case.lane.push(self.pushed, 2, now, |out| out.extend([name, name])).unwrap();
            case.pushed += 1;
            cases.push(case);
        }
        for n in 1..=self.pushed * 2 - self.sent {
            let mut case = self.clone();
            case.lane.sent(n, now);
            case.sent += n;
            cases.push(case);
        }
        let answered = self.sent / 2 * ANSWER.len();
        for n in 1..=answered - self.received {
            cases.push(self.receive(n, now));
        }
        cases
    }

    fn receive(&self, n: usize, now: Instant) -> Self {
        let mut case = self.clone();
        let bytes: Vec<u8> = ANSWER.iter().copied().cycle().skip(case.received).take(n).collect();
        let (delivered, asides) = (&mut case.delivered, &mut case.asides);
        let used = case.lane.received(&bytes, now, |event| match event {
            Event::Reply { ticket, bytes, last } => {
                delivered[*ticket].extend_from_slice(bytes);
                assert_eq!(last.is_some(), delivered[*ticket].len() == ANSWER.len() - 1);
            }
            Event::Aside(bytes) => {
                assert_eq!(bytes, b"!");
                *asides += 1;
            }
            Event::Shared { .. } | Event::Apart(_) => panic!("none has joined"),
        });
        assert_eq!(used, Ok(n));
        case.received += n;
        case
    }

    /// What must hold in every case.
    fn check(&self) {
        let (len, part) = (ANSWER.len(), self.received % ANSWER.len());
        let whole = self.received / len;
        assert_eq!(self.lane.depth(), self.pushed - whole);
        assert_eq!(self.asides, whole + usize::from(part > 2));
        let without_asides: Vec<u8> = ANSWER.iter().copied().filter(|b| *b != b'!').collect();
        for (ticket, delivered) in self.delivered.iter().enumerate() {
            let expected = match ticket.cmp(&whole) {
                std::cmp::Ordering::Less => 4,
                std::cmp::Ordering::Equal => part - usize::from(part > 2),
                std::cmp::Ordering::Greater => 0,
            };
            assert_eq!(delivered[..], without_asides[..expected]);
        }
        let outgoing: Vec<u8> =
            (0..self.pushed as u8).flat_map(|n| [b'p' + n; 2]).skip(self.sent).collect();
        assert_eq!(self.lane.outgoing(), outgoing);
        // The connection breaks here.
        let orphans: Vec<_> = self.lane.clone().orphans().collect();
        let expected: Vec<_> = (whole..self.pushed)
            .map(|ticket| {
                let fate = match () {
                    () if !self.delivered[ticket].is_empty() => Fate::Answered,
                    () if self.sent > ticket * 2 => Fate::Sent,
                    () => Fate::Unsent,
                };
                Orphan { ticket, fate }
            })
            .collect();
        assert_eq!(orphans, expected);
    }
}

#[test]
fn every_order_of_events_of_three_requests_is_right() {
    let now = Instant::now();
    let mut seen = HashSet::new();
    let mut open = vec![Case::new()];
    while let Some(case) = open.pop() {
        if seen.insert(case.key()) {
            case.check();
            open.extend(case.next(now));
        }
    }
    assert!(seen.len() > 100, "{}", seen.len());
}

#[derive(Debug, Clone)]
enum Action {
    Push { replies: Vec<Vec<u8>>, request: usize },
    Send(usize),
    Receive(usize),
    Answer { aside: bool },
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let reply = prop::collection::vec(prop::sample::select(&b"abc("[..]), 0..40);
    let push = (prop::collection::vec(reply, 1..4), 0_usize..200)
        .prop_map(|(replies, request)| Action::Push { replies, request });
    let action = prop_oneof![
        3 => push,
        3 => (1_usize..300).prop_map(Action::Send),
        3 => (1_usize..60).prop_map(Action::Receive),
        3 => any::<bool>().prop_map(|aside| Action::Answer { aside }),
    ];
    prop::collection::vec(action, 0..200)
}

proptest! {
    #[test]
    fn every_byte_reaches_its_own_ticket_in_order(actions in actions()) {
        let mut lane = lane(8);
        // Replies by ticket; the server's bytes that have not been received; what was delivered.
        let (mut replies, mut wire) = (Vec::<Vec<u8>>::new(), Vec::<u8>::new());
        let mut delivered = Vec::<Vec<u8>>::new();
        let (mut ends, mut sent, mut answered) = (Vec::new(), 0, 0);
        let (mut asides_sent, mut asides) = (0, 0);
        for action in actions {
            match action {
                Action::Push { replies: mine, request } => {
                    let (ticket, count) = (replies.len(), mine.len() as u32);
                    let write = |out: &mut Vec<u8>| out.resize(out.len() + request, ticket as u8);
                    let pushed = lane.push(ticket, count, Instant::now(), write);
                    if pushed.is_err() {
                        prop_assert!(lane.depth() == 8);
                        continue;
                    }
                    // `(` takes the byte behind it along, so it never is the last but one.
                    let whole = mine.into_iter().flat_map(|mut reply| {
                        while reply.last() == Some(&b'(') {
                            reply.pop();
                        }
                        reply.push(b'Z');
                        reply
                    });
                    replies.push(whole.collect());
                    delivered.push(Vec::new());
                    ends.push(ends.last().copied().unwrap_or(0) + request);
                }
                Action::Send(n) => {
                    let n = n.min(lane.outgoing().len());
                    sent += n;
                    lane.sent(n, Instant::now());
                }
                Action::Answer { aside } => {
                    if aside {
                        wire.push(b'!');
                        asides_sent += 1;
                    } else if answered < replies.len() && ends[answered] <= sent {
                        wire.extend_from_slice(&replies[answered]);
                        answered += 1;
                    }
                }
                Action::Receive(n) => {
                    let n = n.min(wire.len());
                    let used = lane.received(&wire[..n], Instant::now(), |event| match event {
                        Event::Reply { ticket, bytes, .. } => {
                            delivered[*ticket].extend_from_slice(bytes);
                        }
                        Event::Aside(bytes) => asides += bytes.len(),
                        Event::Shared { .. } | Event::Apart(_) => panic!("none has joined"),
                    });
                    wire.drain(..used.unwrap());
                }
            }
        }
        let all = wire.len();
        let used = lane.received(&wire, Instant::now(), |event| match event {
            Event::Reply { ticket, bytes, .. } => delivered[*ticket].extend_from_slice(bytes),
            Event::Aside(bytes) => asides += bytes.len(),
            Event::Shared { .. } | Event::Apart(_) => panic!("none has joined"),
        });
        prop_assert_eq!(used.unwrap(), all);
        prop_assert_eq!(asides, asides_sent);
        prop_assert_eq!(lane.depth(), replies.len() - answered);
        for (ticket, reply) in replies.iter().enumerate() {
            let expected: &[u8] = if ticket < answered { reply } else { b"" };
            prop_assert_eq!(&delivered[ticket][..], expected);
        }
    }

    #[test]
    fn no_bytes_of_a_server_panic(
        bytes in prop::collection::vec(prop::sample::select(&b"abAB!(#"[..]), 0..200),
        cuts in prop::collection::vec(1_usize..20, 1..50),
        requests in 0_usize..20,
    ) {
        let mut lane = lane(20);
        for ticket in 0..requests {
            push(&mut lane, ticket, 1 + ticket as u32 % 3, b"q");
        }
        lane.sent(requests / 2, Instant::now());
        let (mut from, mut to) = (0, 0);
        for cut in cuts {
            to = (to + cut).min(bytes.len());
            let (_, used) = receive(&mut lane, &bytes[from..to]);
            let Ok(used) = used else { break };
            from += used;
        }
        prop_assert!(lane.orphans().count() <= requests);
    }
}
