//! The time as line protocol counts it.

use std::time::{SystemTime, UNIX_EPOCH};

/// The system's clock in nanoseconds since 1970.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
