//! The Redis gateway beside a direct connection, nutcracker (twemproxy) and, where they are on the
//! `PATH`, Envoy and predixy, in front of the same servers. They take turns; the median of rounds
//! counts.
//!
//! Weir has one worker, as the others have one thread, and redis-benchmark one.

pub mod burst;
pub mod client;
pub mod idle;
pub mod mget;
pub mod peer;
pub mod rates;
pub mod servers;
pub mod shared;
pub mod wait;

use rig::redis::Redis;
use rig::weir::{Setup, Weir};

use crate::Outcome;
use crate::measure;
use crate::report::{Row, median, unit};
use crate::rows::turns::{self, ClientRoute, RouteSamples, Run};
use client::Load;
use peer::{OPTIONAL, Peer};

/// The places of [`RedisSetup::ways`].
pub const DIRECT: usize = 0;
/// The index of nutcracker among the routes.
pub const NUTCRACKER: usize = 1;
/// The index of Weir among the routes.
pub const WEIR: usize = 2;

/// Weir with one worker in front of these servers, not started yet.
pub fn setup(servers: &[Redis]) -> Setup {
    setup_with(servers, "")
}

/// The same with more lines in `[redis]`.
pub fn setup_with(servers: &[Redis], lines: &str) -> Setup {
    let mut table = format!(
        "[redis]\nlisten = \"{{redis}}\"\nmax-connections = 20000\n\
         distribution = \"ketama\"\nhash = \"fnv1a_64\"\n{lines}\n"
    );
    for (number, server) in servers.iter().enumerate() {
        let backend = format!("name = \"server-{number}\"\nurl = \"{}\"\n", server.url());
        table.push_str(&format!("[[redis.backend]]\n{backend}"));
    }
    Setup::new().top("workers = 1").table(&table)
}

/// Servers with room for as many clients as are measured.
pub fn servers(count: usize) -> Vec<Redis> {
    (0..count).map(|_| Redis::start_with(&["--maxclients", "10100"])).collect()
}

pub fn of(weir: &mut Weir, name: &'static str) -> ClientRoute {
    ClientRoute { name, address: weir.redis, pid: Some(weir.running().id()), optional: false }
}

/// Everything in front of some servers.
pub struct RedisSetup {
    pub servers: Vec<Redis>,
    nutcracker: Peer,
    /// Those of [`OPTIONAL`] that are installed.
    installed: Vec<Peer>,
    weir: Weir,
}

impl RedisSetup {
    /// Starts everything.
    ///
    /// # Errors
    /// When nutcracker's configuration can't be written.
    pub fn start(count: usize) -> Outcome<Self> {
        let servers = servers(count);
        let nutcracker = Peer::nutcracker(&servers)?;
        let mut installed = Vec::new();
        for (name, program) in OPTIONAL {
            installed.extend(Peer::optional(name, program, &servers)?);
        }
        let weir = setup(&servers).start();
        Ok(Self { servers, nutcracker, installed, weir })
    }

    /// All of them: direct to the first server, nutcracker, Weir, those that are on the `PATH`.
    pub fn ways(&mut self) -> Vec<ClientRoute> {
        let server = self.servers[0].address;
        let direct = ClientRoute { name: "direct", address: server, pid: None, optional: false };
        let mut ways = vec![direct, self.nutcracker.way(), of(&mut self.weir, "Weir")];
        ways.extend(self.installed.iter().map(Peer::way));
        ways
    }
}

/// The CPU time of servers so far, in microseconds.
fn cpu_us(servers: &mut [Redis]) -> f64 {
    let cpu = |server: &mut Redis| measure::cpu(server.running().id()).as_secs_f64() * 1e6;
    servers.iter_mut().map(cpu).sum()
}

/// A row for each of those that may be on the `PATH`: Weir's rate over its own.
pub fn rows_over_optional(figure: &str, seen: &[RouteSamples]) -> Vec<Row> {
    let weir = seen.iter().find(|seen| seen.way.name == "Weir").map_or(0.0, RouteSamples::rate);
    let row = |(name, program): (&str, &str)| {
        let figure = format!("{figure} / {name}");
        match seen.iter().find(|seen| seen.way.name == name) {
            None => Row::no_peer(figure, format!("{program} is not on the PATH")),
            Some(theirs) if theirs.rate() > 0.0 => {
                Row::beside(figure, weir / theirs.rate(), unit::RATIO).of(turns::series(seen))
            }
            Some(_) => Row::no_peer(figure, format!("{name} gave no figure")),
        }
    };
    OPTIONAL.into_iter().map(row).collect()
}

/// What is seen of a way beside its rate.
#[derive(Debug, Clone)]
pub struct Beside {
    name: &'static str,
    /// Microseconds of CPU time of the servers, for each command.
    pub servers_cpu_us: Vec<f64>,
    /// As redis-benchmark reports it, in milliseconds.
    p99_ms: Vec<f64>,
    /// Of the client's one thread: 1 is a whole core.
    client_cpu: Vec<f64>,
}

impl Beside {
    /// Nothing yet of these ways.
    pub fn of(ways: &[ClientRoute]) -> Vec<Self> {
        let (servers_cpu_us, p99_ms, client_cpu) = (Vec::new(), Vec::new(), Vec::new());
        let none = Self { name: "", servers_cpu_us, p99_ms, client_cpu };
        ways.iter().map(|way| Self { name: way.name, ..none.clone() }).collect()
    }

    /// Runs the load on one of the ways, to these servers, and notes it.
    ///
    /// # Errors
    /// As of [`Load::run`].
    pub fn run(
        all: &mut [Self],
        servers: &mut [Redis],
        load: &Load,
        way: ClientRoute,
    ) -> Outcome<Run> {
        let before = cpu_us(servers);
        let done = load.run(way)?;
        let servers_cpu_us = (cpu_us(servers) - before) / done.run.requests;
        if let Some(beside) = all.iter_mut().find(|beside| beside.name == way.name) {
            beside.servers_cpu_us.push(servers_cpu_us);
            beside.p99_ms.push(done.p99_ms);
            beside.client_cpu.push(done.client_cpu);
        }
        Ok(done.run)
    }

    /// Notes on ways: their rates first.
    pub fn notes(all: &[Self], seen: &[RouteSamples]) -> Vec<String> {
        let with_figures = all.iter().filter(|beside| !beside.p99_ms.is_empty());
        seen.iter().map(RouteSamples::line).chain(with_figures.map(Self::line)).collect()
    }

    fn line(&self) -> String {
        let cpu = median(&self.client_cpu) * 100.0;
        let full = if cpu > 95.0 { ": its thread is full" } else { "" };
        format!(
            "{}: p99 {:.2} ms, {:.1} us CPU of the servers each, redis-benchmark {cpu:.0} % \
             of a core{full}",
            self.name,
            median(&self.p99_ms),
            median(&self.servers_cpu_us),
        )
    }
}
