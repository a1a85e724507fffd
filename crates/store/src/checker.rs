//! What a worker checks before a write goes into the journal.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use hashbrown::HashSet;
use wire::line::{Mark, Marks, Point};

use crate::catalogue::Ids;
use crate::claims::{Claim, Fit, Hold, MeasurementClaims};
use crate::schema::{FieldType, conflict};
use crate::store::Store;

/// Checks the types of fields and the age of points by the marks of their lines, with a memory of
/// its own of the forms that are right: only a line of a new form is read, and takes a lock.
#[derive(Debug)]
pub struct Checker {
    store: Arc<Store>,
    generation: u64,
    /// Nanoseconds that the points of a policy are kept, where it is not for ever.
    durations: HashMap<u64, i64>,
    policies: HashMap<u64, Policy>,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The numbers of the points that InfluxDB would refuse, in their order.
    pub refused: Vec<usize>,
    /// Why it would refuse the first of them, in its words.
    pub reason: Option<String>,
    /// What the other points rely on.
    pub basis: Basis,
}

/// What the types of checked points rely on: the journal takes them only while it
/// [stands](Store::stands).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basis {
    generation: u64,
    /// The number of the write, where it relies on promises.
    number: Option<u64>,
}

/// A check that found nothing out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// A field has another type if a write that is under way comes to pass, which a settling
    /// [past](Store::begin_settling) this number will show.
    Promised(u64),
    /// There is too much to look up or to learn for the time there is.
    TooLong,
}

/// How many fields a check may look up, as it has to where a line has a form that is not known:
/// about 4 ms.
pub const LOOKUPS_AT_ONCE_MAX: usize = 1 << 16;
/// How many lookups a field takes whose type is to be promised.
const LOOKUPS_A_PROMISE: usize = 8;

#[derive(Debug, Default)]
struct Policy {
    /// By the measurement as it is written.
    measurements: HashMap<Box<[u8]>, Measurement>,
    /// Forms of lines whose types are right.
    forms: HashSet<u64>,
    /// The form of the last line, if it is one of these.
    last: Option<u64>,
    /// Forms whose types are promised, so that they count for one write only.
    promised: Vec<u64>,
}

#[derive(Debug)]
struct Measurement {
    name: String,
    claims: Arc<MeasurementClaims>,
}

/// What is known while the points of one write go by.
struct Write<'a> {
    store: &'a Store,
    policy: u64,
    oldest: i64,
    /// Lookups that are left.
    budget: usize,
    /// Taken with the first promise.
    number: Option<u64>,
    /// Why the first point that is not kept is not, in InfluxDB's words.
    reason: Option<String>,
}

/// What is not kept: the point, or all of the write for now.
enum Refusal {
    Point,
    Write(Undecided),
}

/// Measurements of a policy, as they are written, past which a worker forgets them all.
const MEASUREMENTS_MAX: usize = 1 << 16;
/// Forms of lines past which a worker forgets them all.
const FORMS_MAX: usize = 1 << 17;

impl Checker {
    /// A checker that remembers nothing yet.
    pub fn new(store: Arc<Store>) -> Self {
        let mut new = Self {
            generation: store.claims.generation(),
            store,
            durations: HashMap::new(),
            policies: HashMap::new(),
        };
        new.read_catalogue();
        new
    }

    /// Whether points may still be appended; see [`Store::stands`].
    pub fn stands(&self, basis: &Basis) -> bool {
        self.store.stands(basis)
    }

