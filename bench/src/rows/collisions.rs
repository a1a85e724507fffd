//! Detection of points that overwrite each other: what it costs, what it finds, what it takes.

mod cost;
mod finds;

pub use cost::measure as cost;
pub use finds::measure as finds;
