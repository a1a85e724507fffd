//! Any query, executed: over files, memory and what was deleted, it never panics, and it ends soon
//! after its time is over.
#![no_main]

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use store::query::context::{Cancel, Context, Limits, Target};
use store::query::encode::{self, Epoch, Format};
use store::query::{ddl, run};
use store::{Settings, Store};
use units::{Duration, Size};
use wire::influxql::{Params, parse};
use wire::line::{Options, Precision};

const NOW: i64 = 1_600_000_000_000_000_000;
/// An answer is broken off after so many bytes: it would only be more of the same.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Half of each is in files, half in memory.
const LINES: [&str; 6] = [
    include_str!("../../tests/integration/influxql/data/cpu.lp"),
    include_str!("../../tests/integration/influxql/data/sparse.lp"),
    include_str!("../../tests/integration/influxql/data/ties.lp"),
    include_str!("../../tests/integration/influxql/data/extremes.lp"),
    include_str!("../../tests/integration/influxql/data/epochs.lp"),
    include_str!("../../tests/integration/influxql/data/hours.lp"),
];
const CREATED: [&str; 3] = [
    "CREATE DATABASE db",
    "CREATE RETENTION POLICY other ON db DURATION INF REPLICATION 1 SHARD DURATION 1h",
    "CREATE DATABASE empty",
];
const DELETED: [&str; 3] = [
    "DELETE FROM cpu WHERE host = 'b' AND time < 1577837000s",
    "DELETE WHERE time = 1577836800s",
    "DROP SERIES FROM hours WHERE zone = 'z5'",
];

/// A store that all queries share.
struct Fixture {
    store: Arc<Store>,
    pool: Arc<rayon::ThreadPool>,
    end: u64,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(Fixture::new);

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap().keep();
        let settings =
            Settings { dir, flush_interval: Duration::from_secs(1_000_000), ..Settings::default() };
        let store = Store::open(settings, &watch::metrics::Registry::new()).unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let mut new = Self { store, pool: Arc::new(pool), end: 0 };
        CREATED.iter().for_each(|text| new.change(text));
        for half in 0..2 {
            for (at, lines) in LINES.iter().enumerate() {
                let lines: Vec<&str> = lines.lines().skip(1).collect();
                let (first, second) = lines.split_at(lines.len() / 2);
                let lines = if half == 0 { first } else { second };
                new.write(if at % 3 == 2 { "other" } else { "" }, &lines.join("\n"));
                new.write("", &lines.join("\n"));
            }
            DELETED.iter().for_each(|text| new.change(text));
            if half == 0 {
                new.store.flush().unwrap();
            }
        }
        new
    }

    fn change(&mut self, text: &str) {
        self.end += 1;
        let statements = parse(text, &Params::default()).unwrap();
        self.store.apply_change(self.end, &statements[0], "db", "", NOW).unwrap();
    }

    fn write(&mut self, rp: &str, lines: &str) {
        self.end += 1;
        let mut record = Vec::new();
        let options =
            Options { precision: Precision::Nanosecond, now_ns: NOW, stamp: &[], unsigned: true };
        wire::line::normalise(lines.as_bytes(), &options, &mut record);
        let target = self.store.catalogue().resolve("db", rp).unwrap();
        self.store.apply_points(self.end, target.ids, &record, &mut |_, _| {});
    }
}

/// What is selected into is line protocol.
struct Into;

impl Target for Into {
    fn write(&self, _: &str, _: &str, lines: Vec<u8>) -> Result<(), String> {
        for line in wire::line::points(&lines) {
            assert!(wire::line::read(line).is_some(), "{}", String::from_utf8_lossy(line));
        }
        Ok(())
    }
}

fuzz_target!(|text: &str| {
    let Ok(statements) = parse(text, &Params::default()) else { return };
    let fixture = &*FIXTURE;
    let mut context = Context::new("db", NOW);
    context.limits = Limits {
        timeout: Duration::from_millis(500),
        memory: Size::from_mib(64),
        ..Limits::default()
    };
    context.cancel = Cancel::new(&context.limits);
    context.into = Some(Arc::new(Into));
    context.get = text.len().is_multiple_of(2);
    if text.len().is_multiple_of(3) {
        context.pool = Some(Arc::clone(&fixture.pool));
    }
    let format = Format {
        csv: text.len().is_multiple_of(5),
        pretty: text.len().is_multiple_of(7),
        epoch: if text.len().is_multiple_of(4) { Epoch::of("ms") } else { None },
        chunk_size: (text.len().is_multiple_of(6)).then_some(10),
    };
    context.chunk_size = format.chunk_size;
    let mut bytes = 0;
    let out = move |piece: bytes::Bytes| {
        bytes += piece.len();
        if bytes > ANSWER_BYTES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut encoder = encode::new(format, Box::new(out));
    let mut change = |statement: &_| ddl::check(&fixture.store.catalogue(), statement, "db");
    run(&fixture.store, &statements, &context, encoder.as_mut(), &mut change);
});
