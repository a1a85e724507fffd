//! Writes that are too large for their worker: what it does with others is done with these on
//! another thread, with the same checks in the same order. So are writes whose fields take long to
//! look up, or depend on writes that are under way.

use std::sync::Arc;
use std::time::Instant;

use ::http::StatusCode;
use journal::{AckError, AppendError, Ticket};
use store::Undecided;
use wire::line::{self, Outcome, Precision, StampTag};

use super::answer::{self, Answer, Refusal};
use super::append::leave_out;
use super::body::Whole;
use super::destination::Destination;
use super::gateway::Gateway;
use crate::record;

/// A body, and all that it is to be read with.
pub struct Large {
    pub body: Whole,
    pub precision: Precision,
    pub stamp: Vec<StampTag>,
    pub unsigned: bool,
}

/// What was read from it.
pub struct Read {
    pub outcome: Outcome,
    pub points: Vec<u8>,
    pub begun: Instant,
    pub done: Instant,
}

impl Large {
    /// Reads the lines.
    ///
    /// # Errors
    /// The answer where the body is no good, or too large.
    pub fn read(self, gateway: &Gateway) -> Result<Read, Refusal> {
        let Self { body, precision, stamp, unsigned } = self;
        let mut body = body.unfolded()?;
        // The points are about as long.
        if !body.share.grow(body.bytes.len()) {
            return Err(super::body::no_memory().into());
        }
        let begun = Instant::now();
        let now_ns = super::now_ns();
        let options = line::Options { precision, now_ns, stamp: &stamp, unsigned };
        let mut points = Vec::new();
        let outcome = line::normalise(&body.bytes, &options, &mut points);
        let done = Instant::now();
        gateway.metrics.parsed(done - begun, &outcome);
        Ok(Read { outcome, points, begun, done })
    }
}

/// What the embedded store would refuse of points, and their place in the journal.
enum Tried {
    Appended(Outcome, Option<Ticket>),
    Refused(AppendError),
    /// Whether they are of the right types depends on the write with this number.
    Unsettled(Outcome, Vec<u8>, u64),
}

impl Gateway {
    /// Takes a write's points as [`Front::admit`](super::Front::admit) does, on another thread than
    /// a worker's, and waits where their types depend on writes that are under way.
    ///
    /// # Errors
    /// The answer, where they are not taken.
    pub(super) async fn admit_aside(
        self: &Arc<Self>,
        db: &str,
        to: &Destination,
        mut points: Vec<u8>,
        mut outcome: Outcome,
    ) -> Result<(Outcome, Option<Ticket>), Answer> {
        let mut header = Vec::new();
        let ids = to.target.map(|target| target.ids);
        let kind = record::put_points_header(&mut header, db, &to.policy, ids)
            .map_err(|e| answer::error(StatusCode::BAD_REQUEST, &e.to_string()))?;
        let header: Arc<[u8]> = header.into();
        while outcome.points > 0 {
            let (gateway, header) = (Arc::clone(self), Arc::clone(&header));
            let admit = move || gateway.try_to_admit(kind, &header, ids, points, outcome);
            let number = match self.aside.run(admit).await? {
                Tried::Appended(outcome, ticket) => return Ok((outcome, ticket)),
                Tried::Refused(error) => return Err(self.append_refused(&error)),
                Tried::Unsettled(same, of_it, number) => {
                    (outcome, points) = (same, of_it);
                    number
                }
            };
            if let Some(embedded) = self.backends.embedded() {
                let settled = embedded.settled(number).await;
                settled.map_err(|unsettled| answer::unavailable(&unsettled.to_string(), 1))?;
            }
        }
        Ok((outcome, None))
    }

    fn try_to_admit(
        &self,
        kind: u8,
        header: &[u8],
        ids: Option<store::catalogue::Ids>,
        mut points: Vec<u8>,
        mut outcome: Outcome,
    ) -> Tried {
        if let Err(error) = self.appender.room(points.len()) {
            return Tried::Refused(error);
        }
        let store = self.backends.embedded().map(|embedded| Arc::clone(embedded.store()));
        // From the check until the points have their place.
        let _held = store.as_ref().map(|store| store.hold_promises());
        if let Some((store, ids)) = store.as_ref().zip(ids) {
            let mut checker = store::Checker::new(Arc::clone(store));
            match checker.check(ids, &mut points, super::now_ns(), usize::MAX) {
                Ok(checked) => {
                    self.metrics.points_refused.add(u64::from(checked.dropped));
                    leave_out(&mut outcome, checked);
                }
                Err(Undecided::Promised(number)) => {
                    return Tried::Unsettled(outcome, points, number);
                }
                // Not with so many lookups.
                Err(Undecided::TooLong) => return Tried::Refused(AppendError::Busy),
            }
        }
        if outcome.points == 0 {
            return Tried::Appended(outcome, None);
        }
        let payload: [&[u8]; 2] = [header, &points];
        match self.appender.append(kind, outcome.points, false, &payload) {
            Ok(ticket) => Tried::Appended(outcome, Some(ticket)),
            Err(error) => Tried::Refused(error),
        }
    }

    /// Waits until what was appended aside is acknowledged.
    pub(super) async fn acknowledged_aside(
        self: &Arc<Self>,
        ticket: Ticket,
    ) -> Result<(), AckError> {
        // Not on the worker, with which the task that wakes all who wait would end.
        let gateway = Arc::clone(self);
        let wait = async move { gateway.appender.acknowledged(ticket).await };
        self.control.spawn(wait).await.unwrap_or(Err(AckError::Closed))
    }
}
