//! Weir beside its peers, in one run: the figures Weir has to reach, each with how to repeat it.
//!
//! It measures and judges; it tunes nothing. A peer that is absent is named as absent, a row in
//! which anything but 204 was answered has failed, and one with a saturated client is void.

mod load;
mod measure;
mod peers;
mod report;
mod rows;
mod sink;
mod stand;

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

use report::{Row, Table};

/// What can go wrong with a whole row.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Measures Weir beside nginx, InfluxDB, vmagent, PgBouncer, HAProxy and, where they are on the
/// PATH, influxdb-relay, influx-proxy, Telegraf, PgDog, PgCat and Odyssey.
#[derive(Debug, Parser)]
#[command(name = "weir-bench", max_term_width = 100)]
struct Arguments {
    /// Only these rows; all of them when absent
    #[arg(long, value_enum)]
    only: Vec<Name>,
    /// Seconds instead of minutes: for a look, not for a figure
    #[arg(long)]
    quick: bool,
    /// Rounds in which the peers take turns, and pairs of runs of `hung` (there five short ones for
    /// each) and `disk`; the median counts
    #[arg(long)]
    rounds: Option<NonZeroUsize>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The backend that answers 204 at once and counts lines; a process of its own
    #[command(hide = true)]
    Sink { address: std::net::SocketAddr },
}

/// The rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Requests a second and CPU time of single-point writes at 512 connections
    Requests,
    /// Requests a second at 64 connections, beside the relays
    Relays,
    /// Lines a second in bodies of 5,000 lines
    Lines,
    /// Memory at rest and with a backlog of a million points
    Memory,
    /// p99 of acks with one backend hung, over all healthy
    Hung,
    /// p99.9 of acks while dd writes to the same disk
    Disk,
    /// Rows a second into the embedded store, in batches of 30 and of 5,000, and memory meanwhile
    StoreLoad,
    /// The store's answers beside InfluxDB's, before and after overwriting and a DELETE
    StoreQueries,
    /// Bytes on disk of numeric data, and windows of it by host
    StoreDisk,
    /// A million series: load, query, restart, memory
    StoreSeries,
    /// A million rows over ten years
    StoreDecade,
    /// pgbench -S beside a direct connection and other poolers
    PostgresSelect,
    /// pgbench -S with one worker and with two
    PostgresWorkers,
    /// sysbench's OLTP scripts beside a direct connection and other poolers
    PostgresSysbench,
    /// Point selects over two replicas and over one
    PostgresSpread,
    /// Short statements beside slow ones
    PostgresSlow,
    /// Memory of idle clients of PostgreSQL
    PostgresIdle,
}

/// How long and how often.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Of one measurement.
    pub duration: Duration,
    /// In which the peers take turns.
    pub rounds: usize,
    /// Pairs of runs whose ratio is taken.
    pub pairs: usize,
    /// What dd writes.
    pub dd_mib: u64,
    /// Of the rows for the store, one in so many.
    pub one_in: u64,
}

impl Scale {
    fn of(arguments: &Arguments) -> Self {
        let (seconds, rounds, pairs, dd_mib, one_in) =
            if arguments.quick { (3, 1, 1, 1_024, 20) } else { (10, 3, 5, 10_240, 1) };
        Self {
            duration: Duration::from_secs(seconds),
            rounds: arguments.rounds.map_or(rounds, NonZeroUsize::get),
            pairs: arguments.rounds.map_or(pairs, NonZeroUsize::get),
            dd_mib,
            one_in,
        }
    }
}

/// Measures some rows.
type Measure = fn(&Scale) -> Outcome<Vec<Row>>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(Command::Sink { address }) = arguments.command {
        return match sink::run(address) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("sink on {address}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let scale = Scale::of(&arguments);
    let wanted = |name| arguments.only.is_empty() || arguments.only.contains(&name);
    let all: [(Name, Measure); 17] = [
        (Name::Requests, rows::requests::measure),
        (Name::Relays, rows::relays::measure),
        (Name::Lines, rows::lines::measure),
        (Name::Memory, rows::memory::measure),
        (Name::Hung, rows::hung::measure),
        (Name::Disk, rows::disk::measure),
        (Name::StoreLoad, rows::store::load::measure),
        (Name::StoreQueries, rows::store::queries::measure),
        (Name::StoreDisk, rows::store::disk::measure),
        (Name::StoreSeries, rows::store::series::measure),
        (Name::StoreDecade, rows::store::decade::measure),
        (Name::PostgresSelect, rows::postgres::select::measure),
        (Name::PostgresWorkers, rows::postgres::workers::measure),
        (Name::PostgresSysbench, rows::postgres::sysbench::measure),
        (Name::PostgresSpread, rows::postgres::spread::measure),
        (Name::PostgresSlow, rows::postgres::slow::measure),
        (Name::PostgresIdle, rows::postgres::idle::measure),
    ];
    println!("{}", stand::machine());
    let mut table = Table::default();
    for (name, measure) in all.into_iter().filter(|(name, _)| wanted(*name)) {
        eprintln!("measuring {name:?} ...");
        match measure(&scale) {
            Ok(rows) => table.extend(rows),
            Err(error) => table.extend([Row::failed(&format!("{name:?}"), &error.to_string())]),
        }
    }
    println!("{table}");
    if table.all_reached() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
