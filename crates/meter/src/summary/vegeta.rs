//! A run's figures in the shape of `vegeta report`, for whoever has scripts that read it. What this
//! program does not count (bytes, status codes of successes) has no line.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use crate::engine::Outcome;
use crate::recorder::{Measure, Times};

/// Errors of the last line's set.
const ERRORS_MAX: usize = 10;
const SHARES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

/// The figures of a run.
pub(super) struct Table<'a>(pub &'a Outcome);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let of = self.0;
        let (total, failed) = (of.results.total(), of.results.failed());
        let seconds = of.measured.as_secs_f64().max(f64::MIN_POSITIVE);
        let (rate, throughput) = (total as f64 / seconds, (total - failed) as f64 / seconds);
        let name = |f: &mut Formatter<'_>, name, parts| write!(f, "{name:<14}{parts:<34}");
        name(f, "Requests", "[total, rate, throughput]")?;
        writeln!(f, "{total}, {rate:.2}, {throughput:.2}")?;
        name(f, "Duration", "[attack]")?;
        writeln!(f, "{:?}", of.measured)?;
        name(f, "Latencies", "[min, mean, 50, 90, 95, 99, max]")?;
        let latency = of.results.times(Measure::Latency, None);
        writeln!(f, "{}", spans(&latency))?;
        name(f, "Success", "[ratio]")?;
        writeln!(f, "{:.2}%", (total - failed) as f64 * 100.0 / total.max(1) as f64)?;
        writeln!(f, "Error Set:")?;
        for (_, words, _) in of.errors.commonest(ERRORS_MAX) {
            writeln!(f, "{words}")?;
        }
        Ok(())
    }
}

fn spans(times: &Times) -> String {
    let shares = SHARES.map(|share| times.quantile(share));
    let all = [&[times.quantile(0.0), times.mean()][..], &shares, &[times.max()]].concat();
    all.iter().map(short).collect::<Vec<_>>().join(", ")
}

fn short(span: &Duration) -> String {
    format!("{span:.3?}")
}
