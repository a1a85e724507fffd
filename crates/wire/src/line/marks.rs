//! Notes on records, left in the pass that makes them: whoever decides about points afterwards
//! walks their bytes no second time.

use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

use foldhash::fast::{FoldHasher, RandomState};

use super::frame::Points;
use super::read::{Value, measurement, read};

/// What is known of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where the record ends among all of them, behind its newline.
    pub end: usize,
    /// Nanoseconds since 1970, in UTC.
    pub time_ns: i64,
    /// A keyed hash of the measurement, and of the names and types of the fields, as they are
    /// written. Records with one form are of one measurement and differ in tags and values only.
    pub form: u64,
}

/// The key of the hashes in marks, another one in each process.
#[derive(Clone, Debug, Default)]
pub struct MarkKey(RandomState);

/// The marks of some records, in their order.
#[derive(Clone, Debug)]
pub struct Marks {
    key: MarkKey,
    list: Vec<Mark>,
}

/// The types that a value may have, as they go into a form.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum ValueType {
    Float,
    Integer,
    Unsigned,
    Boolean,
    String,
}

impl ValueType {
    fn of(value: Value<'_>) -> Self {
        match value {
            Value::Float(_) => Self::Float,
            Value::Integer(_) => Self::Integer,
            Value::Unsigned(_) => Self::Unsigned,
            Value::Boolean(_) => Self::Boolean,
            Value::String(_) => Self::String,
        }
    }
}

/// Takes the parts of a form while a line goes by.
pub(super) trait FormParts {
    fn measurement(&mut self, written: &[u8]);
    fn field(&mut self, written: &[u8], value: ValueType);
}

/// Marking that leaves no marks.
pub(super) struct Unmarked;

/// Where the normaliser leaves its notes.
pub(super) trait Marking {
    /// Whether anything is noted.
    const IS_ON: bool;
    type Form: FormParts;

    /// The form of the next line, of which nothing is known yet.
    fn form(&self) -> Self::Form;
    /// Notes a record that ends at `end`.
    fn note(&mut self, form: Self::Form, time_ns: i64, end: usize);
    /// Notes a record that ends at `end`, of which no more is known than its bytes.
    fn note_record(&mut self, record: &[u8], end: usize);
}

impl FormParts for () {
    #[inline]
    fn measurement(&mut self, _written: &[u8]) {}

    #[inline]
    fn field(&mut self, _written: &[u8], _value: ValueType) {}
}

impl Marking for Unmarked {
    const IS_ON: bool = false;
    type Form = ();

    #[inline]
    fn form(&self) {}

    #[inline]
    fn note(&mut self, (): (), _time_ns: i64, _end: usize) {}

    #[inline]
    fn note_record(&mut self, _record: &[u8], _end: usize) {}
}

impl FormParts for FoldHasher<'_> {
    #[inline]
    fn measurement(&mut self, written: &[u8]) {
        self.write(written);
        self.write_usize(written.len());
    }

    #[inline]
    fn field(&mut self, written: &[u8], value: ValueType) {
        self.write(written);
        self.write_usize(written.len() << 3 | value as usize);
    }
}

/// The latest time of some records, in nanoseconds since 1970; the first there is without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestTime(pub i64);

impl Default for NewestTime {
    fn default() -> Self {
        Self(i64::MIN)
    }
}

impl Marking for &mut NewestTime {
    const IS_ON: bool = true;
    type Form = ();

    #[inline]
    fn form(&self) {}

    #[inline]
    fn note(&mut self, (): (), time_ns: i64, _end: usize) {
        self.0 = self.0.max(time_ns);
    }

    fn note_record(&mut self, record: &[u8], end: usize) {
        // One that cannot be read counts as the latest there can be, which is looked at.
        let time_ns = read(record).map_or(i64::MAX, |point| point.time_ns);
        self.note((), time_ns, end);
    }
}

impl<A: FormParts, B: FormParts> FormParts for (A, B) {
    #[inline]
    fn measurement(&mut self, written: &[u8]) {
        self.0.measurement(written);
        self.1.measurement(written);
    }

    #[inline]
    fn field(&mut self, written: &[u8], value: ValueType) {
        self.0.field(written, value);
        self.1.field(written, value);
    }
}

impl<A: Marking, B: Marking> Marking for (A, B) {
    const IS_ON: bool = A::IS_ON || B::IS_ON;
    type Form = (A::Form, B::Form);

