//! Memory of a gateway while ten million rows of two sets pass through.

use rig::http::{Connection, Request};
use std::io::Write as _;

use super::queries::TwoSets;
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::measure::{Peak, settled_mib};
use crate::report::{Row, unit};
use crate::rows::store::bodies::{Bodies, START_NS};
use crate::rows::store::{DATABASE, settled};

const ROWS: u64 = 10_000_000;
const HOSTS: u64 = 16;
const STEP_NS: u64 = 1_000_000;
const QUERY: &str = "SELECT v FROM m";

fn put(number: u64, out: &mut Vec<u8>) {
    let (host, time) = (number % HOSTS, START_NS + number * STEP_NS);
    // Writing to memory does not fail.
    let _ = writeln!(out, "m,host=host{host:02} v={number}i {time}");
}

/// How many rows a chunked answer has, none of which is kept.
fn rows_of(connection: &mut Connection) -> Outcome<u64> {
    let request = [("db", DATABASE), ("epoch", "ns"), ("chunked", "true")];
    connection.push(&Request::query(QUERY, &request).encode())?;
    let head = connection.head()?;
    if head.status() != 200 {
        return Err(format!("{QUERY}: {}", head.status()).into());
    }
    let (mut part, mut lists, mut documents, mut tail) = (Vec::new(), 0, 0, Vec::new());
    while connection.chunk(&mut part)? {
        lists += part.iter().filter(|byte| **byte == b'[').count() as u64;
        documents += part.iter().filter(|byte| **byte == b'\n').count() as u64;
        tail = part.split_off(part.len().saturating_sub(200));
        part.clear();
    }
    let end = String::from_utf8_lossy(&tail);
    if end.contains("error") || end.contains("partial") {
        return Err(format!("{QUERY} ends with {end}").into());
    }
    // Each document has a list of results, of series, of columns and of values.
    Ok(lists - 4 * documents)
}

/// The row.
///
/// # Errors
/// When anything can't be started, or rows are missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let rows = ROWS / scale.one_in;
    let mut sets = TwoSets::start("");
    sets.load(&Bodies::of(rows, 5_000, put), "SELECT count(v) FROM m", rows)?;
    settled(&sets.pids());
    let pid = sets.weir.running().id();
    let before = settled_mib(pid);
    let peak = Peak::begin(pid);
    let mut connection = Connection::open(sets.weir.http)?;
    let begun = std::time::Instant::now();
    let read = rows_of(&mut connection)?;
    let took = begun.elapsed().as_secs_f64();
    let most = peak.end_mib();
    if read != rows {
        return Err(format!("{read} of {rows} rows were answered").into());
    }
    let figure = "growth of memory (RssAnon), 10 M rows of two sets streamed";
    let row = Row::judged(figure, most - before, unit::MIB, FigureTarget::at_most(64.0, 32.0))
        .noted(vec![format!(
            "`{QUERY}`, chunked, {rows} rows in {took:.1} s; {before:.1} MiB before, at most \
             {most:.1} meanwhile"
        )])
        .repeat("make bench ARGS=\"--only cluster-stream\"");
    Ok(vec![row])
}
