//! Databases and retention policies.

/// A retention policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Nanoseconds that points are kept; 0 is for ever.
    pub duration_ns: i64,
    /// Nanoseconds of one partition.
    pub partition_ns: i64,
    /// `REPLICATION`, kept to be shown.
    pub replication: u64,
    /// Whether it is the default of its database.
    pub default: bool,
}
