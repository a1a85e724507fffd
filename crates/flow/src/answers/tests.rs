//! A line of places by itself, and beside real lanes in every order of events.

use std::rc::Rc;

use super::{AnswerPlace, Begun, Filled, Join, Line, Over, Verdict};
use crate::lane::Fate;

mod orders;
mod taken_back;

/// A line and what its client heard.
struct LineClient {
    line: Line,
    heard: Vec<u8>,
}

impl LineClient {
    fn new(limit: usize) -> Self {
        Self { line: Line::new(limit), heard: Vec::new() }
    }

    fn fill(&mut self, place: AnswerPlace, bytes: &str, is_last: bool) -> Filled {
        let heard = &mut self.heard;
        self.line.fill(place, bytes.as_bytes(), is_last, |sent| heard.extend_from_slice(sent))
    }

    fn give_up(&mut self, place: AnswerPlace, words: &str) -> Result<(), Begun> {
        let heard = &mut self.heard;
        self.line.give_up(place, words.as_bytes(), |sent| heard.extend_from_slice(sent))
    }

    fn take_back(&mut self, place: AnswerPlace) -> Result<(), Begun> {
        let heard = &mut self.heard;
        self.line.take_back(place, |sent| heard.extend_from_slice(sent))
    }

    fn aside(&mut self, bytes: &str) -> Result<(), Over> {
        self.aside_behind(None, bytes)
    }

    fn aside_behind(&mut self, behind: Option<AnswerPlace>, bytes: &str) -> Result<(), Over> {
        let heard = &mut self.heard;
        self.line.aside(bytes.as_bytes(), behind, |sent| heard.extend_from_slice(sent))
    }

    #[track_caller]
    fn has(&mut self, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&std::mem::take(&mut self.heard)), expected);
    }
}

fn joined() -> Join {
    Rc::new(|parts: &[Vec<u8>]| [b"[", &*parts.join(&b"+"[..]), b"]"].concat())
}

const fn part(of: AnswerPlace, part: u32) -> AnswerPlace {
    AnswerPlace { part, ..of }
}

#[test]
fn a_client_hears_its_answers_in_the_order_of_its_requests() {
    let mut client = LineClient::new(100);
    let places = [client.line.open(), client.line.open(), client.line.open(), client.line.open()];
    assert_eq!(client.fill(places[1], "b1", false), Filled::Taken);
    assert_eq!(client.fill(places[3], "d1.", true), Filled::Taken);
    client.has("");
    assert_eq!(client.line.waiting(), 5);
    client.fill(places[0], "a1", false);
    client.has("a1");
    client.fill(places[0], "a2.", true);
    client.has("a2.b1");
    client.fill(places[1], "b2.", true);
    client.has("b2.");
    client.fill(places[2], "c1.", true);
    client.has("c1.d1.");
    assert!(client.line.is_empty());
    assert_eq!(client.line.waiting(), 0);
}

#[test]
fn pieces_of_one_answer_are_sent_together() {
    let mut line = Line::new(100);
    let (mut sends, places) = (Vec::new(), [line.open(), line.open()]);
    let mut fill = |place, pieces: &[&str], is_last| {
        let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
        line.fill_all(place, &pieces, is_last, |sent| sends.push(sent.concat()))
    };
    assert_eq!(fill(places[1], &["b1", "b2"], false), Filled::Taken);
    assert_eq!(fill(places[0], &["", ""], false), Filled::Taken);
    assert_eq!(fill(places[0], &["a1", "a2"], false), Filled::Taken);
    assert_eq!(fill(places[0], &[], true), Filled::Taken);
    assert_eq!(fill(places[1], &["b3", "b4."], true), Filled::Taken);
    assert_eq!(fill(places[1], &["late"], true), Filled::Late);
    assert_eq!(sends, [&b"a1a2"[..], b"b1b2", b"b3b4."], "nothing is sent where there is nothing");
}

#[test]
fn an_answer_that_has_not_said_anything_has_not_begun() {
    let mut line = Line::new(100);
    let place = line.open();
    line.fill_all(place, &[b"", b""], false, |_| ());
    assert!(!line.is_amid_answer());
    assert_eq!(line.orphaned(place, Fate::Answered, true), Verdict::Again);
}

