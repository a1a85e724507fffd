//! The program as a process: its commands, what it prints, and how it starts and stops.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod cli;
mod load;
mod metrics;
mod running;
mod serve;
