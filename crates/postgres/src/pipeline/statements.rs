//! Prepared statements, known by what they say.
//!
//! A client's statement, named or not, is known by its text and the types of its parameters; on
//! servers it has a name of Weir's. So a statement that a thousand clients prepare is prepared once
//! on each server connection, and a client finds its own wherever it is sent.

use std::cell::{Cell, RefCell};
use std::hash::BuildHasher;
use std::rc::{Rc, Weak};

use hashbrown::{DefaultHashBuilder, HashTable};
use wire::postgres::frontend::tag;
use wire::postgres::message;

use super::names::Limits;
use crate::plan::{Plan, Scope, names_moment, reads_moment};

/// The number of a statement that says nothing.
pub const THERE: u64 = 0;

/// A statement that clients have prepared on this worker.
#[derive(Debug)]
pub struct Statement {
    /// Its number on this worker, from 1.
    pub number: u64,
    /// Its name on servers.
    pub name: Name,
    /// The text of the statement.
    pub sql: Box<[u8]>,
    /// Number and types of its parameters, as Parse has them behind the text.
    pub types: Box<[u8]>,
    /// A literal in it may stand for a transaction's time.
    pub names_moment: bool,
    /// What the planner said of it, and when.
    plan: RefCell<Option<(u64, Scope, Rc<Plan>)>>,
    /// When it was last prepared, in the registry's time.
    used: Cell<u64>,
}

impl Statement {
    /// The plan that was made of it last, by facts of which generation and for text that is read in
    /// which scope.
    #[inline]
    pub fn planned(&self) -> Option<(u64, Scope, Rc<Plan>)> {
        self.plan.borrow().clone()
    }

    /// Takes note of a plan.
    pub fn learn(&self, generation: u64, scope: Scope, plan: Rc<Plan>) {
        *self.plan.borrow_mut() = Some((generation, scope, plan));
    }

    /// Bytes of what it says.
    pub fn bytes(&self) -> usize {
        self.sql.len() + self.types.len()
    }

    /// Appends the Parse message that prepares it.
    pub fn write_parse(&self, out: &mut Vec<u8>) {
        message(out, tag::PARSE, |out| {
            out.extend_from_slice(&self.name);
            out.push(0);
            out.extend_from_slice(&self.sql);
            out.push(0);
            out.extend_from_slice(&self.types);
        });
    }
}

/// What all names on servers begin with.
pub const PREFIX: &[u8] = b"weir_";

/// A statement's name on servers, which nobody can guess: whoever knew it could run the statement
/// by `EXECUTE`, or take it away, on a server connection that other clients use, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(Rc<[u8]>);

impl Name {
    /// Another one for the statement with this number, by which it differs from all others of its
    /// worker whatever chance says.
    pub fn new(number: u64) -> Self {
        let secret: u64 = rand::random();
        let mut name = PREFIX.to_vec();
        name.extend_from_slice(format!("{number}_{secret:016x}").as_bytes());
        Self(name.into())
    }
}

impl std::ops::Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// What a statement says, as another thread has read it.
pub(crate) struct Text {
    sql: Box<[u8]>,
    types: Box<[u8]>,
    names_moment: bool,
    reads_moment: bool,
}

impl Text {
    /// Reads all of it.
    pub fn new(sql: &[u8], types: &[u8]) -> Self {
        let (names_moment, reads_moment) = (names_moment(sql), reads_moment(sql));
        Self { sql: sql.into(), types: types.into(), names_moment, reads_moment }
    }

    pub fn sql(&self) -> &[u8] {
        &self.sql
    }
}

/// The statements of one worker.
pub struct Statements {
    table: RefCell<HashTable<Rc<Statement>>>,
    /// The last one that was read elsewhere, and whether it reads the time.
    studied: RefCell<(Weak<Statement>, bool)>,
    hasher: DefaultHashBuilder,
    /// The name of a statement that says nothing: see `Composer::refuse_to_run`.
    there: Name,
    next: Cell<u64>,
    clock: Cell<u64>,
    /// Bytes of what they say.
    bytes: Cell<usize>,
    limits: Limits,
}

impl Statements {
    /// None yet; so many are kept beside those that clients hold.
    pub fn new(limits: Limits) -> Self {
        Self {
            table: RefCell::default(),
            studied: RefCell::default(),
            hasher: DefaultHashBuilder::default(),
            there: Name::new(THERE),
            next: Cell::new(1),
            clock: Cell::new(0),
            bytes: Cell::new(0),
            limits,
        }
    }

    /// The name of the one that is there only so that another Parse of that name fails.
    pub fn there(&self) -> &Name {
        &self.there
    }

    /// How many are known.
    pub fn count(&self) -> usize {
        self.table.borrow().len()
    }

