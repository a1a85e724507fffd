//! Two Weirs side by side, one of which looks for collisions; the load goes to the two in turn and
//! not for long, so that whatever else the machine does meets both.

use std::sync::Arc;
use std::time::Duration;

use meter::engine::IdleConnections;
use rig::sending::{self, Report};

use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::load::{self, line};
use crate::measure::Usage;
use crate::report::{Row, Verdict, median, unit};
use crate::rows::hung::{self, RUN};
use crate::rows::{lines, requests, turns};
use crate::sink::DATABASE;
use crate::stand::WeirWithSinks;

const REPEAT: &str = "make bench ARGS=\"--only collision-cost\"";

/// A Weir, and what was measured of it in each pair.
struct Side {
    name: &'static str,
    stand: WeirWithSinks,
    clients: IdleConnections,
    measured: Vec<f64>,
    failed: Option<Verdict>,
}

impl Side {
    fn start(name: &'static str, memory: &str) -> Outcome<Self> {
        let table = format!("[influx.collisions]\nmemory = \"{memory}\"\n");
        let stand = WeirWithSinks::start_with("durable", |setup| setup.table(&table))?;
        let clients = IdleConnections::default();
        Ok(Self { name, stand, clients, measured: Vec::new(), failed: None })
    }

    fn note(&mut self, report: &Report) {
        if report.count(204) != report.sent {
            self.failed = Some(Verdict::Failed(format!("answers: {:?}", report.statuses)));
        }
    }
}

/// Runs pairs of `run`, whose figures are judged by the ratio of the side that looks to the other.
fn pairs(
    figure: &str,
    unit: &'static str,
    wanted: FigureTarget,
    scale: &Scale,
    mut run: impl FnMut(&mut Side, u32) -> Outcome<f64>,
) -> Outcome<Row> {
    let [mut on, mut off] = [Side::start("on", "16MiB")?, Side::start("off", "0")?];
    for side in [&mut on, &mut off] {
        // The first requests pay for pages and caches that no pair should pay for.
        run(side, 0)?;
        side.stand.settle()?;
    }
    let pairs = turns::in_pairs([&mut on, &mut off], scale, RUN, |side, pair| {
        let measured = run(side, pair)?;
        side.measured.push(measured);
        Ok(())
    })?;
    let ratios: Vec<_> = on.measured.iter().zip(&off.measured).map(|(on, off)| on / off).collect();
    let share = on.stand.weir.metrics().sum("weir_influx_collisions_share", &[]);
    let series = [&on, &off].map(|side| Series::new(side.name, unit, &side.measured));
    let note = format!(
        "{:.2} {unit} with detection, {:.2} without, medians of {pairs} pairs of {} s; at the end \
         {:.1} % of the points were looked at",
        median(&on.measured),
        median(&off.measured),
        RUN.as_secs(),
        share * 100.0
    );
    let row = Row::judged(figure, median(&ratios), unit::RATIO, wanted);
    Ok(row.of(series.into()).noted(vec![note]).repeat(REPEAT).unless(on.failed.or(off.failed)))
}

/// The rows.
///
/// # Errors
/// When anything can't be started, or an acknowledged point is missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    Ok(vec![of_lines(scale)?, of_requests(scale)?, of_acks(scale)?])
}

fn of_lines(scale: &Scale) -> Outcome<Row> {
    let bodies = Arc::new(lines::requests());
    let figure = "lines/s in bodies of 5,000, detection of collisions on / off";
    pairs(figure, unit::LINES, FigureTarget::at_least(0.9, 0.97), scale, |side, _| {
        let plan = sending::closed(side.stand.weir.http, lines::CONNECTIONS, RUN);
        let bodies = Arc::clone(&bodies);
        let report = sending::run(&plan, move |number, out| {
            out.extend_from_slice(&bodies[(number % lines::BODIES) as usize]);
        });
        side.note(&report);
        side.stand.settle()?;
        let seconds = report.elapsed().as_secs_f64();
        Ok((report.count(204) * lines::LINES) as f64 / seconds)
    })
}

fn of_requests(scale: &Scale) -> Outcome<Row> {
    let figure =
        "CPU time a request of one line at 512 connections, detection of collisions on / off";
    pairs(figure, unit::CPU_US, FigureTarget::at_most(1.05, 1.02), scale, |side, pair| {
        let usage = Usage::begin(side.stand.id());
        let run = load::wrk(side.stand.weir.http, requests::CONNECTIONS, RUN, pair)?;
        side.stand.settle()?;
        side.failed = side.failed.take().or(run.worthless);
        Ok(usage.cpu().as_secs_f64() * 1e6 / run.requests.max(1) as f64)
    })
}

fn of_acks(scale: &Scale) -> Outcome<Row> {
    let figure = "p99 of acks at 10,000/s, detection of collisions on / off";
    pairs(figure, unit::US, FigureTarget::at_most(1.2, 1.0), scale, |side, pair| {
        let length = if pair == 0 { Duration::from_secs(5) } else { RUN };
        let plan = hung::plan(&side.stand, length);
        let target = format!("/write?db={DATABASE}");
        let post = move |n, out: &mut Vec<u8>| {
            sending::put_post(out, &target, line(pair, n).as_bytes());
        };
        let report = sending::run_over(&side.clients, &plan, post);
        side.note(&report);
        Ok(report.latency(0.99).as_secs_f64() * 1e6)
    })
}
