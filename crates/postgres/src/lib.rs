//! The PostgreSQL gateway: one primary and any number of replicas behind one address, with the
//! statements of many clients in flight at once on a few server connections.
//!
//! It keeps no data, never runs a statement twice whose first run may hold, and never sends one to
//! a replica that was not proven to be a read.
//!
//! The one path: a client's task reads a statement, `plan` says what it is, and it goes out by a
//! lane (shared, many in flight), in a batch (writes of many in one transaction) or by a lease (a
//! server connection of the client's own for a while).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod auth;
pub mod backends;
pub mod batches;
pub mod catalogue;
pub mod console;
pub mod door;
pub mod gateway;
pub mod lanes;
pub mod metrics;
pub mod migrate;
pub mod notify;
pub mod plan;
pub mod server;
pub mod session;
pub mod settings;
pub mod status;
pub mod worker;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use gateway::{Gateway, Listeners, OpenError, Prepared, Reload, Share};
pub use settings::Settings;

/// Locks what is whole whoever panicked with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
