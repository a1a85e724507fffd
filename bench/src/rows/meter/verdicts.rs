//! The verdict where it is known what it has to be: nine of ten have to be right.

use std::net::SocketAddr;
use std::process::Command;

use rig::network;
use rig::places;
use rig::process::Process;
use rig::witness::{Manner, Witness};

use super::injector::{InjectorRun, load, start};
use super::stall::STALLS;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::measure;
use crate::report::{Row, unit};
use crate::{Outcome, peers};

/// So many of all have to be right.
const RIGHT: FigureTarget = FigureTarget::at_least(0.9, 1.0);
/// A machine whose host takes a larger share is not quiet.
const STOLEN_MAX: f64 = 0.01;
/// Runs that are made in place of those that were not quiet, for each that is asked for.
const REPEATED_MAX: usize = 3;
/// All ports that connections have where they are used up, and that are taken again and again.
const PORTS: std::ops::RangeInclusive<u16> = 40_000..=40_199;

/// What has to come of runs of a kind.
struct Case<'a> {
    figure: &'a str,
    /// Whether they are to be VALID.
    valid: bool,
    /// What the cause has to name, where they are not.
    named: &'a [&'a str],
}

/// The rows.
///
/// # Errors
/// When nginx can't be started, or a load could not begin.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let server = peers::nginx()?;
    let nginx = server.address;
    Ok(vec![
        quiet(nginx, scale)?,
        stalled(scale)?,
        pinned(nginx, scale)?,
        at_its_limit(nginx, scale)?,
        ports(scale),
    ])
}

/// How long a run is.
fn length(scale: &Scale) -> String {
    format!("--duration {}ms", scale.duration.as_millis() / 2)
}

fn quiet(nginx: SocketAddr, scale: &Scale) -> Outcome<Row> {
    let line = format!("http://{nginx}/ --rate 1000 {}", length(scale));
    let case = Case { figure: "verdicts on a quiet run that are VALID", valid: true, named: &[] };
    let (mut stolen, mut repeated) = (Vec::new(), REPEATED_MAX * runs(scale));
    case.row(scale, || {
        loop {
            let before = measure::stolen();
            let begun = std::time::Instant::now();
            let loaded = load(&line)?;
            let taken = measure::stolen().saturating_sub(before).div_duration_f64(begun.elapsed());
            stolen.push(taken);
            if taken < STOLEN_MAX || repeated == 0 {
                return Ok(loaded);
            }
            repeated -= 1;
        }
    })
}

fn stalled(scale: &Scale) -> Outcome<Row> {
    let figure = "verdicts on a server that is silent for 1 s that are VALID";
    let case = Case { figure, valid: true, named: &[] };
    case.row(scale, || {
        let server = Witness::start(Manner { stalls: Some(STALLS), ..Manner::default() });
        load(&format!("{} --rate 2000 --warmup 0s {}", server.url(), length(scale)))
    })
}

/// Beside a program that never waits, on the same CPU.
fn pinned(nginx: SocketAddr, scale: &Scale) -> Outcome<Row> {
    let figure = "verdicts on a thread pinned beside a busy loop that are INVALID";
    let named = &["waited for a CPU", "late", "stood still", "busy", "to the next send"];
    let case = Case { figure, valid: false, named };
    let dir = places::directory();
    let mut busy = Command::new(places::need("taskset"));
    busy.args(["--cpu-list", "0", "sh", "-c", "while :; do :; done"]);
    let _busy = Process::start("a busy loop", &mut busy, &dir.path().join("log"));
    let line = format!("http://{nginx}/ --rate 10000 {}", length(scale));
    case.row(scale, || start(&["taskset", "--cpu-list", "0"], &line)?.wait())
}

/// Compressing takes it far longer than the server takes to answer.
fn at_its_limit(nginx: SocketAddr, scale: &Scale) -> Outcome<Row> {
    let figure = "verdicts on an injector at its limit that are INVALID";
    let case = Case { figure, valid: false, named: &["busy", "to the next send"] };
    let what = "--workload influx-write --rows cpu-only --batch 500 --gzip --db load";
    let line = format!("http://{nginx} {what} --closed --connections 8 {}", length(scale));
    case.row(scale, || load(&line))
}

/// A server has each connection closed after one request; the ports of those are not free again
/// while the run lasts.
fn ports(scale: &Scale) -> Row {
    let figure = "verdicts on ports that are used up that are INVALID";
    let case = Case { figure, valid: false, named: &["the injector itself had"] };
    let within = || {
        case.row(scale, || {
            let server = Witness::start(Manner { closes: true, ..Manner::default() });
            let line = format!("{} --rate 500 --connections 16 {}", server.url(), length(scale));
            load(&format!("{line} --timeout 1s"))
        })
        .map_err(|error| error.to_string())
    };
    match network::apart(Some(PORTS), within) {
        Ok(Ok(row)) => row,
        Ok(Err(why)) => Row::failed(figure, &why),
        Err(error) => Row::no_peer(figure, format!("no network of its own (needs root): {error}")),
    }
}

fn runs(scale: &Scale) -> usize {
    2 * scale.pairs
}

impl Case<'_> {
    /// Runs it as often as is asked for.
    fn row(&self, scale: &Scale, mut run: impl FnMut() -> Outcome<InjectorRun>) -> Outcome<Row> {
        let (mut right, mut notes) = (0, Vec::new());
        for number in 1..=runs(scale) {
            let loaded = run()?;
            let said = loaded.verdict();
            let is_right = self.is_right(loaded.is_valid(), &loaded.causes());
            right += u32::from(is_right);
            notes.push(format!("{number}: {}{said}", if is_right { "" } else { "WRONG: " }));
        }
        let share = f64::from(right) / runs(scale) as f64;
        let row = Row::judged(self.figure, share, unit::RATIO, RIGHT);
        Ok(row.noted(notes).repeat("make bench ARGS=\"--only load-verdicts\""))
    }

    fn is_right(&self, valid: bool, causes: &str) -> bool {
        valid == self.valid && (valid || self.named.iter().any(|word| causes.contains(word)))
    }
}

#[cfg(test)]
mod tests {
    use super::Case;

    #[test]
    fn a_verdict_is_right_where_its_cause_is_the_one_that_was_made() {
        let case = Case { figure: "", valid: false, named: &["busy", "late"] };
        assert!(case.is_right(false, "a thread was busy for 99 % of the time"));
        assert!(!case.is_right(false, "the injector itself had 3 errors"));
        assert!(!case.is_right(true, ""));
        assert!(Case { valid: true, named: &[], ..case }.is_right(true, ""));
    }
}
