//! Requests that are taken back and asked again, with those behind them.

use std::collections::VecDeque;

use super::LineClient;
use crate::answers::{AnswerPlace, Begun, Filled};
use crate::lane::Fate;

/// Requests of each client.
const REQUESTS: usize = 4;

#[test]
fn what_is_behind_it_is_not_told() {
    let mut client = LineClient::new(0);
    let (a, b, c) = (client.line.open(), client.line.open(), client.line.open());
    assert_eq!(client.take_back(b), Ok(()));
    assert_eq!([a, b, c].map(|place| client.line.is_held(place)), [false, false, true]);
    assert_eq!(client.fill(a, "a", false), Filled::Taken, "it is before it");
    assert_eq!(client.take_back(a), Err(Begun));
    assert_eq!(client.fill(a, "a.", true), Filled::Taken);
    client.has("aa.");
    assert_eq!(client.fill(b, "b.", true), Filled::Late);
    assert_eq!(client.fill(c, "c.", true), Filled::Held);
    let later = client.line.open();
    assert!(client.line.is_held(later), "it came before all were taken back");
    assert_eq!(client.take_back(c), Ok(()));
    assert!(client.line.is_held(later));
    assert_eq!(client.take_back(later), Ok(()));
    client.has("");
    assert!(client.line.is_empty());

    let again = [client.line.open(), client.line.open()];
    assert_eq!(again.map(|place| client.line.is_held(place)), [false, false]);
    assert_eq!(client.fill(again[0], "b.", true), Filled::Taken);
    assert_eq!(client.fill(again[1], "c.", true), Filled::Taken);
    client.has("b.c.");
}

#[test]
fn what_was_answered_or_cleared_is_not_taken_back() {
    let mut client = LineClient::new(0);
    let (a, b) = (client.line.open(), client.line.open());
    assert_eq!(client.fill(a, "a.", true), Filled::Taken);
    assert_eq!(client.take_back(a), Ok(()), "it was answered");
    assert!(!client.line.is_held(b));
    let c = client.line.open();
    assert_eq!(client.take_back(b), Ok(()));
    assert!(client.line.is_held(c));
    client.line.clear();
    let d = client.line.open();
    assert!(!client.line.is_held(d));
    assert_eq!(client.fill(c, "c.", true), Filled::Late);
    assert_eq!(client.fill(d, "d.", true), Filled::Taken);
    client.has("a.d.");
}

/// What its server says to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerReply {
    Answer,
    /// That it is to be asked again, once.
    Again,
    /// A piece of its answer; then the connection ends.
    Piece,
    /// Nothing: the connection ends.
    Nothing,
}

/// One lane, what of a client is on it, and what the client asks again once nothing is.
struct OneLane {
    client: LineClient,
    lane: VecDeque<(AnswerPlace, usize)>,
    again: VecDeque<usize>,
    is_closed: bool,
}

impl OneLane {
    fn ask(&mut self, request: usize) {
        let place = self.client.line.open();
        self.lane.push_back((place, request));
    }

    fn hear(&mut self, said: ServerReply) {
        let Some((place, request)) = self.lane.pop_front() else { return };
        let is_held = self.client.line.is_held(place);
        match said {
            ServerReply::Answer if !is_held => {
                assert_eq!(self.client.fill(place, &format!("{request}."), true), Filled::Taken);
            }
            ServerReply::Answer | ServerReply::Again => {
                let letter = request.to_string();
                let expected = if is_held { Filled::Held } else { Filled::Taken };
                assert_eq!(self.client.fill(place, "", false), expected);
                assert_eq!(self.client.take_back(place), Ok(()), "{letter}");
                self.again.push_back(request);
            }
            ServerReply::Piece | ServerReply::Nothing => {
                if said == ServerReply::Piece {
                    self.client.fill(place, "+", false);
                }
                self.lane.push_front((place, request));
                self.end();
            }
        }
    }

    /// Its connection ends, with all that is on it.
    fn end(&mut self) {
        for (place, request) in std::mem::take(&mut self.lane) {
            use crate::answers::Verdict;
            match self.client.line.orphaned(place, Fate::Sent, true) {
                Verdict::Again => {
                    assert_eq!(self.client.take_back(place), Ok(()));
                    self.again.push_back(request);
                }
                Verdict::Close => {
                    self.client.line.clear();
                    self.is_closed = true;
                }
                verdict => assert_eq!((verdict, self.is_closed), (Verdict::Late, true)),
            }
        }
    }
}

/// Whatever a server says to each of four requests, of which the last are asked when some of the
/// first are answered: the client hears each answer once, in the order of its requests, or is
/// closed amid one.
#[test]
fn each_is_answered_once_and_in_order_whatever_the_server_says() {
    const ALL: [ServerReply; 4] =
        [ServerReply::Answer, ServerReply::Again, ServerReply::Piece, ServerReply::Nothing];
    for (case, ahead) in (0..ALL.len().pow(REQUESTS as u32))
        .flat_map(|case| (1..=REQUESTS).map(move |ahead| (case, ahead)))
    {
        let said: Vec<ServerReply> =
            (0..REQUESTS as u32).map(|at| ALL[case / ALL.len().pow(at) % ALL.len()]).collect();
        let mut world = OneLane {
            client: LineClient::new(0),
            lane: VecDeque::new(),
            again: VecDeque::new(),
            is_closed: false,
        };
        let mut unasked: VecDeque<usize> = (0..REQUESTS).collect();
        let mut says = said.iter().copied();
        while !world.is_closed {
            while world.lane.len() < ahead && world.again.is_empty() && !unasked.is_empty() {
                world.ask(unasked.pop_front().unwrap());
            }
            if world.lane.is_empty() {
                // What was taken back comes first, and what was not asked yet behind it.
                world.again.extend(unasked.drain(..));
                std::mem::swap(&mut world.again, &mut unasked);
                if unasked.is_empty() {
                    break;
                }
                continue;
            }
            world.hear(says.next().unwrap_or(ServerReply::Answer));
        }
        let heard = String::from_utf8(std::mem::take(&mut world.client.heard)).unwrap();
        let whole: String = (0..REQUESTS).map(|request| format!("{request}.")).collect();
        if world.is_closed {
            let told = heard.strip_suffix('+').unwrap();
            assert!(whole.starts_with(told), "{said:?} {ahead}: {heard}");
        } else {
            assert_eq!(heard, whole, "{said:?} {ahead}");
        }
        assert_eq!(world.client.line.waiting(), 0);
    }
}
