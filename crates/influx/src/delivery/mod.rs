//! Delivery.

pub mod answer;
pub mod batch;
pub mod client;
pub mod dead_letters;
pub mod halving;
mod letter;
