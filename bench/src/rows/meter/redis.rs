//! SET and GET over 50 connections, one command at a time and in pipelines of 16, beside
//! redis-benchmark.

use rig::redis::Redis;

use super::speed::{Pairs, SpeedRun, weir};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::measure;
use crate::report::{Row, unit};
use crate::rows::redis::client::Load;
use crate::rows::turns::ClientRoute;

/// Connections of either side.
const CONNECTIONS: usize = 50;
/// Commands of a request, and what the ratio has to be.
const PIPELINES: [(usize, FigureTarget); 2] =
    [(1, FigureTarget::at_most(1.2, 0.9)), (16, FigureTarget::at_most(1.3, 1.0))];

/// The rows.
///
/// # Errors
/// When a command fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let server = Redis::start();
    let mut rows = Vec::new();
    // SET comes first, so that GET finds its keys.
    for (pipeline, wanted) in PIPELINES {
        for (name, command) in
            [("set", "SET key:__rand_int__ xxx"), ("get", "GET key:__rand_int__")]
        {
            rows.push(pairs(&server, scale, (pipeline, wanted), name, command)?);
        }
    }
    Ok(rows)
}

fn pairs(
    server: &Redis,
    scale: &Scale,
    (pipeline, wanted): (usize, FigureTarget),
    name: &str,
    command: &str,
) -> Outcome<Row> {
    let seconds = scale.duration.as_secs();
    let load = Load { pipeline, ..Load::new(CONNECTIONS, scale.duration, command) };
    let line = format!(
        "{} --mix {name} --keys {} --size 3 --pipeline {pipeline} --closed --connections \
         {CONNECTIONS} --threads 1 --duration {seconds}s --warmup 0s",
        server.url(),
        load.numbers
    );
    let pairs = Pairs {
        what: &format!(
            "{}, {CONNECTIONS} connections, pipelines of {pipeline}",
            name.to_uppercase()
        ),
        peer: "redis-benchmark",
        unit: unit::COMMANDS,
        wanted,
        repeat: format!("weir load {line}; {}", load.repeat()),
    };
    let way = ClientRoute { name: "direct", address: server.address, pid: None, optional: false };
    let peer = || {
        let (done, cpu) = measure::with_children_cpu(|| load.run(way))?;
        let run = done.run;
        Ok(SpeedRun::of_peer(run.requests, run.per_second, cpu))
    };
    pairs.measure(scale, || weir(&line, pipeline as f64), peer)
}
