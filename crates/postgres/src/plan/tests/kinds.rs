//! What a statement is that is not a query.

use super::*;

fn kind(sql: &str) -> Kind {
    plan(sql).kind.clone()
}

#[test]
fn what_stays_on_the_session_pins() {
    let pinned = [
        ("create temp table x (id int)", Pin::Temporary),
        ("create local temporary view x as select 1", Pin::Temporary),
        ("create or replace temp sequence x", Pin::Temporary),
        ("create table pg_temp.x (id int)", Pin::Temporary),
        ("insert into pg_temp_12.x values (1)", Pin::Temporary),
        ("select 1 as a into temp x", Pin::Temporary),
        ("select 1 as a into local temporary table x", Pin::Temporary),
        ("insert into t select pg_advisory_lock(1)", Pin::AdvisoryLock),
        ("select PG_TRY_ADVISORY_LOCK /* */ (1)", Pin::AdvisoryLock),
        ("select pg_catalog.\"pg_advisory_lock_shared\"(1)", Pin::AdvisoryLock),
        ("select set_config('a', 'b', false)", Pin::Setting),
        ("select set_config('a', 'b', 'true')", Pin::Setting),
        ("select set_config('a', 'b', $1)", Pin::Setting),
        ("select set_config('a', 'b', true and false)", Pin::Setting),
        ("select set_config('a', f(1, true), false)", Pin::Setting),
        ("select U&\"set\\005fconfig\"('a', 'b', false)", Pin::Setting),
        ("declare c cursor with hold for select 1", Pin::HeldCursor),
        ("declare c no scroll cursor with hold for select 1", Pin::HeldCursor),
        ("prepare p as select 1", Pin::Prepared),
        ("execute p(1)", Pin::Prepared),
        ("load 'x'", Pin::Library),
        ("select dblink_connect('x', 'y')", Pin::Dblink),
        ("listen U&\"d\\0061ta\"", Pin::Listen),
        ("select setseed(0)", Pin::Seed),
        ("set seed to 0.5", Pin::Seed),
    ];
    for (sql, pin) in pinned {
        assert_eq!(kind(sql), Kind::Pins(pin), "{sql}");
    }
}

#[test]
fn what_ends_with_the_transaction_does_not_pin() {
    for sql in [
        "select set_config('a', 'b', true)",
        "select set_config('request.jwt', $1, TRUE), set_config('role', $2, true)",
        "select pg_advisory_xact_lock(1)",
        "declare c cursor for select 1 -- with hold",
        "select pg_temperature from t, not_known",
        "do $$begin perform pg_advisory_xact_lock(1); end$$",
        "call p()",
        "fetch 1 from c",
        "lock table t",
        "vacuum t",
        "nonsense",
        "commit prepared 'x'",
    ] {
        assert_eq!(kind(sql), Kind::Other, "{sql}");
    }
}

#[test]
fn a_block_pins_by_what_its_code_says() {
    for code in [
        "BEGIN SET work_mem = '9MB'; END",
        "begin if true then reset all; end if; end",
        "BEGIN PERFORM set_config('a.b', 'c', false); END",
        "BEGIN PERFORM pg_advisory_lock(1); END",
        "BEGIN CREATE TEMP TABLE t (); END",
        "BEGIN EXECUTE 'SET a.b = 1'; END",
        "BEGIN LISTEN news; END",
    ] {
        for sql in [format!("DO $$ {code} $$"), format!("DO $x${code}$x$ LANGUAGE plpgsql")] {
            assert!(matches!(kind(&sql), Kind::Pins(_)), "{sql}");
        }
    }
    for other in [
        "DO LANGUAGE plperl $$ 1 $$",
        r"DO E'BEGIN \x53ET a = 1; END'",
        "do 'begin set a.b = 1; end'",
    ] {
        assert!(matches!(kind(other), Kind::Pins(_)), "{other}");
    }
    for code in [
        "BEGIN UPDATE t SET a = 1; END",
        "BEGIN SET LOCAL work_mem = '9MB'; END",
        "BEGIN SET CONSTRAINTS ALL DEFERRED; INSERT INTO t VALUES ('set') \
         ON CONFLICT (a) DO UPDATE SET a = 1; END",
    ] {
        let sql = format!("DO $$ {code} $$");
        assert_eq!(kind(&sql), Kind::Other, "{sql}");
    }
}

