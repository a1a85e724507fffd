//! Plans by the normal form of their text.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use wire::sql::{Directive, Strings, directive, normalise};

use super::facts::Facts;
use super::kind::Kind;
use super::reason::Reason;
use super::statement::{self, Classified};

/// Longest normal form that is kept, in bytes; what is longer is classified each time.
const FORM_BYTES_MAX: usize = 4096;

/// What is known of a statement.
#[derive(Debug)]
pub struct Plan {
    /// What it is.
    pub kind: Kind,
    /// Why it is no proven read, if it is none.
    pub reason: Reason,
    /// A number for its normal form, the same in every process; for people and metrics only.
    pub fingerprint: u64,
    /// What a comment in front of it asks for.
    pub directive: Option<Directive>,
    /// As the planner's key: the scope, then the normal form; empty where there is none.
    form: Rc<[u8]>,
    /// Microseconds; zero while nothing was measured.
    run_us: Cell<u32>,
}

impl Plan {
    /// Its normal form: words in lower case, a `$` for each literal or list of literals. `None`
    /// where it is too long, or literals can't be told for sure.
    #[must_use]
    pub fn form(&self) -> Option<&[u8]> {
        self.form.get(1..)
    }

    /// Learns how long a run of it took; a moving average over some eight runs.
    pub fn note(&self, run: Duration) {
        let run = u32::try_from(run.as_micros()).unwrap_or(u32::MAX).max(1);
        let known = self.run_us.get();
        let next = match known {
            0 => run,
            _ => u32::try_from((u64::from(known) * 7 + u64::from(run)).div_ceil(8))
                .unwrap_or(u32::MAX),
        };
        self.run_us.set(next);
    }

    /// How long it takes, as far as is known.
    #[must_use]
    pub fn run_time(&self) -> Option<Duration> {
        let us = self.run_us.get();
        (us > 0).then(|| Duration::from_micros(us.into()))
    }
}

/// What of the session's settings changes how text is read. That facts are by bare name over all
/// schemas makes `search_path` of no account; a session with temporary tables is pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// `standard_conforming_strings`
    pub strings: Strings,
    /// Whether `client_encoding` may have bytes below 0x80 inside a character of several bytes
    /// (`SJIS`, `BIG5`, `GBK`, `UHC`, `GB18030`, `JOHAB`, `SHIFT_JIS_2004`).
    pub unsure_encoding: bool,
}

/// Plans of one database, for one worker.
#[derive(Debug)]
pub struct Planner {
    facts: Arc<Facts>,
    /// Two generations: when the young one is full it becomes the old one, whose plans that are
    /// still asked for move back.
    young: HashMap<Rc<[u8]>, Rc<Plan>>,
    old: HashMap<Rc<[u8]>, Rc<Plan>>,
    /// Plans in one generation at most.
    generation_max: usize,
    /// Reused, so that a hit allocates nothing.
    form: Vec<u8>,
}

impl Planner {
    /// Keeps up to `plans_max` plans. Without facts only what names nothing is proven.
    #[must_use]
    pub fn new(facts: Arc<Facts>, plans_max: usize) -> Self {
        Self {
            facts,
            young: HashMap::new(),
            old: HashMap::new(),
            generation_max: (plans_max / 2).max(1),
            form: Vec::new(),
        }
    }

    /// Forgets all plans and proves by these facts from now on.
    pub fn set_facts(&mut self, facts: Arc<Facts>) {
        self.facts = facts;
        self.young.clear();
        self.old.clear();
    }

    /// The facts that plans are made by.
    #[must_use]
    pub fn facts(&self) -> &Arc<Facts> {
        &self.facts
    }

    /// Plans that are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What `sql`, a query without its final zero byte, is.
    #[inline]
    pub fn plan(&mut self, sql: &[u8], scope: Scope) -> Rc<Plan> {
        self.form.clear();
        // The scope changes what a text means, so it is part of the key.
        self.form.push(scope.key());
        // Where a byte may be half a character, texts of one form may be two statements.
        let unsure = scope.unsure_encoding && !sql.is_ascii();
        if unsure || !normalise(sql, scope.strings, FORM_BYTES_MAX, &mut self.form) {
            return Rc::new(classify(sql, scope, &self.facts, Rc::default()).0);
        }
        if let Some(plan) = self.young.get(self.form.as_slice()) {
            return Rc::clone(plan);
        }
        self.miss(sql, scope)
    }

    #[cold]
    fn miss(&mut self, sql: &[u8], scope: Scope) -> Rc<Plan> {
        let (form, plan) = match self.old.remove_entry(self.form.as_slice()) {
            Some(found) => found,
            None => {
                let form: Rc<[u8]> = self.form.as_slice().into();
                let (plan, keep) = classify(sql, scope, &self.facts, form.clone());
                if !keep {
                    return Rc::new(plan);
                }
                (form, Rc::new(plan))
            }
        };
        if self.young.len() >= self.generation_max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(form, Rc::clone(&plan));
        plan
    }
}

impl Scope {
    fn key(self) -> u8 {
        match (self.strings, self.unsure_encoding) {
            (Strings::Standard, false) => b's',
            (Strings::Standard, true) => b'S',
            (Strings::Backslash, false) => b'b',
            (Strings::Backslash, true) => b'B',
        }
    }
}

/// The plan, and whether it holds for all texts of this normal form.
#[cold]
fn classify(sql: &[u8], scope: Scope, facts: &Facts, form: Rc<[u8]>) -> (Plan, bool) {
    let Classified { kind, reason, keep } = statement::classify_text(sql, scope, facts);
    let (directive, run_us) = (directive(sql), Cell::new(0));
    let fingerprint = form.get(1..).map_or(0, number_of);
    (Plan { kind, reason, fingerprint, directive, form, run_us }, keep)
}

/// FNV-1a: nothing but a name for people, so neither keyed nor wide.
fn number_of(form: &[u8]) -> u64 {
    form.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
