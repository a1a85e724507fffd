//! Queries over the field report's rows, beside InfluxDB's answers: kept-alive, warm, the median of
//! 20, no cache; then once more after a hundredth was written again and some was deleted.

use std::net::SocketAddr;
use std::time::Duration;

use rig::wait;
use serde_json::Value as Json;

use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, Verdict, median, unit};

use super::bodies::{self, Bodies, REPORT_STEP_NS, ReportRow, START_NS};
use super::{Client, disk_note, influxdb, load, weir};

/// What says that all rows are there.
pub const COUNT: &str = "SELECT count(int) FROM stress";
const TIMES: usize = 20;
const WARM: usize = 3;
/// Rows of the field report's two ranges.
const RANGES: [u64; 2] = [236_400, 7_202];

/// A figure: its queries, of which the worst counts, and what it has to be.
pub struct Figure {
    /// What is asked, and of what times the ratio is.
    pub name: &'static str,
    pub queries: Vec<String>,
    wanted: FigureTarget,
}

/// All figures, where there are so many rows.
pub fn figures(rows: u64) -> Vec<Figure> {
    let range = |count: u64| {
        let from = START_NS + rows / 3 * REPORT_STEP_NS;
        format!("time >= {from} AND time < {}", from + count.min(rows / 2) * REPORT_STEP_NS)
    };
    let ranged = RANGES.into_iter().flat_map(|count| {
        ["max", "count"]
            .map(|call| format!("SELECT {call}(int) FROM stress WHERE {}", range(count)))
    });
    vec![
        Figure {
            name: "select max(int) over all rows, InfluxDB's time / ours",
            queries: vec!["SELECT max(int) FROM stress".to_owned()],
            wanted: FigureTarget::at_least(10.0, 40.0),
        },
        Figure {
            name: "max and count of 236,400 and of 7,202 rows, likewise",
            queries: ranged.collect(),
            wanted: FigureTarget::at_least(3.0, 10.0),
        },
        Figure {
            name: "select * limit 1000, likewise",
            queries: vec!["SELECT * FROM stress LIMIT 1000".to_owned()],
            wanted: FigureTarget::at_least(1.0, 3.0),
        },
    ]
}

/// The answer and all times in milliseconds.
fn timed(client: &mut Client, q: &str) -> Outcome<(String, Vec<f64>)> {
    let mut answer = String::new();
    let mut all = Vec::new();
    for n in 0..WARM + TIMES {
        let (text, took) = client.ask(q)?;
        answer = text;
        if n >= WARM {
            all.push(took.as_secs_f64() * 1e3);
        }
    }
    Ok((answer, all))
}

/// Whether two answers are the same, computed floats to 1e-9: InfluxDB adds up in another order.
fn is_same(theirs: &Json, ours: &Json) -> bool {
    match (theirs, ours) {
        (Json::Number(a), Json::Number(b)) if a.is_f64() || b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
            (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            let is_there = |(key, a): (&String, &Json)| b.get(key).is_some_and(|b| is_same(a, b));
            a.len() == b.len() && a.iter().all(is_there)
        }
        (a, b) => a == b,
    }
}

/// A query's times at both.
pub struct Compared {
    /// How many times longer InfluxDB takes.
    pub ratio: f64,
    /// The medians of the times.
    pub theirs_ms: f64,
    pub ours_ms: f64,
    /// The same in words.
    pub note: String,
    /// The times of all runs, by database.
    pub series: [Series; 2],
}

/// Asks both; the answers must be the same.
pub fn compare(theirs: &mut Client, ours: &mut Client, q: &str) -> Outcome<Compared> {
    let (their_answer, their_times) = timed(theirs, q)?;
    let (our_answer, our_times) = timed(ours, q)?;
    if !is_same(&serde_json::from_str(&their_answer)?, &serde_json::from_str(&our_answer)?) {
        let cut = |text: &str| text.chars().take(300).collect::<String>();
        let (theirs, ours) = (cut(&their_answer), cut(&our_answer));
        return Err(format!("{q}: InfluxDB answers {theirs}, Weir {ours}").into());
    }
    let (their_ms, our_ms) = (median(&their_times), median(&our_times));
    let ratio = their_ms / our_ms;
    let note = format!("`{q}`: InfluxDB {their_ms:.2} ms, Weir {our_ms:.2} ms, {ratio:.1}");
    let series = [("InfluxDB", their_times), ("Weir", our_times)]
        .map(|(name, times)| Series::new(format!("{name}, {q}"), unit::MS, &times));
    Ok(Compared { ratio, theirs_ms: their_ms, ours_ms: our_ms, note, series })
}

fn measured(theirs: &mut Client, ours: &mut Client, rows: u64, when: &str) -> Vec<Row> {
    let mut table = Vec::new();
    for figure in figures(rows) {
        let (mut worst, mut failed) = (f64::INFINITY, None);
        let (mut notes, mut series) = (Vec::new(), Vec::new());
        for q in &figure.queries {
            match compare(theirs, ours, q) {
                Ok(compared) => {
                    worst = worst.min(compared.ratio);
                    notes.push(compared.note);
                    series.extend(compared.series);
                }
                Err(error) => failed = Some(Verdict::Failed(error.to_string())),
            }
        }
        let name = format!("{}{when}", figure.name);
        let row = Row::judged(name, worst, unit::RATIO, figure.wanted)
            .of(series)
            .noted(notes)
            .repeat("make bench ARGS=\"--only store-queries\"");
        table.push(row.unless(failed));
    }
    table
}

/// Writes a hundredth again, with other integers, and deletes a thousandth.
fn change(address: SocketAddr, pid: u32, rows: u64) -> Outcome<()> {
    let mut row = ReportRow::new();
    let again = Bodies::of(rows / 100, 5_000, |n, out| row.put(n * 100, 1, out));
    load((address, pid), &again, COUNT, rows)?;
    let from = START_NS + rows / 2 * REPORT_STEP_NS;
    let to = from + rows / 1_000 * REPORT_STEP_NS;
    let delete = format!("DELETE FROM stress WHERE time >= {from} AND time < {to}");
    let mut client = Client::open(address)?;
    client.ask(&delete)?;
    let left = rows - rows / 1_000;
    wait::until("the rows are deleted", Duration::from_secs(60), || {
        client.count(COUNT).is_ok_and(|count| count == left)
    });
    Ok(())
}

/// The rows.
///
/// # Errors
/// When anything can't be started, or rows are missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let rows = bodies::REPORT_ROWS / scale.one_in;
    let bodies = bodies::report(rows, 5_000);
    let server = influxdb(&[]);
    let mut weir = weir("")?;
    let (their_pid, our_pid) = (server.id().unwrap_or(0), weir.running().id());
    load((server.address, their_pid), &bodies, COUNT, rows)?;
    load((weir.http, our_pid), &bodies, COUNT, rows)?;
    drop(bodies);
    super::settled(&[their_pid, our_pid]);
    let (mut theirs, mut ours) = (Client::open(server.address)?, Client::open(weir.http)?);
    let mut table = measured(&mut theirs, &mut ours, rows, "");
    change(server.address, their_pid, rows)?;
    change(weir.http, our_pid, rows)?;
    super::settled(&[their_pid, our_pid]);
    let when = ", after overwriting 1 % and a DELETE";
    table.extend(measured(&mut theirs, &mut ours, rows, when));
    if let Some(row) = table.first_mut() {
        row.notes.push(format!("{rows} rows, answers compared; {}", disk_note()?));
    }
    Ok(table)
}
