//! SET and GET by the number of clients and with pipelines, and what a command costs Weir and the
//! server.

use super::client::Load;
use super::{Beside, DIRECT, NUTCRACKER, RedisSetup, WEIR, rows_over_optional};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, median, unit};
use crate::rows::turns::{RouteSamples, series, take_turns};

/// The commands, with values of as many bytes as redis-benchmark has by default.
const COMMANDS: [(&str, &str); 2] =
    [("SET", "SET key:__rand_int__ xxx"), ("GET", "GET key:__rand_int__")];

/// What is measured with either command.
struct Case {
    clients: usize,
    pipeline: usize,
    /// Over which of the ways, and what is to be reached.
    over: &'static [(usize, f64, f64)],
}

const MANY: usize = 500;
const CASES: [Case; 4] = [
    Case { clients: MANY, pipeline: 1, over: &[(DIRECT, 1.0, 1.0), (NUTCRACKER, 1.3, 1.8)] },
    Case { clients: 50, pipeline: 1, over: &[(NUTCRACKER, 1.1, 1.4)] },
    Case { clients: 1, pipeline: 1, over: &[(NUTCRACKER, 0.9, 1.1)] },
    Case { clients: 50, pipeline: 16, over: &[(NUTCRACKER, 1.3, 2.0)] },
];

/// The rows.
///
/// # Errors
/// When anything can't be started, or a command fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let mut stand = RedisSetup::start(1)?;
    let mut table = Vec::new();
    for case in &CASES {
        for (name, words) in COMMANDS {
            let load = Load::new(case.clients, scale.duration, words);
            let load = Load { pipeline: case.pipeline, ..load };
            table.extend(case.rows(name, &load, &mut stand, scale)?);
        }
    }
    Ok(table)
}

impl Case {
    fn name(&self, command: &str) -> String {
        let Self { clients, pipeline, .. } = self;
        match (clients, pipeline) {
            (1, _) => format!("{command}, 1 client"),
            (_, 1) => format!("{command}, {clients} clients"),
            _ => format!("{command}, {clients} clients, pipelines of {pipeline}"),
        }
    }

    fn rows(
        &self,
        command: &str,
        load: &Load,
        stand: &mut RedisSetup,
        scale: &Scale,
    ) -> Outcome<Vec<Row>> {
        let ways = stand.ways();
        let mut beside = Beside::of(&ways);
        let run = |way| Beside::run(&mut beside, &mut stand.servers, load, way);
        let seen = take_turns(&ways, scale, run)?;
        let mut notes = Beside::notes(&beside, &seen);
        let mut table = Vec::new();
        for &(over, to_reach, beyond) in self.over {
            let ratio = seen[WEIR].rate() / seen[over].rate();
            let figure = format!("{} / {}", self.name(command), ways[over].name);
            let wanted = FigureTarget::at_least(to_reach, beyond);
            let row = Row::judged(figure, ratio, unit::RATIO, wanted).of(series(&seen));
            table.push(row.noted(std::mem::take(&mut notes)).repeat(load.repeat()));
        }
        table.extend(rows_over_optional(&self.name(command), &seen));
        if self.clients == MANY {
            table.extend([own_cpu(command, &seen), servers_cpu(command, &beside)]);
        }
        Ok(table)
    }
}

/// What a command costs Weir, over what it costs nutcracker.
fn own_cpu(command: &str, seen: &[RouteSamples]) -> Row {
    let ratio = median(&seen[WEIR].cpu_us) / median(&seen[NUTCRACKER].cpu_us);
    let figure = format!("CPU time a {command} at {MANY} clients / nutcracker");
    Row::judged(figure, ratio, unit::RATIO, FigureTarget::at_most(0.75, 0.55)).of(series(seen))
}

/// What a command costs the server behind Weir, over what it costs it directly.
fn servers_cpu(command: &str, beside: &[Beside]) -> Row {
    let of = |way: usize| &beside[way].servers_cpu_us;
    let ratio = median(of(WEIR)) / median(of(DIRECT));
    let figure = format!("CPU time of Redis for a {command} at {MANY} clients / direct");
    let ways = [("direct", DIRECT), ("nutcracker", NUTCRACKER), ("Weir", WEIR)];
    let all = ways.map(|(name, way)| Series::new(name, unit::CPU_US, of(way)));
    Row::judged(figure, ratio, unit::RATIO, FigureTarget::at_most(0.5, 0.3)).of(all.into())
}
