//! influx
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod backends;
pub mod catalogue;
pub mod delivery;
pub mod front;
pub mod record;
pub mod settings;
