//! Where points lie in a cluster: each in exactly one set of backends, which are copies of each
//! other.
//!
//! The [`Table`] is a pure function of what the configuration says, and of a point's database,
//! series and time. It stands on each member, too, so that gateways side by side have the same one:
//! in force is what a gateway's file and its members' tables agree on. Whoever delivers asks it for
//! a member's own lines, whoever admits which points could not be found again,
//! whoever asks for the [`Reach`] of a query.

// Layers, from the top down.
//   tools
//   own
//   gateway
//   announcement, notes, shares
//   identity, placer
//   agreement, lag, order
//   file, member, reach, taken
//   note
//   disk_number, read
//   table
//   split

mod agreement;
mod announcement;
mod disk_number;
mod file;
mod gateway;
mod identity;
mod lag;
mod member;
mod note;
mod notes;
mod order;
mod own;
mod placer;
mod reach;
mod read;
mod shares;
mod split;
mod table;
mod taken;
#[cfg(test)]
mod tests;
pub mod tools;

pub use self::agreement::{REBUILDING, judge};
pub use self::gateway::{CheckedTable, Placement, PlacementError, PreparedTable, Unfit};
pub use self::identity::{JournalPlace, rename};
pub use self::lag::Lag;
pub use self::member::{DATABASE, MemberAnswer, QUERY, notes_of};
pub use self::note::{GatewayId, GatewayState, MemberNotes, Progress};
pub use self::notes::OwnNote;
pub use self::order::StatementOrder;
pub use self::own::{BatchTable, Membership};
pub use self::reach::{QueryScope, Reach};
pub use self::read::WrittenTable;
pub use self::shares::OwnLine;
pub use self::table::{Set, SetNumber, Table};
pub use self::taken::NotTaken;
