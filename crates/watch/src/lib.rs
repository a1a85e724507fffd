//! Everything that lets an operator see what Weir does: metrics, logs, stalls, profiles.
//!
//! It never decides anything: nothing here changes what the program does for a client, and nothing
//! on a hot path here takes a lock, allocates or blocks on a slow terminal or disk.
//!
//! The one path: a part of the program asks the [`metrics::Registry`] for its instruments once,
//! touches them with relaxed atomics while it works, and the admin port renders them. Log events
//! go through [`log`], where repeats are counted instead of written, to a thread that writes them.
//! Each worker beats a [`watchdog::Pulse`]; one that stops beating is reported with its stage.
#![warn(missing_docs)]

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   log, process, watchdog
//   latencies, slow
//   metrics, profile, table, words

pub mod latencies;
pub mod log;
pub mod metrics;
pub mod process;
pub mod profile;
pub mod slow;
pub mod table;
pub mod watchdog;
pub mod words;
