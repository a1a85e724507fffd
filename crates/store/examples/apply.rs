//! How fast records of points are applied, on one core: rows of three fields, one of them a string
//! of 24 bytes, as they come from the journal.
//!
//! `cargo run --release -p weir-store --example apply [rows] [rows a record] [series]`

use std::fmt::Write;
use std::time::Instant;

use store::{Settings, Store};
use wire::influxql::ast::Statement;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let rows = arguments.next().transpose()?.unwrap_or(4_000_000);
    let per_record = arguments.next().transpose()?.unwrap_or(5_000);
    let series = arguments.next().transpose()?.unwrap_or(1).max(1);
    let dir = std::env::temp_dir().join(format!("weir-apply-{}", std::process::id()));
    let settings = Settings { dir: dir.clone(), ..Settings::default() };
    let store = Store::open(settings, &watch::metrics::Registry::new())?;
    let create = Statement::CreateDatabase { name: "db".to_owned(), policy: None };
    store.apply_change(1, &create, "", "", 0)?;
    let target = store.catalogue().resolve("db", "").ok_or("no database")?.ids;
    let records: Vec<String> = (0..rows.div_ceil(per_record))
        .map(|n| record(n * per_record, per_record, series))
        .collect();
    let started = Instant::now();
    let mut end = 1;
    for record in &records {
        end += 1;
        store.apply_points(end, target, record.as_bytes(), &mut |line, why| {
            eprintln!("{why}: {}", String::from_utf8_lossy(line));
        });
    }
    let took = started.elapsed();
    let rate = rows as f64 / took.as_secs_f64();
    eprintln!("applied {rows} rows of {series} series in {took:.2?}: {rate:.0} rows/s");
    let started = Instant::now();
    store.flush()?;
    eprintln!("flushed the rest in {:.2?}", started.elapsed());
    eprintln!("peak memory {} MiB", peak_mib().unwrap_or(0));
    store.close();
    drop(store);
    let started = Instant::now();
    let settings = Settings { dir: dir.clone(), ..Settings::default() };
    let store = Store::open(settings, &watch::metrics::Registry::new())?;
    eprintln!("opened again in {:.2?}", started.elapsed());
    let started = Instant::now();
    let view = store.snapshot().policy("db", None)?;
    let all = view.series("stress", &store::predicate::TagPredicate::All);
    eprintln!("{} series listed in {:.2?}", all.len(), started.elapsed());
    let started = Instant::now();
    let ids: Vec<_> = all.iter().map(|series| series.id).collect();
    let request = store::scan::ScanRequest {
        measurement: "stress".to_owned(),
        time: store::scan::TimeRange::ALL,
        fields: vec!["int".to_owned()],
        descending: false,
    };
    let mut count = 0;
    for chunk in view.scan(&ids, &request) {
        count += chunk?.times.len();
    }
    eprintln!("{count} rows scanned in {:.2?}", started.elapsed());
    eprintln!("peak memory {} MiB", peak_mib().unwrap_or(0));
    store.close();
    std::fs::remove_dir_all(dir)?;
    Ok(())
}

fn record(first: u64, rows: u64, series: u64) -> String {
    let mut text = String::new();
    for row in first..first + rows {
        let time = 1_500_000_000_000_000_000 + row * 60_480_000;
        text.push_str("stress");
        if series > 1 {
            let host = row.wrapping_mul(2_654_435_761) % series;
            let _ = write!(text, ",host=host_{host},region=eu-{}", host % 16);
        }
        let noise = row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let _ = writeln!(
            text,
            " int={}i,uint={}i,str=\"{noise:016x}{:08x}\" {time}",
            noise >> 40,
            noise >> 34,
            noise as u32
        );
    }
    text
}

fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}
