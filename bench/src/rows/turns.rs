//! The ways to a server in turns, so that whatever else happens on the machine meets them all.

use std::net::SocketAddr;
use std::time::Duration;

use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::Series;
use crate::measure::{Usage, anonymous_mib, settled_mib};
use crate::report::{median, unit};

/// A way to the server.
#[derive(Debug, Clone, Copy)]
pub struct ClientRoute {
    /// What the notes call it.
    pub name: &'static str,
    pub address: SocketAddr,
    /// The process in between.
    pub pid: Option<u32>,
    /// The row does without it where it fails.
    pub optional: bool,
}

/// Clients that connect and leave before memory is looked at: what connecting once leaves behind
/// for good is not a client's.
const BEFORE: usize = 50;

impl ClientRoute {
    /// KiB of memory of the process in between for each of so many clients, which `connect` makes.
    ///
    /// # Errors
    /// A client can't connect, or there is no such process.
    pub fn kib_each<C>(
        &self,
        clients: usize,
        connect: impl Fn(SocketAddr) -> Outcome<C>,
    ) -> Outcome<f64> {
        let pid = self.pid.ok_or("nothing in between")?;
        let connect =
            |count| (0..count).map(|_| connect(self.address)).collect::<Outcome<Vec<_>>>();
        drop(connect(BEFORE)?);
        let before = anonymous_mib(pid);
        let all = connect(clients)?;
        let last = settled_mib(pid);
        drop(all);
        Ok((last - before) * 1_024.0 / clients as f64)
    }
}

/// What one run came to.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// What is counted, a second.
    pub unit: &'static str,
    /// How many of them there were.
    pub requests: f64,
    /// The same a second.
    pub per_second: f64,
    /// Transactions a second; the same where each request is one.
    pub transactions_per_second: f64,
}

/// What was seen of one way over all rounds.
#[derive(Debug, Clone)]
pub struct RouteSamples {
    pub way: ClientRoute,
    /// The unit of `per_second`, such as `requests/s`.
    unit: &'static str,
    /// Statements or commands a second.
    pub per_second: Vec<f64>,
    pub transactions_per_second: Vec<f64>,
    /// Microseconds of CPU time of what is in between, for each of them.
    pub cpu_us: Vec<f64>,
    /// Why there are no figures.
    failed: Option<String>,
}

impl RouteSamples {
    pub fn new(way: ClientRoute) -> Self {
        Self {
            way,
            unit: unit::REQUESTS,
            per_second: Vec::new(),
            transactions_per_second: Vec::new(),
            cpu_us: Vec::new(),
            failed: None,
        }
    }

    /// Notes a run that began with `usage`.
    pub fn note(&mut self, run: Run, usage: Option<Usage>) {
        self.unit = run.unit;
        self.per_second.push(run.per_second);
        self.transactions_per_second.push(run.transactions_per_second);
        if let Some(usage) = usage {
            self.cpu_us.push(usage.cpu().as_secs_f64() * 1e6 / run.requests.max(1.0));
        }
    }

    /// The median of the rates.
    pub fn rate(&self) -> f64 {
        median(&self.per_second)
    }

    pub fn line(&self) -> String {
        let name = self.way.name;
        if let Some(why) = &self.failed {
            return format!("{name}: no figure: {why}");
        }
        let cpu = match self.cpu_us.is_empty() {
            true => String::new(),
            false => format!(", {:.1} us CPU each", median(&self.cpu_us)),
        };
        format!("{name}: {:.0} {}{cpu}", self.rate(), self.unit)
    }
}

/// Every round of all ways.
pub fn series(seen: &[RouteSamples]) -> Vec<Series> {
    let of = |seen: &RouteSamples| {
        let name = seen.way.name;
        let mut all = vec![Series::new(name, seen.unit, &seen.per_second)];
        if seen.transactions_per_second != seen.per_second {
            let transactions = &seen.transactions_per_second;
            all.push(Series::new(name, unit::TRANSACTIONS, transactions));
        }
        if !seen.cpu_us.is_empty() {
            all.push(Series::new(name, unit::CPU_US, &seen.cpu_us));
        }
        all
    };
    seen.iter().filter(|seen| seen.failed.is_none()).flat_map(of).collect()
}

/// Runs `run` once a round for each way.
///
/// # Errors
/// A run failed on a way that is not an optional one; of those it is noted.
pub fn take_turns(
    ways: &[ClientRoute],
    scale: &Scale,
    mut run: impl FnMut(ClientRoute) -> Outcome<Run>,
) -> Outcome<Vec<RouteSamples>> {
    let mut all: Vec<_> = ways.iter().map(|way| RouteSamples::new(*way)).collect();
    for _ in 0..scale.rounds {
        for seen in all.iter_mut().filter(|seen| seen.failed.is_none()) {
            let usage = seen.way.pid.map(Usage::begin);
            match run(seen.way) {
                Ok(run) => seen.note(run, usage),
                Err(error) if seen.way.optional => seen.failed = Some(error.to_string()),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(all)
}

/// Runs `run` of two sides in pairs of this length, each of them first by turns; gives how many
/// pairs there were. What is warmed up was pair 0.
///
/// # Errors
/// A run failed.
pub fn in_pairs<S>(
    [one, other]: [&mut S; 2],
    scale: &Scale,
    length: Duration,
    mut run: impl FnMut(&mut S, u32) -> Outcome<()>,
) -> Outcome<u32> {
    let pairs = (scale.pairs as u32 * scale.duration).div_duration_f64(length) as u32;
    for pair in 1..=pairs {
        let mut turn = [&mut *one, &mut *other];
        if pair % 2 == 0 {
            turn.reverse();
        }
        for side in turn {
            run(side, pair)?;
        }
    }
    Ok(pairs)
}
