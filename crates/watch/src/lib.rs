//! watch

pub mod units;
