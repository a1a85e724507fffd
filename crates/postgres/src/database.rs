//! A database as one worker knows it.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::catalogue::{Catalogue, Unsettled};
use crate::pipeline::compose::StatementUse;
use crate::pipeline::judgement::Plans;
use crate::pipeline::round::HELD_MAX;
use crate::pipeline::statements::Statement;
use crate::plan::{Facts, Plan, Planner, Resting, Scope, Unsettles};

/// A database as one worker knows it.
pub struct Database {
    /// Its name for clients.
    pub name: Arc<str>,
    /// Its name on the servers.
    pub name_there: Arc<str>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) planner: RefCell<Planner>,
    generation: Cell<u64>,
    totals: RefCell<Totals>,
}

impl Database {
    pub(crate) fn new(
        name: &str,
        name_there: &str,
        catalogue: Arc<Catalogue>,
        plans_max: usize,
    ) -> Self {
        let (generation, facts) = catalogue.facts();
        Self {
            name: name.into(),
            name_there: name_there.into(),
            planner: RefCell::new(Planner::new(facts, plans_max)),
            catalogue,
            generation: Cell::new(generation),
            totals: RefCell::default(),
        }
    }

    /// What is known of a statement.
    #[inline]
    pub fn plan(&self, sql: &[u8], scope: Scope) -> Rc<Plan> {
        count_looked_up();
        self.planner().plan(sql, scope)
    }

    /// The plan of a prepared statement for text that is read in `scope`: made again when the
    /// catalogue has changed.
    pub fn plan_of(&self, statement: &Statement, scope: Scope) -> Rc<Plan> {
        let generation = self.generation();
        let plan = match statement.planned() {
            Some((of, within, plan))
                if of == generation && within == scope && !plan.is_refuted() =>
            {
                return plan;
            }
            // A worker has no time for it.
            Some((_, within, plan)) if statement.sql.len() > HELD_MAX => {
                let (_, facts) = self.facts();
                Rc::new(plan.outdated(&facts, within != scope))
            }
            _ => self.plan(&statement.sql, scope),
        };
        statement.learn(generation, scope, plan.clone());
        plan
    }

    /// The facts that plans are made by, and their generation.
    pub fn facts(&self) -> (u64, Arc<Facts>) {
        let planner = self.planner();
        (self.generation.get(), planner.facts().clone())
    }

    /// What plans by the facts that there are now.
    #[inline]
    fn planner(&self) -> RefMut<'_, Planner> {
        let mut planner = self.planner.borrow_mut();
        if self.catalogue.generation() != self.generation.get() {
            let (generation, facts) = self.catalogue.facts();
            planner.set_facts(facts);
            self.generation.set(generation);
        }
        planner
    }

    /// Whether a statement may ask for the last value that was drawn from a sequence without naming
    /// the function that tells it.
    pub fn may_ask_last_values(&self) -> bool {
        self.planner().facts().may_ask_last_values()
    }

    /// How long servers let its sessions rest in a transaction.
    pub fn resting(&self) -> Resting {
        self.planner().facts().resting()
    }

    /// Counts what its clients do. Cheap: nobody else counts there.
    #[inline]
    pub fn count(&self, add: impl FnOnce(&mut Totals)) {
        add(&mut self.totals.borrow_mut());
    }

    /// Counts what a round was about.
    pub fn count_found(&self, found: &StatementUse) {
        if (found.parses, found.binds) != ((0, 0), 0) {
            self.count(|totals| {
                totals.client_parses += found.parses.0;
                totals.server_parses += found.parses.1;
                totals.binds += found.binds;
            });
        }
    }

    /// What was counted; bytes sent only of clients that have gone.
    pub fn totals(&self) -> Totals {
        *self.totals.borrow()
    }

    /// Whether values of these types (as in Parse, from their number on) can be read without
    /// calling anything that writes.
    pub fn are_harmless(&self, types: &[u8]) -> bool {
        let oids = types.get(2..).unwrap_or_default();
        if oids.is_empty() {
            return true;
        }
        let planner = self.planner.borrow();
        oids.as_chunks()
            .0
            .iter()
            .all(|oid| planner.facts().parameter_is_harmless(u32::from_be_bytes(*oid)))
    }

    /// Which facts plans are made by; it changes with them.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.catalogue.generation()
    }

    /// How often the catalogue has changed, by statements or past them.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.catalogue.changes()
    }

    /// A statement that changes what plans rest on is about to be sent; to be kept until its
    /// transaction has ended.
    pub fn unsettle(&self) -> Unsettled {
        self.catalogue.unsettle()
    }

    /// A statement was run that may have changed the catalogue by what it calls.
    pub fn may_have_changed(&self) {
        self.catalogue.may_have_changed();
    }

    /// A statement has changed what plans rest on.
    pub fn catalogue_changed(&self, how: Unsettles) {
        self.catalogue.changed(how);
    }
}

