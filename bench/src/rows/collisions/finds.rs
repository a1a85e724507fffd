//! Collisions that are planted among many points: how many are found at what share, and the memory
//! that looking takes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rig::http::{Connection, Request};
use rig::sending;
use rig::weir::Weir;

use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::measure;
use crate::report::{Row, unit};
use crate::sink::DATABASE;
use crate::stand::WeirWithSinks;

const REPEAT: &str = "make bench ARGS=\"--only collisions\"";
/// What detection may take by default, and what is allowed beside it.
const MEMORY_MAX_MIB: f64 = 16.0 + 1.0;

/// The rows.
///
/// # Errors
/// When anything can't be started, or an acknowledged point is missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let window = Duration::from_secs(10);
    let mut rows = Vec::new();
    rows.push(at_20_000(2 * window)?);
    rows.extend(at_a_million(2 * window)?);
    let lines = 2_000_000 / scale.one_in.max(1);
    rows.extend(planted(lines)?);
    Ok(rows)
}

fn share(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_influx_collisions_share", &[])
}

fn memory(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_influx_collisions_bytes", &[])
}

fn found(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_influx_collisions_total", &[])
}

/// Lines of two fields, 20,000 a second, each of a series and time of its own.
fn at_20_000(length: Duration) -> Outcome<Row> {
    const LINES: u64 = 100;
    let stand = WeirWithSinks::start("durable")?;
    let target = format!("/write?db={DATABASE}");
    let plan = sending::rate(stand.weir.http, 200.0, length);
    let report = sending::run(&plan, move |number, out| {
        let line =
            |n: u64| format!("m,host=h{n} f={n},g=1 {}\n", 1_700_000_000_000_000_000 + number);
        let body: String = (0..LINES).map(line).collect();
        sending::put_post(out, &target, body.as_bytes());
    });
    let note = format!(
        "{} lines of two fields, {:.0} bytes",
        report.count(204) * LINES,
        memory(&stand.weir)
    );
    let figure = "share of points looked at, 20,000 lines/s of two fields";
    let row = Row::judged(figure, share(&stand.weir), unit::RATIO, FigureTarget::whole());
    Ok(row.noted(vec![note]).repeat(REPEAT))
}

/// A million lines a second with and without detection.
fn at_a_million(length: Duration) -> Outcome<Vec<Row>> {
    let [on, off] = [FloodRun::measure("16MiB", length)?, FloodRun::measure("0", length)?];
    let notes = vec![format!(
        "{:.0} lines/s of one time a second; {:.2} % looked at, {:.2} % of the planted collisions \
         found",
        on.per_second,
        on.share * 100.0,
        on.found * 100.0
    )];
    let memory_notes = vec![format!(
        "{:.1} MiB with detection, {:.1} without; detection itself counts {:.1}",
        on.anonymous_mib, off.anonymous_mib, on.counted_mib
    )];
    let memory = on.anonymous_mib - off.anonymous_mib;
    let memory_figure = "memory (RssAnon), detection on less off, a million new series a second";
    Ok(vec![
        Row::judged(
            "share of points looked at, a million lines/s",
            on.share,
            unit::RATIO,
            FigureTarget::at_least(0.0, 0.02),
        )
        .repeat(REPEAT),
        Row::judged(
            "planted collisions found / share looked at, a million lines/s",
            on.found / on.share,
            unit::RATIO,
            FigureTarget::at_least(0.8, 0.8),
        )
        .noted(notes)
        .repeat(REPEAT),
        Row::judged(memory_figure, memory, unit::MIB, FigureTarget::within(MEMORY_MAX_MIB))
            .of([("on", &on), ("off", &off)]
                .map(|(way, run)| Series::new(way, unit::MIB, &[run.anonymous_mib]))
                .into())
            .noted(memory_notes)
            .repeat(REPEAT),
    ])
}

/// What a million lines a second came to.
struct FloodRun {
    per_second: f64,
    /// The share of points that was looked at, on average.
    share: f64,
    /// The share of planted collisions that was found.
    found: f64,
    /// The most memory that was no file's between two pieces of the flood.
    anonymous_mib: f64,
    /// The most that detection itself said it had.
    counted_mib: f64,
}

