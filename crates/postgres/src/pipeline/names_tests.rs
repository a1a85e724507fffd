use super::super::statements::Statements;
use super::*;

const LIMITS: Limits = Limits { count: 10, bytes: 10_000 };

struct Client(Names, Statements);

impl Client {
    fn new() -> Self {
        Self(Names::new(LIMITS), Statements::new(LIMITS))
    }

    fn named(&self, sql: &str) -> Option<NamedStatement> {
        let named = NamedStatement {
            statement: self.1.known(sql.as_bytes(), b""),
            since: 0,
            shape: Shape::default(),
        };
        (!sql.is_empty()).then_some(named)
    }

    fn changes(&mut self, name: &str, sql: &str) {
        let named = self.named(sql);
        self.0.change(name.as_bytes(), named);
    }

    fn hears(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            self.0.heard(*outcome);
            self.0.settle();
        }
    }

    fn says(&self, name: &str) -> String {
        let text =
            |named: &NamedStatement| String::from_utf8_lossy(&named.statement.sql).into_owned();
        self.0.get(name.as_bytes()).map_or(String::new(), text)
    }

    /// What is counted is what is there.
    fn counts(&self) {
        assert!(self.0.is_settled());
        let there = self.0.named.iter().map(|(name, slot)| size(name, slot.named.as_ref()));
        assert_eq!(self.0.bytes, there.sum::<usize>());
        assert!(self.0.named.values().all(|slot| slot.named.is_some()));
    }
}

#[test]
fn what_was_left_out_is_undone_in_one_round_and_the_next() {
    use Outcome::{Done, Failed, LeftOut};
    let mut client = Client::new();
    client.changes("a", "1");
    client.hears(&[Done]);
    client.0.next_round();
    // One round closes it and prepares two others; another one overwrites the unnamed one.
    client.changes("", "2");
    client.changes("a", "");
    client.changes("b", "3");
    client.changes("b", "");
    client.0.next_round();
    client.changes("", "4");
    assert!(client.0.is_unsure(b"a") && client.0.is_unsure(b"b") && !client.0.is_unsure(b""));
    client.hears(&[Done, Failed, LeftOut, LeftOut]);
    assert_eq!([client.says("a"), client.says("b"), client.says("")], ["1", "", "4"]);
    assert!(!client.0.is_unsure(b"a"));
    client.hears(&[LeftOut]);
    assert_eq!(client.says(""), "2");
    client.counts();
}

#[test]
fn a_parse_of_the_unnamed_statement_that_fails_leaves_none() {
    let mut client = Client::new();
    client.changes("", "1");
    client.changes("", "2");
    client.hears(&[Outcome::Done, Outcome::Failed]);
    assert_eq!(client.says(""), "");
    client.counts();
}

#[test]
fn what_is_asked_again_was_never_done() {
    let mut client = Client::new();
    client.changes("a", "1");
    client.hears(&[Outcome::Done]);
    client.changes("a", "");
    client.changes("a", "2");
    client.changes("b", "3");
    client.0.heard(Outcome::Done);
    client.0.heard(Outcome::Failed);
    client.0.undo_all();
    assert_eq!([client.says("a"), client.says("b")], ["1", ""]);
    client.counts();
    let mark = client.0.mark();
    client.changes("b", "4");
    client.0.undo_since(mark);
    assert_eq!(client.says("b"), "");
    client.counts();
}

#[test]
fn a_round_that_is_asked_again_does_not_wait_for_itself() {
    let mut client = Client::new();
    client.changes("a", "");
    client.changes("a", "1");
    client.0.next_round();
    assert!(client.0.is_unsure(b"a"), "the round before was not answered");
    client.0.undo_all();
    client.changes("a", "");
    client.changes("a", "1");
    assert!(!client.0.is_unsure(b"a"));
    client.0.next_round();
    assert!(client.0.is_unsure(b"a"));
}

#[test]
fn what_is_set_at_once_stays_whatever_was_under_way() {
    let mut client = Client::new();
    client.changes("", "1");
    client.changes("", "2");
    client.0.query();
    assert_eq!(client.says(""), "");
    client.changes("", "3");
    client.hears(&[Outcome::Failed, Outcome::LeftOut]);
    assert_eq!(client.says(""), "3");
    client.hears(&[Outcome::Done]);
    client.changes("a", "1");
    client.0.clear();
    assert_eq!([client.says("a"), client.says("")], ["", "3"]);
    client.hears(&[Outcome::LeftOut]);
    client.counts();
}

