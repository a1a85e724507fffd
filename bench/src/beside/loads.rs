//! What is asked of the three: the same loads as in the rows beside peers.

use std::sync::Arc;
use std::time::Instant;

use rig::postgres::Cluster;
use rig::sending;

use super::Plan;
use super::three::{self, Slice};
use crate::load;
use crate::peers;
use crate::rows::lines;
use crate::rows::meter::injector;
use crate::rows::postgres::{Mode, of, pgbench, select, server, settle, setup, sysbench};
use crate::rows::redis;
use crate::rows::requests::CONNECTIONS;
use crate::rows::store::{self, bodies, queries};
use crate::rows::turns::Run;
use crate::stand::{self, Sink};
use crate::{Outcome, report::Verdict};

/// Connections of single points, many and few.
const SENDERS: [usize; 2] = [CONNECTIONS, 64];
/// Of a load into the store: rows of a batch, and of all batches of a slice.
const BATCHES: [(u64, u64); 2] = [(5_000, 1_000_000), (30, 200_000)];
/// Rows that are asked for.
const ROWS: u64 = 2_000_000;
/// How the load meter sends: what a row is called, and its part of the command line.
const METERS: [(&str, &str); 2] = [
    ("weir load, closed, 64 connections", "--closed --connections 64"),
    ("weir load, 10,000/s, 64 connections", "--rate 10000 --connections 64"),
];
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
    for connections in SENDERS {
        let (row, slice) = (format!("single points, {connections} connections"), plan.slice);
        three::measure(plan, &row, &mut weirs, |weir, number| {
            let run = load::wrk(weir.http, connections, slice, number)?;
            // What is left to deliver is not the next one's burden.
            weir.wait_delivered();
            match run.worthless {
                Some(Verdict::Failed(why)) => Err(why.into()),
                _ => Ok(Slice { requests: run.requests as f64, per_second: run.per_second }),
            }
        })?;
    }
    Ok(())
}

/// Bodies of many lines; the CPU time is that of a line and its delivery.
///
/// # Errors
/// When anything can't be started, or an answer is not 204.
pub fn many_lines(plan: &mut Plan) -> Outcome<()> {
    let sinks = [Sink::start()?, Sink::start()?];
    let mut weirs = plan.binaries.start(&stand::setup(&sinks, "durable"));
    let (requests, slice) = (Arc::new(lines::requests()), plan.slice);
    let row = format!("lines in bodies of {}", lines::LINES);
    three::measure(plan, &row, &mut weirs, |weir, _| {
        let bodies = Arc::clone(&requests);
        let load = sending::closed(weir.http, lines::CONNECTIONS, slice);
        let report = sending::run(&load, move |number, out| {
            out.extend_from_slice(&bodies[(number % lines::BODIES) as usize]);
        });
        weir.wait_delivered();
        if report.count(204) != report.sent {
            return Err(format!("answers: {:?}", report.statuses).into());
        }
        let requests = (report.sent * lines::LINES) as f64;
        Ok(Slice { requests, per_second: requests / report.elapsed().as_secs_f64() })
    })
}

/// The field report's rows into the embedded store, until it counts them all.
///
/// # Errors
/// When anything can't be started, or rows are missing.
pub fn store_loads(plan: &mut Plan) -> Outcome<()> {
    let mut weirs = plan.binaries.start(&store::setup(""));
    for (batch, rows) in BATCHES {
        let bodies = bodies::report(rows, batch);
        let row = format!("rows into the store, batches of {batch}");
        three::measure(plan, &row, &mut weirs, |weir, _| {
            store::make_anew(weir)?;
            let at = (weir.http, weir.running().id());
            let loaded = store::load(at, &bodies, queries::COUNT, rows)?;
            Ok(Slice { requests: rows as f64, per_second: loaded.per_second(rows) })
        })?;
    }
    Ok(())
}

/// Queries of the embedded store, one after the other.
///
/// # Errors
/// When anything can't be started, rows are missing or a query fails.
pub fn store_queries(plan: &mut Plan) -> Outcome<()> {
    let (mut weirs, bodies) = (plan.binaries.start(&store::setup("")), bodies::report(ROWS, 5_000));
    for weir in &mut weirs {
        store::make_anew(weir)?;
        store::load((weir.http, weir.running().id()), &bodies, queries::COUNT, ROWS)?;
    }
    let pids = weirs.each_mut().map(|weir| weir.running().id());
    store::settled(&pids);
    let slice = plan.slice;
    for figure in queries::figures(ROWS) {
        let row = format!("store: {}", figure.name.split(", ").next().unwrap_or_default());
        three::measure(plan, &row, &mut weirs, |weir, _| {
            let (mut client, begun, mut asked) =
                (store::Client::open(weir.http)?, Instant::now(), 0);
            while begun.elapsed() < slice {
                for query in &figure.queries {
                    client.ask(query)?;
                    asked += 1;
                }
            }
            let requests = f64::from(asked);
            Ok(Slice { requests, per_second: requests / begun.elapsed().as_secs_f64() })
        })?;
    }
    Ok(())
}

/// The load meter beside nginx; the CPU time is its own.
///
/// # Errors
/// When nginx can't be started, or a request fails.
pub fn meters(plan: &mut Plan) -> Outcome<()> {
    let nginx = peers::nginx()?;
    let seconds = plan.slice.as_secs();
    let mut programs = plan.binaries.files();
    for (row, manner) in METERS {
        let url = format!("http://{}/", nginx.address);
        let line = format!("{url} {manner} --threads 1 --duration {seconds}s --warmup 0s");
        three::take_turns(plan, row, &mut programs, |program, _| {
            let run = injector::load_by(program, &line)?.without_errors()?;
            let requests = run.requests() as f64;
            let per_second = requests / run.number("/measured_ns") * 1e9;
            Ok((Slice { requests, per_second }, run.cpu))
        })?;
    }
    Ok(())
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
