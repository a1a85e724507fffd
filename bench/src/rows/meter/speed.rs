//! An injector and its peer in pairs, in turn on the same server: the CPU time of a request.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::injector::{load, words};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::measure;
use crate::report::{Row, median, unit};

/// What a run came to.
pub struct SpeedRun {
    /// Requests or commands of the run.
    pub count: f64,
    /// The same a second.
    pub per_second: f64,
    /// The CPU time of its process.
    pub cpu: Duration,
    /// The mean latency that it shows, where that is looked at.
    pub latency_ms: Option<f64>,
    /// What the injector says of its own numbers.
    pub verdict: Option<String>,
}

impl SpeedRun {
    /// Of a program that tells neither latencies nor what it thinks of its own numbers.
    pub fn of_peer(count: f64, per_second: f64, cpu: Duration) -> Self {
        Self { count, per_second, cpu, latency_ms: None, verdict: None }
    }

    fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.count.max(1.0)
    }
}

/// What is measured beside whom.
pub struct Pairs<'a> {
    /// What is sent, as `GET, closed, 64 connections`.
    pub what: &'a str,
    /// Whom it is measured beside.
    pub peer: &'a str,
    /// What is counted, a second.
    pub unit: &'static str,
    /// What the ratio of the CPU times has to be.
    pub wanted: FigureTarget,
    pub repeat: String,
}

/// Runs `weir load`, where each request has so many commands.
///
/// # Errors
/// It could not begin, or a request failed.
pub fn weir(line: &str, commands: f64) -> Outcome<SpeedRun> {
    let loaded = load(line)?.without_errors()?;
    let count = loaded.requests() as f64 * commands;
    Ok(SpeedRun {
        count,
        per_second: count / loaded.number("/measured_ns") * 1e9,
        cpu: loaded.cpu,
        latency_ms: Some(loaded.number("/latency/mean_ns") / 1e6).filter(|of| of.is_finite()),
        verdict: Some(loaded.verdict()),
    })
}

/// Runs another generator, with a command line in which no word has a space; gives what it says
/// and its CPU time.
///
/// # Errors
/// It can't be run, or failed.
pub fn peer(program: &str, line: &str) -> Outcome<(String, Duration)> {
    let mut command = Command::new(rig::places::need(program));
    command.args(words(line)).stdin(Stdio::null());
    let (done, cpu) = measure::with_children_cpu(|| Ok(command.output()?))?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    if !done.status.success() {
        let errors = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{program}: {} {said} {errors}", done.status).into());
    }
    Ok((said, cpu))
}

impl Pairs<'_> {
    /// Runs both in turn; who begins changes from pair to pair.
    ///
    /// # Errors
    /// A run failed.
    pub fn measure(
        &self,
        scale: &Scale,
        mut weir: impl FnMut() -> Outcome<SpeedRun>,
        mut peer: impl FnMut() -> Outcome<SpeedRun>,
    ) -> Outcome<Row> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for pair in 0..scale.pairs {
            if pair % 2 == 0 {
                ours.push(weir()?);
                theirs.push(peer()?);
            } else {
                theirs.push(peer()?);
                ours.push(weir()?);
            }
        }
        Ok(self.row(&ours, &theirs))
    }

    fn row(&self, ours: &[SpeedRun], theirs: &[SpeedRun]) -> Row {
        let Pairs { what, peer, unit, wanted, repeat } = self;
        let ratios: Vec<f64> =
            ours.iter().zip(theirs).map(|(our, their)| our.cpu_us() / their.cpu_us()).collect();
        let ratio = median(&ratios);
        let figure = format!("CPU time a request of the injector, {what} / {peer}");
        let mut row = Row::judged(figure, ratio, unit::RATIO, *wanted);
        let list = |of: &[f64]| of.iter().map(|one| format!("{one:.2}")).collect::<Vec<_>>();
        let (mut series, mut notes) = (Vec::new(), Vec::new());
        for (name, of) in [("Weir", ours), (peer, theirs)] {
            let cpu: Vec<f64> = of.iter().map(SpeedRun::cpu_us).collect();
            let rate: Vec<f64> = of.iter().map(|done| done.per_second).collect();
            series.push(Series::new(name, unit::CPU_US, &cpu));
            series.push(Series::new(name, unit, &rate));
            let latencies: Vec<f64> = of.iter().filter_map(|done| done.latency_ms).collect();
            if !latencies.is_empty() {
                series.push(Series::new(name, unit::MS, &latencies));
            }
            let (list, rate) = (list(&cpu).join(", "), median(&rate));
            notes.push(format!("{name}: {list} us of CPU each, {rate:.0} {unit}"));
        }
        row = row.of(series);
        notes.push(format!("ratios of the pairs: {}", list(&ratios).join(", ")));
        notes.extend(verdicts(ours));
        row.noted(notes).repeat(repeat)
    }
}

/// How often each verdict was said.
fn verdicts(of: &[SpeedRun]) -> Option<String> {
    let mut said: Vec<&str> = of.iter().filter_map(|done| done.verdict.as_deref()).collect();
    let is_valid = |verdict: &&str| *verdict == "VALID";
    let valid = said.iter().filter(|verdict| is_valid(verdict)).count();
    let all = said.len();
    said.retain(|verdict| !is_valid(verdict));
    let others = said.into_iter().map(|verdict| format!("; {verdict}")).collect::<String>();
    (all > 0).then(|| format!("of Weir's runs {valid} of {all} are VALID{others}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Pairs, SpeedRun};
    use crate::figures::FigureTarget;
    use crate::report::{Verdict, unit};

    fn done(cpu_us: u64, verdict: Option<&str>) -> SpeedRun {
        let cpu = Duration::from_micros(cpu_us * 100);
        let verdict = verdict.map(str::to_owned);
        SpeedRun { count: 100.0, per_second: 10.0, cpu, latency_ms: Some(2.0), verdict }
    }

    #[test]
    fn the_median_of_the_pairs_counts_and_a_miss_within_a_twentieth_is_none() {
        let pairs = Pairs {
            what: "GET",
            peer: "wrk",
            unit: unit::REQUESTS,
            wanted: FigureTarget::at_most(1.3, 1.0),
            repeat: String::new(),
        };
        let theirs = [100, 100, 100].map(|us| done(us, None));
        let row = |ours: [u64; 3]| pairs.row(&ours.map(|us| done(us, Some("VALID"))), &theirs);
        let seen = [[90, 130, 200], [90, 136, 200], [90, 137, 200]].map(|ours| row(ours).verdict);
        assert_eq!(seen, [Verdict::Reached, Verdict::Reached, Verdict::Missed]);
        let row = pairs.row(&[done(50, Some("INVALID, it slept"))], &theirs[..1]);
        assert_eq!(row.value, Some(0.5));
        let latencies: Vec<_> = row.series.iter().filter(|of| of.unit == unit::MS).collect();
        assert_eq!(latencies.iter().map(|of| &*of.way).collect::<Vec<_>>(), ["Weir", "wrk"]);
        assert_eq!(latencies[0].rounds, [2.0]);
        assert_eq!(row.notes[3], "of Weir's runs 0 of 1 are VALID; INVALID, it slept");
    }
}
