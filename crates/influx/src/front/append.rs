//! From points to an acknowledged record, and from the journal's refusals to answers.

use ::http::StatusCode;
use journal::{AckError, AppendAndWaitError, AppendError, Ticket};
use store::{LOOKUPS_AT_ONCE_MAX, Undecided};
use wire::influxql::Change;
use wire::line::Outcome;

use super::answer::{self, Answer};
use super::destination::Destination;
use super::stages::{APPEND, PARSE};
use super::{Front, Gateway};
use crate::record;

/// How often a worker checks points again because a statement has changed what they were checked
/// against.
const TRIES: usize = 4;

impl Front {
    /// Waits until the embedded store is not too far behind to take the worker's prepared points.
    pub(super) async fn room(&self) -> Result<(), Answer> {
        if let Some(embedded) = self.gateway.backends.embedded().filter(|one| !one.has_room()) {
            // Other requests use the worker's buffer meanwhile.
            let mine = std::mem::take(&mut *self.points.borrow_mut());
            embedded.room().await.map_err(|behind| {
                self.gateway.metrics.refused.behind.inc();
                answer::unavailable(&behind.to_string(), 1)
            })?;
            *self.points.borrow_mut() = mine;
        }
        Ok(())
    }

    /// Takes out of a write's points what the embedded store would refuse (values of another type
    /// than their field has, points older than their policy keeps), promises the types of new
    /// fields, and appends the rest. No ticket where nothing is left.
    ///
    /// # Errors
    /// Where that can't be decided, or not on this thread. Nothing has been done then.
    pub(super) fn admit(
        &self,
        db: &str,
        to: &Destination,
        points: &mut Vec<u8>,
        outcome: &mut Outcome,
    ) -> Result<Option<Ticket>, NotAdmitted> {
        if outcome.points == 0 {
            return Ok(None);
        }
        let Some((checker, target)) = self.checker.as_ref().zip(to.target) else {
            return Ok(self.append_if(db, to, points, outcome.points, || true)?);
        };
        // First, so that nothing is promised to a write that there is no room for.
        self.appender.room(points.len()).map_err(|error| self.gateway.append_refused(&error))?;
        let mut refused = 0;
        for _ in 0..TRIES {
            let checked = {
                let _stage = self.worker.pulse.enter_sized(&PARSE, points.len());
                let mut checker = checker.borrow_mut();
                checker.check(target.ids, points, super::now_ns(), LOOKUPS_AT_ONCE_MAX)?
            };
            let basis = checked.basis;
            refused += checked.dropped;
            leave_out(outcome, checked);
            let stands = || checker.borrow().stands(&basis);
            let ticket = match outcome.points {
                0 => None,
                count => self.append_if(db, to, points, count, stands)?,
            };
            // Else what it was checked against is no more.
            if ticket.is_some() || outcome.points == 0 {
                self.gateway.metrics.points_refused.add(u64::from(refused));
                return Ok(ticket);
            }
        }
        Err(NotAdmitted::Undecided)
    }

    /// Appends points if they still stand.
    fn append_if(
        &self,
        db: &str,
        to: &Destination,
        points: &[u8],
        count: u32,
        stands: impl FnOnce() -> bool,
    ) -> Result<Option<Ticket>, Answer> {
        let mut header = self.header.borrow_mut();
        header.clear();
        let ids = to.target.map(|target| target.ids);
        let kind = record::put_points_header(&mut header, db, &to.policy, ids)
            .map_err(|e| bad_request(&e.to_string()))?;
        let payload: [&[u8]; 2] = [&header, points];
        let _stage = self.worker.pulse.enter_sized(&APPEND, points.len());
        self.appender
            .append_if(kind, count, false, &payload, stands)
            .map_err(|error| self.gateway.append_refused(&error))
    }
}

/// Why a write's points are not in the journal.
pub(super) enum NotAdmitted {
    /// They are refused.
    Refused(Answer),
    /// It has to be waited, or to be done where more time is: [`Gateway::admit_aside`] does both.
    Undecided,
}

impl From<Answer> for NotAdmitted {
    fn from(refusal: Answer) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Undecided> for NotAdmitted {
    fn from(_: Undecided) -> Self {
        Self::Undecided
    }
}

/// Counts the points that the embedded store would refuse as dropped: InfluxDB drops such a point
/// whole and says so, before the lines it could not read.
pub(super) fn leave_out(outcome: &mut Outcome, checked: store::Checked) {
    if checked.dropped > 0 {
        outcome.points = checked.kept;
        outcome.dropped += checked.dropped;
        outcome.reason = checked.reason.or(outcome.reason.take());
    }
}

impl Gateway {
    /// Puts a statement that changes something into the journal; gives its place among the writes
    /// once it is acknowledged. All names that it makes or drops are in force from then on.
    pub(super) async fn append_statement(
        &self,
        statement: &record::Statement<'_>,
        change: &Change,
    ) -> Result<(), Answer> {
        let mut payload = Vec::new();
        record::put_statement(&mut payload, statement).map_err(|e| bad_request(&e.to_string()))?;
        let appended =
            self.journal.append_from_anywhere(record::KIND_STATEMENT, 0, true, &[&payload]).await;
        let position = appended.map_err(|error| match error {
            AppendAndWaitError::Append(error) => self.append_refused(&error),
            AppendAndWaitError::Ack(error) => self.unacknowledged(&error),
        })?;
        self.catalogue.apply(position, change);
        Ok(())
    }

    pub(super) fn unacknowledged(&self, error: &AckError) -> Answer {
        let refused = &self.metrics.refused;
        match error {
            AckError::Timeout => refused.timeout.inc(),
            AckError::Full => refused.full.inc(),
            AckError::DiskFull => refused.disk_full.inc(),
            AckError::Poisoned | AckError::Closed => refused.poisoned.inc(),
        }
        answer::unavailable(&error.to_string(), 1)
    }

    pub(super) fn append_refused(&self, error: &AppendError) -> Answer {
        let refused = &self.metrics.refused;
        let (counter, seconds) = match error {
            AppendError::Busy => {
                refused.busy.inc();
                return answer::throttled();
            }
            AppendError::TooLarge { .. } => {
                refused.too_large.inc();
                return answer::error(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large");
            }
            AppendError::Full => (&refused.full, 5),
            AppendError::DiskFull => (&refused.disk_full, 5),
            AppendError::Poisoned | AppendError::Closed => (&refused.poisoned, 30),
        };
        counter.inc();
        answer::unavailable(&error.to_string(), seconds)
    }
}

fn bad_request(message: &str) -> Answer {
    answer::error(StatusCode::BAD_REQUEST, message)
}
