//! What is common to all that puts files in the place of others.

use std::sync::Arc;

use crate::file::{FileError, Names};
use crate::manifest::ManifestError;
use crate::scan::ScanError;

/// Finds the dictionary of a policy.
pub type FindNames<'a> = &'a dyn Fn(u64) -> Option<Arc<dyn Names>>;

/// Why files could not be replaced by others; the store is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// A file can't be read.
    #[error(transparent)]
    Read(#[from] ScanError),
    /// The result can't be written.
    #[error(transparent)]
    Write(#[from] FileError),
    /// The manifest can't be switched.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}