#[test]
fn parts_are_joined_once_all_are_there() {
    let mut client = LineClient::new(100);
    let first = client.line.open();
    let split = client.line.open_parts(3, joined());
    client.fill(part(split, 2), "c", true);
    client.fill(part(split, 0), "a", false);
    client.fill(part(split, 1), "b", true);
    client.fill(part(split, 0), "A", true);
    client.has("");
    assert_eq!(client.line.waiting(), "[aA+b+c]".len());
    assert_eq!(client.fill(part(split, 1), "late", true), Filled::Late);
    client.fill(first, "1", true);
    client.has("1[aA+b+c]");

    let split = client.line.open_parts(2, joined());
    client.fill(part(split, 0), "x", true);
    client.fill(part(split, 1), "y", true);
    client.has("[x+y]");
    assert_eq!(client.line.waiting(), 0);
}

#[test]
fn what_is_given_up_is_answered_in_its_turn_and_hears_nothing_later() {
    let mut client = LineClient::new(100);
    let (a, b, c) = (client.line.open(), client.line.open(), client.line.open());
    client.fill(b, "b", false);
    assert_eq!(client.give_up(b, "(late)"), Ok(()));
    client.has("");
    assert_eq!(client.fill(b, "b.", true), Filled::Late);
    client.fill(a, "a", false);
    assert_eq!(client.give_up(a, "(late)"), Err(Begun), "a part of it was sent");
    client.fill(a, "a.", true);
    client.has("aa.(late)");
    assert_eq!(client.give_up(b, "(again)"), Ok(()), "it was answered");
    assert_eq!(client.give_up(c, "(cancelled)"), Ok(()));
    client.has("(cancelled)");
    let split = client.line.open_parts(2, joined());
    client.fill(part(split, 0), "x", true);
    assert_eq!(client.give_up(split, "(late)"), Ok(()));
    assert_eq!(client.fill(part(split, 1), "y", true), Filled::Late);
    client.has("(late)");
    assert_eq!(client.line.waiting(), 0);
}

#[test]
fn whoever_lets_too_much_wait_is_told_so() {
    let mut client = LineClient::new(10);
    let (a, b) = (client.line.open(), client.line.open());
    client.fill(a, "as much as there is goes through at the head", false);
    assert_eq!(client.fill(b, "12345", false), Filled::Taken);
    assert!(!client.line.is_half_full());
    assert_eq!(client.fill(b, "6", false), Filled::Taken);
    assert!(client.line.is_half_full(), "no more of its requests are read");
    assert_eq!(client.fill(b, "78901", false), Filled::Over);
    client.line.clear();
    assert_eq!(client.fill(a, "x", true), Filled::Late);
    assert_eq!(client.line.waiting(), 0);

    let mut client = LineClient::new(10);
    let split = client.line.open_parts(2, joined());
    assert_eq!(client.fill(part(split, 0), "1234567890", true), Filled::Taken);
    assert_eq!(client.fill(part(split, 1), "1", true), Filled::TooLarge, "parts wait, too");
    assert_eq!(client.give_up(split, "(too large)"), Ok(()));
    client.has("(too large)");
    assert_eq!(client.line.waiting(), 0);

    // Beside something else they are not too large by themselves.
    let mut client = LineClient::new(10);
    let (split, b) = (client.line.open_parts(2, joined()), client.line.open());
    assert_eq!(client.fill(b, "12345678", true), Filled::Taken);
    assert_eq!(client.fill(part(split, 0), "123", true), Filled::Over);
}

#[test]
fn what_belongs_to_no_request_goes_between_two_answers() {
    let mut client = LineClient::new(10);
    assert_eq!(client.aside("!"), Ok(()));
    client.has("!");
    let (a, b) = (client.line.open(), client.line.open());
    client.aside("!").unwrap();
    client.has("!");
    client.fill(b, "bb", true);
    client.fill(a, "a", false);
    client.aside("?").unwrap();
    client.aside("!").unwrap();
    client.has("a");
    client.fill(a, "a", true);
    client.has("a?!bb");
    let c = client.line.open();
    client.fill(c, "c", false);
    assert_eq!(client.aside("0123456789"), Ok(()));
    assert_eq!(client.aside("!"), Err(Over));
}

