//! What a client's session is to look like, as PostgreSQL would have it without Weir.

use std::collections::{BTreeMap, BTreeSet};

/// The settings that clients change, as the server names them.
pub const NAMES: [&str; 5] =
    ["app.id", "application_name", "TimeZone", "statement_timeout", "search_path"];

/// Their values, in the order of [`NAMES`].
pub type Values = [String; NAMES.len()];

/// A session's settings and what else it has on its server.
#[derive(Debug, Clone)]
pub struct Session {
    /// As they are after `RESET`.
    start: Values,
    /// As they will be after a commit.
    held: Values,
    pub now: Values,
    user: String,
    role: String,
    /// The table of its own, where it has one, and the rows in it.
    pub temporary: Option<u32>,
    /// The number each of its prepared statements answers with, by name.
    pub prepared: BTreeMap<String, u32>,
}

impl Session {
    pub fn new(user: &str, start: Values) -> Self {
        let (temporary, prepared) = Default::default();
        let (held, now) = (start.clone(), start.clone());
        let (user, role) = (user.to_owned(), user.to_owned());
        Self { start, held, now, user, role, temporary, prepared }
    }

    /// `SET`, for the session or until the end of the transaction.
    pub fn set(&mut self, setting: usize, value: &str, local: bool) {
        value.clone_into(&mut self.now[setting]);
        if !local {
            value.clone_into(&mut self.held[setting]);
        }
    }

    /// `RESET`.
    pub fn reset(&mut self, setting: usize) {
        self.now[setting].clone_from(&self.start[setting]);
        self.held[setting].clone_from(&self.start[setting]);
    }

    /// `RESET ALL`.
    pub fn reset_all(&mut self) {
        self.held.clone_from(&self.start);
        self.now.clone_from(&self.start);
    }

    /// `SET ROLE`, or `RESET ROLE`.
    pub fn set_role(&mut self, role: Option<&str>) {
        role.unwrap_or(&self.user).clone_into(&mut self.role);
    }

    /// `DISCARD ALL`.
    pub fn discard(&mut self) {
        self.reset_all();
        self.set_role(None);
        self.temporary = None;
        self.prepared.clear();
    }

    /// `COMMIT`.
    pub fn commit(&mut self) {
        self.now.clone_from(&self.held);
    }

    /// A rollback to where it was. What was prepared meanwhile stays.
    pub fn roll_back(&mut self, to: &Self) {
        let prepared = std::mem::take(&mut self.prepared);
        *self = Self { prepared, ..to.clone() };
    }

    /// Who it is to the server.
    pub fn who(&self) -> String {
        format!("{}/{}", self.user, self.role)
    }
}

/// What a client knows of its rows.
#[derive(Debug, Default, Clone)]
pub struct Ledger {
    next: u64,
    /// Rows whose insert was acknowledged.
    pub there: BTreeSet<u64>,
    /// Nobody has told what became of them.
    pub perhaps: BTreeSet<u64>,
}

impl Ledger {
    /// A number for a row.
    pub fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// How many rows with numbers of its own there may be.
    pub const fn used(&self) -> u64 {
        self.next
    }

    /// A condition for the rows whose fate is known.
    pub fn known(&self, client: usize) -> String {
        let perhaps: Vec<String> = self.perhaps.iter().map(u64::to_string).collect();
        format!("client = {client} AND n <> ALL ('{{{}}}'::int8[])", perhaps.join(","))
    }
}
