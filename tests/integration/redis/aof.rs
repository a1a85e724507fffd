//! The append-only files that Weir keeps: a server started from them has what the master had, and
//! every write that `WAIT` confirmed.

mod accept;
mod failover;
mod faults;
mod follow;
mod hostile;
mod pressure;
mod restore;
mod rewrite;
mod scene;
mod sentinel;

pub use scene::info;
