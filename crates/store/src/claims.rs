//! Which type each field has, or has been promised to have.
//!
//! A type is **stored** once a record with it has been applied. Until then it is **promised** to
//! the writes that are on their way through the journal, so that no other write lets a value of
//! another type in meanwhile. A promise lives in the journal's order:
//!
//! - A write takes a number before it relies on promises, and notes it with each of them. It is
//!   appended only while that number still counts ([`Claims::stands`]).
//! - A statement that leaves nothing of a measurement makes promises of its stored types, when it
//!   is applied: records behind it may rely on them.
//! - A promise is void once every record that may rely on it has been applied and did not store
//!   it. [`Claims::begin_settling`] draws a line: whoever has a number below it and is not yet
//!   appended looks again. What the journal then holds is applied, and [`Claims::settle`] takes
//!   away what was promised below the line and is not stored.
//!
//! So a write that is refused leaves nothing behind, and one that conflicts with a promise waits
//! for the next settling to learn whether the field exists.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::catalogue::Catalogue;
use crate::schema::{FieldType, first_conflict};

/// Fields that are looked at or promised while others wait for the measurement.
const FIELDS_AT_ONCE: usize = 1024;

/// The types of all fields, those included that are on their way through the journal.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    policies: RwLock<HashMap<u64, Arc<PolicyClaims>>>,
    /// Counts what is no longer true of stored types and of the catalogue.
    generation: AtomicU64,
    /// The number that the next write takes.
    next: AtomicU64,
    /// Writes with numbers below may not be appended any more; see [`Claims::begin_settling`].
    line: AtomicU64,
    unsettled: Mutex<Unsettled>,
}

/// What a settling has to see to.
#[derive(Debug, Default)]
struct Unsettled {
    /// The measurements that have promises.
    measurements: Vec<Arc<MeasurementClaims>>,
    /// How many [`Hold`]s there are, by their number.
    holds: BTreeMap<u64, usize>,
}

#[derive(Debug, Default)]
struct PolicyClaims {
    measurements: RwLock<HashMap<Box<str>, Arc<MeasurementClaims>>>,
}

/// The claims of one measurement.
#[derive(Debug)]
pub(crate) struct MeasurementClaims {
    policy: u64,
    name: Box<str>,
    fields: RwLock<FieldClaims>,
}

#[derive(Debug, Default)]
struct FieldClaims {
    types: HashMap<Arc<str>, Claim>,
    /// Those that were promised; some may be stored by now.
    promised: Vec<Arc<str>>,
    /// Whether it is among the unsettled.
    listed: bool,
    /// Nothing was left of it: another one has taken its place, or will.
    retired: bool,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) of: FieldType,
    /// The number of the write that relied on it last; `None` once it is stored.
    pub(crate) promised: Option<u64>,
}

/// What the types of some fields are to those of their measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// All types are stored.
    Stored,
    /// All are stored or promised to the write.
    Promised,
    /// The field at this place has another type.
    Conflict(usize, Claim),
    /// The measurement has to be looked up again.
    Retired,
}

/// Keeps every promise in force that is found while it is there, for a write that takes longer than
/// a settling may.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    claims: &'a Claims,
    number: u64,
}

