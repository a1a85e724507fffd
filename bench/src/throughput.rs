//! Requests and lines a second, and what a request costs in CPU time.

use std::net::SocketAddr;
use std::path::Path;

use rig::influxd::Influxd;

use crate::peers::{self, Peer};
use crate::report::{self, median};
use crate::wrk::{self, Run};
use crate::{Effort, cpu, subject};

/// What a server gave over all rounds.
#[derive(Default)]
struct Series {
    name: String,
    per_second: Vec<f64>,
    cpu_us: Vec<f64>,
    client: Vec<f64>,
    disk_mb: Vec<f64>,
    void: Vec<String>,
}

impl Series {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    fn measure(&mut self, at: SocketAddr, pid: u32, load: &Load<'_>) {
        let (cpu_before, disk_before) = (cpu::of(pid), cpu::written_bytes(pid));
        let run =
            wrk::run(at, "/write?db=bench", load.connections, load.effort.seconds, load.script);
        let used = cpu::of(pid).saturating_sub(cpu_before);
        self.per_second.push(run.per_second);
        self.cpu_us.push(used.as_secs_f64() * 1e6 / run.answers.max(1) as f64);
        self.client.push(run.client_cores);
        let written = (cpu::written_bytes(pid) - disk_before) as f64 / 1e6;
        self.disk_mb.push(written / load.effort.seconds.as_secs_f64());
        self.judge(&run);
    }

    fn judge(&mut self, run: &Run) {
        if run.failed > 0 {
            self.void.push(format!("{} answers were not 204", run.failed));
        }
        if run.saturated() {
            self.void.push("client saturated".to_owned());
        }
    }

    fn print(&self, lines: f64) {
        let verdict = if self.void.is_empty() {
            "ok".to_owned()
        } else {
            format!("VOID: {}", self.void.join("; "))
        };
        report::line(&[
            self.name.clone(),
            format!("{:.0}", median(&self.per_second) * lines),
            format!("{:.1}", median(&self.cpu_us)),
            format!("{:.0} %", median(&self.client) * 100.0),
            format!("{:.1}", median(&self.disk_mb)),
            verdict,
        ]);
    }

    fn rate(&self) -> f64 {
        median(&self.per_second)
    }
}

struct Load<'a> {
    connections: u32,
    script: &'a Path,
    effort: Effort,
}

const COLUMNS: [&str; 6] =
    ["server", "a second", "CPU us a request", "client CPU", "disk MB/s", "verdict"];

/// Single points, one in a request, over `connections`.
pub fn single_points(connections: u32, effort: Effort) {
    let dir = rig::places::directory();
    let script = wrk::single_points(dir.path());
    let load = Load { connections, script: &script, effort };
    let makers: [(&str, fn() -> Option<Peer>); 6] = [
        ("nginx", peers::nginx),
        ("influxd", peers::influxdb),
        ("vmagent", peers::vmagent),
        ("influxdb-relay", peers::relay),
        ("influx-proxy", peers::influx_proxy),
        ("telegraf", peers::telegraf),
    ];
    let mut all: Vec<(Peer, Series)> = Vec::new();
    let mut absent = Vec::new();
    for (program, make) in makers {
        match make() {
            Some(peer) => {
                let series = Series::new(peer.name);
                all.push((peer, series));
            }
            None => absent.push(program),
        }
    }
    let (mut weir, sinks) = subject::with_sinks("durable");
    let mut weir_series = Series::new("Weir, two sinks");
    let mut behind = Vec::new();
    for _ in 0..effort.rounds {
        for (peer, series) in &mut all {
            series.measure(peer.address, peer.pid, &load);
        }
        let pid = subject::pid(&mut weir);
        weir_series.measure(subject::address(&weir), pid, &load);
        behind.push(subject::behind(&weir));
        weir_series.void.extend(subject::arrived(&weir, &sinks).err());
    }
    if behind.iter().any(|&seconds| seconds >= 1.0) {
        weir_series.void.push(format!("behind at the end by {behind:.1?} s"));
    }
    drop((weir, sinks));
    let real = with_influxdb(&load);
    println!(
        "wrk -t1 -c{connections} -d{}s, 60-byte lines, {} rounds in turn, medians\n",
        effort.seconds.as_secs(),
        effort.rounds
    );
    report::head(&COLUMNS);
    all.iter().for_each(|(_, series)| series.print(1.0));
    weir_series.print(1.0);
    real.iter().for_each(|series| series.print(1.0));
    if !absent.is_empty() {
        println!("\nAbsent on this machine: {}.", absent.join(", "));
    }
    for (_, series) in &all {
        println!(
            "\nreq/s, Weir / {}: **{:.2}**; CPU a request: **{:.2}**",
            series.name,
            weir_series.rate() / series.rate(),
            median(&weir_series.cpu_us) / median(&series.cpu_us)
        );
    }
    println!("\nRepeat: `make bench ARGS='--only throughput-{connections}'`");
}

/// The same with two real servers behind, which take their share of the same cores.
fn with_influxdb(load: &Load<'_>) -> Option<Series> {
    rig::places::find("influxd")?;
    let servers = [Influxd::start(), Influxd::start()];
    servers.iter().for_each(|server| server.create("bench"));
    let mut weir = subject::setup("durable")
        .backend("a", &servers[0].url())
        .backend("b", &servers[1].url())
        .start();
    let mut series = Series::new("Weir, two InfluxDB");
    for _ in 0..load.effort.rounds {
        let pid = subject::pid(&mut weir);
        series.measure(subject::address(&weir), pid, load);
        weir.wait_delivered();
    }
    Some(series)
}

/// Lines in one body of the row below.
const LINES: u64 = 5000;

/// Bodies of 5,000 lines over 16 connections.
pub fn large_bodies(effort: Effort) {
    let dir = rig::places::directory();
    let script = wrk::large_bodies(dir.path(), LINES);
    let load = Load { connections: 16, script: &script, effort };
    let (mut weir, sinks) = subject::with_sinks("durable");
    let mut series = Series::new("Weir, two sinks");
    for _ in 0..effort.rounds {
        let pid = subject::pid(&mut weir);
        series.measure(subject::address(&weir), pid, &load);
        series.void.extend(subject::arrived(&weir, &sinks).err());
    }
    println!(
        "wrk -t1 -c16 -d{}s, bodies of {LINES} lines, durable, one worker; lines a second\n",
        effort.seconds.as_secs()
    );
    report::head(&COLUMNS);
    series.print(LINES as f64);
    report::ratio("M lines/s", series.rate() * LINES as f64 / 1e6, "2, beyond 4");
    println!("\nRepeat: `make bench ARGS='--only lines'`");
}
