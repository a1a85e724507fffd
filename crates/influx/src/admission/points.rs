//! The points of one write on their way into the journal.

use journal::Ticket;
use wire::line::{self, MarkKey, Marks, Notes, Options, Outcome, Removal, Sampler};

use crate::collisions::{Source, WrittenPoint};

/// The points of a write, in one piece: whoever has it needs nothing else of it.
#[derive(Debug, Default)]
pub struct Points {
    /// Normalised line protocol, see [`wire::line::normalise`].
    lines: Vec<u8>,
    /// What the normaliser has noted of `lines`, where anybody asks for it.
    notes: Notes,
    /// Who wrote which lines: where those of each writer end. Lines that nobody wrote who is to be
    /// told from others are in none.
    sources: Vec<(usize, Source)>,
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
    /// No points yet; of those to come is noted what `notes` has.
    pub(super) fn new(lines: Vec<u8>, notes: Notes) -> Self {
        Self { lines, notes, ..Self::default() }
    }

    /// Points that Weir has written itself, all of which are good.
    pub fn of_lines(lines: Vec<u8>) -> Self {
        let points = u32::try_from(line::points(&lines).count()).unwrap_or(u32::MAX);
        let outcome = Outcome { points, ..Outcome::default() };
        Self { outcome, ..Self::new(lines, Notes::default()) }
    }

    /// The good points of a body that `source` has sent, and an account of the others.
    pub fn read(mut self, body: &[u8], options: &Options<'_>, source: Option<Source>) -> Self {
        self.outcome = self.notes.normalise(body, options, &mut self.lines);
        self.note_source(source);
        self
    }

    /// Adds the points of a datagram, or none of them where one line is bad; `source` says who has
    /// sent good ones.
    ///
    /// # Errors
    /// What is wrong with the lines, in InfluxDB's words.
    pub fn add_whole(
        &mut self,
        datagram: &[u8],
        options: &Options<'_>,
        source: impl FnOnce() -> Option<Source>,
    ) -> Result<(), String> {
        let bytes = self.lines.len();
        let outcome = self.notes.normalise(datagram, options, &mut self.lines);
        if let Some(error) = outcome.error {
            self.lines.truncate(bytes);
            self.notes.truncate(bytes);
            return Err(error);
        }
        self.outcome.points += outcome.points;
        self.note_source(source());
        Ok(())
    }

    fn note_source(&mut self, source: Option<Source>) {
        let Some(source) = source else { return };
        let end = self.lines.len();
        match self.sources.last_mut().filter(|(_, last)| *last == source) {
            Some((last_end, _)) => *last_end = end,
            None => self.sources.push((end, source)),
        }
    }

    /// The points that collisions are looked for among, with who wrote them.
    pub(super) fn written(&self) -> impl Iterator<Item = WrittenPoint<'_>> {
        let mut sources = self.sources.iter().peekable();
        self.notes.sampled().iter().filter_map(move |point| {
            while sources.next_if(|(end, _)| *end < point.range.end).is_some() {}
            let (_, source) = sources.peek()?;
            let record = self.lines.get(point.range.clone())?;
            Some(WrittenPoint { source: *source, record, time_ns: point.time_ns })
        })
    }

    /// Bytes that the points of `body` take, about.
    pub fn room_for(&self, body: &[u8]) -> usize {
        body.len() + self.notes.room_for(memchr::memchr_iter(b'\n', body).count() + 1)
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
    pub(super) fn marked(&mut self, key: &MarkKey) -> (&[u8], &Marks) {
        let Self { lines, notes, .. } = self;
        (lines, notes.marked(key, lines))
    }

    /// The latest time of all points, in nanoseconds since 1970; `None` where only marks tell it.
    pub(super) fn newest_ns(&self) -> Option<i64> {
        self.notes.newest_ns()
    }

    /// The account of points that are not admitted, or need not be.
    pub fn into_outcome(self) -> Outcome {
        self.outcome
    }

    /// Forgets all points, and keeps the room. Of those to come `sampler` chooses.
    pub(super) fn restart(&mut self, sampler: Option<Sampler>) {
        self.lines.clear();
        self.sources.clear();
        self.notes.restart(sampler);
        self.outcome = Outcome::default();
    }

    /// Bytes of room, for lines and what is noted of them.
    pub(super) fn capacity(&self) -> usize {
        let sources = self.sources.capacity() * size_of::<(usize, Source)>();
        self.lines.capacity() + self.notes.capacity() + sources
    }

    /// How many points are left.
    pub fn count(&self) -> u32 {
        self.outcome.points
    }

    /// Takes out the points of these numbers, which would be refused or could not be found again,
    /// and counts them as dropped: InfluxDB drops such a point whole and says why, before the lines
    /// it could not read. Gives their number.
    pub(super) fn leave_out(&mut self, numbers: &[usize], reason: Option<String>) -> u32 {
        let Self { lines, notes, sources, outcome } = self;
        let Some(marks) = notes.marks.as_ref().filter(|_| !numbers.is_empty()) else {
            return 0;
        };
        let removal = Removal::from(lines, marks, numbers);
        notes.take_out(&removal);
        for (end, _) in sources {
            *end = removal.position(*end);
        }
        // More than 2^32 lines do not fit a body.
        let dropped = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        outcome.points -= dropped;
        outcome.dropped += dropped;
        outcome.reason = reason.or(outcome.reason.take());
        dropped
    }

    /// The account of the points, which the journal has under `ticket`. Lines and marks
    /// are left to their owner.
    pub(super) fn admitted(&mut self, ticket: Option<Ticket>) -> Admitted {
        Admitted { ticket, outcome: std::mem::take(&mut self.outcome) }
    }
}
