//! What concerns a whole process: its log, and a profile of it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod log;
mod profile;
