//! Memory at rest, and with a backlog on the disk.

use std::time::Duration;

use crate::report;
use crate::sink::Sink;
use crate::{Effort, cpu, subject};

/// Prints `RssAnon` at rest and with a million points waiting for a backend that is down.
pub fn measure(effort: Effort) {
    let sink = Sink::start();
    let gone = rig::places::free_address();
    let kind = "kind = \"victoria-metrics\"";
    let mut weir = subject::setup("durable")
        .backend_with("a", &sink.url(), kind)
        .backend_with("gone", &format!("http://{gone}"), kind)
        .start();
    let pid = subject::pid(&mut weir);
    let rest = cpu::anonymous_mib(pid);
    let points: u64 = if effort.quick { 100_000 } else { 1_000_000 };
    let mut number = 0_u64;
    while number < points {
        let mut body = String::new();
        for _ in 0..5000 {
            let at = 1_700_000_000_000_000_000 + number;
            body.push_str(&format!("cpu,host=server01,region=eu load=0.6400 {at}\n"));
            number += 1;
        }
        weir.must_write("bench", &body);
    }
    rig::wait::until("the healthy sink has everything", Duration::from_secs(60), || {
        sink.lines() >= points
    });
    let waiting = weir.account("gone").waiting;
    let backlog = cpu::anonymous_mib(pid);
    report::head(&["state", "RssAnon MiB", "to reach"]);
    report::line(&["at rest".into(), format!("{rest:.1}"), "30".into()]);
    report::line(&[
        format!("{waiting} points waiting on disk"),
        format!("{backlog:.1}"),
        "60".into(),
    ]);
    println!("\nRepeat: `make bench ARGS='--only memory'`");
}