impl Plans for Database {
    fn plan(&self, sql: &[u8], scope: Scope) -> Rc<Plan> {
        self.plan(sql, scope)
    }

    fn plan_of(&self, statement: &Statement, scope: Scope) -> Rc<Plan> {
        self.plan_of(statement, scope)
    }

    fn are_harmless(&self, types: &[u8]) -> bool {
        self.are_harmless(types)
    }

    fn generation(&self) -> u64 {
        self.generation()
    }
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Server connections given to clients, and places on lanes.
    pub assignments: u64,
    /// Transactions, a statement outside one included.
    pub transactions: u64,
    /// Rounds: what one ReadyForQuery answers, mostly one statement.
    pub queries: u64,
    /// Bytes that came from clients.
    pub received: u64,
    /// Bytes that went to clients.
    pub sent: u64,
    /// Time in transactions, that between their statements included.
    pub transaction_time: Duration,
    /// Time in statements, from their being sent to the last byte of the answer; on a lane without
    /// the time behind others.
    pub query_time: Duration,
    /// Time statements waited for a server connection, or behind others on a lane.
    pub wait_time: Duration,
    /// Prepared statements that clients made.
    pub client_parses: u64,
    /// Prepared statements made on servers.
    pub server_parses: u64,
    /// Executions of prepared statements.
    pub binds: u64,
    /// How often clients have logged in.
    pub logins: u64,
    /// Statements that went by a lane.
    pub lane_queries: u64,
    /// Statements that went to a replica.
    pub replica_queries: u64,
    /// Reads whose answer was asked for an equal one of another client.
    pub shared_queries: u64,
    /// Errors of servers that clients were told.
    pub errors: u64,
}

impl Totals {
    /// Adds the counts of another worker.
    pub fn add(&mut self, other: &Self) {
        self.assignments += other.assignments;
        self.transactions += other.transactions;
        self.queries += other.queries;
        self.received += other.received;
        self.sent += other.sent;
        self.transaction_time += other.transaction_time;
        self.query_time += other.query_time;
        self.wait_time += other.wait_time;
        self.client_parses += other.client_parses;
        self.server_parses += other.server_parses;
        self.binds += other.binds;
        self.logins += other.logins;
        self.lane_queries += other.lane_queries;
        self.replica_queries += other.replica_queries;
        self.shared_queries += other.shared_queries;
        self.errors += other.errors;
    }
}

/// A test counts the texts that are looked up.
#[cfg(not(test))]
#[inline]
fn count_looked_up() {}

#[cfg(test)]
use tests::count_looked_up;

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    thread_local! {
        /// How many texts were looked up on this thread.
        pub(crate) static LOOKED_UP: Cell<u32> = const { Cell::new(0) };
    }

    pub(super) fn count_looked_up() {
        LOOKED_UP.set(LOOKED_UP.get() + 1);
    }
}
