//! `pgbench -S`: one row by its key, at few and at many clients.

use super::pgbench::{self, Mode};
use super::{Seen, Stand, Way};
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

const DIRECT: usize = 0;
const BOUNCER: usize = 1;
const WEIR: usize = 3;

/// The rows.
///
/// # Errors
/// When anything can't be started, or a statement fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let rows = if scale.one_in == 1 { 10 } else { 1 };
    let mut stand = Stand::start(|cluster| pgbench::fill(cluster, rows));
    let mut table = Vec::new();
    let mut cases: Vec<(Mode, usize)> = Vec::new();
    for figure in &FIGURES {
        if !cases.contains(&(figure.mode, figure.clients)) {
            cases.push((figure.mode, figure.clients));
        }
    }
    for (mode, clients) in cases {
        let ways = ways(&mut stand, mode);
        let seen = take_turns(&ways, mode, clients, scale)?;
        let mut notes: Vec<_> =
            ways.iter().zip(&seen).map(|(way, seen)| seen.line(way.name, "statements")).collect();
        let here = |figure: &&Figure| figure.mode == mode && figure.clients == clients;
        for figure in FIGURES.iter().filter(here) {
            table.push(row(figure, &ways, &seen, std::mem::take(&mut notes)));
        }
        if (mode, clients) == (Mode::Simple, 256) {
            table.push(cpu(&seen));
        }
    }
    Ok(table)
}

fn ways(stand: &mut Stand, mode: Mode) -> [Way; 4] {
    let bouncer = match mode {
        Mode::Simple => stand.bouncer(),
        Mode::Prepared => stand.sessions(),
    };
    [stand.direct(), bouncer, stand.haproxy(), stand.weir()]
}

fn take_turns(ways: &[Way; 4], mode: Mode, clients: usize, scale: &Scale) -> Outcome<[Seen; 4]> {
    let mut seen: [Seen; 4] = Default::default();
    for _ in 0..scale.rounds {
        for (way, seen) in ways.iter().zip(&mut seen) {
            let (run, usage) = pgbench::select(*way, mode, clients, scale.duration)?;
            seen.note(run.count, run.per_second, usage);
        }
    }
    Ok(seen)
}

fn row(figure: &Figure, ways: &[Way; 4], seen: &[Seen; 4], notes: Vec<String>) -> Row {
    let Figure { mode, clients, over, to_reach, beyond } = *figure;
    let ratio = seen[WEIR].rate() / seen[over].rate();
    let mode = match mode {
        Mode::Simple => "simple",
        Mode::Prepared => "prepared",
    };
    Row {
        figure: format!("pgbench -S -M {mode}, {clients} clients / {}", ways[over].name),
        measured: format!("{ratio:.2}"),
        to_reach: format!("{to_reach}, beyond {beyond}"),
        verdict: at_least(ratio, to_reach),
        notes,
        repeat: format!("pgbench -S -n -M {mode} -c {clients} -j {}", clients.min(2)),
    }
}

fn cpu(seen: &[Seen; 4]) -> Row {
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
