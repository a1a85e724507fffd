//! Reading a journal's directory without opening it for writing.

use std::fmt;
use std::path::Path;

use crate::error::OpenError;

/// What is in a journal's directory; `Display` prints it for an operator.
#[derive(Debug, Clone)]
pub struct Report {}

impl Report {
    /// Whether nothing damaged or missing was found.
    pub fn is_intact(&self) -> bool {
        todo!()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}

/// Lists segments, groups, records and cursors by their headers, without reading the payloads.
pub fn inspect(dir: &Path) -> Result<Report, OpenError> {
    todo!()
}

/// As [`inspect`], and checks every record against its checksum.
pub fn verify(dir: &Path) -> Result<Report, OpenError> {
    todo!()
}
