//! `pgbench -S` through one worker and through two: what a statement costs each, and what the
//! second adds where servers and clients leave it a core to run on.

use super::{Mode, of, pgbench, server, settle, weir};
use crate::Outcome;
use crate::arguments::Scale;
use crate::report::{Row, median, unit};
use crate::rows::turns::{RouteSamples, series, take_turns};

const CLIENTS: usize = 256;

/// The row.
///
/// # Errors
/// When anything can't be started, or a statement fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let cluster = server().start();
    pgbench::fill(&cluster, pgbench::scale(scale));
    settle(&cluster);
    let (mut one, mut two) = (weir(&[&cluster], 1), weir(&[&cluster], 2));
    let ways = [of(&mut one, "1 worker"), of(&mut two, "2 workers")];
    let run = |way| pgbench::select(way, Mode::Simple, CLIENTS, scale.duration);
    let seen = take_turns(&ways, scale, run)?;
    let [one, two] = [&seen[0], &seen[1]];
    let rate = two.rate() / one.rate();
    let cpu = median(&two.cpu_us) / median(&one.cpu_us);
    let all = series(&seen);
    let row = |figure: String, ratio| {
        let repeat = format!("pgbench -S -n -M simple -c {CLIENTS} -j 2");
        Row::beside(figure, ratio, unit::RATIO).of(all.clone()).repeat(repeat)
    };
    Ok(vec![
        row(format!("pgbench -S, {CLIENTS} clients, 2 workers / 1 worker"), rate)
            .noted(seen.iter().map(RouteSamples::line).collect()),
        row(format!("CPU time a statement, {CLIENTS} clients, 2 workers / 1 worker"), cpu),
    ])
}
