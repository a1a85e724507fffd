//! What the catalogue of a database says of its functions, relations, operators and types.
//!
//! Everything is by bare name over all schemas: a name is harmless only if all that bear it are. So
//! a function that shadows a builtin is seen whatever `search_path` is.

use std::time::Duration;

use hashbrown::{HashMap, HashSet};

use super::kind::Unsettles;
use super::leaves::Leaves;

/// The query whose rows make the facts: three columns of text, none of them null. It is one
/// statement, so that it sees one catalogue. To be run with `search_path` set to `pg_catalog`.
const QUERY: &str = include_str!("facts.sql");

/// What tells whether they are the facts of the catalogue as it is.
const STATE_QUERY: &str = include_str!("facts_state.sql");

/// Names that are kept at most; a catalogue with more proves nothing.
const NAMES_MAX: usize = 2_000_000;

/// What is known of one database's catalogue.
#[derive(Debug, Default)]
pub struct Facts {
    loaded: bool,
    /// Something in the catalogue makes that no statement can be proven.
    closed: bool,
    /// What is used without being named may depend on the transaction.
    fickle: bool,
    /// Transactions are READ COMMITTED unless they say otherwise.
    read_committed: bool,
    resting: Resting,
    functions: HashMap<Box<[u8]>, Mark>,
    relations: HashMap<Box<[u8]>, Mark>,
    operators: HashMap<Box<[u8]>, Mark>,
    types: HashMap<Box<[u8]>, Mark>,
    /// Functions that are not steady and can be called as `x.name`.
    attributes: HashMap<Box<[u8]>, Mark>,
    /// Functions whose text leaves something on the session.
    pins: HashSet<Box<[u8]>>,
    /// Tables whose rows are nowhere else, and their keys, each the columns of a unique index.
    tables: HashMap<Box<[u8]>, Box<[Key]>>,
    /// Those of them whose changes run nothing but the server's own code, and change nothing else.
    quiet: HashSet<Box<[u8]>>,
    /// Columns of those tables that draw from a sequence where they are given no value, and the
    /// sequence by its bare name.
    drawn: HashMap<Box<[u8]>, Box<[Drawn]>>,
    /// What shows the statements that a server has prepared.
    shows_prepared: HashSet<Box<[u8]>>,
    /// Code of users' may ask for the last value that was drawn from a sequence.
    asks_last_values: bool,
    /// What leaves something on the session, whatever bears the name.
    leaves: HashMap<Box<[u8]>, Leaves>,
    operators_leave: HashMap<Box<[u8]>, Leaves>,
    /// What a text leaves that is made when it is run.
    text_leaves: Leaves,
    /// The worst of what has a byte from 0x80 in its name, and leaves something.
    odd_leaves: Leaves,
    /// Types of users by their number.
    type_oids: HashMap<u32, Mark>,
    /// The worst of what has a byte from 0x80 in its name, whose case and encoding differ between
    /// servers and clients.
    odd_names: Mark,
}

/// How long a server lets a session rest in a transaction that does not say so itself
/// (`idle_in_transaction_session_timeout`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resting {
    /// For ever, as far as is known.
    #[default]
    Forever,
    /// For so long in each pause.
    For(Duration),
    /// Some users or databases have a limit of their own.
    ByLogin,
}

/// Columns that tell the rows of a table apart.
pub(super) type Key = Box<[Box<[u8]>]>;

/// A column, and the sequence that it draws from.
pub(super) type Drawn = (Box<[u8]>, Box<[u8]>);

/// What is known of all that bear a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// One of them is volatile, or depends on what is.
    Unsafe,
    /// They may depend on the transaction that they are used in.
    Safe,
    /// They depend on data, and on the session's settings.
    #[default]
    Steady,
}

/// Why rows do not make facts.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FactsError {
    /// A row is not one of [`Facts::query`].
    #[error("a row of the catalogue's facts is not understood: {0:?}")]
    Row(String),
    /// There are more than two million names.
    #[error("the catalogue has more names than are kept")]
    TooMany,
    /// No rows, or not all of them.
    #[error("the catalogue's facts are not complete")]
    Incomplete,
}

