//! The field report's 10,000,000 rows, in batches of 30 and of 5,000.

use std::sync::Arc;

use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, median, unit};

use super::bodies::{self, Bodies};
use super::{StoreLoadRun, disk_note, influxdb, load, weir};

const COUNT: &str = "SELECT count(int) FROM stress";

/// What one side did in all rounds.
#[derive(Default)]
struct Side {
    per_second: Vec<f64>,
    peak_mib: f64,
    client: f64,
}

impl Side {
    fn note(&mut self, loaded: &StoreLoadRun, rows: u64) {
        self.per_second.push(loaded.per_second(rows));
        self.peak_mib = self.peak_mib.max(loaded.peak_mib);
        self.client = self.client.max(loaded.client);
    }

    fn line(&self, name: &str) -> String {
        format!(
            "{name}: {:.0} rows/s, at most {:.0} MiB (RssAnon), client at most {:.0} % of a core",
            median(&self.per_second),
            self.peak_mib,
            self.client * 100.0
        )
    }
}

/// Loads both, in turns.
fn both(bodies: &Arc<Bodies>, rows: u64, rounds: usize) -> Outcome<(Side, Side)> {
    let (mut theirs, mut ours) = (Side::default(), Side::default());
    for _ in 0..rounds {
        let server = influxdb(&[]);
        let pid = server.id().unwrap_or(0);
        theirs.note(&load((server.address, pid), bodies, COUNT, rows)?, rows);
        drop(server);
        let mut weir = weir("")?;
        let pid = weir.running().id();
        ours.note(&load((weir.http, pid), bodies, COUNT, rows)?, rows);
    }
    Ok((theirs, ours))
}

/// The rows.
///
/// # Errors
/// When anything can't be started, or rows are missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let rows = bodies::REPORT_ROWS / scale.one_in;
    let mut table = Vec::new();
    let mut peak_mib: f64 = 0.0;
    let repeat = "make bench ARGS=\"--only store-load\"";
    for (batch, wanted) in
        [(30, FigureTarget::at_least(3.0, 8.0)), (5_000, FigureTarget::at_least(2.0, 5.0))]
    {
        let bodies = bodies::report(rows, batch);
        // A load takes long enough to be its own average.
        let (theirs, ours) = both(&bodies, rows, scale.rounds.min(1))?;
        let ratio = median(&ours.per_second) / median(&theirs.per_second);
        peak_mib = peak_mib.max(ours.peak_mib);
        let figure = format!("rows/s in batches of {batch}, 30 writers / InfluxDB");
        let row = Row::judged(figure, ratio, unit::RATIO, wanted)
            .of(vec![
                Series::new("InfluxDB", unit::ROWS, &theirs.per_second),
                Series::new("Weir", unit::ROWS, &ours.per_second),
            ])
            .noted(vec![
                theirs.line("InfluxDB"),
                ours.line("Weir, durable"),
                format!("{rows} rows, until count(int) has them all; {}", disk_note()?),
            ])
            .repeat(repeat);
        table.push(row);
    }
    let (figure, wanted) =
        ("peak memory (RssAnon) while loading", FigureTarget::at_most(512.0, 256.0));
    table.push(Row::judged(figure, peak_mib, unit::MIB, wanted).repeat(repeat));
    Ok(table)
}
