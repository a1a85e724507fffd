//! What ends of a run while it goes on.

use std::time::SystemTime;

use meter::engine::FinishedWindow;
use meter::recorder::Results;

/// What has ended of a run.
pub enum EndedPiece<'a> {
    /// A window of the whole run.
    Window(&'a FinishedWindow),
    /// A window of what the agent of that name sends.
    OfAgent(&'a str, &'a FinishedWindow),
    /// What ended behind the last of so many windows of what an agent sends, of a run whose first
    /// window began then.
    RestOfAgent(&'a str, SystemTime, u64, &'a Results),
}
