//! What workers have appended and what is acknowledged of it.

pub(crate) mod queue;
pub(crate) mod waiters;
