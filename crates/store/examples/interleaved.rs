//! How long queries take on rows that thirty writers wrote in turns: all of them in memory, or in
//! files.
//!
//! `cargo run --release -p weir-store --example interleaved [rows] [threads] [MiB of memory]`

use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::query::context::Context;
use store::query::results::{Message, Rows, Sink};
use store::query::select::run;
use store::{Settings, Store};
use units::Size;
use wire::influxql::ast::Statement;

const START_NS: u64 = 1_577_836_800_000_000_000;
const STEP_NS: u64 = 60_480_000;
const WRITERS: u64 = 30;
const BATCH: u64 = 5_000;

#[derive(Default)]
struct Count(usize);

impl Sink for Count {
    fn rows(&mut self, rows: Rows) -> ControlFlow<()> {
        self.0 += rows.values.len();
        ControlFlow::Continue(())
    }
    fn message(&mut self, _: Message) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).take(2).map(|text| text.parse::<u64>());
    let rows = arguments.next().transpose()?.unwrap_or(500_000);
    let threads = arguments.next().transpose()?.unwrap_or(2) as usize;
    let memory = std::env::args().nth(3).map(|text| text.parse()).transpose()?;
    let dir = std::env::temp_dir().join(format!("weir-interleaved-{}", std::process::id()));
    let memory = Size::from_mib(memory.unwrap_or(1 << 14));
    let settings = Settings { dir: dir.clone(), memory, ..Settings::default() };
    let store = Store::open(settings, &watch::metrics::Registry::new())?;
    let create = Statement::CreateDatabase { name: "db".to_owned(), policy: None };
    store.apply_change(1, &create, "", "", 0)?;
    let target = store.catalogue().resolve("db", "").ok_or("no database")?.ids;
    for request in 0..rows.div_ceil(BATCH) {
        let (round, writer) = (request / WRITERS, request % WRITERS);
        let text = batch(round * BATCH * WRITERS + writer, rows);
        store.apply_points(request + 2, target, text.as_bytes(), &mut |line, why| {
            eprintln!("{why}: {}", String::from_utf8_lossy(line));
        });
        if store.flush_due() {
            store.flush()?;
        }
    }
    let mut context = Context::new("db", i64::MAX - 1);
    context.pool = Some(Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?));
    let snapshot = store.snapshot();
    for text in QUERIES {
        let from = START_NS + rows / 3 * STEP_NS;
        let text = text
            .replace("$long", &format!("time >= {from} AND time < {}", from + 236_400 * STEP_NS))
            .replace("$short", &format!("time >= {from} AND time < {}", from + 7_202 * STEP_NS));
        let statements = wire::influxql::parse(&text, &wire::influxql::Params::default())?;
        let Some(Statement::Select(select)) = statements.first() else { continue };
        let mut times = Vec::new();
        let mut sink = Count::default();
        for _ in 0..21 {
            sink = Count::default();
            let started = Instant::now();
            run(&snapshot, select, &context, &mut sink)?;
            times.push(started.elapsed());
        }
        let first = times.first().copied().unwrap_or(Duration::ZERO);
        times.sort();
        let median = times.get(times.len() / 2).copied().unwrap_or(Duration::ZERO);
        eprintln!("{median:>12.2?} first {first:>12.2?} {:>8} rows  {text}", sink.0);
    }
    store.close();
    std::fs::remove_dir_all(dir)?;
    Ok(())
}

const QUERIES: &[&str] = &[
    "select max(int) from stress",
    "select count(int) from stress",
    "select max(int) from stress where $long",
    "select count(int) from stress where $long",
    "select max(int) from stress where $short",
    "select * from stress limit 1000",
    "select mean(int) from stress where $long group by time(1m)",
];

fn batch(first: u64, rows: u64) -> String {
    let mut text = String::new();
    for k in (0..BATCH).map(|n| first + n * WRITERS).take_while(|k| *k < rows) {
        let noise = k.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let time = START_NS + k * STEP_NS;
        let _ = writeln!(text, "stress int={k}i,uint={k}i,str=\"{noise:024x}\" {time}");
    }
    text
}
