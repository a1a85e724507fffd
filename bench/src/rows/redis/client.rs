//! redis-benchmark, as it comes with Redis, on one thread. It counts commands, not seconds: each
//! way is asked for as many as it did in a short run before.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rig::places;

use crate::Outcome;
use crate::measure;
use crate::report::unit;
use crate::rows::turns::{ClientRoute, Run};

/// Commands of the short run: what is cold is paid for in it.
const FIRST: u64 = 20_000;

#[derive(Debug, Clone)]
pub struct Load {
    pub clients: usize,
    /// Commands that a client sends together.
    pub pipeline: usize,
    /// The command's words, in which `__rand_int__` is one of so many numbers.
    pub command: Vec<String>,
    /// How many numbers there are.
    pub numbers: u64,
    /// How long one measurement runs.
    pub duration: Duration,
}

/// What a run came to.
#[derive(Debug, Clone, Copy)]
pub struct BenchmarkRun {
    pub run: Run,
    /// Milliseconds.
    pub p99_ms: f64,
    /// CPU time over time: 1 is a whole core.
    pub client_cpu: f64,
}

impl Load {
    /// A command of these words.
    pub fn new(clients: usize, duration: Duration, words: &str) -> Self {
        let command = words.split(' ').map(str::to_owned).collect();
        Self { clients, pipeline: 1, command, numbers: 100_000, duration }
    }

    /// The command line behind the address.
    pub fn arguments(&self, count: u64) -> Vec<String> {
        let Self { clients, pipeline, numbers, .. } = self;
        let head = format!("-c {clients} -P {pipeline} -r {numbers} -n {count} --csv");
        head.split(' ').map(str::to_owned).chain(self.command.iter().cloned()).collect()
    }

    pub fn repeat(&self) -> String {
        let words = self.arguments(1_000_000);
        let shown = words.iter().take(12).map(String::as_str).collect::<Vec<_>>().join(" ");
        format!("redis-benchmark {shown}{}", if words.len() > 12 { " ..." } else { "" })
    }

    /// Runs it on a way, for about as long as is asked for.
    ///
    /// # Errors
    /// redis-benchmark can't be run, or a command failed.
    pub fn run(&self, way: ClientRoute) -> Outcome<BenchmarkRun> {
        let first = self.so_many(way, FIRST.max(self.clients as u64 * 4))?.run;
        let count = first.per_second * self.duration.as_secs_f64();
        let mut done = self.so_many(way, count.max(1.0) as u64)?;
        // CPU time is measured over both.
        done.run.requests += first.requests;
        Ok(done)
    }

    /// Sends so many.
    ///
    /// # Errors
    /// As [`Load::run`].
    pub fn so_many(&self, way: ClientRoute, count: u64) -> Outcome<BenchmarkRun> {
        let mut command = Command::new(places::need("redis-benchmark"));
        command.args(["-h", &way.address.ip().to_string(), "-p", &way.address.port().to_string()]);
        command.args(self.arguments(count)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let begun = Instant::now();
        let run = || Ok(command.spawn()?.wait_with_output()?);
        let (done, cpu) = measure::with_children_cpu(run)?;
        let said = String::from_utf8_lossy(&done.stdout);
        let errors = String::from_utf8_lossy(&done.stderr);
        let why = || format!("{}: redis-benchmark: {said} {errors}", way.name);
        if !done.status.success() || said.contains("rror") {
            return Err(why().into());
        }
        let [per_second, p99_ms] = figures(&said).ok_or_else(why)?;
        let (unit, requests) = (unit::COMMANDS, count as f64);
        let run = Run { unit, requests, per_second, transactions_per_second: per_second };
        Ok(BenchmarkRun {
            run,
            p99_ms,
            client_cpu: cpu.as_secs_f64() / begun.elapsed().as_secs_f64(),
        })
    }
}

/// The rate and the p99 of the last line: a name, the rate, and latencies in milliseconds:
/// the mean, the least, p50, p95, p99, the most.
fn figures(said: &str) -> Option<[f64; 2]> {
    let line = said.lines().rfind(|line| line.starts_with('"'))?;
    let fields: Vec<&str> = line.rsplit("\",\"").map(|field| field.trim_matches('"')).collect();
    let field = |from_behind: usize| fields.get(from_behind)?.parse().ok();
    Some([field(6)?, field(1)?])
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn the_rate_and_the_p99_are_read() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                    \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                    \"SET key,\"x\"\",\"71.5\",\"0.1\",\"0.2\",\"0.3\",\"0.4\",\"0.5\",\"0.6\"\n";
        assert_eq!(figures(said), Some([71.5, 0.5]));
        assert_eq!(figures(said.lines().next().unwrap()), None);
        assert_eq!(figures(""), None);
    }
}
