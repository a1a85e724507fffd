//! Weir and what stands behind it while it is measured.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use rig::http::{self, Request};
use rig::influxd::Influxd;
use rig::places;
use rig::process::Process;
use rig::weir::{Setup, Weir};
use tempfile::TempDir;

use crate::Outcome;
use crate::report::Verdict;
use crate::sink::DATABASE;

/// How long a backlog may take at the end.
const BACKLOG_MAX: Duration = Duration::from_secs(1);

/// What a row is worth whose backlog took so long at the end.
pub fn late(backlog: Duration) -> Option<Verdict> {
    let what = || Verdict::Failed(format!("{backlog:?} of backlog at the end"));
    (backlog > BACKLOG_MAX).then(what)
}

/// The sink as a process.
pub struct Sink {
    _process: Process,
    pub address: SocketAddr,
    _dir: TempDir,
}

impl Sink {
    /// Starts one.
    ///
    /// # Errors
    /// When this program can't be found.
    pub fn start() -> Outcome<Self> {
        let address = places::free_address();
        Self::start_at(address)
    }

    /// Starts one where another was.
    ///
    /// # Errors
    /// When this program can't be found.
    pub fn start_at(address: SocketAddr) -> Outcome<Self> {
        let dir = places::directory();
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("sink").arg(address.to_string());
        let mut process = Process::start("sink", &mut command, &dir.path().join("log"));
        let count = Request::get("/count");
        process.wait_ready(|| http::send(address, &count).is_ok());
        Ok(Self { _process: process, address, _dir: dir })
    }

    /// Its lines so far.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn count(&self) -> Outcome<u64> {
        Ok(http::send(self.address, &Request::get("/count"))?.text().parse()?)
    }

    /// Makes it accept and never answer, or ends that.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn hang(&self, hang: bool) -> Outcome<()> {
        let target = if hang { "/hang" } else { "/accept" };
        http::send(self.address, &Request::get(target))?;
        Ok(())
    }

    /// As a backend's address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Weir with one worker in front of these sinks, not started yet.
pub fn setup(sinks: &[Sink; 2], ack: &str) -> Setup {
    Setup::new()
        .top("workers = 1")
        .default_segments()
        .journal(&format!("ack = \"{ack}\""))
        .backend_with("a", &sinks[0].url(), "timeout = \"10s\"")
        .backend_with("b", &sinks[1].url(), "timeout = \"10s\"")
}

/// Weir with one worker in front of two sinks.
pub struct WeirWithSinks {
    pub sinks: [Sink; 2],
    pub weir: Weir,
}

impl WeirWithSinks {
    /// Starts all three.
    ///
    /// # Errors
    /// When a sink can't be started.
    pub fn start(ack: &str) -> Outcome<Self> {
        Self::start_with(ack, |setup| setup)
    }

    /// Starts all three, Weir with other settings.
    ///
    /// # Errors
    /// When a sink can't be started.
    pub fn start_with(ack: &str, change: impl FnOnce(Setup) -> Setup) -> Outcome<Self> {
        let sinks = [Sink::start()?, Sink::start()?];
        let weir = change(setup(&sinks, ack)).start();
        Ok(Self { sinks, weir })
    }

    pub fn id(&mut self) -> u32 {
        self.weir.running().id()
    }

    /// Waits until both sinks have everything.
    ///
    /// # Errors
    /// When that takes too long, or when what arrived is not what was acknowledged.
    pub fn settle(&self) -> Outcome<Duration> {
        let took = drained(&self.weir);
        let accepted = accepted(&self.weir);
        for (sink, account) in self.sinks.iter().zip(self.weir.accounts()) {
            let count = sink.count()?;
            if count < accepted || account.dead_lettered + account.dropped > 0 {
                let name = account.name;
                return Err(format!("{name} has {count} of {accepted} acknowledged points").into());
            }
        }
        Ok(took)
    }
}

/// Weir with one worker in front of two real servers.
pub struct RealStand {
    servers: [Influxd; 2],
    pub weir: Weir,
}

impl RealStand {
    pub fn start() -> Self {
        let servers = [Influxd::start(), Influxd::start()];
        servers.iter().for_each(|server| server.create(DATABASE));
        let weir = Setup::new()
            .top("workers = 1")
            .default_segments()
            .backend_with("a", &servers[0].url(), "timeout = \"10s\"")
            .backend_with("b", &servers[1].url(), "timeout = \"10s\"")
            .start();
        Self { servers, weir }
    }

    /// Waits until both have everything; gives how long that took.
    ///
    /// # Errors
    /// When what arrived is not what was acknowledged.
    pub fn settle(&self) -> Outcome<Duration> {
        let took = drained(&self.weir);
        let acknowledged = accepted(&self.weir);
        for (server, account) in self.servers.iter().zip(self.weir.accounts()) {
            let count = server.count(DATABASE, "cpu", "idle");
            // A write whose client has gone before its ack is taken and delivered too.
            if count < acknowledged || count != account.accepted {
                let taken = account.accepted;
                let text = format!("{count} points; {acknowledged} acknowledged, {taken} taken");
                return Err(format!("InfluxDB has {text}").into());
            }
        }
        Ok(took)
    }
}

/// Points acknowledged since Weir started.
pub fn accepted(weir: &Weir) -> u64 {
    weir.metrics().sum("weir_influx_points_accepted_total", &[]) as u64
}

/// Waits until nothing waits for any backend; gives how long that took.
fn drained(weir: &Weir) -> Duration {
    let begun = Instant::now();
    weir.wait_delivered();
    begun.elapsed()
}
