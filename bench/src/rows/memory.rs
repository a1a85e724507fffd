//! Memory: at rest, and with a million points waiting on disk for both backends.

use std::time::Duration;

use rig::sending;
use rig::wait;

use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::measure::anonymous_mib;
use crate::report::{Row, Verdict, unit};
use crate::rows::lines;
use crate::stand::{self, Sink, WeirWithSinks};

const POINTS: u64 = 1_000_000;
const LINES: u64 = 5_000;

/// The rows.
///
/// # Errors
/// When anything can't be started, or the backlog can't be made.
pub fn measure(_: &Scale) -> Outcome<Vec<Row>> {
    let mut stand = WeirWithSinks::start("durable")?;
    let pid = stand.id();
    let rest = anonymous_mib(pid);
    let addresses = stand.sinks.each_ref().map(|sink| sink.address);
    // Moved out and ended, so that nothing listens there.
    let WeirWithSinks { sinks, weir } = stand;
    drop(sinks);
    let requests = lines::requests();
    let plan = sending::closed(weir.http, 1, Duration::from_secs(600));
    let stop = plan.stop.clone();
    let report = sending::run(&plan, move |number, out| {
        if number + 1 == POINTS / LINES {
            stop.ask();
        }
        out.extend_from_slice(&requests[number as usize % requests.len()]);
    });
    wait::until("a million points wait", wait::LONG, || {
        weir.accounts().iter().all(|account| account.waiting >= POINTS)
    });
    let loaded = anonymous_mib(pid);
    let failed = (report.count(204) != report.sent)
        .then(|| Verdict::Failed(format!("answers: {:?}", report.statuses)));
    let [a, b] = addresses;
    let sinks = [Sink::start_at(a)?, Sink::start_at(b)?];
    let stand = WeirWithSinks { sinks, weir };
    let took = stand.settle()?;
    let after = anonymous_mib(pid);
    let accepted = stand::accepted(&stand.weir);
    let row = |figure: &str, mib: f64, most: f64| {
        Row::judged(figure, mib, unit::MIB, FigureTarget::within(most))
            .repeat("make bench ARGS=\"--only memory\"")
    };
    let at_rest = row("memory (RssAnon) at rest", rest, 30.0);
    let mut with_backlog = row("memory (RssAnon) with 1 M points of backlog on disk", loaded, 60.0);
    with_backlog.notes.push(format!(
        "both backends away; afterwards {accepted} points were delivered to both in {took:?}, and \
         memory was {after:.1} MiB"
    ));
    Ok(vec![at_rest, with_backlog.unless(failed)])
}
