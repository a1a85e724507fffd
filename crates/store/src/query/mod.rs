//! InfluxQL, executed.

pub mod condition;
pub mod context;
pub mod expr;
pub mod fill;
pub mod functions;
pub mod regex;
pub mod results;
pub mod select;
pub mod timezone;
pub mod window;
