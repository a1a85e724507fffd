//! What sharing points out costs, before sinks: clusters and complete copies side by side, the load
//! going to one after the other.

use std::sync::Arc;

use rig::sending::{self, Report};
use rig::weir::{Setup, Weir};

use super::{start_applied, tables};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::load::{self, line};
use crate::measure::Usage;
use crate::report::{Row, Verdict, median, unit};
use crate::rows::hung::RUN;
use crate::rows::{lines, requests, turns};
use crate::sink::DATABASE;
use crate::stand::Sink;

const REPEAT: &str = "make bench ARGS=\"--only cluster-cost\"";
/// Lines of a body where CPU time is looked at.
const BODY_LINES: u64 = 100;

/// A Weir with its sinks, and what was measured of it in each pair.
struct Side {
    name: String,
    weir: Weir,
    sinks: Vec<Sink>,
    /// How many of them get each point.
    copies: u64,
    measured: Vec<f64>,
    failed: Option<Verdict>,
}

impl Side {
    /// So many sets of two, or two complete copies where there is none.
    fn start(sets: usize) -> Outcome<Self> {
        let count = 2 * sets.max(1);
        let sinks = (0..count).map(|_| Sink::start()).collect::<Outcome<Vec<_>>>()?;
        let mut setup = Setup::new().top("workers = 1").default_segments();
        for (number, sink) in sinks.iter().enumerate() {
            setup = setup.backend_with(&format!("m{number}"), &sink.url(), "timeout = \"10s\"");
        }
        let of_set = |set: usize| vec![format!("m{}", 2 * set), format!("m{}", 2 * set + 1)];
        let (name, weir) = match sets {
            0 => ("two complete copies".to_owned(), setup.start()),
            _ => {
                let all: Vec<_> = (0..sets).map(of_set).collect();
                // The load is one series.
                let tables = tables(&all, "split-by = \"point\"");
                (format!("{sets} sets of two"), start_applied(setup.table(&tables)))
            }
        };
        Ok(Self { name, weir, sinks, copies: 2, measured: Vec::new(), failed: None })
    }

    fn settle(&self) -> Outcome<()> {
        self.weir.wait_delivered();
        let accepted = crate::stand::accepted(&self.weir);
        let counts = self.sinks.iter().map(Sink::count).sum::<Outcome<u64>>()?;
        match counts >= accepted * self.copies {
            true => Ok(()),
            false => {
                let wanted = accepted * self.copies;
                Err(format!("{} have {counts} lines of {wanted}", self.name).into())
            }
        }
    }

    fn note(&mut self, report: &Report) {
        if report.count(204) != report.sent {
            self.failed = Some(Verdict::Failed(format!("answers: {:?}", report.statuses)));
        }
    }
}

/// Runs pairs of `run`, whose figures are judged by the ratio of a cluster to complete copies.
fn pairs(
    (figure, sets): (&str, usize),
    unit: &'static str,
    wanted: FigureTarget,
    scale: &Scale,
    mut run: impl FnMut(&mut Side, u32) -> Outcome<f64>,
) -> Outcome<Row> {
    let [mut cluster, mut copies] = [Side::start(sets)?, Side::start(0)?];
    for side in [&mut cluster, &mut copies] {
        // The first requests pay for pages and caches that no pair should pay for.
        run(side, 0)?;
    }
    let pairs = turns::in_pairs([&mut cluster, &mut copies], scale, RUN, |side, pair| {
        let measured = run(side, pair)?;
        side.measured.push(measured);
        Ok(())
    })?;
    let both = cluster.measured.iter().zip(&copies.measured);
    let ratios: Vec<_> = both.map(|(cluster, copies)| cluster / copies).collect();
    let series =
        [&cluster, &copies].map(|side| Series::new(side.name.as_str(), unit, &side.measured));
    let note = format!(
        "{:.2} {unit} with {}, {:.2} with {}, medians of {pairs} pairs of {} s",
        median(&cluster.measured),
        cluster.name,
        median(&copies.measured),
        copies.name,
        RUN.as_secs()
    );
    let row = Row::judged(figure, median(&ratios), unit::RATIO, wanted).of(series.into());
    Ok(row.noted(vec![note]).repeat(REPEAT).unless(cluster.failed.or(copies.failed)))
}

/// The rows.
///
/// # Errors
/// When anything can't be started, or an acknowledged point is missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    Ok(vec![of_requests(scale)?, of_delivery(scale)?, of_lines(scale)?])
}

fn of_requests(scale: &Scale) -> Outcome<Row> {
    let figure = ("req/s at 512 connections, two sets of two / two complete copies", 2);
    pairs(figure, unit::REQUESTS, FigureTarget::at_least(0.9, 1.0), scale, |side, pair| {
        let run = load::wrk(side.weir.http, requests::CONNECTIONS, RUN, pair)?;
        side.settle()?;
        side.failed = side.failed.take().or(run.worthless);
        Ok(run.per_second)
    })
}

fn of_delivery(scale: &Scale) -> Outcome<Row> {
    let figure =
        ("CPU time a delivered line, bodies of 100, eight sets of two / two complete copies", 8);
    let target = format!("/write?db={DATABASE}");
    pairs(figure, unit::CPU_US, FigureTarget::at_most(2.0, 1.5), scale, |side, pair| {
        let usage = Usage::begin(side.weir.running().id());
        let plan = sending::closed(side.weir.http, lines::CONNECTIONS, RUN);
        let target = target.clone();
        let report = sending::run(&plan, move |number, out| {
            let first = number * BODY_LINES;
            let body: String = (first..first + BODY_LINES).map(|n| line(pair, n)).collect();
            sending::put_post(out, &target, body.as_bytes());
        });
        side.note(&report);
        side.settle()?;
        let delivered = report.count(204) * BODY_LINES * side.copies;
        Ok(usage.cpu().as_secs_f64() * 1e6 / delivered.max(1) as f64)
    })
}

fn of_lines(scale: &Scale) -> Outcome<Row> {
    let bodies = Arc::new(lines::requests());
    let figure = ("lines/s in bodies of 5,000, two sets of two / two complete copies", 2);
    pairs(figure, unit::LINES, FigureTarget::at_least(0.95, 1.0), scale, |side, _| {
        let plan = sending::closed(side.weir.http, lines::CONNECTIONS, RUN);
        let bodies = Arc::clone(&bodies);
        let report = sending::run(&plan, move |number, out| {
            out.extend_from_slice(&bodies[(number % lines::BODIES) as usize]);
        });
        side.note(&report);
        side.settle()?;
        let seconds = report.elapsed().as_secs_f64();
        Ok((report.count(204) * lines::LINES) as f64 / seconds)
    })
}
