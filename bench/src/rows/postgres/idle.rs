//! Memory of clients that are connected and say nothing.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use rig::postgres::SUPERUSER;

use super::{BOUNCER, Mode, PostgresSetup, WEIR};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, unit};

const CLIENTS: usize = 5_000;

/// The row.
///
/// # Errors
/// When a client can't connect.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    rig::places::raise_open_files();
    let clients = CLIENTS / usize::try_from(scale.one_in)?;
    let mut stand = PostgresSetup::start(|_| {});
    let ways = stand.ways(Mode::Simple);
    let ours = ways[WEIR].kib_each(clients, client)?;
    let mut notes = Vec::new();
    let mut series = vec![Series::new("Weir", unit::KIB, &[ours])];
    let poolers = ways.iter().enumerate().filter(|(at, way)| *at == BOUNCER || way.optional);
    for (_, pooler) in poolers {
        match pooler.kib_each(clients, client) {
            Ok(theirs) => {
                notes.push(format!("{}: {theirs:.1} KiB", pooler.name));
                series.push(Series::new(pooler.name, unit::KIB, &[theirs]));
            }
            Err(error) if pooler.optional => notes.push(format!("{}: {error}", pooler.name)),
            Err(error) => return Err(error),
        }
    }
    notes.extend(stand.missing());
    let figure = format!("memory (RssAnon) a client, {clients} idle clients");
    let row = Row::judged(figure, ours, unit::KIB, FigureTarget::at_most(8.0, 4.0));
    Ok(vec![row.of(series).noted(notes)])
}

/// A client that has run a statement and rests.
fn client(address: SocketAddr) -> Outcome<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    let parameters = format!("user\0{SUPERUSER}\0database\0{SUPERUSER}\0\0");
    let mut start = u32::try_from(parameters.len() + 8)?.to_be_bytes().to_vec();
    start.extend_from_slice(&[0, 3, 0, 0]);
    start.extend_from_slice(parameters.as_bytes());
    stream.write_all(&start)?;
    ready(&mut stream)?;
    stream.write_all(b"Q\0\0\0\x0dSELECT 1\0")?;
    ready(&mut stream)?;
    Ok(stream)
}

/// Reads up to a ReadyForQuery, behind which nothing comes.
fn ready(stream: &mut TcpStream) -> Outcome<()> {
    let mut said = Vec::new();
    loop {
        let mut piece = [0; 4096];
        match stream.read(&mut piece)? {
            0 => return Err(format!("closed: {}", String::from_utf8_lossy(&said)).into()),
            count => said.extend_from_slice(&piece[..count]),
        }
        if said.ends_with(b"Z\0\0\0\x05I") {
            return Ok(());
        }
    }
}
