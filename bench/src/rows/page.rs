//! The operator's page: what its viewers cost the gateway, what it takes of memory and of the
//! network, how soon it shows a chart.

mod backends;
mod chart;
mod cost;
mod memory;
mod stream;
mod viewers;

pub use chart::measure as chart;
pub use cost::measure as cost;
pub use memory::measure as memory;
pub use stream::{length as stream_length, measure as stream};

/// As many viewers as Weir has seats for.
const VIEWERS: usize = 16;
