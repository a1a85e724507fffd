//! Taking records in.

use crate::error::{AckError, AppendError};

/// One worker's way into the journal. Appending copies the record into the worker's own buffer
/// and never waits for the disk. The records of one appender are written in their order.
#[derive(Debug)]
pub struct Appender {}

/// Stands for a record that was taken and not yet acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the record is not safe until it is acknowledged"]
pub struct Ticket(pub(crate) u64);

impl Appender {
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
        todo!()
    }

    /// Waits until the record is as safe as `ack` promises. The future may be dropped at any time.
    /// Must be awaited on a tokio runtime with its timer enabled.
    pub async fn acknowledged(&self, ticket: Ticket) -> Result<(), AckError> {
        todo!()
    }

    /// The longest payload a record can have, in bytes.
    pub fn payload_max(&self) -> usize {
        todo!()
    }
}
