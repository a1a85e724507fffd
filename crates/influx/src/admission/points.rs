//! The points of one write on their way into the journal.

use journal::Ticket;
use wire::line::{self, Outcome};

/// What the normaliser left of a write, in one piece: whoever has it needs nothing else of it.
#[derive(Debug, Default)]
pub struct Points {
    /// Normalised line protocol, see [`wire::line::normalise`].
    pub lines: Vec<u8>,
    /// How many points `lines` has, and what was left out of the write and why.
    pub outcome: Outcome,
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
    /// Points that Weir has written itself, all of which are good.
    pub fn of_lines(lines: Vec<u8>) -> Self {
        let points = u32::try_from(line::points(&lines).count()).unwrap_or(u32::MAX);
        Self { lines, outcome: Outcome { points, ..Outcome::default() } }
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

    /// The account of the points, which the journal has under `ticket`. The buffer of lines is
    /// left to its owner.
    pub(super) fn admitted(&mut self, ticket: Option<Ticket>) -> Admitted {
        Admitted { ticket, outcome: std::mem::take(&mut self.outcome) }
    }
}