#[test]
fn changes_of_the_catalogue_say_what_they_make_of_the_facts() {
    let changes = [
        ("create table x (id int)", Unsettles::Adds),
        ("create unlogged table x as select 1", Unsettles::Adds),
        ("select 1 as a into x", Unsettles::Adds),
        ("create table x () inherits (t)", Unsettles::Changes),
        ("create table x partition of t for values in (1)", Unsettles::Changes),
        ("create foreign table x (id int) inherits (t) server s", Unsettles::Changes),
        ("create or replace view x as select 1", Unsettles::Changes),
        ("create function f() returns int as 'x; y' language sql", Unsettles::Code),
        ("create extension x", Unsettles::Code),
        ("create or replace trusted language x", Unsettles::Code),
        ("alter extension x update", Unsettles::Code),
        ("create type x as (a int)", Unsettles::Changes),
        ("alter table t enable row level security", Unsettles::Changes),
        ("alter function f() volatile", Unsettles::Code),
        ("drop view x", Unsettles::Changes),
        ("create policy p on t using (f())", Unsettles::Changes),
        ("create index concurrently on t (a)", Unsettles::Nothing),
        ("create unique index on t (a)", Unsettles::Nothing),
        ("create sequence x", Unsettles::Adds),
        ("grant select on t to x", Unsettles::Nothing),
        ("alter role x set work_mem = 1", Unsettles::Nothing),
        ("alter role x set default_transaction_isolation = 'serializable'", Unsettles::Changes),
        ("alter database x reset \"Default_Transaction_Deferrable\"", Unsettles::Changes),
        ("comment on table t is 'x'", Unsettles::Nothing),
    ];
    for (sql, unsettles) in changes {
        assert_eq!(kind(sql), Kind::Ddl(unsettles), "{sql}");
    }
}

#[test]
fn sessions_and_copies() {
    assert_eq!(kind("discard all"), Kind::Discard(Discard::All));
    assert_eq!(kind("DISCARD TEMP"), Kind::Discard(Discard::Temporary));
    assert_eq!(kind("deallocate prepare all"), Kind::Deallocate(Deallocate::All));
    assert_eq!(kind("deallocate \"All\""), Kind::Deallocate(Deallocate::Name("All".into())));
    assert_eq!(kind("deallocate prepare"), Kind::Deallocate(Deallocate::Name("prepare".into())));
    assert_eq!(kind("listen Jobs"), Kind::Listen("jobs".into()));
    assert_eq!(kind("unlisten *"), Kind::Unlisten(None));
    assert_eq!(kind("unlisten \"Jobs\""), Kind::Unlisten(Some("Jobs".into())));
    assert_eq!(kind("notify jobs, 'x'"), Kind::Notify);
    assert_eq!(kind("copy t (a, b) from stdin with (format csv)"), Kind::CopyIn);
    let copies_out = |may_write| Kind::CopyOut { may_write };
    assert_eq!(kind("copy (select a from stdin) to stdout"), copies_out(true));
    assert_eq!(kind("copy (select 1) to stdout"), copies_out(false));
    assert_eq!(kind("copy (values ((1)), (2)) to stdout (format csv)"), copies_out(false));
    assert_eq!(kind("copy (insert into t values (1) returning a) to stdout"), copies_out(true));
    assert_eq!(kind("copy (delete from t returning a) to stdout"), copies_out(true));
    assert_eq!(kind("copy t (a) to stdout"), copies_out(false));
    assert_eq!(kind("copy t to '/tmp/x'"), Kind::Other);
    assert_eq!(kind("copy t from program 'x'"), Kind::Other);
    assert_eq!(kind("insert into t values (1)"), Kind::Write);
    assert_eq!(kind("with x as (delete from t returning 1) select * from x"), Kind::Write);
    assert_eq!(kind(" ; -- nothing\n"), Kind::Empty);
}

#[test]
fn several_statements_say_what_is_among_them() {
    let contains = |sql: &str| match kind(sql) {
        Kind::Several(contains) => contains,
        kind => panic!("{sql}: {kind:?}"),
    };
    assert_eq!(contains("select 1; select 2"), Contains::default());
    assert_eq!(contains("set a = 1; select 1"), Contains::SET);
    assert_eq!(
        contains("begin; set local a = 1; commit"),
        Contains::TRANSACTION.with(Contains::LOCAL)
    );
    assert!(contains("select 1; create temp table x ()").has(Contains::PINS));
    assert!(contains("insert into t values (';'); set search_path = pg_temp").has(Contains::PINS));
    assert!(contains("create table x (); drop view y").has(Contains::CHANGES));
    assert!(!contains("select 1; select 2").has(Contains::WRITES));
}

