//! Bodies of 5,000 lines, as fast as they are acknowledged.

use std::sync::Arc;

use rig::sending;

use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::load::{LINE_BYTES, line, saturated};
use crate::measure::Usage;
use crate::report::{Row, Verdict, median, unit};
use crate::sink::DATABASE;
use crate::stand::{self, WeirWithSinks};

/// Lines of each body.
pub const LINES: u64 = 5_000;
/// Connections of the load.
pub const CONNECTIONS: usize = 8;
/// Bodies made beforehand, so that the client only copies.
pub const BODIES: u64 = 32;

/// Requests with prepared bodies, head included.
pub fn requests() -> Vec<Vec<u8>> {
    let target = format!("/write?db={DATABASE}");
    let body = |body: u64| (0..LINES).map(|n| line(0, body * LINES + n)).collect::<String>();
    let request = |number| {
        let mut out = Vec::new();
        sending::put_post(&mut out, &target, body(number).as_bytes());
        out
    };
    (0..BODIES).map(request).collect()
}

/// The row.
///
/// # Errors
/// When anything can't be started, or an acknowledged point is missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let mut stand = WeirWithSinks::start("durable")?;
    let requests = Arc::new(requests());
    let (mut per_second, mut client, mut disk) = (Vec::new(), Vec::new(), Vec::new());
    let mut failed = None;
    for _ in 0..scale.rounds {
        let (usage, own) = (Usage::begin(stand.id()), Usage::begin(std::process::id()));
        let plan = sending::closed(stand.weir.http, CONNECTIONS, scale.duration);
        let bodies = Arc::clone(&requests);
        let report = sending::run(&plan, move |number, out| {
            out.extend_from_slice(&bodies[(number % BODIES) as usize]);
        });
        let seconds = report.elapsed().as_secs_f64();
        client.push(own.cpu().as_secs_f64() / seconds);
        disk.push(usage.disk_mb_per_second());
        per_second.push((report.count(204) * LINES) as f64 / seconds);
        if report.count(204) != report.sent {
            failed = Some(Verdict::Failed(format!("answers: {:?}", report.statuses)));
        }
        failed = stand::late(stand.settle()?).or(failed);
    }
    let accepted = stand::accepted(&stand.weir);
    let measured = median(&per_second);
    let figure = "lines/s in bodies of 5,000 lines, one worker, durable";
    let row = Row::judged(figure, measured, unit::LINES, FigureTarget::at_least(2e6, 4e6))
        .of(vec![Series::new("Weir", unit::LINES, &per_second)])
        .noted(vec![
            format!("{CONNECTIONS} connections, lines of {LINE_BYTES} bytes, gzip off"),
            format!("disk {:.0} MB/s", median(&disk)),
            format!("client {:.0} % of a core", median(&client) * 100.0),
            format!("{accepted} points, both sinks have all"),
        ])
        .repeat("make bench ARGS=\"--only lines\"");
    Ok(vec![row.unless(failed.or(saturated(median(&client))))])
}
