//! What a master's clients wait for at 20,000 `SET` a second, with its append-only file in Weir and
//! without any.

use std::time::Instant;

use rig::places;

use super::paced::Paced;
use super::ways::{Kind, Server};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, median, unit};

const LOAD: Paced = Paced { rate: 20_000.0, clients: 50, value: 100, keys: 100_000 };
/// In this order, in each round.
const KINDS: [Kind; 4] = [Kind::Nothing, Kind::Weir, Kind::Replica, Kind::Everysec];

/// The row.
///
/// # Errors
/// When anything can't be started, or a write fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let dir = places::directory();
    let (mut p99, mut longest) = ([const { Vec::new() }; 4], [const { Vec::new() }; 4]);
    let mut behind = Vec::new();
    for _ in 0..scale.pairs {
        for (number, kind) in KINDS.into_iter().enumerate() {
            let server = Server::start(kind, dir.path())?;
            let begun = Instant::now();
            let report = LOAD.run(server.address(), || begun.elapsed() >= scale.duration)?;
            p99[number].push(report.ms_at(0.99));
            longest[number].push(report.longest_ms());
            behind.push(report.behind());
        }
    }
    let [none, ours, ..] = p99.each_ref().map(|all| median(all));
    let mut notes: Vec<String> = KINDS
        .iter()
        .enumerate()
        .map(|(number, kind)| {
            let [p99, longest] = [&p99[number], &longest[number]].map(|all| median(all));
            format!("{}: p99 {p99:.2} ms, longest {longest:.1} ms", kind.name())
        })
        .collect();
    notes.extend(behind.pop().map(|behind| format!("the client, in the last run: {behind}")));
    let series = KINDS.iter().zip(&p99).map(|(kind, of)| Series::new(kind.name(), unit::MS, of));
    let figure = "master's p99 at 20,000 SET a second, AOF in Weir / no AOF at all";
    let row = Row::judged(figure, ours / none, unit::RATIO, FigureTarget::at_most(1.2, 1.05));
    let row = row.of(series.collect()).noted(notes);
    Ok(vec![row.repeat("make bench ARGS=\"--only aof-master\"")])
}
