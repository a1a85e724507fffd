//! wrk, with single-point writes of 60 bytes whose times are all different.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rig::http::{self, Request};
use rig::places;

use crate::Outcome;
use crate::measure;
use crate::report::Verdict;
use crate::sink::DATABASE;

/// Bytes of one line with its newline.
pub const LINE_BYTES: usize = 60;
/// Threads of wrk: with one alone it is what limits nginx.
const THREADS: usize = 2;
/// A client each of whose threads was busier than this may have been the bottleneck.
const THREAD_CPU_MAX: f64 = 0.95;

/// What a row is worth whose load came from one thread of this program that was as busy as this.
pub fn saturated(client_cpu: f64) -> Option<Verdict> {
    (client_cpu > THREAD_CPU_MAX)
        .then(|| Verdict::Void(format!("the client used {:.0} % of a core", client_cpu * 100.0)))
}

/// One line, whose time is `number` and the run's.
pub fn line(run: u32, number: u64) -> String {
    format!("cpu,host=srv01 usage=12.500,idle=87.500 1{run:04}{number:014}\n")
}

/// wrk's script: the head never changes, so that a request is one concatenation. Each thread has
/// its own count behind its own digit.
fn script(run: u32) -> String {
    let sample = line(run, 0);
    let prefix = &sample[..sample.len() - 15];
    format!(
        "local threads = 0\n\
         setup = function(thread)\n\
         \u{20} thread:set('id', threads)\n\
         \u{20} threads = threads + 1\n\
         end\n\
         local count = 0\n\
         local head = 'POST /write?db={DATABASE} HTTP/1.1\\r\\nHost: bench\\r\\n\
         Content-Length: {LINE_BYTES}\\r\\n\\r\\n{prefix}'\n\
         request = function()\n\
         \u{20} count = count + 1\n\
         \u{20} return head .. string.format('%d%013d\\n', id, count)\n\
         end\n"
    )
}

/// What came of a run of wrk.
#[derive(Debug, Clone)]
pub struct Run {
    pub requests: u64,
    /// Requests answered a second.
    pub per_second: f64,
    /// wrk's CPU time over the time it ran: 1 is a whole core.
    pub client_cpu: f64,
    /// What makes the run worthless.
    pub worthless: Option<Verdict>,
    pub command: String,
}

/// Runs wrk against `address`. Each `run` number gives other times.
///
/// # Errors
/// When wrk is missing or can't be understood.
pub fn wrk(address: SocketAddr, connections: usize, duration: Duration, run: u32) -> Outcome<Run> {
    let first = Request::post(&format!("/write?db={DATABASE}"), line(run, 0));
    let answer = http::send(address, &first)?;
    let dir = places::directory();
    let lua = dir.path().join("single-points.lua");
    std::fs::write(&lua, script(run))?;
    let seconds = duration.as_secs();
    let url = format!("http://{address}");
    let connections = connections.to_string();
    let threads = format!("-t{THREADS}");
    let args = [&threads, "-c", &connections, "-d", &format!("{seconds}s"), "--timeout", "30s"];
    let child = Command::new(places::need("wrk"))
        .args(args)
        .arg("-s")
        .arg(&lua)
        .arg(&url)
        .stdout(Stdio::piped())
        .spawn()?;
    let begun = Instant::now();
    let mut cpu = 0.0;
    // Its CPU time is gone with it, so that it is read shortly before the end.
    while begun.elapsed() + Duration::from_millis(200) < duration {
        // A look at the clock of another process, in a program that has nothing else to do.
        std::thread::sleep(Duration::from_millis(50));
        cpu = measure::cpu(child.id()).as_secs_f64() / begun.elapsed().as_secs_f64();
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let Some((requests, per_second)) = figures(&said) else {
        return Err(format!("wrk said {said:?}").into());
    };
    let bad = said.lines().find(|line| is_error(line));
    let worthless = match (bad, answer.status()) {
        (Some(bad), _) => Some(Verdict::Failed(bad.trim().to_owned())),
        (None, 204) if cpu > THREAD_CPU_MAX * THREADS as f64 => {
            Some(Verdict::Void(format!("wrk used {:.0} % of its {THREADS} cores", cpu * 100.0)))
        }
        (None, 204) => None,
        (None, status) => Some(Verdict::Failed(format!("answered {status}"))),
    };
    let command = format!("wrk {threads} -c{connections} -d{seconds}s -s single-points.lua {url}");
    Ok(Run { requests: requests as u64, per_second, client_cpu: cpu, worthless, command })
}

/// Requests that wrk had answered, in all and a second.
pub fn figures(said: &str) -> Option<(f64, f64)> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let per_second = said.lines().find_map(|line| number(line.strip_prefix("Requests/sec:")?))?;
    let requests = said.lines().find_map(|line| {
        let (count, _) = line.split_once(" requests in ")?;
        number(count)
    })?;
    Some((requests, per_second))
}

/// Whether wrk had answers that are no successes, or none.
pub fn has_errors(said: &str) -> bool {
    said.lines().any(is_error)
}

fn is_error(line: &str) -> bool {
    line.contains("Non-2xx") || line.contains("Socket errors")
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES, figures, has_errors, line};

    #[test]
    fn what_wrk_says_is_read() {
        let said = "  1234 requests in 3.00s, 1.2MB read\nRequests/sec:    411.33\n";
        assert_eq!(figures(said), Some((1_234.0, 411.33)));
        assert!(!has_errors(said) && has_errors("  Socket errors: connect 0, read 1"));
        assert_eq!(figures("Requests/sec: 1"), None);
    }

    #[test]
    fn a_line_has_sixty_bytes() {
        assert_eq!(line(0, 0).len(), LINE_BYTES);
        assert_eq!(line(9_999, 99_999_999_999_999).len(), LINE_BYTES);
    }
}
