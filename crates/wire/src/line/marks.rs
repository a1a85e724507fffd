//! Notes on records, left in the pass that makes them: whoever decides about points afterwards
//! walks their bytes no second time.

use std::hash::{BuildHasher, Hasher};

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

    /// Forgets all but the first `len` marks.
    pub fn truncate(&mut self, len: usize) {
        self.list.truncate(len);
    }

    /// Takes the records of these numbers, which ascend, out of `lines` and their marks out of the
    /// list.
    pub fn take_out(&mut self, lines: &mut Vec<u8>, numbers: &[usize]) {
        let mut out = numbers.iter().copied().peekable();
        // Where the record at hand begins, where it goes to, and what it is to be called.
        let (mut start, mut to, mut number) = (0, 0, 0);
        self.list.retain_mut(|mark| {
            let record = start..mark.end;
            start = mark.end;
            number += 1;
            if out.next_if_eq(&(number - 1)).is_some() {
                return false;
            }
            let len = record.len();
            if record.start != to {
                lines.copy_within(record, to);
            }
            to += len;
            mark.end = to;
            true
        });
        lines.truncate(to);
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
