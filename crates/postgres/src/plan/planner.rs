//! Plans by the normal form of their text.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use wire::sql::{Directive, Strings, directive, normalise};

use super::effects::Effects;
use super::facts::Facts;
use super::kind::{Kind, Pin};
use super::reason::Reason;
use super::statement::{self, Classified, StatementTraits};

/// Longest normal form that is kept, in bytes; of what is longer the last text is.
const FORM_BYTES_MAX: usize = 4096;
/// A text whose form is not kept is kept itself from this length on: it is asked for several times
/// on its way, and to look into it takes long.
const TEXT_KEPT_MIN: usize = 1024;
/// Up to this one.
const TEXT_KEPT_MAX: usize = 64 * 1024;

/// What is known of a statement.
#[derive(Debug)]
pub struct Plan {
    pub kind: Kind,
    /// Why it is not a proven read, if it is none.
    pub reason: Reason,
    /// It is a proven read whose result does not depend on which transaction it runs in, as long as
    /// that is READ COMMITTED and has written nothing: it may run outside the one it is sent in. A
    /// transaction is READ COMMITTED where neither its `BEGIN` nor a setting of the session's says
    /// otherwise; what the server and the database say is in the facts. A literal or parameter may
    /// still be the word for a time: [`super::names_moment`].
    pub steady: bool,
    /// A server has one sensible plan for it, whatever its constants are: see [`super::point`].
    pub is_point: bool,
    /// What it does to the server's session, and what its answer depends on there.
    pub effects: Effects,
    /// It changes data, and nothing tells whether it does so in a transaction of its own.
    is_quiet: bool,
    /// Until when it goes alone all the same.
    alone_until: Cell<Option<Instant>>,
    /// A number for its normal form, the same in every process; for people and metrics only.
    pub fingerprint: u64,
    /// What a comment in front of it asks for.
    pub directive: Option<Directive>,
    /// As the planner's key: the scope, then the normal form; empty where there is none.
    form: Rc<[u8]>,
    /// Microseconds; zero while nothing was measured.
    run_us: Cell<u32>,
    /// It is not a read, though it was proven to be one.
    is_refuted: Cell<bool>,
}

impl Plan {
    pub(super) fn new(
        found: StatementTraits,
        directive: Option<Directive>,
        form: Rc<[u8]>,
    ) -> Self {
        let StatementTraits { kind, reason, steady, point, effects } = found;
        let is_quiet = kind == Kind::Write && point.is_some_and(|point| point.is_quiet);
        let is_point = point.is_some();
        let (run_us, is_refuted, alone_until) = Default::default();
        let fingerprint = form.get(1..).map_or(0, number_of);
        Self {
            kind,
            reason,
            steady,
            is_point,
            effects,
            is_quiet,
            alone_until,
            fingerprint,
            directive,
            form,
            run_us,
            is_refuted,
        }
    }

    /// The same once the catalogue has changed, of a text that is too long to be looked into again
    /// here: nothing is proven of it. `pins`: what its strings are may be other, too.
    #[must_use]
    pub fn outdated(&self, facts: &Facts, pins: bool) -> Self {
        let kind = match &self.kind {
            _ if pins => Kind::Pins(Pin::Setting),
            Kind::Read => Kind::Other,
            kind => kind.clone(),
        };
        let effects = self.effects.clone().or_unknown(facts);
        let found = StatementTraits { effects, ..StatementTraits::of(kind, Reason::TooLong) };
        Self::new(found, self.directive, Rc::default())
    }

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

    /// Whether it may share a transaction with others, which all commit with it.
    #[must_use]
    pub fn may_batch(&self, now: Instant) -> bool {
        self.is_quiet && !self.is_to_go_alone(now)
    }

    /// Whether it has failed among others a moment ago.
    pub fn is_to_go_alone(&self, now: Instant) -> bool {
        self.alone_until.get().is_some_and(|until| until >= now)
    }

    /// It has failed among others: its like goes alone for a while.
    pub fn goes_alone(&self, until: Instant) {
        self.alone_until.set(Some(until));
    }

    /// A replica refused it since it writes (SQLSTATE 25006): a function does not do what the
    /// catalogue says of it. Its like is a read no more.
    pub fn refute(&self) {
        self.is_refuted.set(self.kind == Kind::Read);
    }

