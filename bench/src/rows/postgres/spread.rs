//! Point selects spread over two replicas, over the same with one: what spreading itself costs,
//! since on the same few cores a second replica brings nothing.

use rig::weir::Weir;

use super::{Mode, of, pgbench, server, weir};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::report::{Row, unit};
use crate::rows::turns::{RouteSamples, series, take_turns};

const CLIENTS: usize = 64;

/// The row.
///
/// # Errors
/// When anything can't be started, or a statement fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let primary = server().start();
    pgbench::fill(&primary, pgbench::scale(scale));
    primary.sql("VACUUM ANALYZE");
    let replicas = [primary.replica(), primary.replica()];
    replicas.iter().for_each(|replica| replica.catch_up(&primary));
    let mut one = weir(&[&primary, &replicas[0]], 1);
    let mut two = weir(&[&primary, &replicas[0], &replicas[1]], 1);
    let ways = [of(&mut one, "one replica"), of(&mut two, "two replicas")];
    let mut shares = Vec::new();
    let seen = take_turns(&ways, scale, |way| {
        let before = asked(&two);
        let run = pgbench::select(way, Mode::Simple, CLIENTS, scale.duration)?;
        let after = asked(&two);
        let (first, second) = (after[0] - before[0], after[1] - before[1]);
        if first + second > 0.0 {
            shares.push(format!("{:.3}", first / (first + second)));
        }
        Ok(run)
    })?;
    let ratio = seen[1].rate() / seen[0].rate();
    let mut notes: Vec<_> = seen.iter().map(RouteSamples::line).collect();
    notes.push(format!("the first replica's share of two, a round each: {}", shares.join(", ")));
    let figure = format!("pgbench -S, {CLIENTS} clients, over two replicas / over one");
    let row = Row::judged(figure, ratio, unit::RATIO, FigureTarget::at_least(0.95, 1.1))
        .of(series(&seen))
        .noted(notes)
        .repeat(format!("pgbench -S -n -M simple -c {CLIENTS} -j 2"));
    Ok(vec![row])
}

/// Reads that each of two replicas was asked.
fn asked(weir: &Weir) -> [f64; 2] {
    let metrics = weir.metrics();
    ["server-1", "server-2"]
        .map(|name| metrics.sum("weir_postgres_backend_asked_total", &[("backend", name)]))
}
