//! Memory of the injector over minutes at 10,000 requests a second, of ten operations.

use std::thread;
use std::time::{Duration, Instant};

use rig::redis::Redis;

use super::injector::start;
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::measure::anonymous_mib;
use crate::report::{Row, unit};

const RATE: f64 = 10_000.0;
/// Ten commands, none of which makes the server larger and larger.
const MIX: &str = "get,set,incr,exists,getrange,hget,hset,sadd,sismember,mget";
/// From the process's start until requests have begun for certain: the whole second, and the
/// warm-up.
const BEGUN: Duration = Duration::from_secs(3);
/// How often memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long it runs, and when memory is looked at first: ten minutes and one; with --quick seconds.
fn lengths(scale: &Scale) -> (Duration, Duration) {
    let whole = if scale.one_in == 1 { 60 * scale.duration } else { 10 * scale.duration };
    (whole, whole / 10)
}

/// The rows.
///
/// # Errors
/// When the load could not begin, or a command failed.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let server = Redis::start();
    let (length, first) = lengths(scale);
    let seconds = length.as_secs();
    let line = format!("{} --mix {MIX} --rate {RATE} --duration {seconds}s", server.url());
    let mut running = start(&[], &line)?;
    let (begun, mut seen) = (Instant::now(), Vec::new());
    while !running.has_ended()? {
        seen.push((begun.elapsed(), anonymous_mib(running.id())));
        // A look at another process now and then, in a program that has nothing else to do.
        thread::sleep(LOOK_EVERY);
    }
    let loaded = running.wait()?.without_errors()?;
    let at = |moment: Duration| {
        let before = seen.iter().take_while(|(at, _)| *at <= moment);
        before.last().map_or(f64::NAN, |(_, mib)| *mib)
    };
    // At the end of the requests, not of the program.
    let (early, late) = (at(BEGUN + first), at(length));
    let most = seen.iter().map(|(_, mib)| *mib).fold(0.0, f64::max);
    let each: Vec<f64> = (1..=10).map(|tenth| at(BEGUN.min(first) + first * tenth)).collect();
    let what = format!("RssAnon of the injector at 10,000/s with 10 operations after {seconds} s");
    let repeat = "make bench ARGS=\"--only load-memory\"";
    let growth = format!("{what}: growth since second {}", first.as_secs());
    Ok(vec![
        Row::judged(&what, late, unit::MIB, FigureTarget::within(64.0))
            .of(vec![Series::new("each tenth", unit::MIB, &each)])
            .noted(vec![
                format!("{most:.1} MiB at most, the making of the page at the end included"),
                loaded.verdict(),
            ])
            .repeat(repeat),
        Row::judged(growth, late - early, unit::MIB, FigureTarget::within(1.0))
            .noted(vec![format!("{early:.2} MiB, then {late:.2} MiB")])
            .repeat(repeat),
    ])
}
