//! `wrk`, the client of the throughput rows.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Share of a core from which on a client of one thread counts as saturated.
const SATURATED: f64 = 0.97;

/// What one run gave.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Answers a second.
    pub per_second: f64,
    /// Answers in all.
    pub answers: u64,
    /// Answers of 400 and above, and requests without an answer.
    pub failed: u64,
    /// CPU time the client used over wall time.
    pub client_cores: f64,
}

impl Run {
    /// Whether the client was the bottleneck.
    pub fn saturated(&self) -> bool {
        self.client_cores > SATURATED
    }
}

/// A single point of 60 bytes with a timestamp of its own in each request. The request is put
/// together in Lua, at the same cost for every server.
pub fn single_points(dir: &Path) -> std::path::PathBuf {
    let mut script = String::new();
    let line = "cpu,host=server01,region=eu load=0.6400 ";
    let length = line.len() + 19 + 1;
    assert_eq!(length, 60, "the line's length is part of the figures");
    let _ = writeln!(script, "local n = os.time() * 1000000000 % 1000000000000000");
    let _ = writeln!(
        script,
        "local head = \"POST /write?db=bench HTTP/1.1\\r\\nHost: bench\\r\\nContent-Length: {length}\\r\\n\\r\\n{line}17000\""
    );
    script.push_str(
        "request = function()\n  n = n + 1\n  return head .. string.format(\"%014d\", n % 100000000000000) .. \"\\n\"\nend\n",
    );
    save(dir, "single.lua", &script)
}

/// Bodies of `lines` lines, eight different ones in turn.
pub fn large_bodies(dir: &Path, lines: u64) -> std::path::PathBuf {
    let mut body = String::new();
    for n in 0..lines {
        let at = 1_700_000_000_000_000_000 + n * 1_000_000;
        let _ = writeln!(
            body,
            "cpu,host=server{:02},region=eu usage={:.6} {at}",
            n % 100,
            n as f64 / 7000.0 % 1.0
        );
    }
    let body_file = save(dir, "body.txt", &body);
    let script = format!(
        "local file = io.open({:?}, \"rb\")\nwrk.method = \"POST\"\nwrk.body = file:read(\"*a\")\nfile:close()\n",
        body_file.display().to_string()
    );
    save(dir, "large.lua", &script)
}

fn save(dir: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("a temporary directory can be written");
    path
}

/// Runs wrk with one thread.
pub fn run(
    target: SocketAddr,
    path: &str,
    connections: u32,
    seconds: Duration,
    script: &Path,
) -> Run {
    let before = children_cpu();
    let begun = Instant::now();
    let output = Command::new(rig::places::need("wrk"))
        .args(["-t1", &format!("-c{connections}"), &format!("-d{}s", seconds.as_secs())])
        .arg("-s")
        .arg(script)
        .arg(format!("http://{target}{path}"))
        .output()
        .expect("wrk can be started");
    let wall = begun.elapsed();
    let text = String::from_utf8_lossy(&output.stdout);
    let mut run = parse(&text);
    run.client_cores = (children_cpu() - before).as_secs_f64() / wall.as_secs_f64();
    run
}

/// CPU time of children that have ended and were waited for: wrk's, since nothing else ends
/// meanwhile.
fn children_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        after.split_whitespace().skip(13).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn parse(text: &str) -> Run {
    let mut run = Run::default();
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("Requests/sec:") {
            run.per_second = rest.trim().parse().unwrap_or(0.0);
        } else if let Some((answers, _)) = line.split_once(" requests in ") {
            run.answers = answers.parse().unwrap_or(0);
        } else if let Some(rest) = line.strip_prefix("Non-2xx or 3xx responses:") {
            run.failed += rest.trim().parse::<u64>().unwrap_or(0);
        } else if let Some(rest) = line.strip_prefix("Socket errors:") {
            run.failed += rest
                .split(|c: char| !c.is_ascii_digit())
                .filter_map(|n| n.parse::<u64>().ok())
                .sum::<u64>();
        }
    }
    run
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn wrks_report_is_read() {
        let run = parse(
            "  120 requests in 2.00s, 1MB read\n  Socket errors: connect 0, read 3, write 0, timeout 1\n\
             \x20 Non-2xx or 3xx responses: 7\nRequests/sec:  60.50\n",
        );
        assert_eq!((run.answers, run.failed), (120, 11));
        assert!((run.per_second - 60.5).abs() < 1e-9);
    }
}
