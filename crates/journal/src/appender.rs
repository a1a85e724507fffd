//! Taking records in.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use crate::core::{Core, lock};
use crate::error::{AckError, AppendError};
use crate::inlet::{Inlet, Placed};
use crate::record::{self, Label};
use crate::settings::Ack;
use crate::waiters;

/// One worker's way into the journal. Appending copies the record into the worker's own buffer
/// and never waits for the disk. The records of one appender are written in their order.
#[derive(Debug)]
pub struct Appender {
    core: Arc<Core>,
    inlet: Arc<Inlet>,
    /// Whether the inlet is this appender's alone.
    alone: bool,
}

/// Stands for a record that was taken and not yet acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the record is not safe until it is acknowledged"]
pub struct Ticket(pub(crate) u64);

impl Appender {
    pub(crate) fn new(core: Arc<Core>, inlet: Arc<Inlet>, alone: bool) -> Appender {
        Appender { core, inlet, alone }
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
        append(&self.core, &self.inlet, label, payload, None).map(Ticket)
    }

    /// Waits until the record is as safe as `ack` promises. The future may be dropped at any time.
    /// Must be awaited on a tokio runtime with its timer enabled.
    pub async fn acknowledged(&self, ticket: Ticket) -> Result<(), AckError> {
        match self.known() {
            Some(known) => known,
            None => waiters::wait(&self.core, &self.inlet, ticket.0).await,
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
            None => waiters::poll(&self.core, &self.inlet, ticket.0, since, cx),
        }
    }

    /// The period that the time of those who wait is counted by.
    pub(crate) fn period(&self) -> u64 {
        lock(&self.inlet.waiters).period()
    }

    /// What is known of every record without waiting; something in `memory` only.
    fn known(&self) -> Option<Result<(), AckError>> {
        (self.core.settings.ack == Ack::Memory).then(|| match self.core.gate.poisoned() {
            Some(_) => Err(AckError::Poisoned),
            None => Ok(()),
        })
    }

    /// The longest payload a record can have, in bytes.
    pub fn payload_max(&self) -> usize {
        usize::try_from(payload_max(&self.core)).unwrap_or(usize::MAX)
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        if self.alone {
            self.inlet.abandoned.store(true, Ordering::Release);
            self.inlet.pump.notify_one();
        }
    }
}

fn payload_max(core: &Core) -> u64 {
    let capacity = core.settings.group_capacity();
    capacity.saturating_sub(record::HEADER_LEN as u64)
}

/// Takes a record and wakes the journal thread if it sleeps. Gives the record's number.
pub(crate) fn append(
    core: &Core,
    inlet: &Inlet,
    label: Label,
    payload: &[&[u8]],
    placed: Option<&Placed>,
) -> Result<u64, AppendError> {
    let len: usize = payload.iter().map(|part| part.len()).sum();
    let max = payload_max(core);
    let taken = match u32::try_from(len) {
        Ok(short) if u64::from(short) <= max => {
            inlet.append(&core.gate, core.salt, label, short, payload, placed)
        }
        _ => Err(AppendError::TooLarge { len: len as u64, max }),
    };
    match &taken {
        Ok(_) => core.writer.ring(),
        Err(error) => core.metrics.refuse(error),
    }
    taken
}
