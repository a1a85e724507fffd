//! Single-point writes at 64 connections beside influxdb-relay.

use crate::load;
use crate::peers;
use crate::report::{Row, Verdict, at_least, median};
use crate::stand::{self, Stand};
use crate::{Outcome, Scale};

const CONNECTIONS: usize = 64;

/// The row.
///
/// # Errors
/// When anything can't be started, or an acknowledged point is missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let relays = peers::relays()?;
    let stand = Stand::start("durable")?;
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
    let relay = relays.iter().position(|relay| relay.name == "influxdb-relay");
    let (measured, verdict, theirs) = match relay {
        Some(at) => {
            let ratio = weir / median(&theirs[at]);
            (format!("{ratio:.1}"), at_least(ratio, 10.0), worthless[at].clone())
        }
        None => {
            let why = "influxdb-relay is not on the PATH".to_owned();
            (format!("Weir {weir:.0} req/s"), Verdict::NoPeer(why), None)
        }
    };
    let row = Row {
        figure: "req/s at 64 connections / influxdb-relay with two backends".to_owned(),
        measured,
        to_reach: "10, beyond 15".to_owned(),
        verdict,
        notes,
        repeat: "make bench ARGS=\"--only relays\"".to_owned(),
    };
    Ok(vec![row.unless(own.or(theirs))])
}
