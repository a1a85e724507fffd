//! Single-point writes at 64 connections beside influxdb-relay.

use crate::load;
use crate::peers;
use crate::report::{Row, Verdict, at_least, median};
use crate::stand::Stand;
use crate::{Outcome, Scale};

const CONNECTIONS: usize = 64;

/// The row.
///
/// # Errors
/// When anything can't be started, or an acknowledged point is missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let relay = peers::relay()?;
    let stand = Stand::start("durable")?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let (mut worthless, mut command, mut client) = (None, String::new(), Vec::new());
    for round in 0..scale.rounds as u32 {
        if let Some(relay) = &relay {
            let run = load::wrk(relay.address, CONNECTIONS, scale.duration, round)?;
            theirs.push(run.per_second);
            worthless = worthless.or(run.worthless);
        }
        let run = load::wrk(stand.weir.http, CONNECTIONS, scale.duration, round)?;
        stand.settle()?;
        ours.push(run.per_second);
        client.push(run.client_cpu);
        worthless = worthless.or(run.worthless);
        command = run.command;
    }
    let (weir, absent) = (median(&ours), peers::absent());
    let (measured, verdict) = match &relay {
        Some(_) => {
            let ratio = weir / median(&theirs);
            (format!("{ratio:.1}"), at_least(ratio, 10.0))
        }
        None => {
            let why = "influxdb-relay is not on the PATH".to_owned();
            (format!("Weir {weir:.0} req/s"), Verdict::NoPeer(why))
        }
    };
    let mut notes = vec![format!("client {:.0} % of a core", median(&client) * 100.0)];
    if !absent.is_empty() {
        notes.push(format!("absent: {}", absent.join(", ")));
    }
    let row = Row {
        figure: "req/s at 64 connections / influxdb-relay with two backends".to_owned(),
        measured,
        to_reach: "10, beyond 15".to_owned(),
        verdict,
        notes,
        repeat: command,
    };
    Ok(vec![row.unless(worthless)])
}
