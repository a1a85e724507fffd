//! The same load while dd writes to the disk that the append-only file is on.

use rig::places;

use super::stall::{KINDS, LOAD, StallSamples};
use super::ways::{Kind, Server};
use crate::Outcome;
use crate::arguments::Scale;
use crate::report::{Row, unit};
use crate::rows::dd::Dd;

/// The rows.
///
/// # Errors
/// When anything can't be started, or a write fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let (dd, dir) = (Dd::lay_down(scale.dd_mib)?, places::directory());
    let (mut seen, mut notes) = (StallSamples::default(), Vec::new());
    for _ in 0..scale.pairs {
        for (number, kind) in KINDS.into_iter().enumerate() {
            let server = Server::start(kind, dir.path())?;
            let ran = dd.beside(scale.duration, |stop| {
                let run = LOAD.run(server.address(), || stop.is_asked());
                run.map_err(|error| error.to_string())
            })?;
            let (report, mb_per_second) = &ran.result;
            let report = report.as_ref().map_err(String::clone)?;
            seen.note(number, report);
            notes.push(format!(
                "{}: longest {:.0} ms, p99 {:.2} ms (dd {mb_per_second:.0} MB/s{})",
                kind.name(),
                report.longest_ms(),
                report.ms_at(0.99),
                ran.taken()
            ));
        }
    }
    let all = [seen.notes(), notes].concat();
    let [ours, _] = seen.of(Kind::Weir);
    let repeat = "make bench ARGS=\"--only aof-beside-dd\"";
    let size = scale.dd_mib >> 10;
    let beyond = format!("AOF in Weir beside a dd of {size} GB: over 400 ms in 10,000");
    let longest = "AOF in Weir beside dd: the longest less that without any AOF";
    Ok(vec![
        Row::beside(beyond, ours, unit::OF_10_000)
            .of(seen.series(&seen.beyond, unit::OF_10_000))
            .noted(all)
            .repeat(repeat),
        Row::beside(longest, seen.longer_ms(), unit::MS)
            .of(seen.series(&seen.longest, unit::MS))
            .repeat(repeat),
    ])
}
