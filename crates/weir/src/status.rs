//! `weir status`: asks the admin port of a running gateway and shows the answer.

mod aof;
mod ask;
mod clients;
mod clock;
mod collisions;
mod guard;
mod latencies;
mod live;
mod postgres;
mod rates;
mod render;
mod table;

use std::io::Write;

use clap::Args;
use http_body_util::{BodyExt, Limited};

use crate::diagnosis::status::Status;
use crate::exit::{BAD_NEWS, DONE, Failure};
use crate::remote;

/// The longest answer that is read: thousands of backends.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Whom to ask, and how to show the answer.
#[derive(Debug, Args)]
pub struct Command {
    /// Print the answer as JSON, as it came
    #[arg(long)]
    json: bool,
    /// Show each second what the operator's page shows, until it is interrupted
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    #[command(flatten)]
    server: ask::Server,
}

/// Asks, prints, and answers whether the gateway takes writes.
pub fn run(command: &Command, out: &mut dyn Write) -> Result<u8, Failure> {
    let target = command.server.target()?;
    if command.watch {
        remote::run(live::follow(&target, out))?;
        return Ok(DONE);
    }
    let answer = remote::run(async {
        let answer = target.get("/status").await?;
        let read = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        read.map(http_body_util::Collected::to_bytes)
            .map_err(|error| Failure::other(format!("the answer breaks off: {error}")))
    })?;
    let status: Status = serde_json::from_slice(&answer).map_err(|error| {
        let name = target.name();
        Failure::other(format!("{name} answers, but not as Weir's admin port does ({error})"))
    })?;
    if command.json {
        out.write_all(&answer)?;
    } else {
        write!(out, "{status}")?;
    }
    Ok(if status.ready.yes { DONE } else { BAD_NEWS })
}
