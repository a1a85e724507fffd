//! `pgbench -S` by the number of clients, on every way: the curve that the README's picture draws.

use super::select::{command, name};
use super::{Mode, PostgresSetup, WEIR, pgbench};
use crate::Outcome;
use crate::arguments::Scale;
use crate::report::{Row, unit};
use crate::rows::turns::{RouteSamples, series, take_turns};

const CLIENTS: [usize; 7] = [1, 4, 32, 64, 128, 256, 512];

/// The rows, one for each number of clients.
///
/// # Errors
/// When anything can't be started, or a statement fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let rows = pgbench::scale(scale);
    let mut stand = PostgresSetup::start(|cluster| pgbench::fill(cluster, rows));
    let ways = stand.ways(Mode::Simple);
    let mut table = Vec::new();
    for clients in CLIENTS {
        let run = |way| pgbench::select(way, Mode::Simple, clients, scale.duration);
        let seen = take_turns(&ways, scale, run)?;
        let figure = name(Mode::Simple, clients);
        let mut row = Row::beside(figure, seen[WEIR].rate(), unit::STATEMENTS)
            .of(series(&seen))
            .noted(seen.iter().map(RouteSamples::line).collect())
            .repeat(command(Mode::Simple, clients));
        row.clients = Some(clients);
        table.push(row);
    }
    Ok(table)
}
