//! Records of points on their way into memtables.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use wire::line::{Field, Fields, Value};

use super::Store;
use crate::catalogue::Ids;
use crate::claims::Claims;
use crate::data::{MeasurementData, PolicyData};
use crate::partition::Partitions;
use crate::schema::{FieldSet, FieldType, conflict, first_conflict};
use crate::series::{KnownSeries, SeriesRef};

/// What became of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Points that are in the store now.
    pub points: u64,
    /// Points that are not: refused, or for a database or policy that is no more.
    pub dropped: u64,
}

/// What only the applying thread needs.
#[derive(Debug, Default)]
pub(super) struct Applier {
    policies: HashMap<u64, PolicyApplier>,
}

/// The same for one policy.
#[derive(Debug)]
struct PolicyApplier {
    known: KnownSeries,
    /// By the number of the measurement.
    shapes: Vec<Shape>,
    partitions: Partitions,
}

/// The fields of the last line of a measurement, in its order: the next line nearly always has the
/// same ones.
#[derive(Debug, Default)]
struct Shape {
    fields: Vec<(Box<[u8]>, u32, FieldType)>,
}

/// Spellings beyond which those of a policy are forgotten: this many, and as many again for each
/// series.
const SPELLINGS_SPARE: usize = 1 << 16;

/// Bytes that a memtable takes without its rows, about.
const MEMTABLE_BYTES: u64 = 1024;

/// A field of a line: its number in the measurement, its type and its value.
type Numbered<'a> = (u32, FieldType, Value<'a>);

impl Store {
    /// Applies a record of points that ends at `end` in the journal. Snapshots see all of it or
    /// nothing. Calls come from one thread, in the order of the journal; a record that has been
    /// applied already changes nothing. `refused` is given each line that cannot be stored, and
    /// why.
    pub fn apply_points(
        &self,
        end: u64,
        target: Ids,
        lines: &[u8],
        refused: &mut dyn FnMut(&[u8], &str),
    ) -> Applied {
        if self.progress.has_applied(end) {
            return Applied::default();
        }
        self.wait_for_room();
        let mut applier = self.applier.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        let mut applied = Applied::default();
        let mut bytes = 0;
        match state.policy_mut(target) {
            None => applied.dropped = wire::line::points(lines).count() as u64,
            Some(policy) => {
                let applier = applier
                    .policies
                    .entry(target.policy)
                    .or_insert_with(|| PolicyApplier::new(policy.partition_ns));
                applier.refresh(policy);
                let bound = policy.series_bound;
                let mut fields = Vec::new();
                for record in wire::line::points(lines) {
                    match applier.point(&self.claims, policy, record, &mut fields) {
                        Ok(more) => {
                            applied.points += 1;
                            bytes += more;
                        }
                        Err(why) => {
                            applied.dropped += 1;
                            refused(record, &why);
                        }
                    }
                    fields.clear();
                }
                self.logged.add_new(policy.series_bound - bound);
            }
        }
        // Within the lock: a snapshot taken after this position is read has the record.
        self.progress.note_applied(end);
        self.memory.add(bytes);
        drop(state);
        applied
    }

    /// Makes the applier forget what a statement may have made untrue.
    pub(super) fn forget_spellings(&self) {
        self.applier.lock().unwrap_or_else(PoisonError::into_inner).forget();
    }
}

impl Applier {
    /// Forgets which series there are.
    pub(super) fn forget(&mut self) {
        self.policies.clear();
    }
}

impl PolicyApplier {
    fn new(partition_ns: i64) -> Self {
        let partitions = Partitions::new(partition_ns);
        Self { known: KnownSeries::new(), shapes: Vec::new(), partitions }
    }

    fn refresh(&mut self, policy: &PolicyData) {
        self.partitions = Partitions::new(policy.partition_ns);
        if self.known.len() > SPELLINGS_SPARE + 2 * policy.series_bound as usize {
            self.known.clear();
        }
    }

