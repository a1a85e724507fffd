//! Memory of clients that are connected and say nothing.

use std::net::SocketAddr;

use rig::redis::RedisClient;

use super::{NUTCRACKER, Stand, WEIR};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{Series, Wanted};
use crate::measure::{anonymous_mib, settled_mib};
use crate::report::{Row, unit};
use crate::rows::turns::Way;

const CLIENTS: usize = 10_000;
/// What connecting once leaves behind for good is not a client's.
const BEFORE: usize = 50;

/// The row.
///
/// # Errors
/// When a client can't connect.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    rig::places::raise_open_files();
    let clients = CLIENTS / usize::try_from(scale.one_in)?;
    let mut stand = Stand::start(1)?;
    let ways = stand.ways();
    let ours = kib_each(ways[WEIR], clients)?;
    let theirs = kib_each(ways[NUTCRACKER], clients)?;
    let figure = format!("memory (RssAnon) a Redis client, {clients} idle clients");
    let all = [("nutcracker", theirs), ("Weir", ours)];
    let row = Row::judged(figure, ours, unit::KIB, Wanted::at_most(8.0, 4.0))
        .of(all.map(|(name, kib)| Series::new(name, unit::KIB, &[kib])).into())
        .noted(vec![format!("nutcracker: {theirs:.1} KiB")]);
    Ok(vec![row])
}

fn kib_each(way: Way, clients: usize) -> Outcome<f64> {
    let pid = way.pid.ok_or("nothing in between")?;
    let connect = |count| (0..count).map(|_| client(way.address)).collect::<Outcome<Vec<_>>>();
    drop(connect(BEFORE)?);
    let before = anonymous_mib(pid);
    let all = connect(clients)?;
    let last = settled_mib(pid);
    drop(all);
    Ok((last - before) * 1_024.0 / clients as f64)
}

/// A client that has had a command answered and rests.
fn client(address: SocketAddr) -> Outcome<RedisClient> {
    let mut client = RedisClient::try_connect(address)?;
    match client.try_ask(&["GET", "key"])?.as_slice() {
        b"$-1\r\n" => Ok(client),
        other => Err(String::from_utf8_lossy(other).into_owned().into()),
    }
}
