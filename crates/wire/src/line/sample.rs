//! A sample of the records of a body, chosen in the pass that makes them: whoever wants to look
//! closely at some points of many finds them without a walk over the others.

use std::ops::Range;

use super::frame::Points;
use super::marks::{Marking, Removal};
use super::read::read;

/// Chooses a share of all points by a keyed hash of their time: of the points of one time it
/// chooses all or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    key: u64,
    /// The largest hash that is chosen.
    limit: u64,
}

/// A record that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledPoint {
    /// Where it is among all records, with its newline.
    pub range: Range<usize>,
    /// Nanoseconds since 1970, in UTC.
    pub time_ns: i64,
}

/// The records of a body that a [`Sampler`] chose, in their order.
#[derive(Clone, Debug)]
pub struct Sample {
    sampler: Sampler,
    points: Vec<SampledPoint>,
    /// Where the last record ends, chosen or not.
    end: usize,
}

/// An odd number whose bits are well mixed, for hashing by multiplication.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Sampler {
    /// Chooses `share` of all points, from 0 to 1, by a secret key.
    pub fn new(key: u64, share: f64) -> Self {
        // Saturates at both ends.
        Self { key, limit: (share * u64::MAX as f64) as u64 }
    }

    /// Whether points of this time are chosen.
    #[inline]
    pub fn chooses(self, time_ns: i64) -> bool {
        self.hash(time_ns) <= self.limit
    }

    /// The keyed hash of a time, the same for all shares.
    #[inline]
    pub fn hash(self, time_ns: i64) -> u64 {
        let product = u128::from(time_ns.cast_unsigned() ^ self.key) * u128::from(MULTIPLIER);
        let folded = (product as u64 ^ (product >> 64) as u64).wrapping_mul(MULTIPLIER);
        folded ^ folded >> 32
    }
}

impl Sample {
    /// A sample of no records yet.
    pub fn new(sampler: Sampler) -> Self {
        Self { sampler, points: Vec::new(), end: 0 }
    }

    /// The sample of records that [`normalise`](super::normalise) made, by walking over them.
    pub fn of(sampler: Sampler, normalised: &[u8]) -> Self {
        let mut sample = Self::new(sampler);
        let mut end = 0;
        for record in Points(normalised) {
            end += record.len();
            (&mut sample).note_record(record, end);
        }
        sample
    }

    /// The chosen records from the first to the last.
    pub fn points(&self) -> &[SampledPoint] {
        &self.points
    }

    /// How many records there is room for without growing.
    pub fn capacity(&self) -> usize {
        self.points.capacity()
    }

    /// Forgets all records and keeps their room; those to come are chosen by `sampler`.
    pub fn restart(&mut self, sampler: Sampler) {
        self.points.clear();
        self.sampler = sampler;
        self.end = 0;
    }

    /// Forgets the records behind the first `len` bytes, where one of them ends.
    pub(super) fn truncate(&mut self, len: usize) {
        let left = self.points.partition_point(|point| point.range.end <= len);
        self.points.truncate(left);
        self.end = len;
    }

    pub(super) fn take_out(&mut self, removal: &Removal) {
        self.points.retain_mut(|point| {
            let left = !removal.has(point.range.start);
            point.range = removal.position(point.range.start)..removal.position(point.range.end);
            left
        });
        self.end = removal.position(self.end);
    }
}

impl Marking for &mut Sample {
    const IS_ON: bool = true;
    type Form = ();

    #[inline]
    fn form(&self) {}

    #[inline]
    fn note(&mut self, (): (), time_ns: i64, end: usize) {
        if self.sampler.chooses(time_ns) {
            self.points.push(SampledPoint { range: self.end..end, time_ns });
        }
        self.end = end;
    }

    fn note_record(&mut self, record: &[u8], end: usize) {
        match read(record) {
            Some(point) => self.note((), point.time_ns, end),
            None => self.end = end,
        }
    }
}
