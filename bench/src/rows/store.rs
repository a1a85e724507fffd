//! The embedded store beside InfluxDB 1.x: the same rows into both, the same queries to both.
//!
//! Weir runs with its defaults, which is `ack = "durable"`, and so does InfluxDB. Bodies are made
//! beforehand; the clock of a load stops when `count` says that all rows are there.

pub mod bodies;
pub mod decade;
pub mod disk;
pub mod load;
pub mod queries;
pub mod series;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use meter::engine::Plan;
use rig::http::{Connection, Request};
use rig::influxd::Influxd;
use rig::places;
use rig::sending;
use rig::weir::{Setup, Weir};

use crate::Outcome;
use crate::measure::{self, Usage};
use bodies::Bodies;

/// What all rows are written to.
pub const DATABASE: &str = "bench";
/// A load that takes longer has failed.
const LONGEST: Duration = Duration::from_secs(3_600);

pub fn influxdb(settings: &[(&'static str, &'static str)]) -> Influxd {
    let server = Influxd::start_with(settings);
    server.create(DATABASE);
    server
}

/// Weir with the embedded store, not started yet.
pub fn setup(settings: &str) -> Setup {
    Setup::new().top("").default_segments().embedded().store(settings)
}

/// An empty Weir with the embedded store.
///
/// # Errors
/// When the database can't be created.
pub fn weir(settings: &str) -> Outcome<Weir> {
    let weir = setup(settings).start();
    run(&weir, &format!("CREATE DATABASE {DATABASE}"))?;
    Ok(weir)
}

/// Makes the database, without anything that it may have had.
///
/// # Errors
/// When it can't be made.
pub fn make_anew(weir: &Weir) -> Outcome<()> {
    run(weir, &format!("DROP DATABASE {DATABASE}"))?;
    run(weir, &format!("CREATE DATABASE {DATABASE}"))
}

fn run(weir: &Weir, statement: &str) -> Outcome<()> {
    let answer = weir.query(statement, &[]);
    if answer.status() != 200 || answer.text().contains("error") {
        return Err(format!("{statement}: {}", answer.text()).into());
    }
    Ok(())
}

/// One of the two, over a connection that is kept.
pub struct Client {
    connection: Connection,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When it can't.
    pub fn open(address: SocketAddr) -> Outcome<Self> {
        Ok(Self { connection: Connection::open(address)? })
    }

    /// An answer's text, and how long it took.
    ///
    /// # Errors
    /// When it is an error.
    pub fn ask(&mut self, q: &str) -> Outcome<(String, Duration)> {
        let request = Request::query(q, &[("db", DATABASE), ("epoch", "ns")]);
        let begun = Instant::now();
        let answer = self.connection.send(&request)?;
        let took = begun.elapsed();
        let text = answer.text();
        if answer.status() != 200 || text.contains("\"error\"") {
            return Err(format!("{q}: {} {text}", answer.status()).into());
        }
        Ok((text, took))
    }

    /// What `count` gives; 0 where there is nothing.
    ///
    /// # Errors
    /// When it is an error.
    pub fn count(&mut self, q: &str) -> Outcome<u64> {
        let answer = self.ask(q)?.0;
        let answer: serde_json::Value = serde_json::from_str(&answer)?;
        Ok(answer["results"][0]["series"][0]["values"][0][1].as_u64().unwrap_or(0))
    }
}

/// What a load was like.
pub struct StoreLoadRun {
    /// From the first request until all rows were counted.
    pub took: Duration,
    /// The most memory meanwhile, in MiB.
    pub peak_mib: f64,
    /// The share of a core that the client took.
    pub client: f64,
}

impl StoreLoadRun {
    pub fn per_second(&self, rows: u64) -> f64 {
        rows as f64 / self.took.as_secs_f64()
    }
}

/// Writes all bodies, then asks `count` until it is what it has to be.
///
/// # Errors
/// When anything but 204 is answered, or rows are missing.
pub fn load(
    (address, pid): (SocketAddr, u32),
    bodies: &Arc<Bodies>,
    count: &str,
    expected: u64,
) -> Outcome<StoreLoadRun> {
    let mut client = Client::open(address)?;
    let peak = measure::Peak::begin(pid);
    let usage = Usage::begin(std::process::id());
    let plan = Plan { timeout: LONGEST, ..sending::closed(address, bodies.writers(), LONGEST) };
    let (stop, last, bodies) = (plan.stop.clone(), bodies.len() as u64, Arc::clone(bodies));
    let begun = Instant::now();
    let report = sending::run(&plan, move |number, out| {
        if number + 1 == last {
            stop.ask();
        }
        // What is due at the moment of the stop is sent too: rows that are there already.
        out.extend_from_slice(bodies.request((number % last) as usize));
    });
    if report.count(204) != report.sent {
        return Err(format!("answers: {:?}", report.statuses).into());
    }
    let mut counted = client.count(count)?;
    while counted != expected && begun.elapsed() < LONGEST {
        counted = client.count(count)?;
    }
    // The clock of the load begins once its connections are open, on a whole second.
    let took = SystemTime::now().duration_since(report.outcome.wall).unwrap_or_default();
    let client = usage.cpu().as_secs_f64() / report.elapsed().as_secs_f64();
    Ok(StoreLoadRun { took, peak_mib: peak.end_mib(), client })
}

/// Waits until none of the processes has anything to do, or for five minutes.
pub fn settled(pids: &[u32]) {
    const LOOK_EVERY: Duration = Duration::from_secs(2);
    const IDLE_SHARE: f64 = 0.05;
    const LONGEST: Duration = Duration::from_secs(300);
    let begun = Instant::now();
    let mut idle = 0;
    while idle < 3 && begun.elapsed() < LONGEST {
        let before: Vec<Usage> = pids.iter().map(|pid| Usage::begin(*pid)).collect();
        // A look at other processes now and then, in a program that has nothing else to do.
        std::thread::sleep(LOOK_EVERY);
        let most = LOOK_EVERY.mul_f64(IDLE_SHARE);
        idle = if before.iter().all(|usage| usage.cpu() <= most) { idle + 1 } else { 0 };
    }
}

/// What the disk takes, as a note.
///
/// # Errors
/// As the disk's.
pub fn disk_note() -> Outcome<String> {
    let dir = places::directory();
    let rate = measure::synced_mb_per_second(dir.path())?;
    Ok(format!("the disk takes {rate:.0} MB/s in synced pieces of 1 MiB"))
}
