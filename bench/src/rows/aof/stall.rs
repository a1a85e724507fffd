//! The field report's stall: a disk that holds writes 2.5 s and syncs 4.5 s every 20 s, below a
//! master with 5,000 `SET` a second at fixed times, and what its clients see of it by where the
//! append-only file is.

use std::path::Path;
use std::time::{Duration, Instant};

use super::fuse::{EVERY, SYNCS, StallingDirectory, WRITES};
use super::paced::{Paced, Report};
use super::ways::{Kind, Server};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, Verdict, median, unit};

/// The load of these rows.
pub const LOAD: Paced = Paced { rate: 5_000.0, clients: 50, value: 100, keys: 100_000 };
/// The timeout of a client: replies that take longer are counted.
pub const LIMIT: Duration = Duration::from_millis(400);
/// In this order, in each round.
pub const KINDS: [Kind; 5] = [Kind::Nothing, Kind::Everysec, Kind::No, Kind::Always, Kind::Weir];

/// What was seen of all kinds, in their order.
#[derive(Default)]
pub struct StallSamples {
    /// Of 10,000 over the limit.
    pub beyond: [Vec<f64>; 5],
    /// Milliseconds.
    pub longest: [Vec<f64>; 5],
    behind: String,
}

impl StallSamples {
    /// Notes a run of a kind.
    pub fn note(&mut self, kind: usize, report: &Report) {
        self.beyond[kind].push(report.beyond(LIMIT));
        self.longest[kind].push(report.longest_ms());
        self.behind = report.behind();
    }

    /// A kind's medians: of 10,000 over the limit, and the longest in milliseconds.
    pub fn of(&self, kind: Kind) -> [f64; 2] {
        let number = KINDS.iter().position(|of| *of == kind).unwrap_or_default();
        [&self.beyond[number], &self.longest[number]].map(|all| median(all))
    }

    /// How much longer than without any file the longest took that is Weir's, by rounds.
    pub fn longer_ms(&self) -> f64 {
        let [none, .., ours] = &self.longest;
        median(&ours.iter().zip(none).map(|(ours, none)| ours - none).collect::<Vec<_>>())
    }

    /// All kinds, as notes.
    pub fn notes(&self) -> Vec<String> {
        let line = |kind: Kind| {
            let [beyond, longest] = self.of(kind);
            format!("{}: {beyond:.1} in 10,000, longest {longest:.0} ms", kind.name())
        };
        let behind = format!("the client, in the last run: {}", self.behind);
        KINDS.into_iter().map(line).chain([behind]).collect()
    }

    /// Every round of all kinds.
    pub fn series(&self, of: &[Vec<f64>; 5], unit: &'static str) -> Vec<Series> {
        KINDS.iter().zip(of).map(|(kind, of)| Series::new(kind.name(), unit, of)).collect()
    }
}

const BEYOND: &str = "AOF in Weir on a disk that stalls: over 400 ms in 10,000";
const LONGER: &str = "AOF in Weir on a disk that stalls: the longest less that without any AOF";

/// The rows.
///
/// # Errors
/// When anything can't be started, or a write fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let standing = match StallingDirectory::mount() {
        Ok(standing) => standing,
        // The journal's fault injection makes the same stall in the tests.
        Err(error) => {
            let why = format!("not mounted: {error}");
            return Ok(vec![Row::no_peer(BEYOND, &*why), Row::no_peer(LONGER, why)]);
        }
    };
    let stalls = if scale.one_in == 1 { 2 } else { 1 };
    let mut seen = StallSamples::default();
    for _ in 0..scale.pairs {
        for (number, kind) in KINDS.into_iter().enumerate() {
            seen.note(number, &run(kind, &standing, stalls)?);
        }
    }
    let [everysec, _] = seen.of(Kind::Everysec);
    let harmless = || Verdict::Void("appendfsync everysec does not fail here".to_owned());
    let harmless = (everysec == 0.0).then(harmless);
    let [ours, _] = seen.of(Kind::Weir);
    let repeat = "make bench ARGS=\"--only aof-stall\"";
    let mut notes = seen.notes();
    notes.push(format!("every {EVERY:?} it holds writes {WRITES:?} and syncs {SYNCS:?}"));
    let beyond = Row::judged(BEYOND, ours, unit::OF_10_000, FigureTarget::within(0.0))
        .of(seen.series(&seen.beyond, unit::OF_10_000))
        .noted(notes)
        .repeat(repeat);
    let longer = Row::judged(LONGER, seen.longer_ms(), unit::MS, FigureTarget::within(20.0))
        .of(seen.series(&seen.longest, unit::MS))
        .repeat(repeat);
    Ok(vec![beyond.unless(harmless.clone()), longer.unless(harmless)])
}

/// A server that has its file there, while the disk stalls so often.
fn run(kind: Kind, standing: &StallingDirectory, stalls: u32) -> Outcome<Report> {
    let server = Server::start(kind, Path::new(&standing.path))?;
    let until = EVERY * stalls;
    standing.begin();
    let begun = Instant::now();
    let report = LOAD.run(server.address(), || begun.elapsed() >= until);
    standing.end();
    report
}
