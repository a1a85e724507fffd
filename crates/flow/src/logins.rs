//! What keeps those who guess passwords from doing so quickly, and from keeping others out.

mod failed;
pub mod slowing;
pub mod turns;

pub use failed::FailedLogin;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks what is whole whoever panicked with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
