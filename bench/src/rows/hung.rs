//! Acks at 10,000 a second with one backend that accepts and never answers, beside the same rate
//! with both healthy, in pairs.

use rig::load::{self, Plan, Report};

use crate::load::line;
use crate::measure::Usage;
use crate::report::{Row, Verdict, at_most, median};
use crate::sink::DATABASE;
use crate::stand::Stand;
use crate::{Outcome, Scale};

const RATE: f64 = 10_000.0;
/// Enough that the schedule is kept while answers take 25 ms.
const CONNECTIONS: usize = 256;

/// Single points at [`RATE`] with times that no other run has.
fn run(stand: &Stand, scale: &Scale, number: u32) -> Report {
    let target = format!("/write?db={DATABASE}");
    let plan =
        Plan { connections: CONNECTIONS, ..Plan::rate(stand.weir.http, RATE, scale.duration) };
    load::run(&plan, |n, out| load::put_post(out, &target, line(number, n).as_bytes()))
}

/// The row.
///
/// # Errors
/// When anything can't be started, or an acknowledged point is missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let stand = Stand::start("durable")?;
    // The first requests pay for pages and caches that no pair should pay for.
    run(&stand, scale, 0);
    stand.settle()?;
    let (mut ratios, mut healthy_us, mut hung_us) = (Vec::new(), Vec::new(), Vec::new());
    let (mut client, mut lag, mut failed) = (Vec::new(), Vec::new(), None);
    for pair in 0..scale.pairs as u32 {
        let own = Usage::begin(std::process::id());
        let healthy = run(&stand, scale, 1 + 2 * pair);
        client.push(own.cpu().as_secs_f64() / healthy.elapsed.as_secs_f64());
        stand.settle()?;
        stand.sinks[1].hang(true)?;
        let hung = run(&stand, scale, 2 + 2 * pair);
        stand.sinks[1].hang(false)?;
        stand.settle()?;
        let p99 = |report: &Report| report.percentile(99.0).as_secs_f64() * 1e6;
        ratios.push(p99(&hung) / p99(&healthy));
        healthy_us.push(p99(&healthy));
        hung_us.push(p99(&hung));
        lag.push(healthy.lag.value_at_quantile(0.99) as f64);
        for report in [&healthy, &hung] {
            if report.count(204) != report.sent {
                failed = Some(Verdict::Failed(format!("answers: {:?}", report.statuses)));
            }
        }
    }
    let ratio = median(&ratios);
    let row = Row {
        figure: "p99 of acks with one backend hung, over all healthy, 10,000/s".to_owned(),
        measured: format!("{ratio:.2}"),
        to_reach: "1.2, beyond 1.0".to_owned(),
        verdict: at_most(ratio, 1.2),
        notes: vec![
            format!(
                "p99 {:.0} us healthy, {:.0} us hung, from the intended time; median of {} pairs",
                median(&healthy_us),
                median(&hung_us),
                ratios.len()
            ),
            format!(
                "client {:.0} % of a core, p99 of its lag {:.0} us",
                median(&client) * 100.0,
                median(&lag)
            ),
        ],
        repeat: "make bench ARGS=\"--only hung\"".to_owned(),
    };
    Ok(vec![row.unless(failed)])
}
