//! Acks at 10,000 a second where one backend accepts and never answers, beside the same rate where
//! both are healthy.
//!
//! Each has a Weir of its own, so that the backend hangs from the first pair to the last; the load
//! goes to the two in turn and not for long, so that whatever else the machine does meets both.

use std::time::Duration;

use meter::engine::{IdleConnections, Plan};
use rig::sending::{self, Report};

use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::load::{line, saturated};
use crate::measure::Usage;
use crate::report::{Row, Verdict, median, unit};
use crate::rows::turns;
use crate::sink::DATABASE;
use crate::stand::WeirWithSinks;

const RATE: f64 = 10_000.0;
/// Enough that the schedule is kept while answers take 25 ms.
const CONNECTIONS: usize = 256;
/// One of a pair; its p99 has 200 acks above it.
pub const RUN: Duration = Duration::from_secs(2);

/// Weir, its clients, and what was measured of it, in microseconds.
struct Side {
    stand: WeirWithSinks,
    clients: IdleConnections,
    p99: Vec<f64>,
    lag: Vec<f64>,
}

impl Side {
    fn start() -> Outcome<Self> {
        let stand = WeirWithSinks::start("durable")?;
        Ok(Self { stand, clients: IdleConnections::default(), p99: Vec::new(), lag: Vec::new() })
    }

    /// Single points at [`RATE`] with times that no other run has.
    fn run(&mut self, length: Duration, number: u32) -> Report {
        let target = format!("/write?db={DATABASE}");
        let post = move |n, out: &mut Vec<u8>| {
            sending::put_post(out, &target, line(number, n).as_bytes());
        };
        sending::run_over(&self.clients, &plan(&self.stand, length), post)
    }
}

/// A load of 10,000 requests a second.
pub fn plan(stand: &WeirWithSinks, length: Duration) -> Plan {
    Plan { connections: CONNECTIONS, ..sending::rate(stand.weir.http, RATE, length) }
}

/// The row.
///
/// # Errors
/// When anything can't be started, or an acknowledged point is missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let [mut healthy, mut hung] = [Side::start()?, Side::start()?];
    for side in [&mut healthy, &mut hung] {
        // The first requests pay for pages and caches that no pair should pay for.
        side.run(scale.duration, 0);
        side.stand.settle()?;
    }
    hung.stand.sinks[1].hang(true)?;
    let own = Usage::begin(std::process::id());
    let mut failed = None;
    let pairs = turns::in_pairs([&mut healthy, &mut hung], scale, RUN, |side, pair| {
        let report = side.run(RUN, pair);
        side.p99.push(report.latency(0.99).as_secs_f64() * 1e6);
        side.lag.push(report.lag(0.99).as_secs_f64() * 1e6);
        if report.count(204) != report.sent {
            failed = Some(Verdict::Failed(format!("answers: {:?}", report.statuses)));
        }
        Ok(())
    })?;
    let client = own.cpu().as_secs_f64() / (2 * pairs * RUN).as_secs_f64();
    hung.stand.sinks[1].hang(false)?;
    for side in [&healthy, &hung] {
        side.stand.settle()?;
    }
    let ratios: Vec<_> =
        hung.p99.iter().zip(&healthy.p99).map(|(hung, healthy)| hung / healthy).collect();
    let ratio = median(&ratios);
    let figure = "p99 of acks with one backend hung, over all healthy, 10,000/s";
    let row = Row::judged(figure, ratio, unit::RATIO, FigureTarget::at_most(1.2, 1.0))
        .of(vec![
            Series::new("all healthy", unit::US, &healthy.p99),
            Series::new("one hung", unit::US, &hung.p99),
        ])
        .noted(vec![
            format!(
                "p99 {:.0} us healthy, {:.0} us hung, from the intended time; medians of {pairs} \
                 pairs of {} s",
                median(&healthy.p99),
                median(&hung.p99),
                RUN.as_secs()
            ),
            format!(
                "client {:.0} % of a core, p99 of its lag {:.0} and {:.0} us",
                client * 100.0,
                median(&healthy.lag),
                median(&hung.lag)
            ),
        ])
        .repeat("make bench ARGS=\"--only hung\"");
    Ok(vec![row.unless(failed.or(saturated(client)))])
}
