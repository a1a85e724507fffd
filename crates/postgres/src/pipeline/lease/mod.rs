//! A client with a server connection of its own: what it and the server are in the middle of, and
//! what follows from each message and each answer.
//!
//! Nothing in here reads or writes a socket, waits, or looks at a clock.

pub mod drawn;
pub mod effect;
pub mod incoming;
pub mod listening;
pub mod machine;
pub mod note;
pub mod pause;
pub mod portals;
pub mod reply;
pub mod restore;
pub mod rounds;
pub mod sway;
pub mod transaction;
