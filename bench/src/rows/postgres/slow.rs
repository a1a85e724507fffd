//! p99 of short statements while others run for a second, over the same alone: nobody waits behind
//! a neighbour's slow statement.

use std::path::Path;
use std::thread;

use rig::places;

use super::PostgresSetup;
use super::pgbench::{self, run, with_connecting};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, median, unit};
use crate::rows::turns::ClientRoute;

/// Short statements a second, far below what the machine can do, so that waiting is what is seen.
const RATE: &str = "500";
const CLIENTS: usize = 16;
const SLOW_CLIENTS: usize = 4;

/// The row.
///
/// # Errors
/// When anything can't be started, or a statement fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let mut stand = PostgresSetup::start(|cluster| {
        pgbench::fill(cluster, 1);
        // It says that it changes nothing, so it may ride with the others until it is found slow;
        // and it takes no CPU time, so that nothing but the queue is measured.
        cluster.sql(
            "CREATE FUNCTION a_second() RETURNS int STABLE LANGUAGE plpgsql \
             AS 'BEGIN PERFORM pg_sleep(1); RETURN 1; END'",
        );
    });
    let dir = places::directory();
    let script = dir.path().join("slow.sql");
    std::fs::write(&script, "SELECT a_second();\n")?;
    let way = stand.weir();
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..scale.rounds {
        alone.push(p99_us(way, scale)?);
        let slow = thread::scope(|scope| {
            let slow = scope.spawn(|| neighbours(way, &script, scale));
            beside.push(p99_us(way, scale).map_err(|error| error.to_string())?);
            slow.join().map_err(|_| "the neighbours panicked".to_owned())?
        });
        slow?;
    }
    let ratio = median(&beside) / median(&alone);
    let figure = "p99 of short statements beside statements of 1 s / alone";
    let note = format!(
        "p99 {:.0} us alone, {:.0} us beside {SLOW_CLIENTS} clients with statements of 1 s",
        median(&alone),
        median(&beside)
    );
    let row = Row::judged(figure, ratio, unit::RATIO, FigureTarget::at_most(1.5, 1.1))
        .of(vec![Series::new("alone", unit::US, &alone), Series::new("beside", unit::US, &beside)])
        .noted(vec![note])
        .repeat(format!("pgbench -S -n -R {RATE} -c {CLIENTS} -l"));
    Ok(vec![row])
}

fn neighbours(way: ClientRoute, script: &Path, scale: &Scale) -> Result<(), String> {
    let file = script.display().to_string();
    let seconds = with_connecting(scale.duration, SLOW_CLIENTS);
    let run = run(way, &["--file", &file], SLOW_CLIENTS, seconds, None);
    run.map(drop).map_err(|error| error.to_string())
}

/// The p99 of short statements, by pgbench's log of each.
fn p99_us(way: ClientRoute, scale: &Scale) -> Outcome<f64> {
    let dir = places::directory();
    let arguments = ["--select-only", "--rate", RATE, "--log"];
    let seconds = with_connecting(scale.duration, CLIENTS);
    run(way, &arguments, CLIENTS, seconds, Some(dir.path()))?;
    let mut times: Vec<f64> = Vec::new();
    for file in std::fs::read_dir(dir.path())?.flatten() {
        // client, transaction, time in microseconds, script, seconds, microseconds, lag
        let text = std::fs::read_to_string(file.path())?;
        times.extend(text.lines().filter_map(|l| l.split(' ').nth(2)?.parse::<f64>().ok()));
    }
    times.sort_by(f64::total_cmp);
    times.get(times.len() * 99 / 100).copied().ok_or_else(|| "pgbench has logged nothing".into())
}
