//! A worker's way of putting records into the journal.

pub(crate) mod tickets;

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::acks::Acks;
use crate::acks::queue::{AppendQueue, NewRecord, Placed};
use crate::error::{AckError, AppendError};
use crate::format::record::{self, Label};
use crate::log::Log;
use crate::owners::Owners;
use crate::settings::Ack;

/// One worker's way into the journal. Appending copies the record into the worker's own buffer
/// and never waits for the disk. The records of one appender are written in their order.
#[derive(Debug)]
pub struct Appender {
    log: Arc<Log>,
    acks: Arc<Acks>,
    queue: Arc<AppendQueue>,
    /// Whether the queue is this appender's alone.
    alone: bool,
}

/// Stands for a record that was taken and not yet acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the record is not safe until it is acknowledged"]
pub struct Ticket(pub(crate) u64);

impl Appender {
    pub(crate) fn new(owners: &Owners, queue: Arc<AppendQueue>, alone: bool) -> Appender {
        Appender { log: owners.log.clone(), acks: owners.acks.clone(), queue, alone }
    }

    /// Takes a record: the parts of `payload` one after the other. `kind` and `items` are the
    /// caller's and handed back by the consumer; a `control` record is counted apart from items.
    ///
    /// An error means that nothing of the record will be written.
    pub fn append(
        &self,
        kind: u8,
        items: u32,
        control: bool,
        payload: &[&[u8]],
    ) -> Result<Ticket, AppendError> {
        let label = Label { kind, items, control };
        append(&self.log, &self.acks, &self.queue, label, payload, None).map(Ticket)
    }

    /// As [`append`](Appender::append), if the record still `stands` at the moment at which it gets
    /// its place: a [`Mark`](crate::Mark) made once that has changed is behind every record taken.
    /// `None` where it does not stand; nothing of it will be written.
    pub fn append_if(
        &self,
        kind: u8,
        items: u32,
        control: bool,
        payload: &[&[u8]],
        stands: impl FnOnce() -> bool,
    ) -> Result<Option<Ticket>, AppendError> {
        let label = Label { kind, items, control };
        let taken = append_if(&self.log, &self.acks, &self.queue, label, payload, None, stands);
        taken.map(|number| number.map(Ticket))
    }

    /// Whether a record of so many bytes would be taken at this moment; [`append`](Self::append)
    /// says of one that is too large that it is.
    pub fn room(&self, len: usize) -> Result<(), AppendError> {
        let len = (len as u64).min(self.log.payload_max()) + record::HEADER_LEN as u64;
        let checked = self.log.gate().look(len);
        checked.inspect_err(|error| self.log.metrics().refuse(error))
    }

    /// Waits until the record is as safe as `ack` promises. The future may be dropped at any time.
    /// Must be awaited on a tokio runtime with its timer enabled.
    pub async fn acknowledged(&self, ticket: Ticket) -> Result<(), AckError> {
        match self.known() {
            Some(known) => known,
            None => self.acks.wait(&self.queue, ticket.0).await,
        }
    }

    /// As [`acknowledged`](Appender::acknowledged); `since` is the period since which it is
    /// waited for.
    pub(crate) fn poll_settled(
        &self,
        ticket: Ticket,
        since: &mut Option<u64>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), AckError>> {
        match self.known() {
            Some(known) => Poll::Ready(known),
            None => self.acks.poll(&self.queue, ticket.0, since, cx),
        }
    }

    /// The period that the time of those who wait is counted by.
    pub(crate) fn period(&self) -> u64 {
        self.queue.period()
    }

    /// What is known of every record without waiting; something in `memory` only.
    fn known(&self) -> Option<Result<(), AckError>> {
        (self.log.settings().ack == Ack::Memory).then(|| match self.log.gate().poisoned() {
            Some(_) => Err(AckError::Poisoned),
            None => Ok(()),
        })
    }

    /// The longest payload a record can have, in bytes.
    pub fn payload_max(&self) -> usize {
        usize::try_from(self.log.payload_max()).unwrap_or(usize::MAX)
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        if self.alone {
            self.queue.abandon();
        }
    }
}

/// Takes a record; gives its number.
pub(crate) fn append(
    log: &Log,
    acks: &Acks,
    queue: &AppendQueue,
    label: Label,
    payload: &[&[u8]],
    placed: Option<&Placed>,
) -> Result<u64, AppendError> {
    // It always stands.
    append_if(log, acks, queue, label, payload, placed, || true).map(Option::unwrap_or_default)
}

fn append_if(
    log: &Log,
    acks: &Acks,
    queue: &AppendQueue,
    label: Label,
    payload: &[&[u8]],
    placed: Option<&Placed>,
    stands: impl FnOnce() -> bool,
) -> Result<Option<u64>, AppendError> {
    let len: usize = payload.iter().map(|part| part.len()).sum();
    let max = log.payload_max();
    let taken = match u32::try_from(len) {
        Ok(short) if u64::from(short) <= max => {
            acks.append(queue, &NewRecord { label, len: short, payload, placed }, stands)
        }
        _ => Err(AppendError::TooLarge { len: len as u64, max }),
    };
    taken.inspect_err(|error| log.metrics().refuse(error))
}
