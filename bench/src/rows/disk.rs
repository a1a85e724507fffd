//! Acks at 10,000 a second while dd writes to the same disk: `durable` beside a bare
//! write+fdatasync at the same rate, `written` beside itself in quiet.

use std::time::Duration;

use hdrhistogram::Histogram;
use meter::engine::{IdleConnections, Plan, Stop};
use rig::disk::Probe;
use rig::places;
use rig::sending::{self, Report};

use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::load::{LINE_BYTES, line};
use crate::report::{Row, Verdict, median, unit};
use crate::rows::dd::{Dd, Ran};
use crate::sink::DATABASE;
use crate::stand::WeirWithSinks;

const RATE: f64 = 10_000.0;
const P999: f64 = 0.999;
/// Enough that the schedule is kept while answers take 400 ms.
const CONNECTIONS: usize = 4096;
/// The same for those of a second and a half, as a flush beside dd does.
const FLUSH_CONNECTIONS: usize = 16_000;

/// The clients of a stand. Their connections stay, and have all been used beside dd before anything
/// is measured: memory that was not used for a while may be the host's by now.
struct Load<'a> {
    stand: &'a WeirWithSinks,
    connections: usize,
    clients: IdleConnections,
    runs: u32,
}

impl<'a> Load<'a> {
    fn warmed(
        stand: &'a WeirWithSinks,
        connections: usize,
        dd: &Dd,
        scale: &Scale,
    ) -> Outcome<Self> {
        let plan = sending::closed(stand.weir.http, connections, LONGEST);
        let mut this = Self { stand, connections, clients: IdleConnections::default(), runs: 0 };
        dd.beside(scale.duration, |stop| this.run(&Plan { stop, ..plan }))?;
        stand.settle()?;
        Ok(this)
    }

    fn steady(&mut self, stop: Stop, longest: Duration) -> Report {
        let connections = self.connections;
        self.run(&Plan { stop, connections, ..sending::rate(self.stand.weir.http, RATE, longest) })
    }

    fn run(&mut self, plan: &Plan) -> Report {
        let target = format!("/write?db={DATABASE}");
        let run = self.runs;
        self.runs += 1;
        sending::run_over(&self.clients, plan, move |n, out| {
            sending::put_post(out, &target, line(run, n).as_bytes());
        })
    }
}

fn failed(reports: &[&Report]) -> Option<Verdict> {
    let bad = reports.iter().find(|report| report.count(204) != report.sent)?;
    Some(Verdict::Failed(format!("answers: {:?}", bad.statuses)))
}

/// How far the generator itself was behind its schedule.
fn behind(report: &Report) -> String {
    format!("sent {:.1} ms late at p99.9", report.lag(P999).as_secs_f64() * 1e3)
}

/// Of a histogram of microseconds.
fn p999_ms(histogram: &Histogram<u64>) -> f64 {
    histogram.value_at_quantile(P999) as f64 / 1e3
}

fn latency_ms(report: &Report) -> f64 {
    report.latency(P999).as_secs_f64() * 1e3
}

/// The rows.
///
/// # Errors
/// When anything can't be started, or an acknowledged point is missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let dd = Dd::lay_down(scale.dd_mib)?;
    Ok(vec![durable(scale, &dd)?, written(scale, &dd)?])
}

const LONGEST: Duration = Duration::from_secs(600);

/// One figure over another, from a pair of runs, in milliseconds.
struct Pair {
    first: f64,
    second: f64,
    note: String,
    failed: Option<Verdict>,
}

fn durable(scale: &Scale, dd: &Dd) -> Outcome<Row> {
    let stand = WeirWithSinks::start("durable")?;
    let mut load = Load::warmed(&stand, FLUSH_CONNECTIONS, dd, scale)?;
    let dir = places::directory();
    let probe = Probe::lay_down(dir.path(), LINE_BYTES)?;
    let ways = ["bare write+fdatasync", "durable"];
    pairs(ways, FigureTarget::at_most(2.0, 1.2), scale, || {
        let bare = dd.beside(scale.duration, |stop| probe.run(RATE, || stop.is_asked()))?;
        let weir = dd.beside(scale.duration, |stop| load.steady(stop, LONGEST))?;
        stand.settle()?;
        let ((histogram, dd_bare), (report, dd_weir)) = (&bare.result, &weir.result);
        let histogram = histogram.as_ref().map_err(ToString::to_string)?;
        let (bare_ms, weir_ms) = (p999_ms(histogram), latency_ms(report));
        Ok(Pair {
            first: bare_ms,
            second: weir_ms,
            note: format!(
                "bare {bare_ms:.1} ms (dd {dd_bare:.0} MB/s{}), Weir {weir_ms:.1} ms (dd \
                 {dd_weir:.0} MB/s; {}{})",
                bare.taken(),
                behind(report),
                weir.taken(),
            ),
            failed: failed(&[report]),
        })
    })
}

fn written(scale: &Scale, dd: &Dd) -> Outcome<Row> {
    let stand = WeirWithSinks::start("written")?;
    let mut load = Load::warmed(&stand, CONNECTIONS, dd, scale)?;
    pairs(["quiet", "written"], FigureTarget::at_most(5.0, 2.0), scale, || {
        let quiet = Ran::run(|| Ok(load.steady(Stop::default(), scale.duration)))?;
        stand.settle()?;
        let loud = dd.beside(scale.duration, |stop| load.steady(stop, LONGEST))?;
        stand.settle()?;
        let (before, (beside, dd)) = (&quiet.result, &loud.result);
        let (quiet_ms, loud_ms) = (latency_ms(before), latency_ms(beside));
        Ok(Pair {
            first: quiet_ms,
            second: loud_ms,
            note: format!(
                "quiet {quiet_ms:.2} ms{}, under dd {loud_ms:.2} ms (dd {dd:.0} MB/s; {}{})",
                quiet.taken(),
                behind(beside),
                loud.taken(),
            ),
            failed: failed(&[before, beside]),
        })
    })
}

/// The median of all pairs: the second way's figure over the first's.
fn pairs(
    [first_way, second_way]: [&str; 2],
    wanted: FigureTarget,
    scale: &Scale,
    mut pair: impl FnMut() -> Outcome<Pair>,
) -> Outcome<Row> {
    let (mut firsts, mut seconds, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut notes, mut bad) = (Vec::new(), None);
    for _ in 0..scale.pairs {
        let Pair { first, second, note, failed } = pair()?;
        let ratio = second / first;
        firsts.push(first);
        seconds.push(second);
        ratios.push(ratio);
        notes.push(format!("{ratio:.2}: {note}"));
        bad = bad.or(failed);
    }
    let ratio = median(&ratios);
    notes.push(format!(
        "dd of {} MiB to a file that is there, again until {} s have passed, 10,000/s over \
         connections that are warm, from the intended time, median of {}; what the host takes, \
         both CPUs at a time, is in the figures: p99.9 looks at a thousandth of the time",
        scale.dd_mib,
        scale.duration.as_secs(),
        scale.pairs
    ));
    let figure = format!("p99.9 of acks under dd: {second_way} / {first_way}");
    let row = Row::judged(figure, ratio, unit::RATIO, wanted)
        .of(vec![
            Series::new(first_way, unit::MS, &firsts),
            Series::new(second_way, unit::MS, &seconds),
        ])
        .noted(notes)
        .repeat("make bench ARGS=\"--only disk\"");
    Ok(row.unless(bad))
}
