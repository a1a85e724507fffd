//! Memory that is kept after a burst of values of 1 MiB, while its clients are still connected.

use std::net::SocketAddr;
use std::thread;

use rig::redis::RedisClient;

use super::{NUTCRACKER, RedisSetup, WEIR};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::measure::{Peak, anonymous_mib, settled_mib};
use crate::report::{Row, unit};
use crate::rows::turns::ClientRoute;

const CLIENTS: usize = 50;
/// Times that a client sets its value and gets it.
const TIMES: usize = 10;
const VALUE: usize = 1 << 20;

/// The row.
///
/// # Errors
/// When a client is not answered.
pub fn measure(_: &Scale) -> Outcome<Vec<Row>> {
    let mut stand = RedisSetup::start(1)?;
    let ways = stand.ways();
    let (ours, ours_most) = kept_mib(ways[WEIR])?;
    let (theirs, theirs_most) = kept_mib(ways[NUTCRACKER])?;
    let all = [("nutcracker", theirs), ("Weir", ours)];
    let figure = format!("memory (RssAnon) kept after {CLIENTS} clients' values of 1 MiB");
    let row = Row::judged(figure, ours, unit::MIB, FigureTarget::at_most(32.0, 16.0))
        .of(all.map(|(name, mib)| Series::new(name, unit::MIB, &[mib])).into())
        .noted(vec![
            format!("Weir: {ours_most:.1} MiB at most meanwhile"),
            format!("nutcracker: {theirs:.1} MiB kept, {theirs_most:.1} MiB at most meanwhile"),
        ]);
    Ok(vec![row])
}

/// How much more memory there is after the burst, and the most that there was.
fn kept_mib(way: ClientRoute) -> Outcome<(f64, f64)> {
    let pid = way.pid.ok_or("nothing in between")?;
    let before = anonymous_mib(pid);
    let peak = Peak::begin(pid);
    let sent = thread::scope(|scope| {
        let burst = |number| scope.spawn(move || burst(way.address, number));
        let all: Vec<_> = (0..CLIENTS).map(burst).collect();
        all.into_iter().map(|one| one.join().map_err(|_| "a client gave up")).collect::<Vec<_>>()
    });
    let resting = sent.into_iter().map(|one| Ok(one??)).collect::<Outcome<Vec<_>>>()?;
    let kept = settled_mib(pid) - before;
    drop(resting);
    Ok((kept, peak.end_mib()))
}

/// A client that has set and got its value, and rests.
fn burst(address: SocketAddr, number: usize) -> std::io::Result<RedisClient> {
    let mut client = RedisClient::try_connect(address)?;
    let (key, value) = (format!("large:{number}"), "x".repeat(VALUE));
    for _ in 0..TIMES {
        client.try_ask(&["SET", &key, &value])?;
        let reply = client.try_ask(&["GET", &key])?;
        if reply.len() < VALUE {
            return Err(std::io::Error::other(String::from_utf8_lossy(&reply).into_owned()));
        }
    }
    Ok(client)
}
