//! What is asked of the three: the same loads as in the rows beside peers.

use rig::postgres::Cluster;

use super::Plan;
use super::three::{self, Slice};
use crate::load;
use crate::rows::postgres::{Mode, of, pgbench, select, server, settle, setup, sysbench};
use crate::rows::redis;
use crate::rows::requests::CONNECTIONS;
use crate::rows::turns::Run;
use crate::stand::{self, Sink};
use crate::{Outcome, report::Verdict};

const CLIENTS: [usize; 2] = [256, 32];
/// Of Redis: what a row is called, clients, commands that each sends together, and the command.
const COMMANDS: [(&str, usize, usize, &str); 3] = [
    ("SET, 500 clients", 500, 1, "SET key:__rand_int__ xxx"),
    ("GET, 500 clients", 500, 1, "GET key:__rand_int__"),
    ("GET, 50 clients, pipelines of 16", 50, 16, "GET key:__rand_int__"),
];
/// 100,000 accounts for each.
const PGBENCH_SCALE: u64 = 10;
const SCRIPTS: [&str; 2] = ["oltp_read_only", "oltp_write_only"];
/// Rows of each of sysbench's tables.
const TABLE_SIZE: &str = "100000";
/// Keys by chance alone: sysbench's own choice hits the same few rows, and a deadlock on them costs
/// a second of a slice that has four.
const UNIFORM: [&str; 1] = ["--rand-type=uniform"];

impl From<Run> for Slice {
    fn from(run: Run) -> Self {
        Self { requests: run.requests, per_second: run.per_second }
    }
}

/// Single points over HTTP; the CPU time is that of their delivery, too.
///
/// # Errors
/// When anything can't be started, or an answer is none.
pub fn single_points(plan: &mut Plan) -> Outcome<()> {
    let sinks = [Sink::start()?, Sink::start()?];
    let mut weirs = plan.binaries.start(&stand::setup(&sinks, "durable"));
    let (row, slice) = (format!("single points, {CONNECTIONS} connections"), plan.slice);
    three::measure(plan, &row, &mut weirs, |weir, number| {
        let run = load::wrk(weir.http, CONNECTIONS, slice, number)?;
        // What is left to deliver is not the next one's burden.
        weir.wait_delivered();
        match run.worthless {
            Some(Verdict::Failed(why)) => Err(why.into()),
            _ => Ok(Slice { requests: run.requests as f64, per_second: run.per_second }),
        }
    })
}

/// `pgbench -S`, at many clients and at fewer.
///
/// # Errors
/// When anything can't be started, or a statement fails.
pub fn selects(plan: &mut Plan) -> Outcome<()> {
    let cluster = filled(|cluster| pgbench::fill(cluster, PGBENCH_SCALE));
    let mut weirs = plan.binaries.start(&setup(&[&cluster], 1));
    let seconds = plan.slice.as_secs();
    for clients in CLIENTS {
        let row = select::name(Mode::Simple, clients);
        three::measure(plan, &row, &mut weirs, |weir, _| {
            let arguments = pgbench::select_arguments(Mode::Simple);
            let run = pgbench::run(of(weir, "Weir"), &arguments, clients, seconds, None)?;
            Ok(run.into())
        })?;
    }
    Ok(())
}

/// sysbench's transactions.
///
/// # Errors
/// When anything can't be started, or a statement fails.
pub fn transactions(plan: &mut Plan) -> Outcome<()> {
    let cluster = filled(|cluster| sysbench::fill(cluster, TABLE_SIZE));
    let mut weirs = plan.binaries.start(&setup(&[&cluster], 1));
    let slice = plan.slice;
    for script in SCRIPTS {
        let row = sysbench::name(script);
        three::measure(plan, &row, &mut weirs, |weir, _| {
            let run = sysbench::run(of(weir, "Weir"), script, TABLE_SIZE, slice, &UNIFORM)?;
            Ok(run.into())
        })?;
    }
    Ok(())
}

/// Commands of Redis, at many clients and in pipelines.
///
/// # Errors
/// When anything can't be started, or a command fails.
pub fn commands(plan: &mut Plan) -> Outcome<()> {
    let servers = redis::servers(1);
    let mut weirs = plan.binaries.start(&redis::setup(&servers));
    for (row, clients, pipeline, words) in COMMANDS {
        let load = redis::client::Load {
            pipeline,
            ..redis::client::Load::new(clients, plan.slice, words)
        };
        three::measure(plan, row, &mut weirs, |weir, _| {
            Ok(load.run(redis::of(weir, "Weir"))?.run.into())
        })?;
    }
    Ok(())
}

fn filled(fill: impl FnOnce(&Cluster)) -> Cluster {
    let cluster = server().start();
    fill(&cluster);
    settle(&cluster);
    cluster
}