    /// Whether it is to be planned anew.
    #[inline]
    #[must_use]
    pub fn is_refuted(&self) -> bool {
        self.is_refuted.get()
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
    /// Numbers of what was refuted, which outlive the facts, in two generations as plans.
    refuted: [HashSet<u64>; 2],
    /// Reused, so that a hit allocates nothing.
    form: Vec<u8>,
    /// The last text whose form is not kept.
    last: Option<Last>,
}

/// A text whose form is not kept.
#[derive(Debug)]
struct Last {
    text: Box<[u8]>,
    scope: Scope,
    plan: Rc<Plan>,
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
            refuted: Default::default(),
            form: Vec::new(),
            last: None,
        }
    }

    /// Forgets all plans and proves by these facts from now on.
    pub fn set_facts(&mut self, facts: Arc<Facts>) {
        self.facts = facts;
        let plans = self.young.values().chain(self.old.values());
        let refuted: Vec<u64> = plans.filter_map(refuted).collect();
        refuted.into_iter().for_each(|number| self.note_refuted(number));
        self.young.clear();
        self.old.clear();
        self.last = None;
    }

    fn note_refuted(&mut self, number: u64) {
        if self.refuted[0].len() >= self.generation_max {
            self.refuted[1] = std::mem::take(&mut self.refuted[0]);
        }
        self.refuted[0].insert(number);
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

    /// Forms that are known to have been refuted.
    #[must_use]
    pub fn refuted(&self) -> usize {
        self.refuted.iter().map(HashSet::len).sum()
    }

    /// What `sql`, a query without its final zero byte, is.
    #[inline]
    pub fn plan(&mut self, sql: &[u8], scope: Scope) -> Rc<Plan> {
        if (TEXT_KEPT_MIN..=TEXT_KEPT_MAX).contains(&sql.len())
            && let Some(last) = &self.last
            && last.scope == scope
            && *last.text == *sql
            && !last.plan.is_refuted()
        {
            return last.plan.clone();
        }
        self.form.clear();
        // The scope changes what a text means, so it is part of the key.
        self.form.push(scope.key());
        // Where a byte may be half a character, texts of one form may be two statements.
        let unsure = scope.unsure_encoding && !sql.is_ascii();
        if unsure || !normalise(sql, scope.strings, FORM_BYTES_MAX, &mut self.form) {
            let plan = classify(sql, scope, &self.facts, Rc::default()).0;
            return self.keep_last(sql, scope, plan);
        }
        match self.young.get(self.form.as_slice()) {
            Some(plan) if !plan.is_refuted() => Rc::clone(plan),
            _ => self.miss(sql, scope),
        }
    }

    #[cold]
    fn miss(&mut self, sql: &[u8], scope: Scope) -> Rc<Plan> {
        if let Some(number) = self.young.get(self.form.as_slice()).and_then(refuted) {
            self.note_refuted(number);
        }
        let known = self.old.remove_entry(self.form.as_slice());
        if let Some(number) = known.as_ref().and_then(|(_, plan)| refuted(plan)) {
            self.note_refuted(number);
        }
        let (form, plan) = match known.filter(|(_, plan)| !plan.is_refuted()) {
            Some(found) => found,
            None => {
                let form: Rc<[u8]> = self.form.as_slice().into();
                let (mut plan, keep) = classify(sql, scope, &self.facts, form.clone());
                let is_refuted = |all: &HashSet<u64>| all.contains(&plan.fingerprint);
                if plan.kind == Kind::Read && self.refuted.iter().any(is_refuted) {
                    (plan.kind, plan.reason, plan.steady) = (Kind::Other, Reason::Refuted, false);
                    plan.effects = std::mem::take(&mut plan.effects).or_unknown(&self.facts);
                }
                if !keep {
                    return self.keep_last(sql, scope, plan);
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

impl Planner {
    fn keep_last(&mut self, sql: &[u8], scope: Scope, plan: Plan) -> Rc<Plan> {
        let plan = Rc::new(plan);
        if (TEXT_KEPT_MIN..=TEXT_KEPT_MAX).contains(&sql.len()) {
            self.last = Some(Last { text: sql.into(), scope, plan: plan.clone() });
        }
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
    let Classified { found, keep } = statement::classify_text(sql, scope, facts);
    (Plan::new(found, directive(sql), form), keep)
}

/// The number of a plan that was refuted.
fn refuted(plan: &Rc<Plan>) -> Option<u64> {
    plan.is_refuted().then_some(plan.fingerprint)
}

/// FNV-1a: nothing but a name for people, so neither keyed nor wide.
fn number_of(form: &[u8]) -> u64 {
    form.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
