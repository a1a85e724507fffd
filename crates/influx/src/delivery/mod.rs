//! Delivery.

pub mod answer;
