//! InfluxQL, executed.

pub mod condition;
pub mod context;
pub mod regex;
pub mod results;
