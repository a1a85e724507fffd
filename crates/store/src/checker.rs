//! What a worker checks before a write goes into the journal.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use wire::line::{Fields, Point};

use crate::catalogue::Ids;
use crate::claims::{MeasurementClaims, Types};
use crate::schema::{FieldType, conflict};
use crate::store::Store;

/// Checks the types of fields and the age of points, with a memory of its own of what is known:
/// only a new field takes a lock.
#[derive(Debug)]
pub struct Checker {
    store: Arc<Store>,
    generation: u64,
    /// Nanoseconds that the points of a policy are kept, where it is not for ever.
    durations: HashMap<u64, i64>,
    policies: HashMap<u64, Policy>,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Points that are left.
    pub kept: u32,
    /// Points that were taken out.
    pub dropped: u32,
    /// Why the first of them was, in InfluxDB's words.
    pub reason: Option<String>,
}

#[derive(Debug, Default)]
struct Policy {
    /// By the measurement as it is written.
    measurements: HashMap<Box<[u8]>, Measurement>,
}

#[derive(Debug)]
struct Measurement {
    name: String,
    claims: Arc<MeasurementClaims>,
    types: Arc<Types>,
    /// The fields of the last line as they are written, whose types are known to be right.
    shape: Vec<(Box<[u8]>, FieldType)>,
}

/// Measurements of a policy, as they are written, past which a worker forgets them all.
const MEASUREMENTS_MAX: usize = 1 << 16;

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

    /// Takes out of `lines` (normalised) the points that InfluxDB would refuse at `now_ns`.
    pub fn check(&mut self, target: Ids, lines: &mut Vec<u8>, now_ns: i64) -> Checked {
        self.refresh();
        let duration = self.durations.get(&target.policy);
        let oldest = duration.map_or(i64::MIN, |duration| now_ns.saturating_sub(*duration));
        let policy = self.policies.entry(target.policy).or_default();
        if policy.measurements.len() > MEASUREMENTS_MAX {
            policy.measurements.clear();
        }
        let mut checked = Checked::default();
        let mut bad: Vec<Range<usize>> = Vec::new();
        let mut start = 0;
        for record in wire::line::points(lines) {
            match policy.point(&self.store, target, record, oldest) {
                Ok(()) => checked.kept += 1,
                Err(why) => {
                    checked.dropped += 1;
                    checked.reason.get_or_insert(why.into_owned());
                    bad.push(start..start + record.len());
                }
            }
            start += record.len();
        }
        remove(lines, &bad);
        checked
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

impl Policy {
    #[inline]
    fn point(
        &mut self,
        store: &Store,
        target: Ids,
        record: &[u8],
        oldest: i64,
    ) -> Result<(), Cow<'static, str>> {
        let Some(point) = wire::line::read(record) else {
            return Err("point is invalid".into());
        };
        if point.time_ns < oldest {
            return Err("points beyond retention policy".into());
        }
        let written = wire::line::measurement(point.series);
        let measurement = match self.measurements.get_mut(written) {
            Some(known) => known,
            None => {
                let new = Measurement::new(store, target, written);
                self.measurements.entry(written.into()).or_insert(new)
            }
        };
        if measurement.has_shape(point.fields) { Ok(()) } else { measurement.learn(point) }
    }
}

impl Measurement {
    #[cold]
    fn new(store: &Store, target: Ids, written: &[u8]) -> Self {
        let name = unescaped(written);
        let claims = store.claims.measurement(target.policy, &name);
        let types = claims.types();
        Self { name, claims, types, shape: Vec::new() }
    }

    #[inline]
    fn has_shape(&self, fields: Fields<'_>) -> bool {
        let mut known = self.shape.iter();
        let mut fields = fields;
        fields.all(|field| {
            known.next().is_some_and(|(name, of)| {
                **name == *field.name && *of == FieldType::of(field.value)
            })
        })
    }

