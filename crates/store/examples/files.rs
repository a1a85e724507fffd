//! How fast files are written and read, and how large they are:
//! `cargo run --release -p weir-store --example files`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for people who measure")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray, UInt64Array};
use disk::Disk;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::file::{FileSpec, Names, OpenFiles, SortedColumns, StoredFile, Tags, write};
use store::scan::{ScanRequest, TimeRange};
use store::schema::FieldType;
use store::series::{Series, SeriesId};

const ROWS: usize = 10_000_000;
const STEP_NS: i64 = 60_480_000;
const START_NS: i64 = 1_700_000_000_000_000_000;

struct Nobody;

impl Names for Nobody {
    fn tags(&self, _: SeriesId) -> Option<Tags> {
        None
    }

    fn id(&self, _: &str, _: &Tags) -> Option<SeriesId> {
        None
    }
}

fn main() {
    let dir = tempfile::tempdir().unwrap();
    field_report(dir.path(), false);
    field_report(dir.path(), true);
    hosts(dir.path(), true);
    hosts(dir.path(), false);
    many_series(dir.path());
}

fn stored(dir: &Path, number: u64, columns: &SortedColumns) -> Arc<StoredFile> {
    let spec = FileSpec {
        number,
        measurement: "m".into(),
        partition: TimeRange::ALL,
        positions: (0, 1),
        cleaned: 0,
        tag_keys: columns.tag_keys(),
        fields: columns.fields.iter().map(|(name, of, _)| (name.clone(), *of)).collect(),
    };
    let disk = Disk::default();
    let start = Instant::now();
    let info = write(&disk, dir, spec, columns).unwrap().unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let total = info.bytes + info.sidecar_bytes;
    println!(
        "  written: {} rows in {seconds:.2} s ({:.1} M rows/s), {} bytes + {}, {:.2} a row",
        info.rows,
        info.rows as f64 / seconds / 1e6,
        info.bytes,
        info.sidecar_bytes,
        total as f64 / info.rows as f64,
    );
    Arc::new(StoredFile::new(dir, info, &disk, &Arc::new(OpenFiles::new(256 << 20))))
}

fn median(mut run: impl FnMut()) -> Duration {
    run();
    let mut times: Vec<Duration> = (0..20)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[10]
}

fn max(file: &Arc<StoredFile>, time: TimeRange, field: &str) -> (i64, u64) {
    let request = ScanRequest {
        measurement: "m".into(),
        time,
        fields: vec![field.into()],
        descending: false,
    };
    let scan = file.scan(Arc::from([SeriesId(0)]), Arc::new(request), &[], Arc::new(Nobody));
    let (mut most, mut rows) = (i64::MIN, 0);
    for ranked in scan {
        let chunk = ranked.unwrap().chunk;
        rows += chunk.times.len() as u64;
        let column = chunk.columns[0].as_ref().unwrap().as_primitive::<Int64Type>();
        most = most.max(column.values().iter().copied().fold(i64::MIN, i64::max));
    }
    (most, rows)
}

/// The shape of the field report's data.
fn field_report(dir: &Path, jitter: bool) {
    println!("10 M rows of one series, times {}", if jitter { "jittered" } else { "steady" });
    let mut random = StdRng::seed_from_u64(1);
    let mut noise = || if jitter { random.random_range(0..1_000_000) } else { 0 };
    let times: Vec<i64> = (0..ROWS as i64).map(|n| START_NS + n * STEP_NS + noise()).collect();
    let int = Int64Array::from_iter_values((0..ROWS).map(|_| random.random_range(0..1 << 31)));
    let uint = UInt64Array::from_iter_values((0..ROWS).map(|_| random.random_range(0..1 << 31)));
    let text =
        StringArray::from_iter_values((0..ROWS).map(|_| {
            (0..24).map(|_| random.random_range('\u{80}'..'\u{2ff}')).collect::<String>()
        }));
    let series = Series { id: SeriesId(0), tags: Arc::from([]) };
    let fields: Vec<(String, FieldType, ArrayRef)> = vec![
        ("int".into(), FieldType::Integer, Arc::new(int)),
        ("str".into(), FieldType::String, Arc::new(text)),
        ("uint".into(), FieldType::Unsigned, Arc::new(uint)),
    ];
    let columns = SortedColumns { runs: vec![(series, ROWS as u32)], times, fields };
    let file = stored(dir, 1, &columns);
    drop(columns);
    let at = |row: i64| START_NS + row * STEP_NS;
    let half =
        |n: i64| TimeRange { min: at(n * ROWS as i64 / 2), max: at((n + 1) * ROWS as i64 / 2) - 1 };
    println!(
        "  max(int): {:?} on one thread",
        median(|| assert_eq!(max(&file, TimeRange::ALL, "int").1, ROWS as u64))
    );
    let both = median(|| {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| max(&file, half(1), "int"));
            let one = max(&file, half(0), "int");
            assert_eq!(one.1 + other.join().unwrap().1, ROWS as u64);
        });
    });
    println!("  max(int): {both:?} on two threads");
    for rows in [236_400, 7_202] {
        let range = TimeRange { min: at(4_000_000), max: at(4_000_000 + rows) - 1 };
        let took = median(|| assert_eq!(max(&file, range, "int").1, rows as u64));
        println!("  max(int) of {rows} rows: {took:?}");
    }
    let all = vec!["int".to_owned(), "str".into(), "uint".into()];
    for descending in [false, true] {
        let request = ScanRequest {
            measurement: "m".into(),
            time: TimeRange::ALL,
            fields: all.clone(),
            descending,
        };
        let request = Arc::new(request);
        let took = median(|| {
            let mut scan =
                file.scan(Arc::from([SeriesId(0)]), request.clone(), &[], Arc::new(Nobody));
            assert!(scan.next().unwrap().unwrap().chunk.times.len() >= 1000);
        });
        println!("  first chunk of all fields, descending {descending}: {took:?}");
    }
}