    /// Finds the points among `lines` (normalised), which have these `marks`, that InfluxDB would
    /// refuse at `now_ns`, and promises the types of new fields to the others. Looks up at most
    /// about `lookups_max` fields. The key of the marks is the same in every check.
    ///
    /// # Errors
    /// What stands in the way of a decision.
    pub fn check(
        &mut self,
        target: Ids,
        lines: &[u8],
        marks: &Marks,
        now_ns: i64,
        lookups_max: usize,
    ) -> Result<Checked, Undecided> {
        self.refresh();
        let duration = self.durations.get(&target.policy);
        let oldest = duration.map_or(i64::MIN, |duration| now_ns.saturating_sub(*duration));
        let policy = self.policies.entry(target.policy).or_default();
        if policy.measurements.len() > MEASUREMENTS_MAX {
            policy.measurements.clear();
        }
        if policy.forms.len() > FORMS_MAX {
            policy.forms.clear();
        }
        let (store, budget) = (&*self.store, lookups_max);
        let (policy_id, number, reason) = (target.policy, None, None);
        let mut write = Write { store, policy: policy_id, oldest, budget, number, reason };
        let checked = policy.check(&mut write, lines, marks);
        policy.forget_promised();
        let Write { number, reason, .. } = write;
        let basis = Basis { generation: self.generation, number };
        Ok(Checked { refused: checked?, reason, basis })
    }

    /// Looks whether something that is remembered is no longer true.
    fn refresh(&mut self) {
        let generation = self.store.claims.generation();
        if generation != self.generation {
            self.generation = generation;
            self.policies.clear();
            self.read_catalogue();
        }
    }

    fn read_catalogue(&mut self) {
        let catalogue = self.store.catalogue();
        let kept = catalogue.policies().filter(|(_, policy)| policy.duration_ns > 0);
        self.durations = kept.map(|(ids, policy)| (ids.policy, policy.duration_ns)).collect();
    }
}

impl Store {
    /// Whether the points of a check may be appended: asked while the journal takes them, so that
    /// their place in it is known to those who begin a settling later.
    pub fn stands(&self, basis: &Basis) -> bool {
        self.claims.stands(basis.generation, basis.number)
    }

    /// Keeps in force what a check finds until the write is appended or refused, for one that takes
    /// longer than a settling may: its [`Basis`] needs no look.
    pub fn hold_promises(&self) -> PromiseHold<'_> {
        PromiseHold { _hold: self.claims.hold() }
    }

    /// Whether there are types that were promised and may be void by now.
    pub fn has_promises(&self) -> bool {
        self.claims.has_promises()
    }

    /// Begins to find out which promises came to nothing: gives a line. Once
    /// [`is_released`](Self::is_released) says so, the end of the journal is to be noted, and when
    /// that has been applied, [`settle`](Self::settle) is to be called.
    pub fn begin_settling(&self) -> u64 {
        self.claims.begin_settling()
    }

    /// Whether no write is on its way into the journal that relies on promises from below a line.
    pub fn is_released(&self, line: u64) -> bool {
        self.claims.is_released(line)
    }

    /// Voids the promises from below a line that no record has kept.
    pub fn settle(&self, line: u64) {
        self.claims.settle(line);
    }
}

/// Keeps promises in force; see [`Store::hold_promises`].
#[derive(Debug)]
#[must_use = "promises are held until it goes"]
pub struct PromiseHold<'a> {
    _hold: Hold<'a>,
}

impl Policy {
    /// Gives the numbers of the points that are not kept.
    fn check(
        &mut self,
        write: &mut Write<'_>,
        lines: &[u8],
        marks: &Marks,
    ) -> Result<Vec<usize>, Undecided> {
        let mut bad = Vec::new();
        let mut start = 0;
        // What was forgotten since the last write is looked up again.
        self.last = None;
        for (number, mark) in marks.iter().enumerate() {
            match self.point(write, lines.get(start..mark.end).unwrap_or_default(), mark) {
                Ok(()) => {}
                Err(Refusal::Write(undecided)) => return Err(undecided),
                Err(Refusal::Point) => bad.push(number),
            }
            start = mark.end;
        }
        Ok(bad)
    }

    #[inline]
    fn point(&mut self, write: &mut Write<'_>, line: &[u8], mark: &Mark) -> Result<(), Refusal> {
        if mark.time_ns < write.oldest {
            return Err(write.refuse(|| "points beyond retention policy".to_owned()));
        }
        if self.last == Some(mark.form) {
            return Ok(());
        }
        if !self.forms.contains(&mark.form) {
            self.learn(write, line, mark.form)?;
        }
        self.last = Some(mark.form);
        Ok(())
    }

