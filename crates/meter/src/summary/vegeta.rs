//! A run's figures in the shape of `vegeta report`, for whoever has scripts that read it. Bytes are
//! those of whole requests and answers, where vegeta counts their bodies.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use crate::engine::Outcome;
use crate::recorder::{Distribution, Kind, Measure, Times, Tolerance};

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
        name(f, "Duration", "[total, attack, wait]")?;
        let whole = of.last.max(of.measured);
        writeln!(f, "{:?}, {:?}, {:?}", whole, of.measured, whole - of.measured)?;
        name(f, "Latencies", "[min, mean, 50, 90, 95, 99, max]")?;
        let latency = of.results.distribution(Measure::Latency, None);
        writeln!(f, "{}", spans(latency.measured()))?;
        let own = injectors(&latency, &of.thresholds.tolerance());
        if !own.is_empty() {
            name(f, "Injector's", "[of these latencies]")?;
            writeln!(f, "{}", own.join(", "))?;
        }
        let sent = (total - of.results.count(Kind::Unsent)).max(1) as f64;
        for (what, bytes) in [("Bytes In", of.traffic.received), ("Bytes Out", of.traffic.sent)] {
            name(f, what, "[total, mean]")?;
            writeln!(f, "{bytes}, {:.2}", bytes as f64 / sent)?;
        }
        name(f, "Success", "[ratio]")?;
        writeln!(f, "{:.2}%", (total - failed) as f64 * 100.0 / total.max(1) as f64)?;
        let codes = of.traffic.codes();
        if !codes.is_empty() {
            name(f, "Status Codes", "[code:count]")?;
            let codes: Vec<_> =
                codes.iter().map(|(code, count)| format!("{code}:{count}")).collect();
            writeln!(f, "{}", codes.join("  "))?;
        }
        writeln!(f, "Error Set:")?;
        for (_, words, _) in of.errors.commonest(ERRORS_MAX) {
            writeln!(f, "{words}")?;
        }
        Ok(())
    }
}

/// Which latencies of the line the injector made.
fn injectors(latency: &Distribution, tolerance: &Tolerance) -> Vec<String> {
    let percentiles =
        SHARES.iter().map(|share| (format!("{:.0}", share * 100.0), latency.quantile(*share)));
    let all = [("mean".to_owned(), latency.mean())].into_iter().chain(percentiles);
    let all = all.chain([("max".to_owned(), latency.max())]);
    let own = all.filter(|(_, figure)| figure.is_injectors(tolerance));
    own.map(|(name, _)| name).collect()
}

fn spans(times: &Times) -> String {
    let shares = SHARES.map(|share| times.quantile(share));
    let all = [&[times.quantile(0.0), times.mean()][..], &shares, &[times.max()]].concat();
    all.iter().map(short).collect::<Vec<_>>().join(", ")
}

fn short(span: &Duration) -> String {
    format!("{span:.3?}")
}