#[test]
fn a_statement_takes_its_text_and_name_and_no_more_than_there_is_room_for() {
    let mut client = Client::new();
    let room = |client: &Client| LIMITS.bytes - client.0.bytes - NAME_BYTES;
    assert!(client.0.refuses(b"a", LIMITS.bytes - NAME_BYTES).is_none());
    assert!(matches!(client.0.refuses(b"a", LIMITS.bytes - NAME_BYTES + 1), Some(Why::TooLarge)));
    assert!(client.0.refuses(b"", LIMITS.bytes).is_none(), "the unnamed one always has room");
    client.changes("ab", "SELECT 1");
    client.hears(&[Outcome::Done]);
    assert_eq!(client.0.bytes, NAME_BYTES + 2 + 8);
    assert!(client.0.refuses(b"a", room(&client)).is_none());
    assert!(matches!(client.0.refuses(b"a", room(&client) + 1), Some(Why::TooLarge)));
    assert!(matches!(client.0.refuses(b"ab", 1), Some(Why::Taken)));
    for n in 1..LIMITS.count {
        assert!(client.0.refuses(b"a", 1).is_none());
        client.changes(&n.to_string(), "1");
        client.hears(&[Outcome::Done]);
    }
    assert!(matches!(client.0.refuses(b"a", 1), Some(Why::TooMany)));
    assert_eq!(client.0.count(), LIMITS.count);
    client.changes("", "1");
    assert_eq!(client.0.count(), LIMITS.count + 1);
    client.hears(&[Outcome::Done]);
    client.counts();
}

#[test]
fn an_unnamed_statement_comes_back_where_there_was_room_for_it() {
    let size = NAME_BYTES + 8;
    for (bytes, back) in [(size, "SELECT 1"), (size - 1, "")] {
        let mut client = Client::new();
        client.0 = Names::new(Limits { count: 10, bytes });
        client.changes("", "SELECT 1");
        client.hears(&[Outcome::Done]);
        client.changes("", "SELECT 2");
        client.hears(&[Outcome::LeftOut]);
        assert_eq!(client.says(""), back, "{bytes}");
        client.counts();
    }
}

#[test]
fn all_names_are_since_the_oldest_of_them() {
    let mut client = Client::new();
    assert!(client.0.are_since(u64::MAX), "there is none");
    for (name, since) in [("a", 3), ("", 5)] {
        let named = client.named("1").map(|named| NamedStatement { since, ..named });
        client.0.set(name.as_bytes(), named);
    }
    assert!(client.0.are_since(3));
    // Asking again gives the same answer.
    assert!(!client.0.are_since(4) && !client.0.are_since(4));
    client.0.holds(b"a", 4);
    assert!(client.0.are_since(4) && !client.0.are_since(5));
    client.0.holds(b"a", 9);
    assert!(client.0.are_since(5) && !client.0.are_since(6), "the unnamed one is older");
    client.0.query();
    assert!(client.0.are_since(9) && !client.0.are_since(10));
    client.0.clear();
    assert!(client.0.are_since(11), "there is none any more");
}

#[test]
fn a_name_is_sure_once_its_answer_was_heard_though_it_may_be_undone() {
    let mut client = Client::new();
    client.changes("a", "1");
    client.changes("b", "2");
    client.0.next_round();
    assert!(client.0.is_unsure(b"a") && client.0.is_unsure(b"b"));
    assert_eq!(client.0.next_name(), b"a");
    client.0.heard(Outcome::Done);
    assert!(!client.0.is_unsure(b"a") && client.0.is_unsure(b"b"));
    assert_eq!(client.0.next_name(), b"b");
    client.0.heard(Outcome::Done);
    assert!(!client.0.is_unsure(b"b") && !client.0.is_settled());
    assert!(client.0.next_name().is_empty());
    client.0.undo_all();
    assert_eq!([client.says("a"), client.says("b")], ["", ""]);
    client.counts();
}

#[test]
fn a_query_closes_an_unnamed_statement_that_is_there_or_may_come_back() {
    let mut client = Client::new();
    assert!(!client.0.has_unnamed());
    client.changes("", "1");
    client.hears(&[Outcome::Done]);
    assert!(client.0.has_unnamed());
    client.changes("", "");
    assert!(client.0.has_unnamed(), "closing it may be left out");
    client.0.query();
    client.hears(&[Outcome::LeftOut]);
    assert!(!client.0.has_unnamed());
    assert_eq!(client.says(""), "");
    client.counts();
}

#[test]
fn the_version_moves_on_with_whatever_a_name_may_stand_for() {
    let mut client = Client::new();
    let mut last = client.0.version();
    let mut moves = |client: &Client| std::mem::replace(&mut last, client.0.version()) < last;
    client.changes("a", "1");
    assert!(moves(&client));
    client.hears(&[Outcome::Done]);
    assert!(!moves(&client), "that was what it stood for");
    client.changes("a", "");
    assert!(moves(&client));
    client.hears(&[Outcome::LeftOut]);
    assert!(moves(&client));
    client.0.query();
    assert!(!moves(&client), "there was no unnamed one");
    client.0.clear();
    assert!(moves(&client));
}
