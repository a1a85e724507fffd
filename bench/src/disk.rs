//! Acknowledgements while somebody else writes ten gigabytes to the same disk.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::latency::steady;
use crate::report::{self, median};
use crate::{Effort, subject};

/// Requests a second: few enough that the generator is never the bottleneck.
const RATE: f64 = 2000.0;

/// `durable` over a bare write and fdatasync, both beside `dd`; `written` beside `dd` over quiet.
pub fn busy(effort: Effort) {
    let dir = rig::places::directory();
    let rounds = effort.rounds.min(3);
    let (mut durable, mut probe, mut written, mut quiet) = (vec![], vec![], vec![], vec![]);
    report::head(&[
        "round",
        "durable p99.9, dd",
        "bare fdatasync p99.9, dd",
        "written p99.9, dd",
        "written p99.9, quiet",
    ]);
    for round in 1..=rounds {
        let quiet_now = acks("written", effort);
        let written_now = beside_dd(dir.path(), effort, || acks("written", effort));
        let durable_now = beside_dd(dir.path(), effort, || acks("durable", effort));
        let probe_now = beside_dd(dir.path(), effort, || bare(dir.path(), effort));
        let ms = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
        report::line(&[
            round.to_string(),
            ms(durable_now),
            ms(probe_now),
            ms(written_now),
            ms(quiet_now),
        ]);
        durable.push(durable_now / probe_now);
        probe.push(probe_now);
        written.push(written_now / quiet_now);
        quiet.push(quiet_now);
    }
    report::ratio("durable / bare probe", median(&durable), "2, beyond 1.2");
    report::ratio("written, dd / quiet", median(&written), "5, beyond 2");
    println!("\nRepeat: `make bench ARGS='--only disk'`");
}

/// p99.9 in seconds of acknowledgements at a steady rate.
fn acks(ack: &str, effort: Effort) -> f64 {
    let (weir, _sinks) = subject::with_sinks(ack);
    steady(weir.http, RATE, Duration::from_secs(1));
    let report = steady(weir.http, RATE, effort.seconds);
    if report.count(204) < report.sent {
        println!("{ack}: {} of {} were not 204", report.sent - report.count(204), report.sent);
    }
    report.percentile(99.9).as_secs_f64()
}

/// p99.9 in seconds of an append of 4 KiB and an fdatasync, one after the other.
fn bare(dir: &Path, effort: Effort) -> f64 {
    let path = dir.join("probe");
    let mut file = File::create(&path).expect("a temporary directory can be written");
    let mut took = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < effort.seconds {
        let at = Instant::now();
        file.write_all(&[7; 4096])
            .and_then(|()| file.sync_data())
            .expect("the disk can be written");
        took.push(at.elapsed().as_secs_f64());
    }
    took.sort_by(f64::total_cmp);
    took.get((took.len() as f64 * 0.999) as usize).or(took.last()).copied().unwrap_or(f64::NAN)
}

/// Runs `measure` while `dd` writes over and over, ten gigabytes at a time.
fn beside_dd(dir: &Path, effort: Effort, measure: impl FnOnce() -> f64) -> f64 {
    let file = dir.join("dd");
    let blocks = if effort.quick { 500 } else { 10_000 };
    let mut dd = Running(
        Command::new("dd")
            .args([
                "if=/dev/zero",
                &format!("of={}", file.display()),
                "bs=1M",
                &format!("count={blocks}"),
            ])
            .stderr(Stdio::null())
            .spawn()
            .expect("dd can be started"),
    );
    let measured = measure();
    let ended = dd.0.try_wait().ok().flatten().is_some();
    drop(dd);
    let _ = std::fs::remove_file(&file);
    if ended && !effort.quick {
        println!("dd had ended before the measurement did");
    }
    measured
}

/// A process that is killed when its value goes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
