//! Requests at 10,000 a second as nginx counts them, by its log of accesses.

use std::time::SystemTime;

use super::injector::load;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::report::{Row, Verdict, median, unit};
use crate::{Outcome, peers};

const RATE: f64 = 10_000.0;
/// What is asked for, so that nothing else is counted.
const PATH: &str = "/counted";
/// Seconds whose requests are compared.
const STRETCH: usize = 10;

/// The rows.
///
/// # Errors
/// When nginx can't be started, its log can't be read, or the load could not begin.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let nginx = peers::nginx_with_log()?;
    let seconds = 6 * scale.duration.as_secs();
    let line =
        format!("http://{}{PATH} --rate {RATE} --duration {seconds}s --warmup 0s", nginx.address);
    let loaded = load(&line)?.without_errors()?;
    let log = nginx.stop_and_read_log()?;
    let times = times(&log);
    let began = since_epoch(loaded.began());
    let ours = loaded.ended();
    let (mut apart, mut notes) = (Vec::new(), Vec::new());
    for (number, stretch) in ours.chunks_exact(STRETCH).enumerate() {
        let from = began + (number * STRETCH) as f64;
        let within = |at: &&f64| (from..from + STRETCH as f64).contains(*at);
        let (ours, theirs) =
            (stretch.iter().sum::<u64>() as f64, times.iter().filter(within).count());
        apart.push((ours / theirs as f64 - 1.0).abs() * 100.0);
        notes.push(format!("second {}: {ours} for {theirs}", number * STRETCH));
    }
    notes.push(loaded.verdict());
    let repeat = "make bench ARGS=\"--only load-counts\"";
    let each = Row::judged(
        "requests of 10 s at 10,000/s, apart from the server's count",
        median(&apart),
        unit::PERCENT,
        FigureTarget::within(0.1),
    );
    let (told, counted) = (loaded.requests(), times.len() as u64);
    let all = Row::judged(
        "requests in all at 10,000/s, apart from the server's count",
        told.abs_diff(counted) as f64,
        unit::REQUESTS_IN_ALL,
        FigureTarget::within(0.0),
    );
    let failed = || apart.is_empty().then(|| Verdict::Failed("no whole 10 s".to_owned()));
    Ok(vec![
        each.noted(notes).repeat(repeat).unless(failed()),
        all.noted(vec![format!("{told} for {counted}")]).repeat(repeat),
    ])
}

/// When each request was logged, in seconds.
fn times(log: &str) -> Vec<f64> {
    let counted = log.lines().filter_map(|line| line.strip_suffix(PATH));
    counted.filter_map(|line| line.trim().parse().ok()).collect()
}

fn since_epoch(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::times;

    #[test]
    fn only_what_the_load_asked_for_is_counted() {
        assert_eq!(times("12.345 /ping\n12.346 /counted\n13.000 /counted\n"), [12.346, 13.0]);
    }
}
