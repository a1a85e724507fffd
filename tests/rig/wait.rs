//! Waiting for a condition, with a deadline.

use std::time::{Duration, Instant};

/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How often at least, where looking takes long itself.
const LOOK_EVERY_MAX: Duration = Duration::from_millis(200);

/// Long enough for anything that is going to happen at all on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);

/// Returns as soon as `condition` holds.
///
/// # Panics
/// When it does not hold within `limit`.
#[track_caller]
pub fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    value(what, limit, || condition().then_some(()));
}

/// Returns the first value that `find` gives.
///
/// # Panics
/// When it gives none within `limit`.
#[track_caller]
pub fn value<T>(what: &str, limit: Duration, mut find: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        let asked = Instant::now();
        if let Some(found) = find() {
            return found;
        }
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        // Who asks a whole program leaves as much time to what it waits for.
        std::thread::sleep(LOOK_EVERY.max(asked.elapsed().min(LOOK_EVERY_MAX)));
    }
}
