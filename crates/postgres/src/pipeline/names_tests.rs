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
