//! Numbers of a hundred hosts: bytes on disk once all is flushed and compacted; windows by host.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::measure::disk_bytes;
use crate::report::{Row, unit};

use super::bodies::{Bodies, START_NS};
use super::queries::compare;
use super::{Client, influxdb, load, weir};

/// Hosts, each with a row every so often.
pub const HOSTS: u64 = 100;
const FIELDS: usize = 10;
/// Between two rows of a host.
pub const EVERY_SECONDS: u64 = 10;
const DAY_SECONDS: u64 = 86_400;
/// How long nothing may change on the disk until it is taken for finished.
const QUIET: Duration = Duration::from_secs(15);
const LONGEST: Duration = Duration::from_secs(300);

/// InfluxDB compacts fully what has been left alone for four hours; here for seconds.
const SOON: [(&str, &str); 2] = [
    ("INFLUXDB_DATA_CACHE_SNAPSHOT_WRITE_COLD_DURATION", "3s"),
    ("INFLUXDB_DATA_COMPACT_FULL_WRITE_COLD_DURATION", "5s"),
];

/// Fields that walk: half are integers, half floats of two decimals.
struct Walk {
    chance: StdRng,
    values: Vec<[i64; FIELDS]>,
}

impl Walk {
    fn new() -> Self {
        let values = vec![[5_000; FIELDS]; HOSTS as usize];
        Self { chance: StdRng::seed_from_u64(11), values }
    }

    fn put(&mut self, number: u64, out: &mut Vec<u8>) {
        let (host, step) = (number % HOSTS, number / HOSTS);
        // Writing to memory does not fail.
        let _ = write!(out, "node,host=host{host:03},region=r{} ", host % 4);
        for at in 0..FIELDS {
            let value = &mut self.values[host as usize][at];
            *value = (*value + self.chance.random_range(-50..=50)).clamp(0, 10_000);
            let comma = if at == 0 { "" } else { "," };
            let _ = match at % 2 {
                0 => write!(out, "{comma}f{at}={}.{:02}", *value / 100, *value % 100),
                _ => write!(out, "{comma}f{at}={value}i"),
            };
        }
        let _ = writeln!(out, " {}", START_NS + step * EVERY_SECONDS * 1_000_000_000);
    }
}

/// A day of rows of all hosts, and how many they are.
pub fn host_rows(scale: &Scale) -> (Arc<Bodies>, u64) {
    let rows = HOSTS * DAY_SECONDS / EVERY_SECONDS / scale.one_in;
    let mut walk = Walk::new();
    (Bodies::of(rows, 5_000, |number, out| walk.put(number, out)), rows)
}

/// Waits until nothing changes any more; gives the bytes.
fn settled_bytes(dir: &Path) -> u64 {
    let begun = Instant::now();
    let (mut bytes, mut since) = (disk_bytes(dir), Instant::now());
    while since.elapsed() < QUIET && begun.elapsed() < LONGEST {
        // A look at a directory now and then, in a program that has nothing else to do.
        std::thread::sleep(Duration::from_millis(500));
        let now = disk_bytes(dir);
        if now != bytes {
            (bytes, since) = (now, Instant::now());
        }
    }
    bytes
}

/// The rows.
///
/// # Errors
/// When anything can't be started, or rows are missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let (bodies, rows) = host_rows(scale);
    let server = influxdb(&SOON);
    let mut weir = weir("flush-interval = \"5s\"")?;
    let count = "SELECT count(f0) FROM node";
    load((server.address, server.id().unwrap_or(0)), &bodies, count, rows)?;
    let pid = weir.running().id();
    load((weir.http, pid), &bodies, count, rows)?;
    let theirs_bytes = settled_bytes(server.dir());
    let (store, journal) = (weir.dir().join("store"), weir.journal_dir());
    let ours_bytes = settled_bytes(&store);
    let share = ours_bytes as f64 / theirs_bytes as f64;
    let per_value = |bytes: u64| bytes as f64 / (rows * FIELDS as u64) as f64;
    let repeat = "make bench ARGS=\"--only store-disk\"";
    let figure = "bytes on disk for the numeric data / InfluxDB";
    let disk = Row::judged(figure, share, unit::RATIO, FigureTarget::at_most(1.0, 0.6))
        .of(vec![
            Series::new("InfluxDB", unit::BYTES, &[theirs_bytes as f64]),
            Series::new("Weir", unit::BYTES, &[ours_bytes as f64]),
        ])
        .noted(vec![
            format!(
                "{HOSTS} hosts, {FIELDS} fields, every {EVERY_SECONDS} s, {rows} rows, flushed \
                 and compacted"
            ),
            format!("InfluxDB {theirs_bytes}, {:.2} a value", per_value(theirs_bytes)),
            format!("Weir's store {ours_bytes}, {:.2} a value", per_value(ours_bytes)),
            format!("Weir's journal keeps {} to use again", disk_bytes(&journal)),
        ])
        .repeat(repeat);
    let seconds = rows / HOSTS * EVERY_SECONDS;
    let from = START_NS + seconds / 3 * 1_000_000_000;
    let to = from + (6 * 3_600).min(seconds / 2) * 1_000_000_000;
    let q = format!(
        "SELECT mean(f0) FROM node WHERE time >= {from} AND time < {to} GROUP BY time(1m), host"
    );
    let (mut theirs, mut ours) = (Client::open(server.address)?, Client::open(weir.http)?);
    let figure = "mean over 6 h by time(1m) and host, InfluxDB's time / ours";
    let windows = match compare(&mut theirs, &mut ours, &q) {
        Ok(compared) => {
            Row::judged(figure, compared.ratio, unit::RATIO, FigureTarget::at_least(5.0, 20.0))
                .of(compared.series.into())
                .noted(vec![compared.note])
                .repeat(repeat)
        }
        Err(error) => Row::failed(figure, &error.to_string()),
    };
    Ok(vec![disk, windows])
}
