//! From points to an acknowledged record, and from the journal's refusals to answers.

use ::http::StatusCode;
use journal::{AckError, AppendAndWaitError, AppendError};
use wire::influxql::Change;

use super::answer::{self, Answer};
use super::destination::Destination;
use super::stages::{APPEND, PARSE};
use super::{Front, Gateway, POINTS_KEPT_MAX};
use crate::record;

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

    /// Appends the worker's prepared points.
    pub(super) fn append_points(
        &self,
        db: &str,
        to: &Destination,
        count: u32,
    ) -> Result<journal::Ticket, Answer> {
        let mut points = self.points.borrow_mut();
        let ticket = self.append_unacknowledged(db, to, &points, count)?;
        if points.capacity() > POINTS_KEPT_MAX {
            *points = Vec::new();
        }
        Ok(ticket)
    }

    /// Appends points, those of a datagram for instance.
    pub(super) fn append_unacknowledged(
        &self,
        db: &str,
        to: &Destination,
        points: &[u8],
        count: u32,
    ) -> Result<journal::Ticket, Answer> {
        let mut header = self.header.borrow_mut();
        header.clear();
        let ids = to.target.map(|target| target.ids);
        let kind = record::put_points_header(&mut header, db, &to.policy, ids)
            .map_err(|e| bad_request(&e.to_string()))?;
        let payload: [&[u8]; 2] = [&header, points];
        let _stage = self.worker.pulse.enter_sized(&APPEND, points.len());
        self.appender
            .append(kind, count, false, &payload)
            .map_err(|error| self.gateway.append_refused(&error))
    }

    /// Takes from `points` what the embedded store would refuse: values of another type than their
    /// field has, and points that are older than their policy keeps. Gives how many points are
    /// left, and why the first of the others is not.
    pub(super) fn check(&self, to: &Destination, points: &mut Vec<u8>) -> Option<store::Checked> {
        let (checker, target) = self.checker.as_ref().zip(to.target)?;
        let _stage = self.worker.pulse.enter_sized(&PARSE, points.len());
        let checked = checker.borrow_mut().check(target.ids, points, super::now_ns());
        self.gateway.metrics.points_refused.add(u64::from(checked.dropped));
        Some(checked)
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

    /// As a worker appends points, for those that come from elsewhere; gives what a client would
    /// have heard.
    pub(super) async fn append_points_from_anywhere(
        &self,
        db: &str,
        to: &Destination,
        points: &[u8],
        count: u32,
    ) -> Result<(), String> {
        let mut header = Vec::new();
        let ids = to.target.map(|target| target.ids);
        let kind = record::put_points_header(&mut header, db, &to.policy, ids)
            .map_err(|error| error.to_string())?;
        let payload: [&[u8]; 2] = [&header, points];
        let appended = self.journal.append_from_anywhere(kind, count, false, &payload).await;
        appended.map_err(|error| error.to_string())?;
        self.metrics.accepted.add(u64::from(count));
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
