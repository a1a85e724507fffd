//! Prepared statements, known by what they say.
//!
//! A client's statement, named or not, is known by its text and the types of its parameters; on
//! servers it has a name of Weir's. So a statement that a thousand clients prepare is prepared once
//! on each server connection, and a client finds its own wherever it is sent.

use std::cell::{Cell, RefCell};
use std::hash::BuildHasher;
use std::rc::Rc;

use hashbrown::{DefaultHashBuilder, HashTable};
use wire::postgres::frontend::{Target, put_close, tag};
use wire::postgres::message;

use super::names::Limits;
use crate::plan::{Plan, Scope, names_moment};
use crate::worker::Database;

/// A statement that clients have prepared on this worker.
#[derive(Debug)]
pub struct Statement {
    /// Its number on this worker, from 1.
    pub number: u64,
    /// What it says.
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
    /// Its plan for text that is read in `scope`: made again when the catalogue has changed.
    pub fn plan(&self, database: &Database, scope: Scope) -> Rc<Plan> {
        let generation = database.generation();
        let mut known = self.plan.borrow_mut();
        match &*known {
            Some((of, within, plan))
                if *of == generation && *within == scope && !plan.is_refuted() =>
            {
                plan.clone()
            }
            _ => {
                let plan = database.plan(&self.sql, scope);
                *known = Some((generation, scope, plan.clone()));
                plan
            }
        }
    }

    /// Bytes of what it says.
    pub fn bytes(&self) -> usize {
        self.sql.len() + self.types.len()
    }

    /// Its name on servers.
    pub fn name(&self) -> Name {
        Name::of(self.number)
    }

    /// Appends the Parse message that prepares it.
    pub fn write_parse(&self, out: &mut Vec<u8>) {
        message(out, tag::PARSE, |out| {
            out.extend_from_slice(&self.name());
            out.push(0);
            out.extend_from_slice(&self.sql);
            out.push(0);
            out.extend_from_slice(&self.types);
        });
    }

    /// Appends the Close message that forgets it.
    pub fn write_close(&self, out: &mut Vec<u8>) {
        close(self.number, out);
    }
}

/// Appends the Close of the statement with this number.
pub fn close(number: u64, out: &mut Vec<u8>) {
    put_close(out, Target::Statement(&Name::of(number)));
}

/// What all names on servers begin with.
pub const PREFIX: &[u8] = b"weir_";
const NAME_MAX: usize = PREFIX.len() + 20;

/// A statement's name on servers.
pub struct Name {
    bytes: [u8; NAME_MAX],
    from: usize,
}

impl Name {
    /// Of the statement with this number.
    pub fn of(number: u64) -> Self {
        let (mut bytes, mut from) = ([0; NAME_MAX], NAME_MAX);
        let mut rest = number;
        while rest > 0 || from == NAME_MAX {
            from -= 1;
            bytes[from] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        from -= PREFIX.len();
        bytes[from..from + PREFIX.len()].copy_from_slice(PREFIX);
        Self { bytes, from }
    }
}

impl std::ops::Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

/// The statements of one worker.
pub struct Statements {
    table: RefCell<HashTable<Rc<Statement>>>,
    hasher: DefaultHashBuilder,
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
            hasher: DefaultHashBuilder::default(),
            next: Cell::new(1),
            clock: Cell::new(0),
            bytes: Cell::new(0),
            limits,
        }
    }

    /// How many are known.
    pub fn count(&self) -> usize {
        self.table.borrow().len()
    }

    /// The statement that says this, with these parameters.
    pub fn known(&self, sql: &[u8], types: &[u8]) -> Rc<Statement> {
        let hash = self.hasher.hash_one((sql, types));
        let now = self.clock.get() + 1;
        self.clock.set(now);
        let mut table = self.table.borrow_mut();
        let same = |known: &Rc<Statement>| *known.sql == *sql && *known.types == *types;
        if let Some(known) = table.find(hash, same) {
            known.used.set(now);
            return known.clone();
        }
        let len = sql.len() + types.len();
        while !table.is_empty()
            && (table.len() >= self.limits.count || self.bytes.get() + len > self.limits.bytes)
        {
            self.forget_half(&mut table);
        }
        self.bytes.set(self.bytes.get() + len);
        let number = self.next.get();
        self.next.set(number + 1);
        let statement = Rc::new(Statement {
            number,
            sql: sql.into(),
            types: types.into(),
            names_moment: names_moment(sql),
            plan: RefCell::default(),
            used: Cell::new(now),
        });
        let rehash = |of: &Rc<Statement>| self.hasher.hash_one((&*of.sql, &*of.types));
        table.insert_unique(hash, statement.clone(), rehash);
        statement
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
        assert_eq!((&*one.name(), &*Name::of(0)), (&b"weir_1"[..], &b"weir_0"[..]));
        assert_eq!(Name::of(u64::MAX).len(), NAME_MAX);
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