#[test]
fn text_that_is_read_in_two_ways_is_no_read() {
    let mut planner = Planner::new(facts(), 100);
    let mut plan = |sql: &[u8], scope| planner.plan(sql, scope).kind.clone();
    let backslash = Scope { strings: wire::sql::Strings::Backslash, unsure_encoding: false };
    assert_eq!(plan(b"select 'a'", backslash), Kind::Other);
    assert_eq!(plan(b"begin", backslash), Kind::Begin(BeginForm::default()));
    assert!(matches!(plan(b"select 'a\\'; begin; --'", backslash), Kind::Other));
    assert!(matches!(plan(b"select 'a\\'; begin; --'", Scope::default()), Kind::Several(_)));
    let unsure = Scope { strings: wire::sql::Strings::Standard, unsure_encoding: true };
    assert_eq!(plan(b"select 'a'", unsure), Kind::Read);
    assert_eq!(plan(b"select '\x83\x5c'", unsure), Kind::Other);
    assert_eq!(plan(b"select E'\x83\x5c'", unsure), Kind::Pins(Pin::Setting));
}

#[test]
fn a_plan_is_kept_within_its_limit_and_found_again() {
    let mut planner = Planner::new(facts(), 8);
    let first = planner.plan(b"select 1", Scope::default());
    first.note(std::time::Duration::from_micros(80));
    for at in 0..100 {
        planner.plan(format!("select a{at} from t").as_bytes(), Scope::default());
        let again = planner.plan(b"SELECT /* x */ 'y'", Scope::default());
        assert!(std::rc::Rc::ptr_eq(&first, &again), "what is asked for stays");
        assert!(planner.len() <= 8 + 1);
    }
    assert_eq!(first.run_time(), Some(std::time::Duration::from_micros(80)));
    planner.set_facts(Arc::new(Facts::none()));
    assert!(planner.is_empty());
    assert_eq!(planner.plan(b"select * from t", Scope::default()).reason, Reason::NoFacts);
    assert_eq!(planner.plan(b"select 1", Scope::default()).kind, Kind::Read);
}

#[test]
fn a_long_statement_is_no_read_and_pins_by_its_end_too() {
    let long = |end: &str| format!("insert into t values {} (1, {end})", "(1, 'x'), ".repeat(4000));
    assert_eq!(kind(&long("2")), Kind::Write);
    assert_eq!(kind(&long("pg_advisory_lock(1)")), Kind::Pins(Pin::AdvisoryLock));
    assert!(matches!(kind(&format!("{}; begin", long("2"))), Kind::Several(_)));
    let query = format!("select 1{}", ", 1".repeat(5000));
    assert_eq!((kind(&query), plan(&query).reason), (Kind::Other, Reason::TooLong));
    assert_eq!(kind(&format!("{query} into temp x")), Kind::Pins(Pin::Temporary));
}

#[test]
fn settings_are_not_kept_for_another_value() {
    let mut planner = Planner::new(facts(), 8);
    let mut kind = |sql: &str| planner.plan(sql.as_bytes(), Scope::default()).kind.clone();
    assert_eq!(kind("set search_path = 'pg_temp'"), Kind::Pins(Pin::Temporary));
    assert!(matches!(kind("set search_path = 'public'"), Kind::Set(_)));
    assert_eq!(kind("set search_path = 'pg_temp'"), Kind::Pins(Pin::Temporary));
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in proptest::prelude::any::<Vec<u8>>()) {
        plan(&String::from_utf8_lossy(&text));
        Planner::new(facts(), 8).plan(&text, Scope::default());
    }

    #[test]
    fn no_words_panic(
        words in proptest::collection::vec(proptest::sample::select(WORDS.to_vec()), 0..30)
    ) {
        plan(&words.join(" "));
    }
}

const WORDS: [&str; 40] = [
    "select",
    "from",
    "(",
    ")",
    ",",
    ".",
    "::",
    "t",
    "\"x\"",
    "as",
    "with",
    "recursive",
    "values",
    "table",
    "union",
    "join",
    "on",
    "cast",
    "set",
    "reset",
    "=",
    "to",
    "local",
    "1",
    "'a'",
    "$1",
    ";",
    "begin",
    "atomic",
    "end",
    "create",
    "function",
    "explain",
    "analyze",
    "rows",
    "is",
    "not",
    "distinct",
    "discard",
    "into",
];
