//! `pgbench -S`: one row by its key, at few and at many clients.

use super::{BOUNCER, DIRECT, Mode, PostgresSetup, WEIR, pgbench};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::report::{Row, median, unit};
use crate::rows::turns::{RouteSamples, series, take_turns};

/// One figure: Weir's rate over another's.
struct Figure {
    mode: Mode,
    clients: usize,
    /// Over which of the ways, in their order.
    over: usize,
    to_reach: f64,
    beyond: f64,
}

const FIGURES: [Figure; 6] = [
    Figure { mode: Mode::Simple, clients: 256, over: DIRECT, to_reach: 1.8, beyond: 2.5 },
    Figure { mode: Mode::Simple, clients: 256, over: BOUNCER, to_reach: 1.5, beyond: 2.0 },
    Figure { mode: Mode::Prepared, clients: 256, over: BOUNCER, to_reach: 1.4, beyond: 2.0 },
    Figure { mode: Mode::Simple, clients: 32, over: DIRECT, to_reach: 1.15, beyond: 1.5 },
    Figure { mode: Mode::Simple, clients: 4, over: BOUNCER, to_reach: 0.95, beyond: 1.2 },
    Figure { mode: Mode::Simple, clients: 1, over: BOUNCER, to_reach: 0.95, beyond: 1.2 },
];

/// The rows.
///
/// # Errors
/// When anything can't be started, or a statement fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let rows = pgbench::scale(scale);
    let mut stand = PostgresSetup::start(|cluster| pgbench::fill(cluster, rows));
    let mut table = Vec::new();
    let mut cases: Vec<(Mode, usize)> = Vec::new();
    for figure in &FIGURES {
        if !cases.contains(&(figure.mode, figure.clients)) {
            cases.push((figure.mode, figure.clients));
        }
    }
    for (mode, clients) in cases {
        let run = |way| pgbench::select(way, mode, clients, scale.duration);
        let seen = take_turns(&stand.ways(mode), scale, run)?;
        let mut notes: Vec<_> = seen.iter().map(RouteSamples::line).collect();
        notes.extend(stand.missing());
        let here = |figure: &&Figure| figure.mode == mode && figure.clients == clients;
        for figure in FIGURES.iter().filter(here) {
            table.push(row(figure, &seen, std::mem::take(&mut notes)));
        }
        match (mode, clients) {
            (Mode::Simple, 256) => table.push(cpu(&seen)),
            (Mode::Prepared, 256) => {
                table.extend(stand.rows_over_optional(&name(mode, clients), &seen));
            }
            _ => {}
        }
    }
    Ok(table)
}

/// What such a run is called.
pub fn name(mode: Mode, clients: usize) -> String {
    format!("pgbench -S -M {}, {clients} clients", mode.name())
}

pub fn command(mode: Mode, clients: usize) -> String {
    format!("pgbench -S -n -M {} -c {clients} -j {}", mode.name(), clients.min(2))
}

fn row(figure: &Figure, seen: &[RouteSamples], notes: Vec<String>) -> Row {
    let Figure { mode, clients, over, to_reach, beyond } = *figure;
    let ratio = seen[WEIR].rate() / seen[over].rate();
    let figure = format!("{} / {}", name(mode, clients), seen[over].way.name);
    Row::judged(figure, ratio, unit::RATIO, FigureTarget::at_least(to_reach, beyond))
        .of(series(seen))
        .noted(notes)
        .repeat(command(mode, clients))
}

fn cpu(seen: &[RouteSamples]) -> Row {
    let ratio = median(&seen[WEIR].cpu_us) / median(&seen[BOUNCER].cpu_us);
    let figure = "CPU time a statement at 256 clients / PgBouncer";
    Row::judged(figure, ratio, unit::RATIO, FigureTarget::at_most(0.6, 0.4)).of(series(seen))
}
