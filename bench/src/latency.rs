//! What a client feels of a backend that hangs: nothing, it is to be hoped.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use rig::load::{self, Plan, Report};
use rig::weir::Weir;

use crate::report::{self, median};
use crate::sink::Sink;
use crate::{Effort, subject};

/// Requests a second.
const RATE: f64 = 10_000.0;

/// Sends single points at [`RATE`] and gives latencies from the intended times.
pub fn steady(address: SocketAddr, rate: f64, duration: Duration) -> Report {
    let begun = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let base = begun.unwrap_or_default().as_nanos() as u64;
    load::run(&Plan::rate(address, rate, duration), move |number, out| {
        let line = format!("cpu,host=server01,region=eu load=0.6400 {}\n", base + number);
        load::put_post(out, "/write?db=bench", line.as_bytes());
    })
}

/// p99 of acknowledgements with one of two backends hung, over both healthy, in pairs.
pub fn one_backend_hung(effort: Effort) {
    let hung = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let hung_at = hung.local_addr().expect("a bound socket has an address");
    std::thread::spawn(move || {
        // Connections are taken and kept, and never answered.
        let _kept: Vec<_> = hung.incoming().collect();
    });
    let mut ratios = Vec::new();
    report::head(&[
        "pair",
        "p50 healthy",
        "p99 healthy",
        "p50 hung",
        "p99 hung",
        "p99 ratio",
        "answers other than 204",
    ]);
    for pair in 1..=effort.rounds.max(if effort.quick { 1 } else { 5 }) {
        let healthy = one(None, effort);
        let hung = one(Some(hung_at), effort);
        let ratio = hung.percentile(99.0).as_secs_f64() / healthy.percentile(99.0).as_secs_f64();
        let bad = healthy.sent - healthy.count(204) + hung.sent - hung.count(204);
        ratios.push(ratio);
        let us = |report: &Report, p| format!("{} us", report.percentile(p).as_micros());
        report::line(&[
            pair.to_string(),
            us(&healthy, 50.0),
            us(&healthy, 99.0),
            us(&hung, 50.0),
            us(&hung, 99.0),
            format!("{ratio:.2}"),
            bad.to_string(),
        ]);
    }
    report::ratio(
        "p99 hung / healthy, median of pairs at 10,000/s",
        median(&ratios),
        "1.2, beyond 1.0",
    );
    println!("\nRepeat: `make bench ARGS='--only hung'`");
}

fn one(hung: Option<SocketAddr>, effort: Effort) -> Report {
    let sink = Sink::start();
    let other = Sink::start();
    let second = hung.map_or_else(|| other.url(), |at| format!("http://{at}"));
    let kind = "kind = \"victoria-metrics\"";
    let weir: Weir = subject::setup("durable")
        .backend_with("a", &sink.url(), kind)
        .backend_with("b", &second, kind)
        .start();
    steady(weir.http, RATE, Duration::from_secs(1));
    steady(weir.http, RATE, effort.seconds)
}
