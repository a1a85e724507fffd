//! Writes that are too large for their worker: what it does with others is done with these on
//! another thread, with the same checks in the same order.

use std::sync::Arc;
use std::time::Instant;

use ::http::StatusCode;
use journal::{AckError, Ticket};
use wire::line::{self, Outcome, Precision, StampTag};

use super::answer::{self, Answer, Refusal};
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
    /// Where its points go, where they may go anywhere.
    pub destination: Option<Destination>,
}

/// What was read from it.
pub struct Read {
    pub outcome: Outcome,
    pub points: Vec<u8>,
    /// What the embedded store would take of them.
    pub checked: Option<store::Checked>,
    pub begun: Instant,
    pub done: Instant,
}

impl Large {
    /// Reads the lines.
    ///
    /// # Errors
    /// The answer where the body is no good, or too large.
    pub fn read(self, gateway: &Gateway) -> Result<Read, Refusal> {
        let Self { body, precision, stamp, unsigned, destination } = self;
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
        let target = destination.and_then(|to| to.target);
        let checked = gateway.backends.embedded().zip(target).map(|(embedded, target)| {
            let mut checker = store::Checker::new(Arc::clone(embedded.store()));
            checker.check(target.ids, &mut points, now_ns)
        });
        Ok(Read { outcome, points, checked, begun, done })
    }
}

impl Gateway {
    /// Puts points into the journal from another thread than a worker's.
    ///
    /// # Errors
    /// The answer, where it does not take them.
    pub(super) async fn append_aside(
        self: &Arc<Self>,
        db: &str,
        to: &Destination,
        points: Vec<u8>,
        count: u32,
    ) -> Result<Ticket, Answer> {
        let mut header = Vec::new();
        let ids = to.target.map(|target| target.ids);
        let kind = record::put_points_header(&mut header, db, &to.policy, ids)
            .map_err(|e| answer::error(StatusCode::BAD_REQUEST, &e.to_string()))?;
        let gateway = Arc::clone(self);
        let append = move || {
            let payload: [&[u8]; 2] = [&header, &points];
            gateway.appender.append(kind, count, false, &payload)
        };
        self.aside.run(append).await?.map_err(|error| self.append_refused(&error))
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
