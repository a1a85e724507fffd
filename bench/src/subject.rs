//! Weir as the rows start it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rig::weir::{Setup, Weir};

use crate::sink::Sink;

/// How long a backlog may take to drain before its points count as lost.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// One worker, `ack = durable`, two sinks behind it, the journal on the disk.
pub fn with_sinks(ack: &str) -> (Weir, [Sink; 2]) {
    let sinks = [Sink::start(), Sink::start()];
    let kind = "kind = \"victoria-metrics\"";
    let weir = setup(ack)
        .backend_with("a", &sinks[0].url(), kind)
        .backend_with("b", &sinks[1].url(), kind)
        .start();
    (weir, sinks)
}

/// One worker with nothing behind it yet.
pub fn setup(ack: &str) -> Setup {
    Setup::new().journal(&format!("ack = {ack:?}"))
}

/// The process id of a running Weir.
pub fn pid(weir: &mut Weir) -> u32 {
    weir.running().id()
}

/// Seconds by which the backend that is furthest behind is behind.
pub fn behind(weir: &Weir) -> f64 {
    let status = weir.ask_admin("/status").json();
    let backends = status["influx"]["backends"].as_array().cloned().unwrap_or_default();
    let age = |backend: &serde_json::Value| {
        backend["cursor"]["waiting"]["oldest_age_seconds"].as_f64().unwrap_or(0.0)
    };
    backends.iter().map(age).fold(0.0, f64::max)
}

/// Points acknowledged so far.
pub fn accepted(weir: &Weir) -> u64 {
    weir.metrics().sum("weir_influx_points_accepted_total", &[]) as u64
}

/// Waits until both sinks have as many lines as were acknowledged; says what is missing.
pub fn arrived(weir: &Weir, sinks: &[Sink; 2]) -> Result<(), String> {
    let expected = accepted(weir);
    let begun = Instant::now();
    loop {
        let lines = sinks.each_ref().map(Sink::lines);
        if lines.iter().all(|&lines| lines >= expected) {
            return Ok(());
        }
        if begun.elapsed() > DRAIN_MAX {
            return Err(format!("acknowledged {expected}, arrived {lines:?}"));
        }
        // Between two looks at a process that has work to do.
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Where its HTTP front end listens.
pub fn address(weir: &Weir) -> SocketAddr {
    weir.http
}
