//! Group commit: the thread that writes and syncs, and the one that syncs in the background.

pub(crate) mod syncer;
mod urgency;
pub(crate) mod writer;
