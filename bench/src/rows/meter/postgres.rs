//! Point selects, prepared, beside pgbench.

use rig::postgres::Cluster;

use super::speed::{Pairs, SpeedRun, weir};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::measure;
use crate::report::{Row, unit};
use crate::rows::postgres::{Mode, pgbench};
use crate::rows::turns::ClientRoute;

/// Connections of either side.
const CONNECTIONS: usize = 32;

/// The row.
///
/// # Errors
/// When a statement fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let cluster = Cluster::start();
    let (rows, seconds) = (pgbench::scale(scale), scale.duration.as_secs());
    pgbench::fill(&cluster, rows);
    let address = cluster.address;
    let line = format!(
        "postgres://postgres@{address}/postgres --script select-only --scale {rows} --protocol \
         prepared --closed --connections {CONNECTIONS} --threads 1 --duration {seconds}s \
         --warmup 0s"
    );
    let way = ClientRoute { name: "pgbench", address, pid: None, optional: false };
    let pairs = Pairs {
        what: "point selects, prepared, 32 connections",
        peer: "pgbench",
        unit: unit::STATEMENTS,
        wanted: FigureTarget::at_most(1.0, 0.7),
        repeat: format!(
            "weir load {line}; pgbench -S -n -M prepared -c {CONNECTIONS} -j 1 -T {seconds}"
        ),
    };
    let peer = || {
        let mut arguments = pgbench::select_arguments(Mode::Prepared).to_vec();
        arguments.extend(["--jobs", "1"]);
        let run = || pgbench::run(way, &arguments, CONNECTIONS, seconds, None);
        let (run, cpu) = measure::with_children_cpu(run)?;
        Ok(SpeedRun::of_peer(run.requests, run.per_second, cpu))
    };
    Ok(vec![pairs.measure(scale, || weir(&line, 1.0), peer)?])
}
