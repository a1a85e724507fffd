//! What is done with the servers of a cluster's members by hand: they are given a table, and
//! compared with each other.

// Layers, from the top down.
//   apply, verify
//   server
//   failure
//   plan

mod apply;
mod failure;
mod plan;
mod server;
mod verify;

pub use self::apply::{Mode, apply};
pub use self::failure::ClusterError;
#[cfg(test)]
pub use self::plan::{FoundMember, Plan, PlanError};
pub use self::server::{answers, servers};
pub use self::verify::{Difference, Verification, verify};
