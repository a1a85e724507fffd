//! SET and `WAIT 1` by turns, with a replica: what a client pays that must not lose a write.

use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rig::redis::{Redis, RedisClient};

use super::{of, setup};
use crate::Outcome;
use crate::arguments::Scale;
use crate::report::{Row, median, unit};
use crate::rows::turns::{ClientRoute, RouteSamples, Run, series, take_turns};

const CLIENTS: usize = 16;

/// The row.
///
/// # Errors
/// When anything can't be started, or a write is not acknowledged.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let servers = [Redis::start()];
    let address = servers[0].address;
    let port = address.port().to_string();
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &port]);
    rig::wait::until("the replica follows", rig::wait::LONG, || {
        replica.client().line("INFO replication").contains("master_link_status:up")
    });
    let mut weir = setup(&servers).start();
    let direct = ClientRoute { name: "direct", address, pid: None, optional: false };
    let ways = [direct, of(&mut weir, "Weir")];
    let mut p99_ms = [const { Vec::new() }; 2];
    let run = |way: ClientRoute| {
        let done = run(way, scale.duration)?;
        p99_ms[usize::from(way.name != direct.name)].push(done.p99_ms());
        Ok(done.run)
    };
    let seen = take_turns(&ways, scale, run)?;
    let mut notes: Vec<_> = seen.iter().map(RouteSamples::line).collect();
    notes.extend(ways.iter().zip(&p99_ms).map(|(way, of)| {
        let [set, wait] = [0, 1].map(|at| median(&of.iter().map(|of| of[at]).collect::<Vec<_>>()));
        format!("{}: p99 of SET {set:.2} ms, of WAIT {wait:.2} ms", way.name)
    }));
    let figure = format!("SET and WAIT 1 by turns, {CLIENTS} clients");
    let row = Row::beside(figure, seen[1].rate(), unit::COMMANDS);
    Ok(vec![row.of(series(&seen)).noted(notes)])
}

/// What a run came to.
struct WaitRun {
    run: Run,
    times: Times,
}

impl WaitRun {
    /// Of SET and of WAIT, in milliseconds.
    fn p99_ms(&self) -> [f64; 2] {
        self.times.each_ref().map(|of| of.value_at_quantile(0.99) as f64 / 1e3)
    }
}

/// Microseconds that SET took, and WAIT.
type Times = [Histogram<u64>; 2];

fn no_times() -> Outcome<Times> {
    Ok([Histogram::new(3)?, Histogram::new(3)?])
}

/// Pairs of both commands.
fn run(way: ClientRoute, duration: Duration) -> Outcome<WaitRun> {
    let begun = Instant::now();
    let all = thread::scope(|scope| {
        let one =
            |_| scope.spawn(|| pairs(way, begun, duration).map_err(|error| error.to_string()));
        let all: Vec<_> = (0..CLIENTS).map(one).collect();
        all.into_iter().map(|one| one.join().map_err(|_| "a client gave up")).collect::<Vec<_>>()
    });
    let mut times = no_times()?;
    for of_one in all {
        for (all, of_one) in times.iter_mut().zip(of_one??) {
            all.add(of_one)?;
        }
    }
    let requests = times[1].len() as f64;
    let per_second = requests / begun.elapsed().as_secs_f64();
    let unit = unit::COMMANDS;
    let run = Run { unit, requests, per_second, transactions_per_second: per_second };
    Ok(WaitRun { run, times })
}

fn pairs(way: ClientRoute, begun: Instant, duration: Duration) -> Outcome<Times> {
    let mut client = RedisClient::try_connect(way.address)?;
    let mut times = no_times()?;
    while begun.elapsed() < duration {
        let said = [&["SET", "key", "xxx"][..], &["WAIT", "1", "0"]];
        for ((words, wanted), times) in said.iter().zip(["+OK\r\n", ":1\r\n"]).zip(&mut times) {
            let asked = Instant::now();
            let heard = client.try_ask(words)?;
            if heard != wanted.as_bytes() {
                let heard = String::from_utf8_lossy(&heard);
                return Err(format!("{}: {}: {heard}", way.name, words[0]).into());
            }
            times.record(asked.elapsed().as_micros() as u64)?;
        }
    }
    Ok(times)
}
