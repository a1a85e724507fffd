//! Why points or a statement are not in the journal, or not known to be safe there.

use journal::{AckError, AppendAndWaitError, AppendError};

use crate::aside::Stopping;
use crate::embedded::{Behind, Starting, Unsettled};
use crate::record::NameTooLong;

/// A refusal, for each way in to put into its own words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The journal does not take the record; nothing of it will be written.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The journal took the record and does not say that it is safe.
    #[error(transparent)]
    Unacknowledged(#[from] AckError),
    /// The embedded store is too far behind the journal, or can't write its files.
    #[error(transparent)]
    Behind(#[from] Behind),
    /// The embedded store does not know all names and points yet.
    #[error(transparent)]
    Starting(#[from] Starting),
    /// Whether a field exists depends on a write whose end did not come in time.
    #[error(transparent)]
    Unsettled(#[from] Unsettled),
    /// A record can't hold the name of the database or policy.
    #[error(transparent)]
    NameTooLong(#[from] NameTooLong),
    /// The process is about to end.
    #[error(transparent)]
    Stopping(#[from] Stopping),
}

/// Why points are not in the journal now.
#[derive(Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// The points are refused for good.
    Refused(Refusal),
    /// Their types can't be decided at once, or not on a worker. The points are as they were, but
    /// for some that are refused already: [`Admission::admit_aside`](super::Admission) goes on.
    NotNow,
}

impl From<Refusal> for NotAdmitted {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<AppendError> for NotAdmitted {
    fn from(error: AppendError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<AppendAndWaitError> for Refusal {
    fn from(error: AppendAndWaitError) -> Self {
        match error {
            AppendAndWaitError::Append(error) => Self::Append(error),
            AppendAndWaitError::Ack(error) => Self::Unacknowledged(error),
        }
    }
}