#[test]
fn whoever_wants_no_answers_hears_those_that_it_asked_for_before_and_after() {
    let mut client = LineClient::new(10);
    let before = client.line.open();
    client.line.hears_answers(false);
    let [one, other, given_up] = [(); 3].map(|()| client.line.open());
    let parts = client.line.open_parts(2, joined());
    client.line.hears_answers(true);
    let after = client.line.open();
    assert_eq!(client.fill(after, "after", true), Filled::Taken);
    // They are in nobody's way, however large they are.
    assert_eq!(client.fill(other, "larger than may wait", true), Filled::Taken);
    client.has("");
    client.fill(before, "before ", true);
    client.has("before ");
    client.fill(one, "one", false);
    assert!(!client.line.is_amid_answer(), "so it can be given up");
    client.aside("message ").unwrap();
    client.has("message ");
    client.fill(one, "one", true);
    client.give_up(given_up, "words").unwrap();
    assert_eq!(client.fill(parts, "p", true), Filled::Taken);
    assert_eq!(client.fill(part(parts, 1), "q", true), Filled::Taken);
    client.has("after");
    assert_eq!((client.line.waiting(), client.line.is_empty()), (0, true));
}

#[test]
fn what_a_server_says_behind_an_answer_is_heard_behind_it_whoever_is_to_answer_before() {
    let mut client = LineClient::new(20);
    let (a, b, c) = (client.line.open(), client.line.open(), client.line.open());
    let split = client.line.open_parts(2, joined());
    client.fill(b, "b", true);
    client.aside_behind(Some(b), "!").unwrap();
    client.fill(part(split, 1), "2", true);
    client.aside_behind(Some(part(split, 1)), "?").unwrap();
    client.has("");
    client.fill(a, "a", false);
    client.aside_behind(Some(b), "!").unwrap();
    client.fill(a, "a", true);
    client.has("aab!!");
    client.aside_behind(Some(b), ".").unwrap();
    client.has(".");
    client.fill(c, "c", true);
    client.fill(part(split, 0), "1", true);
    client.has("c[1+2]?");
    assert_eq!(client.line.waiting(), 0);
    let (d, e) = (client.line.open(), client.line.open());
    client.fill(e, "e", true);
    client.aside_behind(Some(e), "!").unwrap();
    client.give_up(d, "-").unwrap();
    client.has("-e!");
    client.line.open();
    let last = client.line.open();
    assert_eq!(client.aside_behind(Some(last), &"!".repeat(21)), Err(Over));
}

#[test]
fn what_may_have_run_holds_back_what_is_behind_it() {
    let line = || {
        let mut line = Line::new(100);
        let places: Vec<AnswerPlace> = (0..4).map(|_| line.open()).collect();
        (line, places)
    };
    let (mut sure, at) = line();
    assert_eq!(sure.orphaned(at[0], Fate::Sent, true), Verdict::Again, "a read");
    assert_eq!(sure.orphaned(at[1], Fate::Unsent, false), Verdict::Again);
    let (mut unsure, at) = line();
    assert_eq!(unsure.orphaned(at[1], Fate::Sent, false), Verdict::MayHaveRun);
    assert_eq!(unsure.orphaned(at[0], Fate::Unsent, false), Verdict::Again, "it is before it");
    assert_eq!(unsure.orphaned(at[2], Fate::Unsent, false), Verdict::NotSent);
    assert_eq!(unsure.orphaned(at[3], Fate::Sent, true), Verdict::Again);
    let later = unsure.open();
    assert_eq!(unsure.orphaned(later, Fate::Unsent, false), Verdict::Again, "it came after that");

    let (mut late, at) = line();
    late.give_up(at[0], b"late", |_| ()).unwrap();
    assert_eq!(late.orphaned(at[0], Fate::Sent, false), Verdict::Late);
    assert_eq!(late.orphaned(at[1], Fate::Unsent, true), Verdict::NotSent);

    let (mut told, at) = line();
    told.fill(at[0], b"a", false, |_| ());
    told.fill(at[1], b"b", false, |_| ());
    assert_eq!(told.orphaned(at[1], Fate::Answered, true), Verdict::Again, "nobody heard of it");
    assert_eq!(told.orphaned(at[0], Fate::Answered, true), Verdict::Close);
    assert_eq!(told.waiting(), 0);
}

#[test]
fn an_idle_client_holds_no_memory_of_a_burst() {
    let mut client = LineClient::new(1 << 20);
    let places: Vec<AnswerPlace> = (0..1000).map(|_| client.line.open()).collect();
    for place in places.into_iter().rev() {
        client.fill(place, "x", true);
    }
    assert_eq!(client.heard.len(), 1000);
    assert_eq!(client.line.memory(), 0);
}
