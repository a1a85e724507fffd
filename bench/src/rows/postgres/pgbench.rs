//! pgbench, as it comes with PostgreSQL.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rig::postgres::{Cluster, SUPERUSER, program};

use super::Mode;
use crate::Outcome;
use crate::arguments::Scale;
use crate::report::unit;
use crate::rows::turns::{ClientRoute, Run};

/// How fast clients connect at least, on a machine that is busy.
const CONNECTS_PER_SECOND: u64 = 50;

/// The arguments for transactions that change a row and write none that others change.
pub const SIMPLE_UPDATE: [&str; 3] = ["--skip-some-updates", "--protocol", "simple"];

/// What [`fill`] is told for this scale.
pub fn scale(scale: &Scale) -> u64 {
    if scale.one_in == 1 { 10 } else { 1 }
}

/// Fills a server with 100,000 accounts for each of `scale`.
///
/// # Panics
/// When that fails.
pub fn fill(cluster: &Cluster, scale: u64) {
    let mut command = pgbench(cluster.address);
    command.args(["--initialize", "--quiet", "--scale", &scale.to_string(), SUPERUSER]);
    let done = command.output().expect("pgbench can be started");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn pgbench(address: std::net::SocketAddr) -> Command {
    let mut command = Command::new(program("pgbench"));
    command.args(["--host", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.args(["--username", SUPERUSER]);
    command
}

/// Selects one row by its key, `clients` at a time.
///
/// # Errors
/// pgbench can't be run, or a transaction failed.
pub fn select(way: ClientRoute, mode: Mode, clients: usize, duration: Duration) -> Outcome<Run> {
    run(way, &select_arguments(mode), clients, with_connecting(duration, clients), None)
}

/// What has pgbench select one row by its key.
pub fn select_arguments(mode: Mode) -> [&'static str; 3] {
    ["--select-only", "--protocol", mode.name()]
}

/// Has each of so many clients change a row and note that in another table, in a transaction of
/// five statements whose last is END.
///
/// # Errors
/// pgbench can't be run, or a transaction failed.
pub fn simple_update(way: ClientRoute, clients: usize, duration: Duration) -> Outcome<Run> {
    let seconds = with_connecting(duration, clients);
    let run = run(way, &SIMPLE_UPDATE, clients, seconds, None)?;
    Ok(Run { unit: unit::TRANSACTIONS, ..run })
}

/// Seconds for pgbench to run, so that a measurement of so long is left after connecting: its clock
/// runs while it connects, and its rate leaves that out.
pub fn with_connecting(duration: Duration, clients: usize) -> u64 {
    duration.as_secs() + clients as u64 / CONNECTS_PER_SECOND
}

/// Runs pgbench with these arguments for so many seconds; `dir` is where it logs.
///
/// # Errors
/// pgbench can't be run, or a transaction failed.
pub fn run(
    way: ClientRoute,
    arguments: &[&str],
    clients: usize,
    seconds: u64,
    dir: Option<&Path>,
) -> Outcome<Run> {
    let mut command = pgbench(way.address);
    command.args(["--no-vacuum", "--client", &clients.to_string()]);
    command.args(["--jobs", &clients.min(2).to_string()]);
    command.args(["--time", &seconds.to_string()]);
    command.args(arguments).arg(SUPERUSER);
    if let Some(dir) = dir {
        command.current_dir(dir);
    }
    let done = command.output()?;
    let said = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    let number = |prefix: &str| {
        let rest = said.lines().find_map(|line| line.strip_prefix(prefix))?;
        rest.split([' ', '/']).next()?.parse::<f64>().ok()
    };
    let failed = number("number of failed transactions: ").unwrap_or(0.0);
    let count = number("number of transactions actually processed: ");
    match (number("tps = "), count) {
        (Some(per_second), Some(count)) if done.status.success() && failed == 0.0 => {
            // But for `simple_update`, what is run has one statement in a transaction.
            Ok(Run {
                unit: unit::STATEMENTS,
                requests: count,
                per_second,
                transactions_per_second: per_second,
            })
        }
        _ => {
            let why = errors.lines().find(|line| line.contains("error"));
            let why = why.or_else(|| errors.lines().last()).unwrap_or_default();
            Err(format!("{}: pgbench: {failed} transactions failed; {why}", way.name).into())
        }
    }
}
