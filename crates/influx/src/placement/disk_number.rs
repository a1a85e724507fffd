//! Which of a member's disks a server has.

use serde::{Deserialize, Serialize};

/// Tells a member's disk from those that it had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DiskNumber {
    /// How many disks the member had, with this one.
    pub count: u64,
    /// Drawn when the member was given its first table on it.
    pub number: u64,
}
