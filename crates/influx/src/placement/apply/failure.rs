//! Why a table could not be applied.

use super::plan::PlanError;
use crate::client::ClientError;
use crate::settings::{BackendError, SettingsError};

/// A table could not be applied; members may have it, and it is not in force.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The configuration has none, or one that can't work.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A backend of the configuration can't work.
    #[error("{0}")]
    Backend(#[from] BackendError),
    /// A member's password or certificate files cannot be read.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A member does not answer, or says no.
    #[error("member {name:?}: {words}")]
    Member { name: String, words: String },
    /// The table can't follow what the members have.
    #[error(transparent)]
    Plan(#[from] PlanError),
}
