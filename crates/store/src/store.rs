//! The store as a whole.

/// The embedded store of one process.
#[derive(Debug)]
pub struct Store {}
