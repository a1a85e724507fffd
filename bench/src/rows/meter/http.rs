//! GET from nginx: as fast as it answers, beside wrk, and at a rate, beside h2load.

use super::speed::{Pairs, SpeedRun, peer, weir};
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::report::{Row, unit};
use crate::{Outcome, load, peers};

/// Connections of either side.
const CONNECTIONS: usize = 64;
/// Requests a second, where there is a rate.
const RATE: f64 = 10_000.0;

/// The rows.
///
/// # Errors
/// When nginx can't be started, or a request fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let nginx = peers::nginx()?;
    let (url, seconds) = (format!("http://{}/", nginx.address), scale.duration.as_secs());
    let common =
        format!("{url} --connections {CONNECTIONS} --threads 1 --duration {seconds}s --warmup 0s");
    let wrk_line = format!("-t1 -c{CONNECTIONS} -d{seconds}s {url}");
    let pairs = |what, peer, repeat| {
        let (unit, wanted) = (unit::REQUESTS, FigureTarget::at_most(1.3, 1.0));
        Pairs { what, peer, unit, wanted, repeat }
    };
    let repeat = format!("weir load {common} --closed; wrk {wrk_line}");
    let closed = pairs("GET, closed, 64 connections", "wrk", repeat);
    let ours = || weir(&format!("{common} --closed"), 1.0);
    let closed = closed.measure(scale, ours, || wrk(&wrk_line))?;
    // Its rate is that of each connection.
    let rate = RATE / CONNECTIONS as f64;
    let h2load_line = format!("--h1 -t1 -c{CONNECTIONS} -D{seconds} --rps={rate} {url}");
    let repeat = format!("weir load {common} --rate {RATE}; h2load {h2load_line}");
    let open = pairs("GET, 10,000/s, 64 connections", "h2load", repeat);
    let ours = || weir(&format!("{common} --rate {RATE}"), 1.0);
    Ok(vec![closed, open.measure(scale, ours, || h2load(&h2load_line))?])
}

fn wrk(line: &str) -> Outcome<SpeedRun> {
    let (said, cpu) = peer("wrk", line)?;
    match load::figures(&said) {
        Some((count, per_second)) if !load::has_errors(&said) => {
            Ok(SpeedRun::of_peer(count, per_second, cpu))
        }
        _ => Err(format!("wrk said {said:?}").into()),
    }
}

fn h2load(line: &str) -> Outcome<SpeedRun> {
    let (said, cpu) = peer("h2load", line)?;
    let (count, per_second) =
        h2load_figures(&said).ok_or_else(|| format!("h2load said {said:?}"))?;
    Ok(SpeedRun::of_peer(count, per_second, cpu))
}

/// Requests, in all and a second; none where one failed.
fn h2load_figures(said: &str) -> Option<(f64, f64)> {
    let finished = said.lines().find(|line| line.starts_with("finished in "))?;
    let per_second = finished.split(", ").nth(1)?.strip_suffix(" req/s")?.parse().ok()?;
    let requests = said.lines().find_map(|line| line.strip_prefix("requests: "))?;
    let number = |word: &str| {
        let part = requests.split(", ").find(|part| part.ends_with(word))?;
        part.split(' ').next()?.parse::<f64>().ok()
    };
    let bad = number(" failed")? + number(" errored")? + number(" timeout")?;
    (bad == 0.0).then_some((number(" done")?, per_second))
}

#[cfg(test)]
mod tests {
    use super::h2load_figures;

    #[test]
    fn what_h2load_says_is_read() {
        let said = "finished in 3.00s, 9984.67 req/s, 1.09MB/s\n\
                    requests: 29954 total, 29970 started, 29954 done, 29954 succeeded, 0 failed, \
                    0 errored, 0 timeout\nstatus codes: 29954 2xx";
        assert_eq!(h2load_figures(said), Some((29_954.0, 9_984.67)));
        assert_eq!(h2load_figures(&said.replace("0 failed", "1 failed")), None);
        assert_eq!(h2load_figures(""), None);
    }
}
