//! 2,000 requests a second to a server that answers nothing for a second in every ten: what the
//! meter says beside what the server's own log and the schedule give.

use std::time::Duration;

use rig::witness::{Manner, Stalls, Witness};

use super::injector::{InjectorRun, load};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::report::{Row, Verdict, unit};

const RATE: f64 = 2_000.0;
const CONNECTIONS: [usize; 2] = [64, 4_000];
/// How the server is silent.
pub const STALLS: Stalls = Stalls {
    first: Duration::from_millis(1_500),
    length: Duration::from_secs(1),
    every: Duration::from_secs(10),
};
/// How far the two may be apart.
const NEAR: FigureTarget =
    FigureTarget { at_least: Some(0.95), at_most: Some(1.05), beyond: None, exact: true };

/// The rows.
///
/// # Errors
/// When the load could not begin.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for connections in CONNECTIONS {
        rows.extend(with(connections, scale)?);
    }
    Ok(rows)
}

fn with(connections: usize, scale: &Scale) -> Outcome<Vec<Row>> {
    let server = Witness::start(Manner { stalls: Some(STALLS), ..Manner::default() });
    let seconds = 3 * scale.duration.as_secs();
    let line = format!(
        "{} --rate {RATE} --connections {connections} --duration {seconds}s --warmup 0s",
        server.url()
    );
    let loaded = load(&line)?;
    let waits = server.waits(loaded.began(), RATE);
    let whole = [("p99", "p99", 0.99), ("maximum", "max", 1.0)];
    let row = |(words, name, share): (&str, &str, f64)| {
        let by_log = quantile(&waits, share) / 1e6;
        let told = loaded.number(&format!("/latency/{name}_ns")) / 1e6;
        let figure = format!(
            "{words} at 2,000/s, silent for 1 s in 10, {connections} connections / by the \
             server's log"
        );
        Row::judged(figure, told / by_log, unit::RATIO, NEAR)
            .noted(vec![
                format!("{told:.1} ms for {by_log:.1} ms by the log of {} answers", waits.len()),
                loaded.verdict(),
            ])
            .repeat("make bench ARGS=\"--only load-stall\"")
            .unless(doubted(&loaded))
    };
    Ok(whole.into_iter().map(row).collect())
}

/// What a row is worth whose run is not VALID: a server that is silent is no fault of the meter's.
fn doubted(loaded: &InjectorRun) -> Option<Verdict> {
    (!loaded.is_valid()).then_some(Verdict::Missed)
}

/// The value below which that share is, as the meter has it: that of a request.
fn quantile(sorted: &[u64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).map_or(f64::NAN, |nanos| *nanos as f64)
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!([0.99, 0.5, 1.0].map(|share| quantile(&hundred, share)), [99.0, 50.0, 100.0]);
        assert!(quantile(&[], 0.99).is_nan());
    }
}
