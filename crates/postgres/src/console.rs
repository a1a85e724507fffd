//! The console: a database within Weir that shows its state and takes commands, in the words that
//! users of PgBouncer know.
//!
//! Pure: it reads what a client sent and says what is to be done; it touches no connection, and
//! what it shows comes in a [`Snapshot`]. Nobody acts who may only look: the right to every command
//! is asked for in one place, before the command is known to anybody else.
//!
//! The one path: [`Seat::admit`] for a client that has logged in, [`Seat::on_query`] for each
//! Query, and then either the answer is whole, or the gateway fills a [`Snapshot`] for
//! [`Show::encode`], or does an [`Action`] and says by [`Action::done`] how that ended.

mod action;
mod averages;
mod command;
mod fake;
mod seat;
mod show;
mod snapshot;
mod table;
#[cfg(test)]
mod tests;

pub use action::{Action, ActionError, Wait};
pub use averages::Averages;
pub use command::{Command, Show};
pub use seat::{Answer, Rank, Seat};
pub use snapshot::{
    BackendRow, ClientRow, ClientState, DatabaseRow, LaneRow, MemoryRow, PlanRow, PoolRow,
    ServerRow, Snapshot, UserRow,
};
