//! Locks of values that are whole whoever panicked with them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks what is whole whoever panicked with it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
