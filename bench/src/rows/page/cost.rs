//! What viewers cost the gateway: one Weir, whose load is the same in every run while 16 viewers
//! come and go between runs, so that whatever else the machine does meets both.

use std::time::Duration;

use meter::engine::IdleConnections;
use rig::sending;

use super::VIEWERS;
use super::viewers::{ViewerSamples, Viewers};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::load::{self, line, saturated};
use crate::measure::Usage;
use crate::report::{Row, Verdict, median, unit};
use crate::rows::{hung, requests};
use crate::sink::DATABASE;
use crate::stand::WeirWithSinks;

const REPEAT: &str = "make bench ARGS=\"--only page-cost\"";

/// What one run came to.
struct Measured {
    figure: f64,
    requests: u64,
    /// How much of a core the client used.
    client: f64,
    worthless: Option<Verdict>,
}

/// What was measured with viewers, or without.
#[derive(Default)]
struct Side {
    figures: Vec<f64>,
    /// Microseconds of Weir's CPU time a request, delivery and the page included.
    cpu_us: Vec<f64>,
}

/// All runs of one figure.
#[derive(Default)]
struct Runs {
    watched: Side,
    alone: Side,
    client: Vec<f64>,
    heard: ViewerSamples,
    worthless: Option<Verdict>,
}

/// Runs `run` in turns with viewers and without; each run has a number of its own.
fn alternate(
    scale: &Scale,
    mut run: impl FnMut(&WeirWithSinks, u32) -> Outcome<Measured>,
) -> Outcome<Runs> {
    let mut stand = WeirWithSinks::start("durable")?;
    // The first requests and frames pay for pages and caches that no run should pay for.
    once(&mut stand, 0, true, &mut run)?;
    let mut runs = Runs::default();
    for pair in 0..scale.pairs as u32 {
        let mut turn = [true, false];
        if pair % 2 == 1 {
            turn.reverse();
        }
        for (number, has_viewers) in (1 + 2 * pair..).zip(turn) {
            let (measured, cpu, heard) = once(&mut stand, number, has_viewers, &mut run)?;
            let side = if has_viewers { &mut runs.watched } else { &mut runs.alone };
            side.figures.push(measured.figure);
            side.cpu_us.push(cpu.as_secs_f64() * 1e6 / measured.requests.max(1) as f64);
            runs.client.push(measured.client);
            let missed = heard.as_ref().and_then(ViewerSamples::missed);
            runs.worthless = runs.worthless.take().or(measured.worthless).or(missed);
            runs.heard = heard.unwrap_or(runs.heard);
        }
    }
    Ok(runs)
}

/// One run, Weir's CPU time until everything is delivered, and what viewers have heard meanwhile.
fn once(
    stand: &mut WeirWithSinks,
    number: u32,
    has_viewers: bool,
    run: &mut impl FnMut(&WeirWithSinks, u32) -> Outcome<Measured>,
) -> Outcome<(Measured, Duration, Option<ViewerSamples>)> {
    let attach = || Viewers::attach(stand.weir.admin, VIEWERS, true);
    let viewers = has_viewers.then(attach).transpose()?;
    let usage = Usage::begin(stand.id());
    let measured = run(stand, number)?;
    stand.settle()?;
    Ok((measured, usage.cpu(), viewers.map(Viewers::detach)))
}

impl Runs {
    fn row(self, figure: &str, unit: &'static str, wanted: FigureTarget) -> Row {
        let Self { watched, alone, client, heard, worthless } = self;
        let pairs = watched.figures.iter().zip(&alone.figures);
        let ratios: Vec<f64> = pairs.map(|(with, without)| with / without).collect();
        let [with, without] = [&watched, &alone].map(|side| median(&side.figures));
        let [with_cpu, without_cpu] = [&watched, &alone].map(|side| median(&side.cpu_us));
        let (least, most) = heard.frames();
        let named = [(format!("{VIEWERS} viewers"), watched), ("no viewer".to_owned(), alone)];
        let series = named.iter().flat_map(|(name, side)| {
            let figures = Series::new(name, unit, &side.figures);
            [figures, Series::new(name, unit::CPU_US, &side.cpu_us)]
        });
        let notes = vec![
            format!(
                "{with:.0} {unit} with {VIEWERS} viewers, {without:.0} without, medians of {} \
                 runs each in turns: viewers change it by {:+.0} {unit}, {:+.1} %",
                ratios.len(),
                with - without,
                (with / without - 1.0) * 100.0
            ),
            format!(
                "Weir: {with_cpu:.2} us CPU a request with viewers, {without_cpu:.2} without; \
                 client {:.0} % of a core",
                median(&client) * 100.0
            ),
            format!(
                "in the last run each viewer had {least} to {most} frames in {:.0} s",
                heard.length.as_secs_f64()
            ),
        ];
        Row::judged(figure, median(&ratios), unit::RATIO, wanted)
            .of(series.collect())
            .noted(notes)
            .repeat(REPEAT)
            .unless(worthless)
    }
}

/// The rows.
///
/// # Errors
/// When anything can't be started, or an acknowledged point is missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let acks = alternate(scale, acks(scale))?;
    let fastest = alternate(scale, |stand, number| {
        let run = load::wrk(stand.weir.http, requests::CONNECTIONS, scale.duration, number)?;
        let load::Run { requests, per_second: figure, client_cpu: client, worthless, .. } = run;
        Ok(Measured { figure, requests, client, worthless })
    })?;
    Ok(vec![
        acks.row(
            "p99 of acks at 10,000/s, 16 viewers of the page / none",
            unit::US,
            FigureTarget::at_most(1.1, 1.0),
        ),
        fastest.row(
            "req/s at 512 connections, 16 viewers of the page / none",
            unit::REQUESTS,
            FigureTarget::at_least(0.97, 1.0),
        ),
    ])
}

/// Single points at 10,000 a second, whose figure is the p99 of acks from the intended time.
fn acks(scale: &Scale) -> impl FnMut(&WeirWithSinks, u32) -> Outcome<Measured> {
    let (clients, length) = (IdleConnections::default(), scale.duration);
    move |stand, number| {
        let own = Usage::begin(std::process::id());
        let target = format!("/write?db={DATABASE}");
        let post = move |n, out: &mut Vec<u8>| {
            sending::put_post(out, &target, line(number, n).as_bytes());
        };
        let report = sending::run_over(&clients, &hung::plan(stand, length), post);
        let client = own.cpu().as_secs_f64() / report.elapsed().as_secs_f64();
        let failed = || Verdict::Failed(format!("answers: {:?}", report.statuses));
        let failed = (report.count(204) != report.sent).then(failed);
        Ok(Measured {
            figure: report.latency(0.99).as_secs_f64() * 1e6,
            requests: report.sent,
            client,
            worthless: failed.or_else(|| saturated(client)),
        })
    }
}
