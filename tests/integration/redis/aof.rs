//! The append-only files that Weir keeps: a server started from them has what the master had, and
//! every write that `WAIT` confirmed.

mod accept;
mod chaos;
mod cluster;
mod damage;
mod failover;
mod faults;
mod follow;
mod hostile;
mod lineage;
mod port;
mod pressure;
mod restore;
mod rewrite;
mod scene;
mod sentinel;
mod valkey;

pub use scene::info;
