//! Memory of a gateway of 16 members while one of them is away for ten million points.

use std::time::Duration;

use rig::sending;
use rig::weir::Setup;

use super::{start_applied, tables};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::measure::{Peak, anonymous_mib};
use crate::report::{Row, Verdict, unit};
use crate::rows::lines;
use crate::stand::Sink;

const MEMBERS: usize = 16;
const POINTS: u64 = 10_000_000;

/// The row.
///
/// # Errors
/// When anything can't be started, or the backlog can't be made.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let points = POINTS / scale.one_in;
    let mut sinks = (0..MEMBERS).map(|_| Sink::start()).collect::<Outcome<Vec<_>>>()?;
    let mut setup = Setup::new().top("workers = 1").default_segments();
    for (number, sink) in sinks.iter().enumerate() {
        setup = setup.backend_with(&format!("m{number}"), &sink.url(), "timeout = \"10s\"");
    }
    let sets: Vec<_> =
        (0..MEMBERS).step_by(2).map(|n| vec![format!("m{n}"), format!("m{}", n + 1)]).collect();
    let mut weir = start_applied(setup.table(&tables(&sets, "split-by = \"point\"")));
    let pid = weir.running().id();
    let rest = anonymous_mib(pid);
    drop(sinks.pop());
    let requests = lines::requests();
    let peak = Peak::begin(pid);
    let plan = sending::closed(weir.http, 1, Duration::from_secs(600));
    let stop = plan.stop.clone();
    let report = sending::run(&plan, move |number, out| {
        if number + 1 == points / lines::LINES {
            stop.ask();
        }
        out.extend_from_slice(&requests[number as usize % requests.len()]);
    });
    let peak = peak.end_mib();
    let failed = (report.count(204) != report.sent)
        .then(|| Verdict::Failed(format!("answers: {:?}", report.statuses)));
    let away = weir.account(&format!("m{}", MEMBERS - 1)).waiting;
    let figure = "memory (RssAnon) of a gateway while one of 16 members is away for 10 M points";
    let row = Row::judged(figure, peak, unit::MIB, FigureTarget::at_most(96.0, 64.0))
        .noted(vec![format!(
            "the most while {points} points were taken, {rest:.1} MiB before; {away} waited for \
             the one that was away at the end"
        )])
        .repeat("make bench ARGS=\"--only cluster-memory\"");
    Ok(vec![row.unless(failed)])
}
