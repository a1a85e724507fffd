use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use wire::postgres::frontend::{
    Target, put_bind, put_describe, put_execute, put_parse, put_query, put_sync,
};
use wire::sql::Strings;

use super::super::names::{Limits, NamedStatement, Names};
use super::super::round::Round;
use super::super::statements::Statements;
use super::*;
use crate::plan::{Facts, Kind, Planner};

/// What plans, and counts the texts that it is asked for.
struct CountingPlans {
    planner: RefCell<Planner>,
    generation: Cell<u64>,
    looked_up: Cell<u32>,
}

/// Facts of nothing, which are loaded.
fn facts() -> Arc<Facts> {
    Arc::new(Facts::load([[&b"end"[..], b"", b""]]).unwrap())
}

impl CountingPlans {
    fn new() -> Self {
        let planner = RefCell::new(Planner::new(facts(), 100));
        Self { planner, generation: Cell::new(1), looked_up: Cell::new(0) }
    }

    /// The facts are others.
    fn learn(&self) {
        self.planner.borrow_mut().set_facts(facts());
        self.generation.set(self.generation.get() + 1);
    }
}

impl Plans for CountingPlans {
    fn plan(&self, sql: &[u8], scope: Scope) -> Rc<Plan> {
        self.looked_up.set(self.looked_up.get() + 1);
        self.planner.borrow_mut().plan(sql, scope)
    }

    fn plan_of(&self, statement: &Statement, scope: Scope) -> Rc<Plan> {
        self.plan(&statement.sql, scope)
    }

    fn are_harmless(&self, _: &[u8]) -> bool {
        true
    }

    fn generation(&self) -> u64 {
        self.generation.get()
    }
}

const LIMITS: Limits = Limits { count: 10, bytes: 10_000 };
const BACKSLASH: Scope = Scope { strings: Strings::Backslash, unsure_encoding: false };

/// A client's names, and what looks up what it says.
struct Client {
    names: Names,
    statements: Statements,
    plans: CountingPlans,
    scope: Scope,
}

impl Client {
    fn new() -> Self {
        let (plans, scope) = (CountingPlans::new(), Scope::default());
        Self { names: Names::new(LIMITS), statements: Statements::new(LIMITS), plans, scope }
    }

    /// Gives a statement a name.
    fn names(&mut self, name: &str, sql: &str) {
        let statement = self.statements.known(sql.as_bytes(), b"");
        let named = NamedStatement { statement, since: 0, shape: Default::default() };
        self.names.set(name.as_bytes(), Some(named));
    }

    /// How many texts are looked up where the round is judged now.
    fn looks_up(&self, round: &mut Round) -> u32 {
        self.plans.looked_up.set(0);
        round.judge(&self.names, &self.plans, self.scope);
        self.plans.looked_up.get()
    }
}

fn query(sql: &str) -> Round {
    let mut out = Vec::new();
    put_query(&mut out, sql.as_bytes());
    Round::query(out.into(), Instant::now())
}

fn extended(write: impl FnOnce(&mut Vec<u8>)) -> Round {
    let mut out = Vec::new();
    write(&mut out);
    put_sync(&mut out);
    Round::extended(out.into(), Instant::now())
}

/// As drivers send a statement that they do not keep.
fn unnamed(sql: &str) -> Round {
    extended(|out| {
        put_parse(out, b"", sql.as_bytes(), &[]);
        put_describe(out, Target::Statement(b""));
        put_bind(out, b"", b"", &[]);
        put_execute(out, b"", 0);
    })
}

/// As drivers run a statement that they have prepared.
fn named(name: &str) -> Round {
    extended(|out| {
        put_bind(out, b"", name.as_bytes(), &[]);
        put_execute(out, b"", 0);
    })
}

fn plan_of(round: &Round) -> Rc<Plan> {
    round.summary().and_then(Summary::plan).cloned().expect("it has one")
}

#[test]
fn a_text_is_looked_up_once_however_often_its_round_is_asked() {
    for sql in ["SELECT 1", "BEGIN", "COMMIT", "CREATE TABLE a (b int)", "LISTEN c"] {
        for mut round in [query(sql), unnamed(sql)] {
            let client = Client::new();
            assert_eq!(client.looks_up(&mut round), 1, "{sql}");
            let mut repeated = round.clone();
            repeated.attempts += 1;
            assert_eq!((client.looks_up(&mut round), client.looks_up(&mut repeated)), (0, 0));
            let known = round.text_plan(&client.plans, client.scope).expect("it is known");
            assert!(Rc::ptr_eq(&known.plan, &plan_of(&round)), "{sql}");
        }
    }
}

