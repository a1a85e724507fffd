//! The points of one write on their way into the journal.

use journal::Ticket;
use wire::line::{self, Mark, MarkKey, Marks, Options, Outcome};

/// The points of a write, in one piece: whoever has it needs nothing else of it.
#[derive(Debug, Default)]
pub struct Points {
    /// Normalised line protocol, see [`wire::line::normalise`].
    lines: Vec<u8>,
    /// The marks of `lines`, where the normaliser has left them.
    marks: Option<Marks>,
    /// How many points `lines` has, and what was left out of the write and why.
    outcome: Outcome,
}

/// A write whose good points, if it has any, the journal has.
#[derive(Debug, PartialEq, Eq)]
pub struct Admitted {
    /// What the acknowledgement is waited for by; `None` where no point was left.
    pub ticket: Option<Ticket>,
    /// How many points the journal has, and what was left out of the write and why.
    pub outcome: Outcome,
}

impl Points {
    /// No points yet; those to come are marked where there are `marks`.
    pub(super) fn new(lines: Vec<u8>, marks: Option<Marks>) -> Self {
        Self { lines, marks, outcome: Outcome::default() }
    }

    /// Points that Weir has written itself, all of which are good.
    pub fn of_lines(lines: Vec<u8>) -> Self {
        let points = u32::try_from(line::points(&lines).count()).unwrap_or(u32::MAX);
        Self { outcome: Outcome { points, ..Outcome::default() }, ..Self::new(lines, None) }
    }

    /// The good points of a body, and an account of the others.
    pub fn read(mut self, body: &[u8], options: &Options<'_>) -> Self {
        self.outcome = self.normalise(body, options);
        self
    }

    /// Adds the points of a datagram, or none of them where one line is bad.
    ///
    /// # Errors
    /// What is wrong with the lines, in InfluxDB's words.
    pub fn add_whole(&mut self, datagram: &[u8], options: &Options<'_>) -> Result<(), String> {
        let (bytes, marked) = (self.lines.len(), self.marks.as_ref().map(Marks::len));
        let outcome = self.normalise(datagram, options);
        if let Some(error) = outcome.error {
            self.lines.truncate(bytes);
            if let Some((marks, marked)) = self.marks.as_mut().zip(marked) {
                marks.truncate(marked);
            }
            return Err(error);
        }
        self.outcome.points += outcome.points;
        Ok(())
    }

    fn normalise(&mut self, body: &[u8], options: &Options<'_>) -> Outcome {
        match &mut self.marks {
            None => line::normalise(body, options, &mut self.lines),
            Some(marks) => line::normalise_marked(body, options, &mut self.lines, marks),
        }
    }

    /// Bytes that the points of `body` take, about.
    pub fn room_for(&self, body: &[u8]) -> usize {
        let lines = || memchr::memchr_iter(b'\n', body).count() + 1;
        let marks = self.marks.as_ref().map_or(0, |_| lines() * size_of::<Mark>());
        body.len() + marks
    }

    /// Normalised line protocol, see [`wire::line::normalise`].
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// How many points there are, and what was left out of the write and why.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The lines with their marks, by a walk over them where the normaliser left none.
    pub(super) fn marked(&mut self, key: &MarkKey) -> (&mut Vec<u8>, &mut Marks) {
        let Self { lines, marks, .. } = self;
        let marks = marks.get_or_insert_with(|| Marks::of(key.clone(), lines));
        (lines, marks)
    }

    /// The account of points that are not admitted, or need not be.
    pub fn into_outcome(self) -> Outcome {
        self.outcome
    }

    /// Forgets all points, and keeps the room.
    pub fn clear(&mut self) {
        self.lines.clear();
        if let Some(marks) = &mut self.marks {
            marks.clear();
        }
        self.outcome = Outcome::default();
    }

    /// Bytes of room, for lines and marks.
    pub(super) fn capacity(&self) -> usize {
        let marks = self.marks.as_ref().map_or(0, |marks| marks.capacity() * size_of::<Mark>());
        self.lines.capacity() + marks
    }

    /// How many points are left.
    pub fn count(&self) -> u32 {
        self.outcome.points
    }

    /// Counts the points that the embedded store would refuse as dropped: InfluxDB drops such a
    /// point whole and says so, before the lines it could not read.
    pub(super) fn leave_out(&mut self, checked: store::Checked) {
        let outcome = &mut self.outcome;
        if checked.dropped > 0 {
            outcome.points = checked.kept;
            outcome.dropped += checked.dropped;
            outcome.reason = checked.reason.or(outcome.reason.take());
        }
    }

    /// The account of the points, which the journal has under `ticket`. Lines and marks
    /// are left to their owner.
    pub(super) fn admitted(&mut self, ticket: Option<Ticket>) -> Admitted {
        Admitted { ticket, outcome: std::mem::take(&mut self.outcome) }
    }
}
