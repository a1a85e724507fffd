//! A million rows over ten years, in the order of their writers: many partitions at once.

use std::io::Write as _;

use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::report::{Row, unit};

use super::bodies::Bodies;
use super::{Client, load, weir};

const ROWS: u64 = 1_000_000;
const START_NS: u64 = 1_420_070_400_000_000_000;
const TEN_YEARS_NS: u64 = 3_652 * 86_400 * 1_000_000_000;
/// A prime, so that neighbours in a request are years apart.
const STRIDE: u64 = 611_953;
/// What loading may take in all.
const MIB_MAX: f64 = 512.0;

/// The row.
///
/// # Errors
/// When anything can't be started, or rows are missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let rows = ROWS / scale.one_in;
    let step = TEN_YEARS_NS / rows;
    let bodies = Bodies::of(rows, 5_000, |number, out| {
        let at = number * STRIDE % rows;
        let host = at % 10;
        // Writing to memory does not fail.
        let _ = writeln!(out, "d,host=h{host} v={at}i,f={host}.5 {}", START_NS + at * step);
    });
    let mut weir = weir("")?;
    let pid = weir.running().id();
    let loaded = load((weir.http, pid), &bodies, "SELECT count(v) FROM d", rows)?;
    let mut client = Client::open(weir.http)?;
    let q = "SELECT mean(v) FROM d WHERE time >= '2015-01-01' AND time < '2025-01-01' \
             GROUP BY time(52w), host";
    let took = client.ask(q)?.1;
    let figure = "1,000,000 rows over ten years: peak memory (RssAnon)";
    let row = Row::judged(figure, loaded.peak_mib, unit::MIB, FigureTarget::within(MIB_MAX))
        .noted(vec![
            format!("{:.0} rows/s", loaded.per_second(rows)),
            format!("mean by year and host: {:.1} ms", took.as_secs_f64() * 1e3),
        ])
        .repeat("make bench ARGS=\"--only store-decade\"");
    Ok(vec![row])
}