    /// Takes one line; returns the bytes it adds.
    #[inline]
    fn point<'a>(
        &mut self,
        claims: &Claims,
        policy: &mut PolicyData,
        record: &'a [u8],
        fields: &mut Vec<Numbered<'a>>,
    ) -> Result<u64, Cow<'static, str>> {
        let Some(point) = wire::line::read(record) else {
            return Err("the line cannot be read".into());
        };
        let spelling = self.known.spelling(point.series);
        let known = match self.known.find(spelling) {
            Some(known) => known,
            None => {
                let known = resolve(policy, point.series)?;
                self.known.add(spelling, known);
                known
            }
        };
        let number = known.measurement as usize;
        if number >= self.shapes.len() {
            self.shapes.resize_with(number + 1, Shape::default);
        }
        let ids = policy.ids;
        let measurement = policy.measurement_mut(known.measurement);
        if !self.shapes[number].match_all(point.fields, fields) {
            fields.clear();
            let new = self.shapes[number].learn(measurement, point.series, point.fields, fields)?;
            if !new.is_empty() {
                let name = name_of(wire::line::measurement(point.series));
                claims.store(ids.policy, &name, new.iter());
            }
        }
        let start = self.partitions.start(point.time_ns);
        Ok(push(measurement, start, known.series, point.time_ns, fields))
    }
}

#[inline]
fn push(
    measurement: &mut MeasurementData,
    partition: i64,
    series: u32,
    time: i64,
    fields: &[Numbered<'_>],
) -> u64 {
    let mut bytes = 0;
    let memtable = measurement.live.entry(partition).or_insert_with(|| {
        bytes += MEMTABLE_BYTES;
        Arc::default()
    });
    let open = Arc::make_mut(memtable).open();
    bytes + open.push(series, time, fields) as u64
}

/// A series that is not known by this spelling: found by its tags, or made.
#[cold]
fn resolve(policy: &mut PolicyData, series: &[u8]) -> Result<SeriesRef, Cow<'static, str>> {
    let text = |bytes: Cow<'_, [u8]>| String::from_utf8_lossy(&bytes).into_owned();
    let measurement = text(wire::line::unescape_name(wire::line::measurement(series)));
    let mut tags: Vec<(String, String)> = wire::line::tag_pairs(series)
        .map(|(key, value)| {
            (text(wire::line::unescape_tag(key)), text(wire::line::unescape_tag(value)))
        })
        .collect();
    tags.sort();
    let tags: Vec<(&str, &str)> = tags.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let mut index = policy.index.write().unwrap_or_else(PoisonError::into_inner);
    let known = index.add(&measurement, &tags).map_err(|_| "there are too many series")?;
    policy.series_bound = index.bound();
    Ok(known)
}

impl Shape {
    /// Numbers the fields of a line that has the same ones as the last; false where it has not.
    #[inline]
    fn match_all<'a>(&self, line: Fields<'a>, fields: &mut Vec<Numbered<'a>>) -> bool {
        let mut count = 0;
        for Field { name, value } in line {
            match self.fields.get(count) {
                Some((known, number, of)) if **known == *name && *of == FieldType::of(value) => {
                    fields.push((*number, *of, value));
                }
                _ => return false,
            }
            count += 1;
        }
        count > 0
    }

    /// Numbers the fields of a line one by one, adding those that are new. Returns these.
    #[cold]
    fn learn<'a>(
        &mut self,
        measurement: &mut MeasurementData,
        series: &[u8],
        line: Fields<'a>,
        fields: &mut Vec<Numbered<'a>>,
    ) -> Result<FieldSet, Cow<'static, str>> {
        let named: Vec<(String, FieldType)> =
            line.map(|field| (name_of(field.name), FieldType::of(field.value))).collect();
        let mut new = FieldSet::default();
        let conflicting = first_conflict(&named, |name, of| {
            let known = measurement.fields.find(name).or_else(|| new.find(name));
            if known.is_none() {
                new.add(name, of);
            }
            known.map(|(_, known)| known)
        });
        if let Some((at, known)) = conflicting {
            let (name, of) = &named[at];
            let measurement = name_of(wire::line::measurement(series));
            return Err(conflict(name, &measurement, *of, known).into());
        }
        self.fields.clear();
        for (Field { name, value }, (text, of)) in line.zip(&named) {
            let number = match measurement.fields.find(text) {
                Some((number, _)) => number,
                None => Arc::make_mut(&mut measurement.fields).add(text, *of),
            };
            self.fields.push((name.into(), number, *of));
            fields.push((number, *of, value));
        }
        if fields.is_empty() { Err("the line has no fields".into()) } else { Ok(new) }
    }
}

fn name_of(name: &[u8]) -> String {
    String::from_utf8_lossy(&wire::line::unescape_name(name)).into_owned()
}