impl Facts {
    /// The query to run on a server of the database; its rows are given to [`Facts::load`].
    #[must_use]
    pub fn query() -> &'static str {
        QUERY
    }

    /// A query whose one value is another one after any change that facts can depend on: to be
    /// asked now and then, which is much cheaper than loading them again.
    #[must_use]
    pub fn state_query() -> &'static str {
        STATE_QUERY
    }

    /// No facts: only what names nothing is proven.
    #[must_use]
    pub fn none() -> Self {
        Self { text_leaves: Leaves::Lasting, ..Self::default() }
    }

    /// None any more, of a catalogue of which they were facts: whether there is anything whose
    /// traces outlast `DISCARD ALL` is still taken for known, unless functions are new.
    #[must_use]
    pub fn forgotten(&self, by: Unsettles) -> Self {
        match by {
            Unsettles::Code => Self::none(),
            _ => Self { text_leaves: self.text_leaves, ..Self::default() },
        }
    }

    /// Makes facts of the rows of [`Facts::query`], all three columns of each.
    pub fn load<'r>(rows: impl IntoIterator<Item = [&'r [u8]; 3]>) -> Result<Self, FactsError> {
        let mut facts = Self { loaded: true, ..Self::default() };
        let mut ended = false;
        for (count, row) in rows.into_iter().enumerate() {
            if count > NAMES_MAX {
                return Err(FactsError::TooMany);
            }
            match row {
                [b"end", _, _] => ended = true,
                [what, name, mark] => facts.row(what, name, mark).ok_or_else(|| {
                    FactsError::Row(String::from_utf8_lossy(&row.join(&b' ')).into_owned())
                })?,
            }
        }
        if ended { Ok(facts) } else { Err(FactsError::Incomplete) }
    }

    /// As [`Self::load`], of rows as text.
    pub fn of_rows(rows: &[Vec<Option<String>>]) -> Result<Self, FactsError> {
        let whole = |row: &&Vec<Option<String>>| row.len() == 3 && row.iter().all(Option::is_some);
        if let Some(row) = rows.iter().find(|row| !whole(row)) {
            return Err(FactsError::Row(format!("{row:?}")));
        }
        Self::load(
            rows.iter()
                .map(|row| [0, 1, 2].map(|at| row[at].as_deref().unwrap_or_default().as_bytes())),
        )
    }

    fn row(&mut self, what: &[u8], name: &[u8], mark: &[u8]) -> Option<()> {
        if what == b"table" {
            self.tables.insert(name.into(), keys(mark));
            return Some(());
        }
        if what == b"draws" {
            let parts = mark.split(|byte| *byte == b';').map(|part| {
                let at = part.iter().position(|byte| *byte == b':')?;
                Some((part[..at].into(), part[at + 1..].into()))
            });
            let drawn: Option<Vec<Drawn>> = parts.collect();
            self.drawn.insert(name.into(), drawn?.into());
            return Some(());
        }
        if let Some(what) = what.strip_prefix(b"leaves") {
            return self.leaves_row(what, name, mark);
        }
        let mark = match mark {
            b"steady" => Mark::Steady,
            b"safe" => Mark::Safe,
            b"unsafe" => Mark::Unsafe,
            _ => return None,
        };
        if !name.is_ascii() {
            self.odd_names = self.odd_names.min(mark);
        }
        match what {
            b"function" => drop(self.functions.insert(name.into(), mark)),
            b"relation" => drop(self.relations.insert(name.into(), mark)),
            b"operator" => drop(self.operators.insert(name.into(), mark)),
            b"type" => drop(self.types.insert(name.into(), mark)),
            b"attribute" => drop(self.attributes.insert(name.into(), mark)),
            b"pin" => drop(self.pins.insert(name.into())),
            b"quiet" => drop(self.quiet.insert(name.into())),
            b"shows_prepared" => drop(self.shows_prepared.insert(name.into())),
            b"asks_last_values" => self.asks_last_values = true,
            b"type_oid" => {
                let oid = std::str::from_utf8(name).ok()?.parse().ok()?;
                self.type_oids.insert(oid, mark);
            }
            b"catalogue" => {
                self.closed |= mark == Mark::Unsafe;
                self.fickle = true;
            }
            b"isolation" => self.read_committed = mark == Mark::Steady,
            b"resting" => {
                let ms: u64 = std::str::from_utf8(name).ok()?.parse().ok()?;
                self.resting = match (mark, ms) {
                    (Mark::Unsafe, _) => Resting::ByLogin,
                    (_, 0) => Resting::Forever,
                    _ => Resting::For(Duration::from_millis(ms)),
                };
            }
            _ => return None,
        }
        Some(())
    }

    fn leaves_row(&mut self, of: &[u8], name: &[u8], mark: &[u8]) -> Option<()> {
        let leaves = match mark {
            b"some" => Leaves::Some,
            b"lasting" => Leaves::Lasting,
            _ => return None,
        };
        match of {
            b"" if name.is_ascii() => drop(self.leaves.insert(name.into(), leaves)),
            b"" => self.odd_leaves = self.odd_leaves.max(leaves),
            b"_operator" => drop(self.operators_leave.insert(name.into(), leaves)),
            b"_text" => self.text_leaves = leaves,
            _ => return None,
        }
        Some(())
    }

    /// Columns of a table that draw from a sequence where they are given no value.
    pub(super) fn drawn(&self, table: &[u8]) -> &[Drawn] {
        self.drawn.get(table).map(AsRef::as_ref).unwrap_or_default()
    }

    /// Whether something of this name shows the statements that a server has prepared. Builtins do
    /// with and without facts.
    pub(super) fn shows_prepared(&self, name: &[u8]) -> bool {
        matches!(name, b"pg_prepared_statements" | b"pg_prepared_statement")
            || self.shows_prepared.contains(name)
    }

    /// Whether a statement may ask for the last value that was drawn from a sequence without naming
    /// the function that tells it.
    #[must_use]
    pub fn may_ask_last_values(&self) -> bool {
        !self.loaded || self.asks_last_values
    }

    /// What all that bear this name leave on the session.
    pub(super) fn leaves(&self, name: &[u8]) -> Leaves {
        if !name.is_ascii() {
            // Its case and its encoding are the server's.
            return self.odd_leaves;
        }
        self.leaves.get(name).copied().unwrap_or_default()
    }

    pub(super) fn operator_leaves(&self, symbol: &[u8]) -> Leaves {
        self.operators_leave.get(symbol).copied().unwrap_or_default()
    }

    /// What a text leaves that is made when it is run.
    pub(super) fn text_leaves(&self) -> Leaves {
        self.text_leaves
    }

    /// How long servers let sessions rest in a transaction.
    #[must_use]
    pub fn resting(&self) -> Resting {
        self.resting
    }

    /// Whether there are any.
    #[must_use]
    pub fn are_loaded(&self) -> bool {
        self.loaded
    }

    /// Whether something in the catalogue makes that nothing can be proven.
    #[must_use]
    pub fn are_closed(&self) -> bool {
        self.closed
    }

    /// Whether a parameter of a statement may be declared with this type by the client: a value of
    /// some types runs code when it is read (domains with a volatile `CHECK`). A type of a user's
    /// that is not known is not harmless, and with no facts none is.
    #[must_use]
    pub fn parameter_is_harmless(&self, oid: u32) -> bool {
        oid < super::words::FIRST_USER_OID
            || self.type_oids.get(&oid).is_some_and(|mark| *mark != Mark::Unsafe)
    }

    /// Whether a statement that names nothing is steady.
    pub(super) fn are_steady(&self) -> bool {
        self.read_committed && !self.fickle
    }

    pub(super) fn function(&self, name: &[u8]) -> Option<Mark> {
        self.functions.get(name).copied()
    }

    pub(super) fn relation(&self, name: &[u8]) -> Option<Mark> {
        self.relations.get(name).copied()
    }

    pub(super) fn operator(&self, name: &[u8]) -> Option<Mark> {
        self.operators.get(name).copied()
    }

    pub(super) fn type_named(&self, name: &[u8]) -> Option<Mark> {
        self.types.get(name).copied()
    }

    pub(super) fn attribute(&self, name: &[u8]) -> Option<Mark> {
        self.attributes.get(name).copied()
    }

    /// The keys of a table; `None` where it is none that is plain.
    pub(super) fn table(&self, name: &[u8]) -> Option<&[Key]> {
        self.tables.get(name).map(AsRef::as_ref)
    }

    /// Whether changes of that table may share a transaction: nobody tells whether they do.
    pub(super) fn is_quiet(&self, table: &[u8]) -> bool {
        self.quiet.contains(table)
    }

    /// Whether transactions are READ COMMITTED unless they say otherwise.
    pub(super) fn are_read_committed(&self) -> bool {
        self.read_committed
    }

    pub(super) fn pins(&self, name: &[u8]) -> bool {
        self.pins.contains(name)
    }

    pub(super) fn odd_names(&self) -> Mark {
        self.odd_names
    }
}

/// Reads lists of columns, as `a;b,c`: one key of `a`, another of `b` and `c`.
fn keys(list: &[u8]) -> Box<[Key]> {
    let parts = |of: &[u8], by: u8| -> Vec<Box<[u8]>> {
        of.split(|byte| *byte == by).filter(|part| !part.is_empty()).map(Box::from).collect()
    };
    parts(list, b';').iter().map(|key| parts(key, b',').into()).collect()
}
