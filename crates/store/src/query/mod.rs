//! InfluxQL, executed.

pub mod results;
