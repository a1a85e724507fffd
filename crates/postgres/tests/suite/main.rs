//! The gateway's parts beside real servers: what each of them does and refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod authentication;
mod backends;
mod console;
mod dial;
mod doors;
mod passwords;
mod points;
mod reads;
