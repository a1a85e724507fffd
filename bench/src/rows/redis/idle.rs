//! Memory of clients that are connected and say nothing.

use std::net::SocketAddr;

use rig::redis::RedisClient;

use super::{NUTCRACKER, RedisSetup, WEIR};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, unit};

const CLIENTS: usize = 10_000;

/// The row.
///
/// # Errors
/// When a client can't connect.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    rig::places::raise_open_files();
    let clients = CLIENTS / usize::try_from(scale.one_in)?;
    let mut stand = RedisSetup::start(1)?;
    let ways = stand.ways();
    let ours = ways[WEIR].kib_each(clients, client)?;
    let theirs = ways[NUTCRACKER].kib_each(clients, client)?;
    let figure = format!("memory (RssAnon) a Redis client, {clients} idle clients");
    let all = [("nutcracker", theirs), ("Weir", ours)];
    let row = Row::judged(figure, ours, unit::KIB, FigureTarget::at_most(8.0, 4.0))
        .of(all.map(|(name, kib)| Series::new(name, unit::KIB, &[kib])).into())
        .noted(vec![format!("nutcracker: {theirs:.1} KiB")]);
    Ok(vec![row])
}

/// A client that has had a command answered and rests.
fn client(address: SocketAddr) -> Outcome<RedisClient> {
    let mut client = RedisClient::try_connect(address)?;
    match client.try_ask(&["GET", "key"])?.as_slice() {
        b"$-1\r\n" => Ok(client),
        other => Err(String::from_utf8_lossy(other).into_owned().into()),
    }
}
