//! Admission on a worker's own thread, with its own way into the journal and buffers that are used
//! again.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Context, Poll};

use flow::workers::PARSE;
use journal::{AckError, Appender, Journal, Tickets};
use store::{Checker, LOOKUPS_AT_ONCE_MAX};
use watch::watchdog::Pulse;
use wire::line::Outcome;

use super::{APPEND, Admission, Admitted, Destination, NotAdmitted, Points, Refusal, Room};
use crate::clock::now_ns;
use crate::collisions::WorkerCollisions;
use crate::record;

/// How often a worker checks points again because a statement has changed what they were checked
/// against.
const TRIES: usize = 4;

/// Buffers of points that have grown past this many bytes are given back after use, so that a few
/// large bodies do not hold memory for ever.
const POINTS_KEPT_MAX: usize = 1 << 20;

/// Admission as one worker has it; it does not leave the worker's thread.
pub struct WorkerAdmission {
    shared: Arc<Admission>,
    appender: Appender,
    pulse: Pulse,
    collisions: Option<WorkerCollisions>,
    /// What the embedded store can refuse before the journal has it.
    checker: Option<RefCell<Checker>>,
    /// Where a record's header is made; used again for the next one.
    header: RefCell<Vec<u8>>,
    /// Where a request's points are made before they are appended; used again for the next ones.
    points: RefCell<Option<Points>>,
}

impl WorkerAdmission {
    /// Admission on the thread of `pulse`.
    pub fn new(shared: Arc<Admission>, journal: &Journal, pulse: Pulse) -> Self {
        let embedded = shared.embedded.as_ref();
        let checker =
            embedded.map(|embedded| RefCell::new(Checker::new(Arc::clone(embedded.store()))));
        let collisions = shared.collisions.as_ref().map(Arc::clone).map(WorkerCollisions::new);
        Self {
            shared,
            appender: journal.appender(),
            pulse,
            collisions,
            checker,
            header: RefCell::default(),
            points: RefCell::default(),
        }
    }

    /// No points yet, in buffers that are to be given back by [`recycle`](Self::recycle).
    pub fn points(&self) -> Points {
        let mut points = self.points.take().unwrap_or_else(|| self.shared.points());
        self.shared.restart(&mut points);
        points
    }

    /// Takes back the buffers of points that the journal has, or that are refused.
    pub fn recycle(&self, points: Points) {
        if points.capacity() <= POINTS_KEPT_MAX {
            self.points.replace(Some(points));
        }
    }

    /// Takes out of a write's points what the embedded store would refuse (values of another type
    /// than their field has, points older than their policy keeps), promises the types of new
    /// fields, and appends the rest. No ticket where nothing is left.
    ///
    /// # Errors
    /// Where the journal refuses them, or they can't be decided at once. Nothing has been done
    /// then.
    pub fn admit_now(
        &self,
        _room: Room,
        to: &Destination<'_>,
        points: &mut Points,
    ) -> Result<Admitted, NotAdmitted> {
        if points.count() == 0 {
            return Ok(points.admitted(None));
        }
        if let Some((checker, target)) = self.checker.as_ref().zip(to.target) {
            return self.admit_checked(checker, target.ids, to, points);
        }
        self.shared.leave_out_unplaced(to.db, points);
        let ticket = match points.count() {
            0 => None,
            _ => self.append(to, points, || true)?,
        };
        Ok(points.admitted(ticket))
    }

    fn admit_checked(
        &self,
        checker: &RefCell<Checker>,
        ids: store::catalogue::Ids,
        to: &Destination<'_>,
        points: &mut Points,
    ) -> Result<Admitted, NotAdmitted> {
        // First, so that nothing is promised to a write that there is no room for.
        self.appender.room(points.lines().len())?;
        let mut refused = 0;
        for _ in 0..TRIES {
            let checked = {
                let _stage = self.pulse.enter_sized(&PARSE, points.lines().len());
                let mut checker = checker.borrow_mut();
                let (lines, marks) = points.marked(&self.shared.mark_key);
                checker.check(ids, lines, marks, now_ns(), LOOKUPS_AT_ONCE_MAX)
            };
            let checked = checked.map_err(|_undecided| NotAdmitted::NotNow)?;
            let basis = checked.basis;
            refused += points.leave_out(&checked.refused, checked.reason);
            let stands = || checker.borrow().stands(&basis);
            let ticket = match points.count() {
                0 => None,
                _ => self.append(to, points, stands)?,
            };
            // Else what they were checked against is no more.
            if ticket.is_some() || points.count() == 0 {
                self.shared.points_refused.add(u64::from(refused));
                return Ok(points.admitted(ticket));
            }
        }
        Err(NotAdmitted::NotNow)
    }

    /// Appends points if they still stand.
    fn append(
        &self,
        to: &Destination<'_>,
        points: &Points,
        stands: impl FnOnce() -> bool,
    ) -> Result<Option<journal::Ticket>, Refusal> {
        let mut header = self.header.borrow_mut();
        header.clear();
        let ids = to.target.map(|target| target.ids);
        let kind = record::put_points_header(&mut header, to.db, &to.policy, ids)?;
        let payload: [&[u8]; 2] = [&header, points.lines()];
        let _stage = self.pulse.enter_sized(&APPEND, points.lines().len());
        let ticket = self.appender.append_if(kind, points.count(), false, &payload, stands)?;
        if let Some(collisions) = self.collisions.as_ref().filter(|_| ticket.is_some()) {
            collisions.observe(to.db, &to.policy, points.written());
        }
        Ok(ticket)
    }

    /// As [`admit_now`](Self::admit_now), and waits: for room, for what decides the types, and for
    /// the acknowledgement. Gives the account of the points, all of which the journal has then.
    ///
    /// # Errors
    /// Where they are refused, or not known to be safe.
    pub async fn admit(
        &self,
        to: &Destination<'_>,
        mut points: Points,
    ) -> Result<Outcome, Refusal> {
        if points.count() == 0 {
            let outcome = points.outcome().clone();
            self.recycle(points);
            return Ok(outcome);
        }
        // Other requests have a buffer of their own meanwhile.
        let room = self.shared.room().await?;
        match self.admit_now(room, to, &mut points) {
            Ok(Admitted { ticket, outcome }) => {
                self.recycle(points);
                if let Some(ticket) = ticket {
                    self.appender.acknowledged(ticket).await?;
                }
                Ok(outcome)
            }
            Err(NotAdmitted::Refused(refusal)) => {
                self.recycle(points);
                Err(refusal)
            }
            Err(NotAdmitted::NotNow) => {
                let admitted = self.shared.admit_aside(room, to, points).await?;
                self.shared.acknowledged(admitted).await
            }
        }
    }

    /// What is known of the oldest of the writes that wait by their tickets.
    pub fn poll_acknowledged<T>(
        &self,
        waiting: &mut Tickets<T>,
        cx: &Context<'_>,
    ) -> Poll<Option<(T, Result<(), AckError>)>> {
        waiting.poll_next(&self.appender, cx)
    }
}
