//! Loops without connections: moments come in, and decisions are compared.

mod closed;
mod open;

use std::time::{Duration, Instant};

use super::{ConnectionStep, Job, PacerStep};

const MS: Duration = Duration::from_millis(1);

fn send(number: u64, due: Instant, free: Instant) -> ConnectionStep {
    ConnectionStep::Send(Job { number, due, free })
}