impl Claims {
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// A number for a write.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::AcqRel)
    }

    /// Whether what a write has relied on is still so. Asked with the journal's buffer locked: see
    /// [`begin_settling`](Self::begin_settling).
    pub(crate) fn stands(&self, generation: u64, number: Option<u64>) -> bool {
        self.generation() == generation
            && number.is_none_or(|number| number >= self.line.load(Ordering::Acquire))
    }

    /// Keeps promises in force until it goes.
    pub(crate) fn hold(&self) -> Hold<'_> {
        let mut unsettled = self.unsettled();
        let number = self.number();
        *unsettled.holds.entry(number).or_default() += 1;
        Hold { claims: self, number }
    }

    fn unsettled(&self) -> MutexGuard<'_, Unsettled> {
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn policy(&self, policy: u64) -> Arc<PolicyClaims> {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = policies.get(&policy) {
            return Arc::clone(known);
        }
        drop(policies);
        let mut policies = self.policies.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(policies.entry(policy).or_default())
    }

    /// The claims of a measurement, made when there are none.
    pub(crate) fn measurement(&self, policy: u64, name: &str) -> Arc<MeasurementClaims> {
        let of = self.policy(policy);
        let measurements = of.measurements.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = measurements.get(name) {
            return Arc::clone(known);
        }
        drop(measurements);
        let mut measurements = of.measurements.write().unwrap_or_else(PoisonError::into_inner);
        let new = || MeasurementClaims { policy, name: name.into(), fields: RwLock::default() };
        Arc::clone(measurements.entry(name.into()).or_insert_with(|| Arc::new(new())))
    }

    /// Forgets policies that are no more; their numbers do not come again.
    pub(crate) fn keep(&self, catalogue: &Catalogue) {
        let known: Vec<u64> = catalogue.policies().map(|(ids, _)| ids.policy).collect();
        let mut policies = self.policies.write().unwrap_or_else(PoisonError::into_inner);
        policies.retain(|policy, _| known.contains(policy));
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes types that have been applied, whatever was promised.
    pub(crate) fn store<'a>(
        &self,
        policy: u64,
        measurement: &str,
        fields: impl Iterator<Item = (&'a str, FieldType)>,
    ) {
        let mut claims = self.measurement(policy, measurement);
        let mut known = claims.write();
        while known.retired {
            drop(known);
            claims = self.measurement(policy, measurement);
            known = claims.write();
        }
        let mut broken = false;
        for (field, of) in fields {
            let stored = Claim { of, promised: None };
            match known.types.get_mut(field) {
                Some(claim) => {
                    broken |= claim.of != of;
                    *claim = stored;
                }
                None => {
                    known.types.insert(field.into(), stored);
                }
            }
        }
        drop(known);
        if broken {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Makes promises of the types of a measurement that is no more: records that come later in the
    /// journal may rely on them.
    pub(crate) fn drop_stored(&self, policy: u64, measurement: &str) {
        let measurement = self.measurement(policy, measurement);
        // No line is drawn between this and the generation, which those look at who remember.
        let mut unsettled = self.unsettled();
        let number = self.number();
        let mut fields = measurement.write();
        let FieldClaims { types, promised, listed, .. } = &mut *fields;
        for (field, claim) in types.iter_mut().filter(|(_, claim)| claim.promised.is_none()) {
            claim.promised = Some(number);
            promised.push(Arc::clone(field));
        }
        if !std::mem::replace(listed, true) {
            unsettled.measurements.push(Arc::clone(&measurement));
        }
        drop(fields);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Promises the types of fields, which [`fit`](MeasurementClaims::fit), to the write of this
    /// number: all or none.
    pub(crate) fn promise<N: AsRef<str>>(
        &self,
        measurement: &Arc<MeasurementClaims>,
        fields: &[(N, FieldType)],
        number: u64,
    ) -> Fit {
        if let Some(fit) = conflict_within(fields, number) {
            return fit;
        }
        let mut new: Vec<usize> = Vec::new();
        for (before, some) in chunks(fields) {
            let mut known = measurement.write();
            if let Some(fit) = known.conflict(some, before) {
                // Another write was quicker.
                drop(known);
                measurement.take_back(new.iter().map(|&at| fields[at].0.as_ref()), number);
                return fit;
            }
            for (at, (name, of)) in some.iter().enumerate() {
                match known.types.get_mut(name.as_ref()) {
                    Some(claim) => claim.promised = claim.promised.map(|last| last.max(number)),
                    None => {
                        let field: Arc<str> = name.as_ref().into();
                        known.promised.push(Arc::clone(&field));
                        known.types.insert(field, Claim { of: *of, promised: Some(number) });
                        new.push(before + at);
                    }
                }
            }
            let is_listed = std::mem::replace(&mut known.listed, true);
            drop(known);
            if !is_listed {
                self.unsettled().measurements.push(Arc::clone(measurement));
            }
        }
        Fit::Promised
    }

    /// Whether there is a promise that may be void, or may be stored by now.
    pub(crate) fn has_promises(&self) -> bool {
        !self.unsettled().measurements.is_empty()
    }

    /// Draws the line for a settling: gives the number below which writes that are not appended yet
    /// look again.
    pub(crate) fn begin_settling(&self) -> u64 {
        let unsettled = self.unsettled();
        let line = self.next.load(Ordering::Acquire);
        self.line.store(line, Ordering::Release);
        drop(unsettled);
        line
    }

    /// Whether nobody holds promises from below the line: what the journal has been given from now
    /// on relies on none of them.
    pub(crate) fn is_released(&self, line: u64) -> bool {
        self.unsettled().holds.range(..line).next().is_none()
    }

    /// Takes away the promises from below a line that are not stored. Everything has been applied
    /// that was appended before [`is_released`](Self::is_released) said yes.
    pub(crate) fn settle(&self, line: u64) {
        let listed = std::mem::take(&mut self.unsettled().measurements);
        for measurement in listed {
            if measurement.settle(line) {
                self.retire(&measurement);
            } else {
                self.unsettled().measurements.push(measurement);
            }
        }
    }

    /// Removes a measurement that has no fields.
    fn retire(&self, measurement: &Arc<MeasurementClaims>) {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        let Some(policy) = policies.get(&measurement.policy) else { return };
        let mut measurements = policy.measurements.write().unwrap_or_else(PoisonError::into_inner);
        let mut fields = measurement.write();
        if fields.types.is_empty() && !fields.listed && !fields.retired {
            fields.retired = true;
            measurements.remove(&measurement.name);
        }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut unsettled = self.claims.unsettled();
        if let Some(count) = unsettled.holds.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                unsettled.holds.remove(&self.number);
            }
        }
    }
}

impl MeasurementClaims {
    fn read(&self) -> RwLockReadGuard<'_, FieldClaims> {
        self.fields.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, FieldClaims> {
        self.fields.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all fields are stored, or which of them has another type. `None` where some are to
    /// be promised.
    pub(crate) fn fit<N: AsRef<str>>(&self, fields: &[(N, FieldType)]) -> Option<Fit> {
        let mut stored = true;
        for (before, some) in chunks(fields) {
            let known = self.read();
            if let Some(fit) = known.conflict(some, before) {
                return Some(fit);
            }
            stored = stored && some.iter().all(|(name, _)| known.is_stored(name.as_ref()));
        }
        stored.then_some(Fit::Stored)
    }

    /// Takes away the promises from below a line; whether none is left, stored ones apart.
    fn settle(&self, line: u64) -> bool {
        let mut rest = std::mem::take(&mut self.write().promised);
        let mut kept = Vec::new();
        while !rest.is_empty() {
            let some = rest.split_off(rest.len().saturating_sub(FIELDS_AT_ONCE));
            let mut known = self.write();
            for field in some {
                match known.types.get(&field).and_then(|claim| claim.promised) {
                    Some(last) if last >= line => kept.push(field),
                    Some(_) => drop(known.types.remove(&field)),
                    None => {}
                }
            }
        }
        let mut known = self.write();
        known.promised.append(&mut kept);
        known.listed = !known.promised.is_empty();
        !known.listed
    }

    /// Takes back what was promised to the write of this number.
    fn take_back<'a>(&self, fields: impl Iterator<Item = &'a str>, number: u64) {
        for field in fields {
            let mut known = self.write();
            if known.types.get(field).is_some_and(|claim| claim.promised == Some(number)) {
                known.types.remove(field);
            }
        }
    }
}

impl FieldClaims {
    fn is_stored(&self, field: &str) -> bool {
        self.types.get(field).is_some_and(|claim| claim.promised.is_none())
    }

    /// The first of some fields that has another type; their places count from `before`.
    fn conflict<N: AsRef<str>>(&self, fields: &[(N, FieldType)], before: usize) -> Option<Fit> {
        if self.retired {
            return Some(Fit::Retired);
        }
        let claim = |name: &str| self.types.get(name).copied();
        let (at, _) = first_conflict(fields, |name, _| claim(name).map(|claim| claim.of))?;
        claim(fields[at].0.as_ref()).map(|claim| Fit::Conflict(before + at, claim))
    }
}

/// Pieces of a list of fields with their places in it.
fn chunks<T>(fields: &[T]) -> impl Iterator<Item = (usize, &[T])> {
    fields.chunks(FIELDS_AT_ONCE).enumerate().map(|(n, some)| (n * FIELDS_AT_ONCE, some))
}

/// A field that comes twice in one line, as something else the second time.
fn conflict_within<N: AsRef<str>>(fields: &[(N, FieldType)], number: u64) -> Option<Fit> {
    let mut seen: HashMap<&str, FieldType> = HashMap::with_capacity(fields.len());
    let (at, of) = first_conflict(fields, |name, of| seen.insert(name, of))?;
    Some(Fit::Conflict(at, Claim { of, promised: Some(number) }))
}