fn host(number: u32) -> Series {
    let tag = |key: &str, value: String| (Arc::from(key), Arc::from(value));
    let tags = vec![
        tag("hostname", format!("host_{number:03}")),
        tag("region", format!("region_{}", number % 9)),
        tag("service", format!("{}", number % 20)),
    ];
    Series { id: SeriesId(number), tags: tags.into() }
}

/// 100 hosts, 10 numeric fields, every 10 s, one day: random walks, whole or not.
fn hosts(dir: &Path, whole: bool) {
    println!(
        "100 hosts, 10 float fields, one day, {}",
        if whole { "whole numbers" } else { "any numbers" }
    );
    let mut random = StdRng::seed_from_u64(2);
    let mut columns = SortedColumns::default();
    let mut fields: Vec<Vec<f64>> = vec![Vec::new(); 10];
    for number in 0..100 {
        columns.runs.push((host(number), 8640));
        columns.times.extend((0..8640).map(|n| START_NS + n * 10_000_000_000));
        for field in &mut fields {
            let mut value: f64 = random.random_range(0.0..100.0);
            for _ in 0..8640 {
                value = (value + random.random_range(-1.0..1.0)).clamp(0.0, 100.0);
                field.push(if whole { value.floor() } else { value });
            }
        }
    }
    let named = fields.into_iter().enumerate();
    columns.fields = named
        .map(|(at, values)| {
            (
                format!("usage_{at}"),
                FieldType::Float,
                Arc::new(Float64Array::from(values)) as ArrayRef,
            )
        })
        .collect();
    let file = stored(dir, 2, &columns);
    let ids: Arc<[SeriesId]> = (0..100).map(SeriesId).collect();
    let time = TimeRange { min: START_NS, max: START_NS + 6 * 3_600_000_000_000 };
    let request = ScanRequest {
        measurement: "m".into(),
        time,
        fields: vec!["usage_3".into()],
        descending: false,
    };
    let request = Arc::new(request);
    let took = median(|| {
        let scan = file.scan(ids.clone(), request.clone(), &[], Arc::new(Nobody));
        let rows: usize = scan.map(|ranked| ranked.unwrap().chunk.times.len()).sum();
        assert_eq!(rows, 100 * 2161);
    });
    println!("  one field over 6 h of all hosts: {took:?}");
}

fn many_series(dir: &Path) {
    println!("1 M series of one point");
    let series = (0..1_000_000).map(|n| Series {
        id: SeriesId((n as u32).reverse_bits() >> 12),
        tags: Arc::from([(Arc::from("host"), Arc::from(format!("host-{n:07}").as_str()))]),
    });
    let runs: Vec<(Series, u32)> = series.map(|series| (series, 1)).collect();
    let ids: Arc<[SeriesId]> = runs.iter().map(|(series, _)| series.id).collect();
    let times = (0..1_000_000).map(|n| START_NS + n).collect();
    let values = Float64Array::from_iter_values((0..1_000_000).map(f64::from));
    let fields: Vec<(String, FieldType, ArrayRef)> =
        vec![("value".into(), FieldType::Float, Arc::new(values))];
    let file = stored(dir, 3, &SortedColumns { runs, times, fields });
    let request = ScanRequest {
        measurement: "m".into(),
        time: TimeRange::ALL,
        fields: vec!["value".into()],
        descending: false,
    };
    let request = Arc::new(request);
    let start = Instant::now();
    let scan = file.scan(ids, request, &[], Arc::new(Nobody));
    let chunks: Result<Vec<_>, _> = scan.collect();
    println!("  scanned {} chunks in {:?}", chunks.unwrap().len(), start.elapsed());
}
