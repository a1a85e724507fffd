//! How long servers take, by the way that requests go, for a person.

use std::fmt;

use watch::latencies::Latency;
use watch::words::seconds;

use super::table;

/// Shows them below an empty line, if there are any: a row for each way to each server.
pub fn write<'s>(
    f: &mut fmt::Formatter<'_>,
    servers: impl Iterator<Item = (String, &'s [Latency])>,
) -> fmt::Result {
    let of_server =
        |(server, all): (String, &'s [Latency])| all.iter().map(move |took| row(&server, took));
    let rows: Vec<_> = servers.flat_map(of_server).collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(f)?;
    let head = ["server", "way", "in the queue", "at the server", "in all (p50 / p99)"];
    table::write(f, &head, &rows, 2, |_| None)
}

fn row(server: &str, took: &Latency) -> Vec<String> {
    let short = |took: f64| {
        if took < 0.1 { format!("{:.2}ms", took * 1e3) } else { seconds(took) }
    };
    let both = |[half, most]: [f64; 2]| format!("{} / {}", short(half), short(most));
    let parts = [took.queue, took.server, took.total].map(both);
    [server.to_owned(), took.way.clone()].into_iter().chain(parts).collect()
}
