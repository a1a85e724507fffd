//! SET and `WAIT 1` by turns, with a replica: what a client pays that must not lose a write.

use std::thread;
use std::time::{Duration, Instant};

use rig::redis::{Redis, RedisClient};

use super::{of, setup};
use crate::Outcome;
use crate::arguments::Scale;
use crate::report::{Row, unit};
use crate::rows::turns::{Run, Seen, Way, series, take_turns};

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
    let direct = Way { name: "direct", address, pid: None, optional: false };
    let ways = [direct, of(&mut weir, "Weir")];
    let seen = take_turns(&ways, scale, |way| run(way, scale.duration))?;
    let figure = format!("SET and WAIT 1 by turns, {CLIENTS} clients");
    let row = Row::beside(figure, seen[1].rate(), unit::COMMANDS);
    Ok(vec![row.of(series(&seen)).noted(seen.iter().map(Seen::line).collect())])
}

/// Pairs of both commands.
fn run(way: Way, duration: Duration) -> Outcome<Run> {
    let begun = Instant::now();
    let pairs = thread::scope(|scope| {
        let one = |_| scope.spawn(|| pairs(way, begun, duration));
        let all: Vec<_> = (0..CLIENTS).map(one).collect();
        all.into_iter().map(|one| one.join().map_err(|_| "a client gave up")).collect::<Vec<_>>()
    });
    let mut requests = 0.0;
    for pairs in pairs {
        requests += pairs?? as f64;
    }
    let per_second = requests / begun.elapsed().as_secs_f64();
    let unit = unit::COMMANDS;
    Ok(Run { unit, requests, per_second, transactions_per_second: per_second })
}

fn pairs(way: Way, begun: Instant, duration: Duration) -> std::io::Result<u64> {
    let mut client = RedisClient::try_connect(way.address)?;
    let mut count = 0;
    while begun.elapsed() < duration {
        client.try_ask(&["SET", "key", "xxx"])?;
        let seen = client.try_ask(&["WAIT", "1", "0"])?;
        if seen != b":1\r\n" {
            let words = String::from_utf8_lossy(&seen);
            return Err(std::io::Error::other(format!("{}: WAIT: {words}", way.name)));
        }
        count += 1;
    }
    Ok(count)
}
