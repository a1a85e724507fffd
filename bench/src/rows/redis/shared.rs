//! Equal reads that wait together, asked once and asked each by itself: by keys of which some are
//! asked for most, and by uniform ones, for which it is to cost nothing.

use rig::redis::Redis;
use rig::weir::Weir;

use super::{cpu_us, of, servers, setup_with};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, median, unit};
use crate::rows::meter::speed;
use crate::rows::turns::{ClientRoute, RouteSamples, Run, series, take_turns};

const CLIENTS: usize = 500;
const KEYS: usize = 1_000_000;
/// The places of the ways.
const ON: usize = 0;
const OFF: usize = 1;

/// An order of keys, and what the ratios on / off have to be.
struct Case {
    order: &'static str,
    rate: FigureTarget,
    /// CPU time of the server for each answer.
    servers_cpu: FigureTarget,
    /// CPU time of Weir for each answer.
    own_cpu: FigureTarget,
}

const CASES: [Case; 2] = [
    Case {
        order: "zipf:1.2",
        rate: FigureTarget::at_least(1.0, 1.1),
        servers_cpu: FigureTarget::at_most(0.8, 0.6),
        own_cpu: FigureTarget::at_most(1.0, 0.9),
    },
    Case {
        order: "uniform",
        rate: FigureTarget::at_least(0.98, 1.0),
        servers_cpu: FigureTarget::at_most(1.02, 1.0),
        own_cpu: FigureTarget::at_most(1.02, 1.0),
    },
];

/// The rows.
///
/// # Errors
/// When anything can't be started, or a command fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let mut servers = servers(1);
    let start = |shares: bool, servers: &[Redis]| {
        setup_with(servers, &format!("share-reads = {shares}")).start()
    };
    let mut weirs = [start(true, &servers), start(false, &servers)];
    let mut table = Vec::new();
    for case in &CASES {
        table.extend(case.rows(&mut weirs, &mut servers, scale)?);
    }
    Ok(table)
}

impl Case {
    fn line(&self, way: ClientRoute, scale: &Scale) -> String {
        format!(
            "redis://{} --mix get --keys {KEYS} --key-order {} --closed --connections {CLIENTS} \
             --threads 1 --duration {}s --warmup 0s",
            way.address,
            self.order,
            scale.duration.as_secs().max(1)
        )
    }

    fn rows(
        &self,
        [on, off]: &mut [Weir; 2],
        servers: &mut [Redis],
        scale: &Scale,
    ) -> Outcome<Vec<Row>> {
        let ways = [of(on, "shared"), of(off, "each by itself")];
        let mut servers_cpu_us = [Vec::new(), Vec::new()];
        let run = |way: ClientRoute| {
            let before = cpu_us(servers);
            let done = speed::weir(&self.line(way, scale), 1.0)?;
            let at = usize::from(way.name != ways[ON].name);
            servers_cpu_us[at].push((cpu_us(servers) - before) / done.count);
            let (requests, per_second) = (done.count, done.per_second);
            let unit = unit::COMMANDS;
            Ok(Run { unit, requests, per_second, transactions_per_second: per_second })
        };
        let seen = take_turns(&ways, scale, run)?;
        let row = |what: &str, ratio, wanted| {
            let figure = format!("{what}: GET, {CLIENTS} clients, keys {}, on / off", self.order);
            Row::judged(figure, ratio, unit::RATIO, wanted)
        };
        let own = |way: usize| median(&seen[way].cpu_us);
        let theirs = |way: usize| median(&servers_cpu_us[way]);
        let servers_series =
            [ON, OFF].map(|way| Series::new(ways[way].name, unit::CPU_US, &servers_cpu_us[way]));
        let repeat = format!("weir load {}", self.line(ways[ON], scale));
        Ok(vec![
            row("rate", seen[ON].rate() / seen[OFF].rate(), self.rate)
                .of(series(&seen))
                .noted(seen.iter().map(RouteSamples::line).collect())
                .repeat(repeat),
            row("CPU time of Redis an answer", theirs(ON) / theirs(OFF), self.servers_cpu)
                .of(servers_series.into()),
            row("CPU time of Weir an answer", own(ON) / own(OFF), self.own_cpu).of(series(&seen)),
        ])
    }
}
