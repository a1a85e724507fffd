//! How long queries take, warm: rows as in the field report, and a hundred hosts over a day.
//!
//! `cargo run --release -p weir-store --example select [rows] [threads] [part of a query]`

use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::query::context::Context;
use store::query::results::{Message, Rows, Sink};
use store::query::select::run;
use store::{Settings, Store};
use wire::influxql::ast::Statement;

const START_NS: u64 = 1_500_000_000_000_000_000;

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
    let rows = arguments.next().transpose()?.unwrap_or(10_000_000);
    let threads = arguments.next().transpose()?.unwrap_or(2) as usize;
    // The rest of the command line: only queries that contain it.
    let only = std::env::args().nth(3);
    let dir = std::env::temp_dir().join(format!("weir-select-{}", std::process::id()));
    let settings = Settings { dir: dir.clone(), ..Settings::default() };
    let store = Store::open(settings, &watch::metrics::Registry::new())?;
    let create = Statement::CreateDatabase { name: "db".to_owned(), policy: None };
    store.apply_change(1, &create, "", "", 0)?;
    let target = store.catalogue().resolve("db", "").ok_or("no database")?.ids;
    let mut end = 1;
    let mut apply = |text: &str| {
        end += 1;
        store.apply_points(end, target, text.as_bytes(), &mut |line, why| {
            eprintln!("{why}: {}", String::from_utf8_lossy(line));
        });
        if store.flush_due()
            && let Err(error) = store.flush()
        {
            eprintln!("{error}");
        }
    };
    for first in (0..rows).step_by(5_000) {
        apply(&report(first, 5_000));
    }
    for moment in 0..8_640 {
        apply(&hosts(moment));
    }
    store.flush()?;
    store.compact()?;

    let mut context = Context::new("db", i64::MAX - 1);
    context.pool = Some(Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?));
    let snapshot = store.snapshot();
    for text in QUERIES {
        let text = text
            .replace("$day", "time >= $start and time < $start + 6h")
            .replace("$start", &START_NS.to_string())
            .replace("$long", &(START_NS + 236_400 * 60_480_000).to_string())
            .replace("$short", &(START_NS + 7_202 * 60_480_000).to_string());
        let statements = wire::influxql::parse(&text, &wire::influxql::Params::default())?;
        let Some(Statement::Select(select)) = statements.first() else { continue };
        if only.as_ref().is_some_and(|only| !text.contains(only.as_str())) {
            continue;
        }
        let mut times = Vec::new();
        let mut sink = Count::default();
        for _ in 0..11 {
            sink = Count::default();
            let started = Instant::now();
            run(&snapshot, select, &context, &mut sink)?;
            times.push(started.elapsed());
        }
        times.sort();
        let median = times.get(times.len() / 2).copied().unwrap_or(Duration::ZERO);
        eprintln!("{median:>12.2?} {:>8} rows  {text}", sink.0);
    }
    store.close();
    std::fs::remove_dir_all(dir)?;
    Ok(())
}

const QUERIES: &[&str] = &[
    "select max(int) from stress",
    "select count(int) from stress",
    "select mean(int) from stress",
    "select max(int) from stress where time >= $start and time < $long",
    "select count(int) from stress where time >= $start and time < $long",
    "select max(int) from stress where time >= $start and time < $short",
    "select * from stress limit 1000",
    "select mean(f3) from hosts where $day group by time(1m), host",
    "select mean(f3) from hosts where $day group by time(1m)",
    "select mean(f3) from hosts where $day and host =~ /^host_1$/ group by time(1m) fill(null)",
    "select last(f3) from hosts group by host",
    "select max(f3), host from hosts",
    "select percentile(f3, 95) from hosts where time < $start + 6h group by time(10m)",
    "select non_negative_derivative(mean(f3), 1s) from hosts where $day group by time(1m), host",
    "select count(f3) from hosts where f1 > 50",
    "select f3 from hosts where host = 'host_7'",
    "select f3 from hosts where time < $start + 1h",
];

fn report(first: u64, rows: u64) -> String {
    let mut text = String::new();
    for row in first..first + rows {
        let time = START_NS + row * 60_480_000;
        let noise = row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let _ = writeln!(
            text,
            "stress int={}i,uint={}i,str=\"{noise:024x}\" {time}",
            noise >> 34,
            noise >> 40
        );
    }
    text
}

fn hosts(moment: u64) -> String {
    let mut text = String::new();
    for host in 0..100_u64 {
        let _ = write!(text, "hosts,host=host_{host} ");
        for field in 0..10_u64 {
            let noise = (moment * 1_000 + host * 10 + field).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let comma = if field == 0 { "" } else { "," };
            let _ = write!(text, "{comma}f{field}={}", (noise >> 50) as f64 / 163.84);
        }
        let _ = writeln!(text, " {}", START_NS + moment * 10_000_000_000);
    }
    text
}
