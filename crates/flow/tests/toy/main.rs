//! A gateway that stands on nothing but this crate, between real sockets: what the fabric promises
//! holds for a protocol that it does not know.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod again;
mod faults;
mod gateway;
mod ledger;
mod order;
mod room;
mod server;
mod shared;
mod slow;
mod stand;
mod stop;