    #[inline]
    fn form(&self) -> Self::Form {
        (self.0.form(), self.1.form())
    }

    #[inline]
    fn note(&mut self, form: Self::Form, time_ns: i64, end: usize) {
        self.0.note(form.0, time_ns, end);
        self.1.note(form.1, time_ns, end);
    }

    fn note_record(&mut self, record: &[u8], end: usize) {
        self.0.note_record(record, end);
        self.1.note_record(record, end);
    }
}

impl Marks {
    /// An empty list for marks of this key.
    pub fn new(key: MarkKey) -> Self {
        Self { key, list: Vec::new() }
    }

    /// The marks of records that [`normalise`](super::normalise) made, by walking over them.
    pub fn of(key: MarkKey, normalised: &[u8]) -> Self {
        let mut marks = Self::new(key);
        let mut end = 0;
        for record in Points(normalised) {
            end += record.len();
            (&mut marks).note_record(record, end);
        }
        marks
    }

    /// The marks from the first record to the last.
    pub fn iter(&self) -> impl Iterator<Item = &Mark> {
        self.list.iter()
    }

    /// How many records have marks.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether no record has a mark.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many marks there is room for without growing.
    pub fn capacity(&self) -> usize {
        self.list.capacity()
    }

    /// Forgets all marks and keeps their room.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// Forgets the marks of records behind the first `len` bytes, where one of them ends.
    pub(super) fn truncate(&mut self, len: usize) {
        let left = self.list.partition_point(|mark| mark.end <= len);
        self.list.truncate(left);
    }

    pub(super) fn take_out(&mut self, removal: &Removal) {
        let mut start = 0;
        self.list.retain_mut(|mark| {
            let left = !removal.has(start);
            start = mark.end;
            mark.end = removal.position(mark.end);
            left
        });
    }
}

/// Records that are taken out from among others; all positions are those before it.
#[derive(Clone, Debug, Default)]
pub struct Removal {
    /// Where each of them is, in their order, and how many bytes are gone with those before it.
    records: Vec<(Range<usize>, usize)>,
}

impl Removal {
    /// Takes the records of these numbers, which ascend, out of `lines`, which have these marks.
    pub fn from(lines: &mut Vec<u8>, marks: &Marks, numbers: &[usize]) -> Self {
        let start = |number: usize| match number.checked_sub(1) {
            None => 0,
            Some(before) => marks.list[before].end,
        };
        let mut gone = 0;
        let records = numbers.iter().map(|&number| {
            let record = start(number)..marks.list[number].end;
            let before = gone;
            gone += record.len();
            (record, before)
        });
        let removal = Self { records: records.collect() };
        let mut to = removal.records.first().map_or(lines.len(), |(record, _)| record.start);
        for (number, (record, _)) in removal.records.iter().enumerate() {
            let next = removal.records.get(number + 1);
            let end = next.map_or(lines.len(), |(record, _)| record.start);
            lines.copy_within(record.end..end, to);
            to += end - record.end;
        }
        lines.truncate(to);
        removal
    }

    /// Whether the record that begins at `start` is taken out.
    pub fn has(&self, start: usize) -> bool {
        self.records.binary_search_by_key(&start, |(record, _)| record.start).is_ok()
    }

    /// Where the end of a record comes to be; of one that is taken out, that of the one before.
    pub fn position(&self, end: usize) -> usize {
        let before = self.records.partition_point(|(record, _)| record.end <= end);
        match before.checked_sub(1).and_then(|last| self.records.get(last)) {
            None => end,
            Some((record, gone)) => end - gone - record.len(),
        }
    }
}

impl Marking for &mut Marks {
    const IS_ON: bool = true;
    type Form = FoldHasher<'static>;

    #[inline]
    fn form(&self) -> FoldHasher<'static> {
        self.key.0.build_hasher()
    }

    #[inline]
    fn note(&mut self, form: FoldHasher<'static>, time_ns: i64, end: usize) {
        self.list.push(Mark { end, time_ns, form: form.finish() });
    }

    fn note_record(&mut self, record: &[u8], end: usize) {
        let mut form = self.form();
        // A record that cannot be read has a form of its own, which no good one has.
        let time_ns = read(record).map_or(i64::MAX, |point| {
            form.measurement(measurement(point.series));
            for field in point.fields {
                form.field(field.name, ValueType::of(field.value));
            }
            point.time_ns
        });
        self.note(form, time_ns, end);
    }
}
