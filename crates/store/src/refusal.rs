//! What a statement is refused with.

/// Why a statement has no result; displays as InfluxDB words it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct QueryError(pub String);
