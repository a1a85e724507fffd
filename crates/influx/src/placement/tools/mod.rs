//! What is done with the servers of a cluster's members by hand: they are given a table, and
//! compared with each other.

// Layers, from the top down.
//   apply, forget, greeting, rebuild
//   copy
//   verify
//   server
//   slices, stream
//   failure, rows
//   mark
//   holding, plan

mod apply;
mod copy;
mod failure;
mod forget;
mod greeting;
mod holding;
mod mark;
mod plan;
mod rebuild;
mod rows;
mod server;
mod slices;
mod stream;
mod verify;

pub use self::apply::{Mode, apply};
pub use self::failure::ClusterError;
pub use self::forget::forget;
pub use self::greeting::MemberGreeting;
#[cfg(test)]
pub use self::holding::{awaited, room};
#[cfg(test)]
pub use self::mark::RebuildMark;
#[cfg(test)]
pub use self::plan::{FoundMember, Plan, PlanError};
pub use self::rebuild::{Extent, Rebuild, rebuild};
pub use self::server::{answers, servers};
pub use self::slices::TimeSpan;
#[cfg(test)]
pub use self::slices::{Slice, read_groups, slices};
pub use self::verify::{Difference, Verification, verify};
