//! Weir beside its peers: the same load, the same machine, the same run.
//!
//! Nothing here fails for being slow. A row is void when its client was saturated, when an answer
//! was not 204, or when an acknowledged point did not reach every sink; what was measured is
//! printed all the same.

mod cpu;
mod disk;
mod latency;
mod memory;
mod peers;
mod report;
mod sink;
mod subject;
mod throughput;
mod wrk;

use std::time::Duration;

use clap::{Parser, Subcommand};

/// Weir beside its peers, as Markdown tables.
#[derive(Parser)]
struct Arguments {
    /// Only these rows, by name; see the names in the printed tables.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Short runs: shows that everything works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Rounds of which the median counts.
    #[arg(long)]
    rounds: Option<usize>,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
enum Role {
    /// Answers every write with 204 and counts lines (used by the rows themselves).
    #[command(hide = true)]
    Sink {
        /// Where to listen.
        address: std::net::SocketAddr,
    },
}

/// How long and how often to measure.
#[derive(Debug, Clone, Copy)]
struct Effort {
    rounds: usize,
    seconds: Duration,
    quick: bool,
}

/// A row's name and what measures it.
type Row = (&'static str, fn(Effort));

const ROWS: [Row; 6] = [
    ("throughput-512", |effort| throughput::single_points(512, effort)),
    ("throughput-64", |effort| throughput::single_points(64, effort)),
    ("lines", throughput::large_bodies),
    ("memory", memory::measure),
    ("hung", latency::one_backend_hung),
    ("disk", disk::busy),
];

fn main() {
    let arguments = Arguments::parse();
    if let Some(Role::Sink { address }) = arguments.role {
        sink::serve(address);
        return;
    }
    let effort = Effort {
        rounds: arguments.rounds.unwrap_or(if arguments.quick { 1 } else { 5 }),
        seconds: Duration::from_secs(if arguments.quick { 2 } else { 8 }),
        quick: arguments.quick,
    };
    rig::places::raise_open_files();
    report::machine();
    for (name, measure) in ROWS {
        if arguments.only.is_empty() || arguments.only.iter().any(|only| only == name) {
            report::heading(name);
            measure(effort);
        }
    }
}
