//! A step: bytes that a client sends at once, and how many rounds answer them.

use rand::Rng;
use rand::rngs::StdRng;
use wire::postgres::frontend::{
    Target, put_bind, put_close, put_describe, put_execute, put_parse, put_query, put_sync,
};

/// What one ReadyForQuery answers.
#[derive(Debug, Clone)]
pub struct Round {
    pub sql: String,
    /// Its values differ between any two sessions, or servers.
    pub blur: bool,
}

/// What a statement may do that the comparison has to know of.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// Its values differ between any two sessions, or servers.
    pub blur: bool,
    /// It may leave what nobody can see in its text: Weir takes that away, a server does not.
    pub stains: bool,
    /// What is parsed after it may be read in another way.
    pub sways: bool,
    /// It changes rows or the catalogue.
    pub writes: bool,
    /// What it says depends on settings or the clock when it is parsed.
    pub depends: bool,
    /// It has no place among others in one round.
    pub alone: bool,
    /// It is parsed and run in one transaction.
    pub at_once: bool,
}

impl Marks {
    fn and(self, other: Self) -> Self {
        Self {
            blur: self.blur || other.blur,
            stains: self.stains || other.stains,
            sways: self.sways || other.sways,
            writes: self.writes || other.writes,
            depends: self.depends || other.depends,
            alone: self.alone || other.alone,
            at_once: self.at_once || other.at_once,
        }
    }
}

/// A statement, with the values of its parameters.
#[derive(Debug, Clone, Default)]
pub struct Statement {
    pub sql: String,
    pub values: Vec<Option<String>>,
    pub marks: Marks,
}

impl Statement {
    /// Without parameters and marks.
    pub fn new(sql: impl Into<String>) -> Self {
        Self { sql: sql.into(), ..Self::default() }
    }

    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Marks)) -> Self {
        change(&mut self.marks);
        self
    }

    #[must_use]
    pub fn values(mut self, values: &[&str]) -> Self {
        self.values = values.iter().map(|value| Some((*value).to_owned())).collect();
        self
    }
}

/// Bytes that are sent at once, and what is known of them.
#[derive(Debug, Clone, Default)]
pub struct Step {
    pub bytes: Vec<u8>,
    pub rounds: Vec<Round>,
    pub marks: Marks,
    /// What a reader of a failure sees.
    pub what: Vec<String>,
    /// Statements that it prepares by name.
    pub prepares: Vec<(String, Statement)>,
}

impl Step {
    fn round(&mut self, how: &str, sql: &str, marks: Marks) {
        self.rounds.push(Round { sql: sql.to_owned(), blur: marks.blur });
        self.marks = self.marks.and(marks);
        self.what.push(format!("{how}: {sql}"));
    }

    pub fn query(&mut self, statement: &Statement) {
        put_query(&mut self.bytes, statement.sql.as_bytes());
        self.round("query", &statement.sql, statement.marks);
    }

    /// Several in one Query, which are one transaction.
    pub fn several(&mut self, statements: &[Statement]) {
        let text: Vec<&str> = statements.iter().map(|statement| &*statement.sql).collect();
        let marks = statements.iter().fold(Marks::default(), |all, one| all.and(one.marks));
        let text = text.join("; ");
        put_query(&mut self.bytes, text.as_bytes());
        self.round("query", &text, marks);
    }

    /// By the extended protocol, without a name, all of them up to one Sync.
    pub fn unnamed(&mut self, statements: &[Statement], describes: bool) {
        let mut marks = Marks::default();
        let mut text = Vec::new();
        for statement in statements {
            put_parse(&mut self.bytes, b"", statement.sql.as_bytes(), &[]);
            put_bind(&mut self.bytes, b"", b"", &values(statement));
            if describes {
                put_describe(&mut self.bytes, Target::Portal(b""));
            }
            put_execute(&mut self.bytes, b"", 0);
            marks = marks.and(statement.marks);
            text.push(format!("{} {:?}", statement.sql, statement.values));
        }
        put_sync(&mut self.bytes);
        self.round("unnamed", &text.join("; "), marks);
    }

    /// Parse and Bind in two rounds.
    pub fn parted(&mut self, statement: &Statement) {
        put_parse(&mut self.bytes, b"", statement.sql.as_bytes(), &[]);
        put_describe(&mut self.bytes, Target::Statement(b""));
        put_sync(&mut self.bytes);
        self.round("parse", &statement.sql, statement.marks);
        put_bind(&mut self.bytes, b"", b"", &values(statement));
        put_execute(&mut self.bytes, b"", 0);
        put_sync(&mut self.bytes);
        self.round("bind unnamed", &statement.sql, statement.marks);
    }

    /// Under a name, which is free then.
    pub fn named(&mut self, name: &str, statement: &Statement) {
        put_close(&mut self.bytes, Target::Statement(name.as_bytes()));
        put_parse(&mut self.bytes, name.as_bytes(), statement.sql.as_bytes(), &[]);
        put_bind(&mut self.bytes, b"", name.as_bytes(), &values(statement));
        put_execute(&mut self.bytes, b"", 0);
        put_sync(&mut self.bytes);
        self.round(&format!("parse {name}"), &statement.sql, statement.marks);
        self.prepares.push((name.to_owned(), statement.clone()));
    }

    /// What was prepared under a name, so many times.
    pub fn again(&mut self, name: &str, statement: &Statement, times: usize) {
        for _ in 0..times {
            put_bind(&mut self.bytes, b"", name.as_bytes(), &values(statement));
            put_execute(&mut self.bytes, b"", 0);
            put_sync(&mut self.bytes);
            self.round(&format!("bind {name}"), &statement.sql, statement.marks);
        }
    }

    /// One or several statements, each in a way by chance.
    pub fn by_chance(&mut self, statements: &[Statement], chance: &mut StdRng) {
        let plain = statements.iter().all(|one| one.values.is_empty());
        let together = statements.iter().all(|one| !one.marks.alone);
        if statements.len() > 1 && together && chance.random_bool(0.4) {
            if plain && chance.random_bool(0.6) {
                return self.several(statements);
            }
            return self.unnamed(statements, chance.random_bool(0.5));
        }
        for statement in statements {
            let way = chance.random_range(0..10);
            match way {
                0..4 if statement.values.is_empty() => self.query(statement),
                4 if !statement.marks.at_once => self.parted(statement),
                5 | 6 => self.named(&format!("p{}", chance.random_range(0..3)), statement),
                _ => self.unnamed(std::slice::from_ref(statement), way < 9),
            }
        }
    }
}

fn values(statement: &Statement) -> Vec<Option<&[u8]>> {
    statement.values.iter().map(|value| value.as_deref().map(str::as_bytes)).collect()
}