#[test]
fn facts_a_scope_and_a_refutation_have_it_looked_up_once_more() {
    for mut round in [query("SELECT 1"), unnamed("SELECT 1")] {
        let mut client = Client::new();
        client.looks_up(&mut round);
        client.plans.learn();
        assert!(round.text_plan(&client.plans, client.scope).is_none());
        assert_eq!((client.looks_up(&mut round), client.looks_up(&mut round)), (1, 0), "facts");
        client.scope = BACKSLASH;
        assert!(round.text_plan(&client.plans, client.scope).is_none());
        assert_eq!((client.looks_up(&mut round), client.looks_up(&mut round)), (1, 0), "scope");
        assert!(!round.is_read(), "nothing is proven where a backslash may end a string");
        client.scope = Scope::default();
        assert_eq!((client.looks_up(&mut round), client.looks_up(&mut round)), (1, 0), "scope");
        assert!(round.is_read());
        plan_of(&round).refute();
        assert!(round.text_plan(&client.plans, client.scope).is_none());
        assert_eq!((client.looks_up(&mut round), client.looks_up(&mut round)), (1, 0), "refuted");
        assert!(!round.is_read(), "a read that turned out to write is none any more");
    }
}

#[test]
fn names_move_only_what_was_judged_by_them() {
    let mut client = Client::new();
    client.names("s", "SELECT 1");
    let (mut of_name, mut own) = (named("s"), unnamed("SELECT 1"));
    assert_eq!((client.looks_up(&mut of_name), client.looks_up(&mut own)), (1, 1));
    assert!(of_name.is_read());
    client.names("s", "BEGIN");
    assert_eq!((client.looks_up(&mut of_name), client.looks_up(&mut own)), (1, 0));
    assert_eq!(of_name.text(), Some(&b"BEGIN"[..]));
    assert!(!of_name.is_read());
    // Something was named that is undone, as it is when the server that had it is gone.
    let statement = client.statements.known(b"SELECT 2", b"");
    let other = NamedStatement { statement, since: 0, shape: Default::default() };
    client.names.change(b"s", Some(other));
    client.looks_up(&mut of_name);
    assert!(of_name.is_read());
    client.names.undo_all();
    assert_eq!((client.looks_up(&mut of_name), client.looks_up(&mut own)), (1, 0));
    assert!(!of_name.is_read());
    client.names.clear();
    client.looks_up(&mut of_name);
    assert!(matches!(of_name.summary(), Some(Summary::Other)), "there is no such statement");
}

#[test]
fn any_of_several_reads_may_have_been_refuted() {
    let client = Client::new();
    let mut round = extended(|out| {
        for sql in ["SELECT 1", "SELECT 2 LIMIT 3"] {
            put_parse(out, b"", sql.as_bytes(), &[]);
            put_bind(out, b"", b"", &[]);
            put_execute(out, b"", 0);
        }
    });
    assert_eq!((client.looks_up(&mut round), client.looks_up(&mut round)), (2, 2));
    assert!(round.is_read() && round.text_plan(&client.plans, client.scope).is_none());
}

#[test]
fn the_text_of_what_a_round_runs_is_found_wherever_it_is() {
    let mut client = Client::new();
    client.names("b", "BEGIN");
    let names_it = extended(|out| {
        put_parse(out, b"c", b"START TRANSACTION", &[]);
        put_bind(out, b"", b"c", &[]);
        put_execute(out, b"", 0);
    });
    let mut rounds = [query("BEGIN"), unnamed("BEGIN"), named("b"), names_it];
    let texts = rounds.each_mut().map(|round| {
        client.looks_up(round);
        assert!(matches!(plan_of(round).kind, Kind::Begin(_)));
        String::from_utf8(round.text().unwrap().to_vec()).unwrap()
    });
    assert_eq!(texts, ["BEGIN", "BEGIN", "BEGIN", "START TRANSACTION"]);
}

#[test]
fn what_goes_out_as_it_comes_is_not_judged() {
    let mut round = Round::streamed(Instant::now());
    assert_eq!(Client::new().looks_up(&mut round), 0);
    assert!(round.summary().is_none() && !round.is_read() && !round.takes_snapshot());
    assert!(round.bytes().is_empty() && round.messages().next().is_none());
}
