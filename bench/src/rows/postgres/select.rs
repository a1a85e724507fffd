//! `pgbench -S`: one row by its key, at few and at many clients.

use super::turns::{Seen, take_turns};
use super::{BOUNCER, DIRECT, Mode, Stand, WEIR, pgbench};
use crate::report::{Row, Verdict, at_least, at_most, median};
use crate::{Outcome, Scale};

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
    let mut stand = Stand::start(|cluster| pgbench::fill(cluster, rows));
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
        let mut notes: Vec<_> = seen.iter().map(Seen::line).collect();
        notes.extend(stand.missing.iter().cloned());
        let here = |figure: &&Figure| figure.mode == mode && figure.clients == clients;
        for figure in FIGURES.iter().filter(here) {
            table.push(row(figure, &seen, std::mem::take(&mut notes)));
        }
        if (mode, clients) == (Mode::Simple, 256) {
            table.push(cpu(&seen));
        }
    }
    Ok(table)
}

fn row(figure: &Figure, seen: &[Seen], notes: Vec<String>) -> Row {
    let Figure { mode, clients, over, to_reach, beyond } = *figure;
    let ratio = seen[WEIR].rate() / seen[over].rate();
    let mode = mode.name();
    Row {
        figure: format!("pgbench -S -M {mode}, {clients} clients / {}", seen[over].way.name),
        measured: format!("{ratio:.2}"),
        to_reach: format!("{to_reach}, beyond {beyond}"),
        verdict: at_least(ratio, to_reach),
        notes,
        repeat: format!("pgbench -S -n -M {mode} -c {clients} -j {}", clients.min(2)),
    }
}

fn cpu(seen: &[Seen]) -> Row {
    let ratio = median(&seen[WEIR].cpu_us) / median(&seen[BOUNCER].cpu_us);
    let verdict =
        if ratio.is_finite() { at_most(ratio, 0.6) } else { Verdict::Failed("no CPU".to_owned()) };
    Row {
        figure: "CPU time a statement at 256 clients / PgBouncer".to_owned(),
        measured: format!("{ratio:.2}"),
        to_reach: "0.6, beyond 0.4".to_owned(),
        verdict,
        notes: Vec::new(),
        repeat: String::new(),
    }
}