    /// The statement that says this, with these parameters; another one each time where a literal
    /// in it may stand for the time.
    pub fn known(&self, sql: &[u8], types: &[u8]) -> Rc<Statement> {
        let now = self.clock.get() + 1;
        self.clock.set(now);
        let hash = self.hasher.hash_one((sql, types));
        let mut table = self.table.borrow_mut();
        let same = |known: &Rc<Statement>| *known.sql == *sql && *known.types == *types;
        if let Some(known) = table.find(hash, same) {
            known.used.set(now);
            return known.clone();
        }
        let studied = self.studied.borrow().clone();
        let studied = studied.0.upgrade().filter(same).map(|statement| (statement, studied.1));
        let (statement, reads_moment) = studied.unwrap_or_else(|| {
            (self.statement(sql.into(), types.into(), names_moment(sql)), reads_moment(sql))
        });
        if reads_moment {
            // A server reads such a literal when it prepares the statement: nobody has the time at
            // which another was prepared, nor the same client that of an earlier one.
            self.studied.take();
            return statement;
        }
        let len = sql.len() + types.len();
        while !table.is_empty()
            && (table.len() >= self.limits.count || self.bytes.get() + len > self.limits.bytes)
        {
            self.forget_half(&mut table);
        }
        self.bytes.set(self.bytes.get() + len);
        let rehash = |of: &Rc<Statement>| self.hasher.hash_one((&*of.sql, &*of.types));
        table.insert_unique(hash, statement.clone(), rehash);
        statement
    }

    /// The statement that was read elsewhere. While it is held [`known`](Self::known) finds it by
    /// what it says, without reading it again.
    pub(crate) fn studied(&self, text: Text) -> Rc<Statement> {
        let Text { sql, types, names_moment, reads_moment } = text;
        let hash = self.hasher.hash_one((&*sql, &*types));
        let same = |known: &Rc<Statement>| known.sql == sql && known.types == types;
        if let Some(known) = self.table.borrow().find(hash, same) {
            return known.clone();
        }
        let statement = self.statement(sql, types, names_moment);
        *self.studied.borrow_mut() = (Rc::downgrade(&statement), reads_moment);
        statement
    }

    /// Another one, with a number of its own.
    fn statement(&self, sql: Box<[u8]>, types: Box<[u8]>, names_moment: bool) -> Rc<Statement> {
        let number = self.next.get();
        self.next.set(number + 1);
        Rc::new(Statement {
            number,
            name: Name::new(number),
            sql,
            types,
            names_moment,
            plan: RefCell::default(),
            used: Cell::new(self.clock.get()),
        })
    }

    /// Forgets the half that was not prepared for longest, so that each costs a constant. Those
    /// that clients still hold live on with them.
    fn forget_half(&self, table: &mut HashTable<Rc<Statement>>) {
        let mut used: Vec<u64> = table.iter().map(|statement| statement.used.get()).collect();
        let middle = used.len() / 2;
        let (_, median, _) = used.select_nth_unstable(middle);
        let median = *median;
        table.retain(|statement| statement.used.get() > median);
        self.bytes.set(table.iter().map(|statement| statement.bytes()).sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_known_by_text_and_types() {
        let statements = Statements::new(Limits { count: 10, bytes: 1000 });
        let one = statements.known(b"select $1", b"\0\0");
        assert_eq!(one.number, statements.known(b"select $1", b"\0\0").number);
        assert_ne!(one.number, statements.known(b"select $1", b"\0\x01\0\0\0\x17").number);
        assert!(one.name.starts_with(b"weir_1_") && one.name != Name::new(1));
    }

    #[test]
    fn a_text_with_the_word_for_a_time_is_another_statement_each_time() {
        let statements = Statements::new(Limits { count: 10, bytes: 1000 });
        for text in [&b"insert into t values ('now')"[..], b"select E'\\x6eow'::timestamptz"] {
            let one = statements.known(text, b"\0\0");
            assert_ne!(one.number, statements.known(text, b"\0\0").number);
        }
        assert_eq!(statements.count(), 0);
        let called = b"insert into t values (now())";
        assert_eq!(statements.known(called, b"").number, statements.known(called, b"").number);
    }

    #[test]
    fn what_was_read_elsewhere_is_found_by_what_it_says() {
        let statements = Statements::new(Limits { count: 10, bytes: 1000 });
        let studied = |sql: &[u8]| statements.studied(Text::new(sql, b"\0\0"));
        let one = studied(b"select 1");
        assert_eq!(statements.known(b"select 2", b"\0\0").number, one.number + 1);
        assert_eq!(statements.known(b"select 1", b"\0\0").number, one.number);
        assert_eq!(studied(b"select 1").number, one.number);
        // One that reads the time is for one Parse.
        let moment = studied(b"select date 'today'");
        assert_eq!(statements.known(b"select date 'today'", b"\0\0").number, moment.number);
        assert_ne!(statements.known(b"select date 'today'", b"\0\0").number, moment.number);
        // Nobody holds it any more.
        drop(studied(b"select 3"));
        assert!(statements.studied.borrow().0.upgrade().is_none());
    }

    #[test]
    fn those_not_used_for_longest_are_forgotten_at_the_limit() {
        let statements = Statements::new(Limits { count: 4, bytes: 1000 });
        for n in 0..4 {
            statements.known(format!("select {n}").as_bytes(), b"");
        }
        let kept = statements.known(b"select 0", b"").number;
        statements.known(b"select 4", b"");
        assert!(statements.count() <= 4);
        assert_eq!(statements.known(b"select 0", b"").number, kept);
    }
    #[test]
    fn long_ones_are_forgotten_by_their_bytes() {
        let statements = Statements::new(Limits { count: 1000, bytes: 10_000 });
        for n in 0..100_u32 {
            statements.known(format!("select {n:0>999}").as_bytes(), b"");
            assert!(statements.bytes.get() <= 11_000 && statements.count() <= 10);
        }
        statements.known(&[b'x'; 20_000], b"");
        statements.known(b"short", b"");
        statements.known(b"another", b"");
        assert!(statements.bytes.get() < 10_000, "one that is too long stays");
    }
}
