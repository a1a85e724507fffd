//! Admission with time: on another thread than a worker's, for what is too large for one, takes
//! long to look up, or depends on writes that are under way.

use std::sync::Arc;

use journal::{AckError, AppendError};
use store::Undecided;
use store::catalogue::Ids;
use wire::line::Outcome;

use super::{Admission, Admitted, Destination, Points, Refusal, Room};
use crate::clock::now_ns;
use crate::record;

/// What came of one try.
enum Attempt {
    Appended(Admitted),
    Refused(AppendError),
    /// Whether the points are of the right types depends on the write with this number.
    Unsettled(Points, u64),
}

/// What a record of points begins with.
struct Header {
    kind: u8,
    bytes: Vec<u8>,
    ids: Option<Ids>,
    db: String,
    policy: Arc<str>,
}

impl Admission {
    /// Admits points as [`WorkerAdmission::admit`](super::WorkerAdmission::admit) does, on another
    /// thread from the beginning.
    ///
    /// # Errors
    /// Where they are refused, or not known to be safe.
    pub async fn admit(
        self: &Arc<Self>,
        to: &Destination<'_>,
        points: Points,
    ) -> Result<Outcome, Refusal> {
        if points.count() == 0 {
            return Ok(points.into_outcome());
        }
        let room = self.room().await?;
        let admitted = self.admit_aside(room, to, points).await?;
        self.acknowledged(admitted).await
    }

    /// Admits points on another thread, without waiting for the acknowledgement; waits where their
    /// types depend on writes that are under way.
    ///
    /// # Errors
    /// Where they are refused.
    pub async fn admit_aside(
        self: &Arc<Self>,
        _room: Room,
        to: &Destination<'_>,
        mut points: Points,
    ) -> Result<Admitted, Refusal> {
        let ids = to.target.map(|target| target.ids);
        let mut bytes = Vec::new();
        let kind = record::put_points_header(&mut bytes, to.db, &to.policy, ids)?;
        let (db, policy) = (to.db.to_owned(), Arc::clone(&to.policy));
        let header = Arc::new(Header { kind, bytes, ids, db, policy });
        while points.count() > 0 {
            let (admission, header) = (Arc::clone(self), Arc::clone(&header));
            let attempt = move || admission.attempt(&header, points);
            let number = match self.aside.run(attempt).await? {
                Attempt::Appended(admitted) => return Ok(admitted),
                Attempt::Refused(error) => return Err(error.into()),
                Attempt::Unsettled(undecided, number) => {
                    points = undecided;
                    number
                }
            };
            if let Some(embedded) = &self.embedded {
                embedded.settled(number).await?;
            }
        }
        Ok(points.admitted(None))
    }

    fn attempt(&self, header: &Header, mut points: Points) -> Attempt {
        if let Err(error) = self.appender.room(points.lines().len()) {
            return Attempt::Refused(error);
        }
        let store = self.embedded.as_ref().map(|embedded| Arc::clone(embedded.store()));
        // From the check until the points have their place.
        let held = store.as_ref().map(|store| store.hold_promises());
        if let Some((store, ids)) = store.as_ref().zip(header.ids) {
            let mut checker = store::Checker::new(Arc::clone(store));
            let (lines, marks) = points.marked(&self.mark_key);
            match checker.check(ids, lines, marks, now_ns(), usize::MAX) {
                Ok(checked) => {
                    let refused = points.leave_out(&checked.refused, checked.reason);
                    self.points_refused.add(u64::from(refused));
                }
                Err(Undecided::Promised(number)) => return Attempt::Unsettled(points, number),
                // Not with so many lookups.
                Err(Undecided::TooLong) => return Attempt::Refused(AppendError::Busy),
            }
        }
        self.leave_out_unplaced(&header.db, &mut points);
        if points.count() == 0 {
            return Attempt::Appended(points.admitted(None));
        }
        let payload: [&[u8]; 2] = [&header.bytes, points.lines()];
        match self.appender.append(header.kind, points.count(), false, &payload) {
            Ok(ticket) => {
                drop(held);
                if let Some(collisions) = &self.collisions {
                    collisions.observe(&header.db, &header.policy, points.written());
                }
                Attempt::Appended(points.admitted(Some(ticket)))
            }
            Err(error) => Attempt::Refused(error),
        }
    }

    /// Waits until what [`admit_aside`](Self::admit_aside) has admitted is acknowledged.
    pub(super) async fn acknowledged(
        self: &Arc<Self>,
        admitted: Admitted,
    ) -> Result<Outcome, Refusal> {
        if let Some(ticket) = admitted.ticket {
            // Not on the worker, with which the task that wakes all who wait would end.
            let admission = Arc::clone(self);
            let wait = async move { admission.appender.acknowledged(ticket).await };
            self.aside.outlast(wait).await.unwrap_or(Err(AckError::Closed))?;
        }
        Ok(admitted.outcome)
    }

    /// Waits until the embedded store, where there is one, has all that was acknowledged by now:
    /// whoever asks it afterwards sees that.
    ///
    /// # Errors
    /// Where that takes too long, or the journal does not say what it has acknowledged.
    pub async fn readable(&self) -> Result<(), Refusal> {
        if let Some(embedded) = &self.embedded {
            let end = self.journal.acknowledged_end().await?;
            embedded.reach(end).await?;
        }
        Ok(())
    }
}
