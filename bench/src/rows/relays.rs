//! Single-point writes at 64 connections beside influxdb-relay.

use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::load;
use crate::peers;
use crate::report::{Row, Verdict, median, unit};
use crate::stand::{self, WeirWithSinks};

const CONNECTIONS: usize = 64;

/// The row.
///
/// # Errors
/// When anything can't be started, or an acknowledged point is missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let relays = peers::relays()?;
    let stand = WeirWithSinks::start("durable")?;
    let (mut ours, mut client, mut command) = (Vec::new(), Vec::new(), String::new());
    let mut theirs: Vec<Vec<f64>> = relays.iter().map(|_| Vec::new()).collect();
    let mut worthless: Vec<Option<Verdict>> = vec![None; relays.len() + 1];
    for round in 0..scale.rounds as u32 {
        for (at, relay) in relays.iter().enumerate() {
            let run = load::wrk(relay.address, CONNECTIONS, scale.duration, round)?;
            theirs[at].push(run.per_second);
            worthless[at] = worthless[at].take().or(run.worthless);
        }
        let mut run = load::wrk(stand.weir.http, CONNECTIONS, scale.duration, round)?;
        run.worthless = stand::late(stand.settle()?).or(run.worthless);
        ours.push(run.per_second);
        client.push(run.client_cpu);
        worthless[relays.len()] = worthless[relays.len()].take().or(run.worthless);
        command = run.command;
    }
    let own = worthless.pop().flatten();
    let (weir, absent) = (median(&ours), peers::absent());
    let mut notes = vec![format!(
        "Weir {weir:.0} requests/s, durable; client {:.0} % of a core; `{command}`",
        median(&client) * 100.0
    )];
    for ((relay, seen), worthless) in relays.iter().zip(&theirs).zip(&worthless) {
        let their = median(seen);
        let bad = worthless.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        notes.push(format!(
            "{} {their:.0} requests/s, Weir {:.1} times{bad}",
            relay.name,
            weir / their
        ));
    }
    if !absent.is_empty() {
        notes.push(format!("absent: {}", absent.join(", ")));
    }
    let mut series = vec![Series::new("Weir", unit::REQUESTS, &ours)];
    series.extend(
        relays
            .iter()
            .zip(&theirs)
            .map(|(relay, seen)| Series::new(relay.name, unit::REQUESTS, seen)),
    );
    let figure = "req/s at 64 connections / influxdb-relay with two backends";
    let (row, theirs) = match relays.iter().position(|relay| relay.name == "influxdb-relay") {
        Some(at) => {
            let (ratio, wanted) = (weir / median(&theirs[at]), FigureTarget::at_least(10.0, 15.0));
            (Row::judged(figure, ratio, unit::RATIO, wanted), worthless[at].clone())
        }
        None => (Row::no_peer(figure, "influxdb-relay is not on the PATH"), None),
    };
    let row = row.of(series).noted(notes).repeat("make bench ARGS=\"--only relays\"");
    Ok(vec![row.unless(own.or(theirs))])
}
