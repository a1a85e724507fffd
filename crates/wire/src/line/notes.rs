//! What is noted of the records of a body in the pass that makes them.

use super::marks::{Mark, MarkKey, Marks, NewestTime, Removal, Unmarked};
use super::normaliser::Normaliser;
use super::sample::{Sample, SampledPoint, Sampler};
use super::{Options, Outcome};

/// Notes on the records of a body: a mark of each or their latest time, a sample of them, both, or
/// nothing.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// A mark of each record, where they are wanted.
    pub marks: Option<Marks>,
    /// The latest time of all, where it is wanted; of records with marks those tell it.
    pub newest: Option<NewestTime>,
    /// Some of the records, where they are wanted.
    pub sample: Option<Sample>,
}

impl Notes {
    /// As [`normalise`](super::normalise), and notes what is wanted of the records appended to
    /// `out`, whose earlier ones have their notes already.
    pub fn normalise(&mut self, body: &[u8], options: &Options<'_>, out: &mut Vec<u8>) -> Outcome {
        match (&mut self.marks, &mut self.newest, &mut self.sample) {
            (None, None, None) => Normaliser::new(body, options, out, Unmarked).run(),
            (None, None, Some(sample)) => Normaliser::new(body, options, out, sample).run(),
            (None, Some(newest), None) => Normaliser::new(body, options, out, newest).run(),
            (None, Some(newest), Some(sample)) => {
                Normaliser::new(body, options, out, (newest, sample)).run()
            }
            (Some(marks), _, None) => Normaliser::new(body, options, out, marks).run(),
            (Some(marks), _, Some(sample)) => {
                Normaliser::new(body, options, out, (marks, sample)).run()
            }
        }
    }

    /// The latest time of all records, in nanoseconds since 1970, or of more than are left; `None`
    /// where it was not noted.
    pub fn newest_ns(&self) -> Option<i64> {
        match &self.marks {
            Some(_) => None,
            None => self.newest.map(|newest| newest.0),
        }
    }

    /// The marks of `lines`, by a walk over them where none were left.
    pub fn marked(&mut self, key: &MarkKey, lines: &[u8]) -> &Marks {
        self.marks.get_or_insert_with(|| Marks::of(key.clone(), lines))
    }

    /// The records that were chosen, none where none were to be.
    pub fn sampled(&self) -> &[SampledPoint] {
        self.sample.as_ref().map_or(&[], Sample::points)
    }

    /// Forgets the records behind the first `len` bytes, where one of them ends.
    pub fn truncate(&mut self, len: usize) {
        if let Some(marks) = &mut self.marks {
            marks.truncate(len);
        }
        if let Some(sample) = &mut self.sample {
            sample.truncate(len);
        }
    }

    /// Takes the records that were removed from the lines out of the notes.
    pub fn take_out(&mut self, removal: &Removal) {
        if let Some(marks) = &mut self.marks {
            marks.take_out(removal);
        }
        if let Some(sample) = &mut self.sample {
            sample.take_out(removal);
        }
    }

    /// Forgets all records and keeps the room. Those to come are chosen by `sampler`, where there
    /// is one.
    pub fn restart(&mut self, sampler: Option<Sampler>) {
        if let Some(marks) = &mut self.marks {
            marks.clear();
        }
        if let Some(newest) = &mut self.newest {
            *newest = NewestTime::default();
        }
        match (&mut self.sample, sampler) {
            (Some(sample), Some(sampler)) => sample.restart(sampler),
            (sample, sampler) => *sample = sampler.map(Sample::new),
        }
    }

    /// Bytes of memory that `records` take at most.
    pub fn room_for(&self, records: usize) -> usize {
        let marks = self.marks.as_ref().map_or(0, |_| size_of::<Mark>());
        let sample = self.sample.as_ref().map_or(0, |_| size_of::<SampledPoint>());
        (marks + sample) * records
    }

    /// Bytes of memory that are taken.
    pub fn capacity(&self) -> usize {
        let marks = self.marks.as_ref().map_or(0, |marks| marks.capacity() * size_of::<Mark>());
        let sample = self.sample.as_ref().map_or(0, Sample::capacity);
        marks + sample * size_of::<SampledPoint>()
    }
}
