//! What runs beside a test until the test has done what it does itself.

use std::sync::atomic::{AtomicBool, Ordering};

/// Says that it is over when it is dropped, also where the test fails: whatever a scope waits for
/// would run on for ever.
#[derive(Debug)]
pub struct EndGuard<'a>(pub &'a AtomicBool);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
