//! Why nothing comes of what is to be done with a cluster's members.

use journal::CursorError;

use super::super::file::TableError;
use super::plan::PlanError;
use crate::client::ClientError;
use crate::settings::{BackendError, SettingsError};

/// What was to be done with members did not come about.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
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
    /// The gateway's own file cannot be read or written.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The journal's cursors cannot be changed.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The table can't follow what the members have.
    #[error(transparent)]
    Plan(#[from] PlanError),
}