    /// Checks the fields one by one, and claims those that are new if no other is wrong.
    #[cold]
    fn learn(&mut self, point: Point<'_>) -> Result<(), Cow<'static, str>> {
        self.types = self.claims.types();
        let mut new: Vec<(String, FieldType)> = Vec::new();
        for field in point.fields {
            let (name, of) = (unescaped(field.name), FieldType::of(field.value));
            let added = || new.iter().find(|(known, _)| *known == name).map(|(_, of)| *of);
            match self.types.get(&name).copied().or_else(added) {
                Some(known) if known != of => {
                    return Err(conflict(&name, &self.name, of, known).into());
                }
                Some(_) => {}
                None => new.push((name, of)),
            }
        }
        for (name, of) in &new {
            let known = self.claims.claim(name, *of);
            if known != *of {
                return Err(conflict(name, &self.name, *of, known).into());
            }
        }
        self.shape.clear();
        let shape = point.fields.map(|field| (field.name.into(), FieldType::of(field.value)));
        self.shape.extend(shape);
        Ok(())
    }
}

fn unescaped(name: &[u8]) -> String {
    String::from_utf8_lossy(&wire::line::unescape_name(name)).into_owned()
}

/// Takes ranges, which ascend and do not overlap, out of `lines`.
fn remove(lines: &mut Vec<u8>, ranges: &[Range<usize>]) {
    let Some(first) = ranges.first() else { return };
    let mut to = first.start;
    for (at, range) in ranges.iter().enumerate() {
        let end = ranges.get(at + 1).map_or(lines.len(), |next| next.start);
        lines.copy_within(range.end..end, to);
        to += end - range.end;
    }
    lines.truncate(to);
}

#[cfg(test)]
mod tests {
    use super::Checker;
    use crate::testing::TestStore;

    #[test]
    fn a_type_once_claimed_stays() {
        let test = TestStore::new();
        let ids = test.store.catalogue().resolve("db", "").unwrap().ids;
        let mut one = Checker::new(test.store.clone());
        let mut other = Checker::new(test.store.clone());
        let mut lines = b"m f=1 1\nm g=1i,f=2 2\n".to_vec();
        let checked = one.check(ids, &mut lines, 0);
        assert_eq!((checked.kept, checked.dropped), (2, 0));
        let mut lines = b"m f=1i 1\nm f=3 2\nm h=1,g=t 3\nm f=4 4\nm k=1,k=1i 5\n".to_vec();
        let checked = other.check(ids, &mut lines, 0);
        assert_eq!((checked.kept, checked.dropped), (2, 3));
        assert_eq!(String::from_utf8_lossy(&lines), "m f=3 2\nm f=4 4\n");
        assert_eq!(
            checked.reason.unwrap(),
            "field type conflict: input field \"f\" on measurement \"m\" is type integer, \
             already exists as type float"
        );
        // What was refused has claimed nothing.
        let mut lines = b"m h=t 1\n".to_vec();
        assert_eq!(one.check(ids, &mut lines, 0).dropped, 0);
    }

    #[test]
    fn what_is_applied_is_claimed() {
        let test = TestStore::with("m f=1 1\n");
        let ids = test.store.catalogue().resolve("db", "").unwrap().ids;
        let mut lines = b"m f=1i 1\n".to_vec();
        assert_eq!(Checker::new(test.store.clone()).check(ids, &mut lines, 0).dropped, 1);
        assert!(lines.is_empty());
    }

    #[test]
    fn old_points_are_refused() {
        let test = TestStore::new();
        let hour = 3_600_000_000_000;
        let policy = wire::influxql::ast::PolicySpec {
            name: Some("short".to_owned()),
            duration_ns: Some(hour),
            ..Default::default()
        };
        let db = "db".to_owned();
        test.change(&wire::influxql::ast::Statement::CreateRetentionPolicy { db, policy });
        let ids = test.store.catalogue().resolve("db", "short").unwrap().ids;
        let mut lines = b"m f=1 1\nm f=1 7200000000000\n".to_vec();
        let checked = Checker::new(test.store.clone()).check(ids, &mut lines, 2 * hour);
        assert_eq!((checked.kept, checked.dropped), (1, 1));
        assert_eq!(checked.reason.unwrap(), "points beyond retention policy");
    }
}
