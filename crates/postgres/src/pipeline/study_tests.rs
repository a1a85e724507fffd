//! Which messages wait for a study, and what a study proves once the catalogue has changed.

use wire::postgres::frame;
use wire::postgres::frontend::{put_bind, put_parse, put_query};
use wire::sql::Strings;

use super::super::names::Limits;
use super::*;
use crate::plan::{Kind, Pin};

const BACKSLASH: Scope = Scope { strings: Strings::Backslash, unsure_encoding: false };

fn facts() -> Arc<Facts> {
    Arc::new(Facts::load([[&b"end"[..], b"", b""]]).unwrap())
}

fn query(sql: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_query(&mut out, sql.as_bytes());
    out
}

fn parse(sql: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_parse(&mut out, b"name", sql.as_bytes(), &[23]);
    out
}

fn bind(value: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_bind(&mut out, b"", b"", &[Some(value.as_bytes())]);
    out
}

fn frame_of(message: &[u8]) -> Frame<'_> {
    frame::next(message, usize::MAX).unwrap().unwrap()
}

/// What the worker keeps of a message that was looked into.
fn studied(message: &[u8]) -> LongText {
    let statements = Statements::new(Limits { count: 10, bytes: 1 << 20 });
    let text = look(message, Scope::default(), &facts()).unwrap();
    text.keep(1, Scope::default(), &statements)
}

#[test]
fn a_long_text_waits_for_its_study_and_nothing_else_does() {
    let long = "x".repeat(HELD_MAX);
    for message in [query(&long), parse(&long)] {
        let mut study = Study::default();
        for _ in 0..2 {
            assert!(study.of(frame_of(&message)).is_err());
            assert!(matches!(study, Study::Wanted(len) if len == message.len()));
        }
        study = Study::Done(Rc::new(studied(&query("SELECT 1"))));
        assert!(study.of(frame_of(&message)).unwrap().is_some());
        study = Study::Unreadable;
        assert!(study.of(frame_of(&message)).unwrap().is_none(), "the server says why");
    }
    let longest = query(&long[..HELD_MAX - query("").len()]);
    for message in [longest, parse("SELECT 1"), bind(&long)] {
        let mut study = Study::default();
        assert!(study.of(frame_of(&message)).unwrap().is_none());
        assert!(matches!(study, Study::Nothing), "it is not wanted");
    }
}

#[test]
fn the_text_of_a_query_and_of_a_parse_is_looked_into() {
    for message in [query("SELECT 1"), parse("SELECT 1")] {
        let text = studied(&message);
        assert_eq!(text.plan(1, Scope::default(), facts).kind, Kind::Read);
    }
    let changes = studied(&parse("DELETE FROM a"));
    assert_eq!(changes.plan(1, Scope::default(), facts).kind, Kind::Write);
    assert!(look(b"P\0\0\0\x05x", Scope::default(), &facts()).is_none(), "it has no such fields");
    assert!(look(b"Q\0", Scope::default(), &facts()).is_none());
}

#[test]
fn an_outdated_study_proves_nothing() {
    let text = studied(&query("SELECT 1"));
    let kind = |generation, scope| text.plan(generation, scope, facts).kind.clone();
    assert_eq!(kind(1, Scope::default()), Kind::Read);
    assert_eq!(kind(2, Scope::default()), Kind::Other, "the catalogue has changed");
    for generation in [1, 2] {
        let kind = kind(generation, BACKSLASH);
        assert_eq!(kind, Kind::Pins(Pin::Setting), "its strings may end elsewhere");
    }
}
