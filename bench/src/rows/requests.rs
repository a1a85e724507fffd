//! Single-point writes at 512 connections: requests a second beside nginx and InfluxDB, and CPU
//! time a request beside vmagent. The peers take turns, so that the machine's moods meet them all.

use std::net::SocketAddr;
use std::time::Duration;

use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::load::{self, Run};
use crate::measure::Usage;
use crate::peers::{self, Peer};
use crate::report::{Row, Verdict, median, unit};
use crate::stand::{self, RealStand, WeirWithSinks};

/// Connections of the load.
pub const CONNECTIONS: usize = 512;
const REPEAT: &str = "make bench ARGS=\"--only requests\"";

/// What was seen of one server over all rounds.
#[derive(Default)]
struct ServerSamples {
    per_second: Vec<f64>,
    /// Microseconds of CPU time a request.
    cpu_us: Vec<f64>,
    client_cpu: Vec<f64>,
    disk: Vec<f64>,
    worthless: Option<Verdict>,
    command: String,
}

impl ServerSamples {
    fn note(&mut self, run: Run, usage: &Usage) {
        self.per_second.push(run.per_second);
        self.cpu_us.push(usage.cpu().as_secs_f64() * 1e6 / run.requests.max(1) as f64);
        self.client_cpu.push(run.client_cpu);
        self.disk.push(usage.disk_mb_per_second());
        self.worthless = self.worthless.take().or(run.worthless);
        self.command = run.command;
    }

    fn series(&self, name: &str) -> [Series; 2] {
        [
            Series::new(name, unit::REQUESTS, &self.per_second),
            Series::new(name, unit::CPU_US, &self.cpu_us),
        ]
    }

    fn line(&self, name: &str) -> String {
        format!(
            "{name}: {:.0} requests/s, {:.1} us CPU a request, disk {:.1} MB/s, client {:.0} % of \
             a core (medians of {})",
            median(&self.per_second),
            median(&self.cpu_us),
            median(&self.disk),
            median(&self.client_cpu) * 100.0,
            self.per_second.len()
        )
    }
}

/// Measures a peer once.
fn once(
    seen: &mut ServerSamples,
    address: SocketAddr,
    pid: u32,
    scale: &Scale,
    run: u32,
) -> Outcome<()> {
    let usage = Usage::begin(pid);
    let run = load::wrk(address, CONNECTIONS, scale.duration, run)?;
    seen.note(run, &usage);
    Ok(())
}

/// Measures Weir once; its CPU time includes the delivery of everything.
fn weir(
    seen: &mut ServerSamples,
    stand: &mut WeirWithSinks,
    scale: &Scale,
    run: u32,
) -> Outcome<Duration> {
    let usage = Usage::begin(stand.id());
    let before = stand::accepted(&stand.weir);
    let run = load::wrk(stand.weir.http, CONNECTIONS, scale.duration, run)?;
    let backlog = stand.settle()?;
    let taken = stand::accepted(&stand.weir) - before;
    if taken < run.requests {
        return Err(format!("{} requests were 204, {taken} accepted", run.requests).into());
    }
    seen.note(run, &usage);
    seen.worthless = stand::late(backlog).or(seen.worthless.take());
    Ok(backlog)
}

/// The rows.
///
/// # Errors
/// When anything can't be started, or an acknowledged point is missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let peers: [Peer; 3] = [peers::nginx()?, peers::influxdb()?, peers::vmagent()?];
    let mut stand = WeirWithSinks::start("durable")?;
    let (mut ours, mut theirs) =
        (ServerSamples::default(), [(); 3].map(|()| ServerSamples::default()));
    let mut backlog = Duration::ZERO;
    for round in 0..scale.rounds as u32 {
        for (peer, seen) in peers.iter().zip(&mut theirs) {
            once(seen, peer.address, peer.id(), scale, round)?;
        }
        backlog = backlog.max(weir(&mut ours, &mut stand, scale, round)?);
    }
    let [nginx, influxdb, vmagent] = &theirs;
    let mut notes: Vec<String> =
        peers.iter().zip(&theirs).map(|(peer, seen)| seen.line(peer.name)).collect();
    notes.push(ours.line("Weir, durable, two sinks"));
    notes.push(format!("each by `{}`", ours.command));
    notes.push(format!("Weir's backlog at the end: {backlog:?} at most; both sinks have all"));
    let ratio = |other: &ServerSamples| median(&ours.per_second) / median(&other.per_second);
    let row = |figure: &str, value: f64, wanted, name: &str, other: &ServerSamples| {
        let worthless = ours.worthless.clone().or_else(|| other.worthless.clone());
        Row::judged(figure, value, unit::RATIO, wanted)
            .of(ours.series("Weir").into_iter().chain(other.series(name)).collect())
            .repeat(REPEAT)
            .unless(worthless)
    };
    let cpu = median(&ours.cpu_us) / median(&vmagent.cpu_us);
    let mut rows = vec![
        row(
            "req/s at 512 connections / nginx 204",
            ratio(nginx),
            FigureTarget::at_least(0.8, 1.0),
            peers[0].name,
            nginx,
        )
        .noted(notes),
        row(
            "req/s at 512 connections / InfluxDB direct",
            ratio(influxdb),
            FigureTarget::at_least(4.0, 6.0),
            peers[1].name,
            influxdb,
        ),
        row(
            "CPU time a request, delivery included / vmagent",
            cpu,
            FigureTarget::at_most(0.5, 0.35),
            peers[2].name,
            vmagent,
        ),
    ];
    drop((peers, stand));
    rows.push(with_real_servers(scale)?);
    Ok(rows)
}

/// The same with two real servers behind, which share the two cores.
fn with_real_servers(scale: &Scale) -> Outcome<Row> {
    let stand = RealStand::start();
    let run = load::wrk(stand.weir.http, CONNECTIONS, scale.duration, 0)?;
    let backlog = stand.settle()?;
    let note = format!(
        "both servers have exactly the acknowledged points; the backlog at the end took \
         {backlog:?}; client {:.0} % of a core",
        run.client_cpu * 100.0
    );
    let figure = "req/s at 512 connections, two real InfluxDB behind";
    Ok(Row::beside(figure, run.per_second, unit::REQUESTS)
        .noted(vec![note])
        .repeat(REPEAT)
        .unless(run.worthless.or(stand::late(backlog))))
}