    /// Looks up the fields of a line whose form is not known.
    #[cold]
    fn learn(&mut self, write: &mut Write<'_>, line: &[u8], form: u64) -> Result<(), Refusal> {
        let Some(point) = wire::line::read(line) else {
            return Err(write.refuse(|| "point is invalid".to_owned()));
        };
        let written = wire::line::measurement(point.series);
        if !self.measurements.contains_key(written) {
            write.spend(LOOKUPS_A_PROMISE)?;
            self.measurements.insert(written.into(), Measurement::new(write, written));
        }
        let Some(measurement) = self.measurements.get_mut(written) else { return Ok(()) };
        if measurement.learn(write, point)? {
            self.promised.push(form);
        }
        self.forms.insert(form);
        Ok(())
    }

    /// What is promised to one write is not known to the next.
    fn forget_promised(&mut self) {
        for form in self.promised.drain(..) {
            self.forms.remove(&form);
        }
    }
}

impl Write<'_> {
    fn spend(&mut self, lookups: usize) -> Result<(), Refusal> {
        self.budget = self.budget.checked_sub(lookups).ok_or(Refusal::Write(Undecided::TooLong))?;
        Ok(())
    }

    fn refuse(&mut self, why: impl FnOnce() -> String) -> Refusal {
        self.reason.get_or_insert_with(why);
        Refusal::Point
    }

    fn number(&mut self) -> u64 {
        *self.number.get_or_insert_with(|| self.store.claims.number())
    }
}

impl Measurement {
    fn new(write: &Write<'_>, written: &[u8]) -> Self {
        let name = unescaped(written).into_owned();
        let claims = write.store.claims.measurement(write.policy, &name);
        Self { name, claims }
    }

    /// Checks the fields one by one, and has those promised that are not stored if no other is
    /// wrong. Whether there were such.
    fn learn(&mut self, write: &mut Write<'_>, point: Point<'_>) -> Result<bool, Refusal> {
        let mut fields: Vec<(Cow<'_, str>, FieldType)> = Vec::new();
        for field in point.fields {
            write.spend(1)?;
            fields.push((unescaped(field.name), FieldType::of(field.value)));
        }
        let fit = loop {
            let fit = match self.claims.fit(&fields) {
                Some(fit) => fit,
                None => {
                    write.spend(fields.len().saturating_mul(LOOKUPS_A_PROMISE))?;
                    write.store.claims.promise(&self.claims, &fields, write.number())
                }
            };
            if fit != Fit::Retired {
                break fit;
            }
            self.claims = write.store.claims.measurement(write.policy, &self.name);
        };
        match fit {
            Fit::Conflict(at, claim) => Err(self.refusal(write, fields.get(at), claim)),
            Fit::Stored | Fit::Promised | Fit::Retired => Ok(fit == Fit::Promised),
        }
    }

    /// What a field is refused for that has another type: decided where the type is stored, or
    /// promised to points of this very write.
    fn refusal(
        &self,
        write: &mut Write<'_>,
        field: Option<&(Cow<'_, str>, FieldType)>,
        known: Claim,
    ) -> Refusal {
        match known.promised {
            Some(number) if write.number != Some(number) => {
                Refusal::Write(Undecided::Promised(number))
            }
            _ => {
                let (name, of) = field.map_or(("", known.of), |(name, of)| (&**name, *of));
                write.refuse(|| conflict(name, &self.name, of, known.of))
            }
        }
    }
}

fn unescaped(name: &[u8]) -> Cow<'_, str> {
    match wire::line::unescape_name(name) {
        Cow::Borrowed(name) => String::from_utf8_lossy(name),
        Cow::Owned(name) => Cow::Owned(String::from_utf8_lossy(&name).into_owned()),
    }
}

#[cfg(test)]
mod tests;
