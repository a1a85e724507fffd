//! A database as one worker knows it.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;

use crate::catalogue::{Catalogue, Unsettled};
use crate::console::Totals;
use crate::plan::{Facts, Plan, Planner, Scope, Unsettles};

/// A database as one worker knows it.
pub struct Database {
    /// Its name for clients.
    pub name: Arc<str>,
    /// Its name on the servers.
    pub name_there: Arc<str>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) planner: RefCell<Planner>,
    generation: Cell<u64>,
    totals: RefCell<Totals>,
}

impl Database {
    pub(super) fn new(
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
        self.planner().plan(sql, scope)
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

    /// Counts what its clients do. Cheap: nobody else counts there.
    #[inline]
    pub fn count(&self, add: impl FnOnce(&mut Totals)) {
        add(&mut self.totals.borrow_mut());
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
