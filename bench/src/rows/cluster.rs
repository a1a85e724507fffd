//! A cluster of InfluxDB servers behind Weir: what sharing points out costs, and what it gives
//! beside one server.

mod memory;
mod queries;
mod rebuild;
mod report;
mod sinks;
mod stream;

pub use memory::measure as memory;
pub use queries::measure as queries;
pub use rebuild::measure as rebuild;
pub use report::measure as report;
pub use sinks::measure as cost;
pub use stream::measure as stream;

use rig::weir::{Setup, Weir};

/// The tables of a cluster whose sets have these members, with one period.
fn tables(sets: &[Vec<String>], period: &str) -> String {
    let mut tables = "[influx.cluster]\nname = \"bench\"\n".to_owned();
    let mut names = Vec::new();
    for (number, members) in sets.iter().enumerate() {
        let name = format!("s{number}");
        tables.push_str(&format!("[[influx.set]]\nname = {name:?}\nmembers = {members:?}\n"));
        names.push(name);
    }
    format!("{tables}[[influx.placement]]\nsets = {names:?}\n{period}\n")
}

/// Starts a Weir whose table is on its members.
fn start_applied(setup: Setup) -> Weir {
    let mut weir = setup.prepare();
    weir.must_run(&["placement", "apply"]);
    weir.start_again();
    weir
}
