//! What workers have appended and what is acknowledged of it.

pub(crate) mod inlet;
pub(crate) mod waiters;
