//! What the messages of a round come to, and which names a round waits for.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use wire::postgres::frontend::{
    put_bind, put_close, put_describe, put_execute, put_flush, put_parse, put_sync,
};

use super::super::names::{Limits, NamedStatement};
use super::super::statements::Statements;
use super::*;
use crate::plan::{Facts, Planner};

const LIMITS: Limits = Limits { count: 10, bytes: 10_000 };
const STATEMENT: Target<'_> = Target::Statement(b"");
const PORTAL: Target<'_> = Target::Portal(b"");

/// A message of a client; a name that it does not give is empty.
#[derive(Clone, Copy)]
enum Message<'a> {
    Parse(&'a str, &'a str),
    Bind(&'a str),
    BindTo(&'a str),
    Describe(Target<'a>),
    Execute,
    ExecuteOneRow,
    ExecuteOf(&'a str),
    Close(Target<'a>),
    Flush,
}
use Message::{Bind, BindTo, Close, Describe, Execute, ExecuteOf, ExecuteOneRow, Flush, Parse};

fn round(messages: &[Message<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for message in messages {
        match *message {
            Parse(name, sql) => put_parse(&mut out, name.as_bytes(), sql.as_bytes(), &[]),
            Bind(statement) => put_bind(&mut out, b"", statement.as_bytes(), &[]),
            BindTo(portal) => put_bind(&mut out, portal.as_bytes(), b"", &[]),
            Describe(target) => put_describe(&mut out, target),
            Execute => put_execute(&mut out, b"", 0),
            ExecuteOneRow => put_execute(&mut out, b"", 1),
            ExecuteOf(portal) => put_execute(&mut out, portal.as_bytes(), 0),
            Close(target) => put_close(&mut out, target),
            Flush => put_flush(&mut out),
        }
    }
    put_sync(&mut out);
    out
}

/// A client that has prepared `read` and `change`, with the planner of its statements.
struct Client {
    names: Names,
    statements: Statements,
    planner: RefCell<Planner>,
    are_harmless: Cell<bool>,
}

impl Plans for Client {
    fn plan(&self, sql: &[u8], scope: Scope) -> Rc<Plan> {
        self.planner.borrow_mut().plan(sql, scope)
    }

    fn plan_of(&self, statement: &Statement, scope: Scope) -> Rc<Plan> {
        self.plan(&statement.sql, scope)
    }

    fn are_harmless(&self, _: &[u8]) -> bool {
        self.are_harmless.get()
    }

    fn generation(&self) -> u64 {
        1
    }
}

impl Client {
    fn new() -> Self {
        let rows = [[&b"isolation"[..], b"default", b"steady"], [b"end", b"", b""]];
        let facts = Arc::new(Facts::load(rows).unwrap());
        let planner = RefCell::new(Planner::new(facts, 100));
        let (names, statements) = (Names::new(LIMITS), Statements::new(LIMITS));
        let mut client = Self { names, statements, planner, are_harmless: Cell::new(true) };
        client.prepares("read", "SELECT 1");
        client.prepares("change", "DELETE FROM a");
        client
    }

    fn named(&self, sql: &str) -> Option<NamedStatement> {
        let statement = self.statements.known(sql.as_bytes(), b"");
        Some(NamedStatement { statement, since: 0, shape: Default::default() })
    }

    fn prepares(&mut self, name: &str, sql: &str) {
        let named = self.named(sql);
        self.names.set(name.as_bytes(), named);
    }

    fn says(&self, messages: &[Message<'_>]) -> Summarised {
        summarise(&round(messages), &self.names, self, Scope::default())
    }

    /// What a round comes to, in a word or two.
    fn comes_to(&self, messages: &[Message<'_>]) -> &'static str {
        match self.says(messages).summary {
            Summary::Query(_) => "a query",
            Summary::Reads(_, true) => "steady reads",
            Summary::Reads(_, false) => "reads",
            Summary::Prepares(_) => "a read prepared",
            Summary::One(_, None) => "one statement",
            Summary::One(_, Some(_)) => "one prepared before",
            Summary::Other => "other",
        }
    }
}

#[test]
fn a_round_is_what_it_runs() {
    let client = Client::new();
    let (read, other_read) = (Parse("", "SELECT 1"), Parse("", "SELECT 2 LIMIT 3"));
    let (change, other_change) = (Parse("", "DELETE FROM a"), Parse("", "DELETE FROM b"));
    let bind = Bind("");
    for (messages, what) in [
        (&[read, bind, Execute][..], "steady reads"),
        (&[read, Describe(STATEMENT), bind, Describe(PORTAL), Execute], "steady reads"),
        (&[read, bind, Execute, other_read, bind, Execute], "steady reads"),
        (&[read, bind, Execute, Parse("", "SELECT current_date"), bind, Execute], "reads"),
        (&[Parse("", "SELECT current_date"), bind, Execute, read, bind, Execute], "reads"),
        (&[Bind("read"), Execute], "steady reads"),
        (&[read], "a read prepared"),
        (&[read, Describe(STATEMENT)], "a read prepared"),
        (&[Describe(Target::Statement(b"read"))], "a read prepared"),
        (&[change, bind, Execute], "one statement"),
        (&[change, Describe(STATEMENT), bind, Describe(PORTAL), Execute], "one statement"),
        (&[Bind("change"), Execute], "one prepared before"),
        // A change that is run twice, beside another statement, or not at all.
        (&[change, bind, Execute, bind, Execute], "other"),
        (&[change, bind, Execute, other_change, bind, Execute], "other"),
        (&[change, bind, Execute, read, bind, Execute], "other"),
        (&[change], "other"),
        (&[read, bind], "other"),
        (&[read, bind, Execute, bind], "other"),
        (&[change, bind], "other"),
        (&[], "other"),
    ] {
        assert_eq!(client.comes_to(messages), what);
    }
}

#[test]
fn what_is_not_to_be_understood_is_other() {
    let client = Client::new();
    let (read, bind) = (Parse("", "SELECT 1"), Bind(""));
    for messages in [
        &[read, bind, ExecuteOneRow][..],
        &[read, BindTo("p"), Execute],
        &[read, bind, ExecuteOf("p")],
        &[read, bind, Describe(Target::Portal(b"p")), Execute],
        &[read, Execute],
        &[Execute],
        &[read, bind, Flush, Execute],
        &[Bind("nobody"), Execute],
        &[Describe(Target::Statement(b"nobody"))],
        // The server refuses a name that is taken.
        &[Parse("read", "SELECT 1"), Bind("read"), Execute],
    ] {
        assert_eq!(client.comes_to(messages), "other");
    }
    let malformed = [&b"B\0\0\0\x05x"[..], &round(&[read, bind, Execute])].concat();
    let summarised = summarise(&malformed, &client.names, &client, Scope::default());
    assert!(matches!(summarised.summary, Summary::Other));
    client.are_harmless.set(false);
    assert_eq!(client.comes_to(&[read, bind, Execute]), "other", "its values may write");
    assert_eq!(client.comes_to(&[Bind("read"), Execute]), "other");
}

#[test]
fn a_statement_that_a_round_closes_is_gone() {
    let client = Client::new();
    let close = |name| Close(Target::Statement(name));
    let (read, bind) = (Parse("", "SELECT 1"), Bind(""));
    for (messages, what) in [
        (&[Bind("read"), Execute, close(b"read")][..], "steady reads"),
        (&[close(b"read"), Bind("read"), Execute], "other"),
        (&[close(b"change"), Bind("read"), Execute], "steady reads"),
        (&[read, close(b""), bind, Execute], "other"),
        (&[read, close(b"read"), bind, Execute], "steady reads"),
        (&[close(b""), read, bind, Execute], "steady reads"),
        (&[read, bind, Execute, Close(PORTAL)], "steady reads"),
    ] {
        assert_eq!(client.comes_to(messages), what);
    }
    let closing = |count| [&vec![close(b"x"); count][..], &[read, bind, Execute]].concat();
    assert_eq!(client.comes_to(&closing(CLOSED_MAX)), "steady reads");
    assert_eq!(client.comes_to(&closing(CLOSED_MAX + 1)), "other", "too many to look through");
}

#[test]
fn a_round_rests_on_names_that_it_does_not_give_itself() {
    let client = Client::new();
    for (messages, rests) in [
        (&[Parse("", "SELECT 1"), Bind(""), Execute][..], false),
        (&[Bind("read"), Execute], true),
        // Whether the name is taken decides.
        (&[Parse("new", "SELECT 1"), Bind("new"), Execute], true),
        (&[Parse("new", "SELECT 1"), Parse("", "SELECT 1"), Bind(""), Execute], true),
    ] {
        assert_eq!(client.says(messages).rests_on_names, rests);
    }
}

#[test]
fn a_text_has_a_plan_of_its_own_where_it_is_the_only_one() {
    let client = Client::new();
    let (read, run) = (Parse("", "SELECT 1"), [Bind(""), Execute]);
    assert!(client.says(&[&[read][..], &run].concat()).text_plan.is_some());
    assert!(client.says(&[&[read][..], &run, &[read], &run].concat()).text_plan.is_none());
    assert!(client.says(&[Bind("read"), Execute]).text_plan.is_none());
}

#[test]
fn of_several_reads_the_slowest_counts_and_one_that_was_never_run_is_the_slowest() {
    let client = Client::new();
    let plan = |sql: &str| client.plan(sql.as_bytes(), Scope::default());
    let reads = ["SELECT 1", "SELECT 2 LIMIT 3", "SELECT 3 ORDER BY 1"];
    let slowest = |order: [usize; 3]| {
        let run = |at: usize| [Parse("", reads[at]), Bind(""), Execute];
        let said = client.says(&order.map(run).concat());
        let slowest = said.summary.plan().cloned().expect("it is of reads");
        reads.map(|sql| Rc::ptr_eq(&plan(sql), &slowest)).iter().position(|is| *is)
    };
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    plan(reads[0]).note(Duration::from_millis(1));
    plan(reads[2]).note(Duration::from_millis(3));
    orders.iter().for_each(|order| assert_eq!(slowest(*order), Some(1), "was never run"));
    plan(reads[1]).note(Duration::from_millis(2));
    orders.iter().for_each(|order| assert_eq!(slowest(*order), Some(2), "takes longest"));
}

#[test]
fn any_plan_of_a_round_may_be_refuted() {
    let client = Client::new();
    let run = |sql| [Parse("", sql), Bind(""), Execute];
    let twice = [run("SELECT 1"), run("SELECT 1")].concat();
    let (one, several) = (client.says(&twice), [run("SELECT 1"), run("SELECT 2 LIMIT 3")].concat());
    assert!(!one.is_refuted());
    assert!(client.says(&several).is_refuted(), "any of them, so it is looked up each time");
    one.summary.plan().expect("it is of reads").refute();
    assert!(one.is_refuted());
}

#[test]
fn a_value_or_a_text_may_stand_for_the_time() {
    let mut client = Client::new();
    client.prepares("time", "SELECT 'now'");
    let names = |messages: &[Message<'_>]| names_moment(&round(messages), &client.names);
    assert!(!names(&[Bind("read"), Execute]));
    assert!(names(&[Bind("time"), Execute]));
    assert!(names(&[Parse("", "SELECT 'today'"), Bind(""), Execute]));
}

#[test]
fn a_round_waits_for_names_that_an_earlier_one_has_changed() {
    let mut client = Client::new();
    let unsure =
        |client: &Client, messages: &[Message<'_>]| is_unsure(&round(messages), &client.names);
    let bind_all = [Bind("read"), Bind("change"), Bind("")];
    assert!(!unsure(&client, &bind_all));
    let named = client.named("SELECT 2");
    client.names.change(b"read", named.clone());
    client.names.change(b"", named);
    client.names.next_round();
    assert!(unsure(&client, &bind_all));
    assert!(unsure(&client, &[Bind("read")]) && unsure(&client, &[Bind("")]));
    assert!(!unsure(&client, &[Bind("change"), Execute]));
    assert!(unsure(&client, &[Parse("read", "SELECT 1")]));
    // A Parse overwrites the unnamed statement alone, for the messages behind it.
    let unnamed = Parse("", "SELECT 1");
    assert!(!unsure(&client, &[unnamed, Bind("")]));
    assert!(unsure(&client, &[Bind(""), unnamed]) && unsure(&client, &[unnamed, Bind("read")]));
    assert!(unsure(&client, &[Parse("new", "SELECT 1"), Bind("")]));
}
