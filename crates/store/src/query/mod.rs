//! InfluxQL, executed.

pub mod context;
pub mod results;