impl FloodRun {
    /// All lines of one second have one time, each a series of its own but for one in a hundred,
    /// which is written again at once. Detection may take so much memory.
    fn measure(memory_max: &str, length: Duration) -> Outcome<Self> {
        const LINES: u64 = 5_000;
        const BODIES: u64 = 200;
        let table = format!("[influx.collisions]\nmemory = \"{memory_max}\"\n");
        let mut stand = WeirWithSinks::start_with("durable", |setup| setup.table(&table))?;
        let pid = stand.id();
        // Without times: each body's is that of the second in which it comes.
        let target = format!("/write?db={DATABASE}&precision=s");
        let body = |body: u64| {
            let line = |n: u64| {
                let again = u64::from(n % PLANTED_EACH == 1);
                format!("m,host=h{} f={n},g=1\n", body * LINES + n - again)
            };
            let lines = (0..LINES).map(line).collect::<String>();
            let mut out = Vec::new();
            sending::put_post(&mut out, &target, lines.as_bytes());
            out
        };
        let bodies: Arc<[Vec<u8>]> = (0..BODIES).map(body).collect();
        let run = |length| {
            let bodies = Arc::clone(&bodies);
            let mut plan = sending::rate(stand.weir.http, BODIES as f64, length);
            // Bodies that wait for one another would lie in Weir's memory, and be counted with
            // what detection takes.
            plan.connections = 1;
            sending::run(&plan, move |n, out| out.extend_from_slice(&bodies[(n % BODIES) as usize]))
        };
        // Until the share is what it stays.
        run(length);
        let before = found(&stand.weir);
        let (mut sent, mut shares) = (0, Vec::new());
        let (mut anonymous_mib, mut counted) = (0.0_f64, 0.0_f64);
        let begun = Instant::now();
        while begun.elapsed() < length {
            sent += run(Duration::from_secs(2)).count(204) * LINES;
            shares.push(share(&stand.weir));
            anonymous_mib = anonymous_mib.max(measure::anonymous_mib(pid));
            counted = counted.max(memory(&stand.weir));
        }
        Ok(Self {
            per_second: sent as f64 / begun.elapsed().as_secs_f64(),
            share: shares.iter().sum::<f64>() / shares.len() as f64,
            found: (found(&stand.weir) - before) / (sent / PLANTED_EACH) as f64,
            anonymous_mib,
            counted_mib: counted / f64::from(1 << 20),
        })
    }
}

/// Lines of a body of either host.
const BODY: u64 = 100;
/// Of so many lines of a host the other one writes one, too.
const PLANTED_EACH: u64 = 100;

/// Writes so many lines from an address of this machine, 10,000 a second.
fn write_from(number: u8, lines: u64, weir: SocketAddr) -> Outcome<()> {
    const PER_SECOND: f64 = 10_000.0;
    let from = IpAddr::from([127, 0, 0, number]);
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(Connection::open_from(from, weir)?);
    }
    let begun = Instant::now();
    for body in 0..lines / BODY {
        let line = |n: u64| {
            let host = if n.is_multiple_of(PLANTED_EACH) { 0 } else { number };
            let time = 1_700_000_000_000_000_000 + n;
            format!("m,host=h{host} f={number},g={n}i {time}\n")
        };
        let text: String = (body * BODY..(body + 1) * BODY).map(line).collect();
        let request = Request::post(&format!("/write?db={DATABASE}"), text);
        let answer = connections[(body % 4) as usize].send(&request)?;
        if answer.status() != 204 {
            return Err(answer.text().into());
        }
        let due = Duration::from_secs_f64((body * BODY) as f64 / PER_SECOND);
        // A client's own thread, until its next body is due.
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    Ok(())
}

/// Two hosts that write to two workers at once.
fn planted(lines: u64) -> Outcome<Vec<Row>> {
    let stand = WeirWithSinks::start_with("durable", |setup| setup.top("workers = 2"))?;
    let (weir, each) = (stand.weir.http, lines / 2);
    let ended: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let write = |number| {
            scope.spawn(move || write_from(number, each, weir).map_err(|error| error.to_string()))
        };
        let panicked = |_| Err("a client panicked".to_owned());
        [2, 3].map(write).map(|thread| thread.join().unwrap_or_else(panicked)).into()
    });
    ended.into_iter().collect::<Result<(), String>>()?;
    let metrics = stand.weir.metrics();
    let labels = [("outcome", "overwritten"), ("between", "hosts")];
    let right = metrics.sum("weir_influx_collisions_total", &labels);
    let all = metrics.sum("weir_influx_collisions_total", &[]);
    let planted = each.div_ceil(PLANTED_EACH) as f64;
    let note = format!(
        "{lines} lines from two addresses, {planted} written by both, {right} found, {} others",
        all - right
    );
    Ok(vec![
        Row::judged(
            "planted collisions found / planted, 20,000 lines/s, two workers",
            right / planted,
            unit::RATIO,
            FigureTarget::whole(),
        )
        .noted(vec![note])
        .repeat(REPEAT),
        Row::judged(
            "collisions found that were none, 20,000 lines/s, two workers",
            all - right,
            unit::POINTS,
            FigureTarget::at_most(0.0, 0.0),
        )
        .repeat(REPEAT),
    ])
}
