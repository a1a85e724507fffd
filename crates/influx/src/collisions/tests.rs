use std::net::SocketAddr;
use std::rc::Rc;

use units::{Duration as Span, Size};

use super::*;

fn collisions(memory: u64, window_ms: u64) -> Arc<Collisions> {
    let settings = CollisionSettings {
        window: Span::from_millis(window_ms),
        memory: Size::from_bytes(memory),
        show_values: false,
    };
    Collisions::new(&settings, &Registry::new()).unwrap()
}

fn source(collisions: &Collisions, host: u8) -> Source {
    collisions.add_source(SocketAddr::from(([127, 0, 0, host], 1)), None)
}

fn write(collisions: &Collisions, source: Source, record: &str) {
    collisions.observe("db", "rp", std::iter::once(written(source, record)));
}

fn written(source: Source, record: &str) -> WrittenPoint<'_> {
    let record = record.as_bytes();
    WrittenPoint { source, record, time_ns: line::read(record).unwrap().time_ns }
}

/// How many points overwrote or repeated others, between hosts and within one.
fn counted(collisions: &Collisions) -> [u64; 4] {
    let sum =
        |outcome, between| collisions.counts.all().iter().map(|p| p.get(outcome, between)).sum();
    [
        sum(Outcome::Overwritten, source::Between::Hosts),
        sum(Outcome::Overwritten, source::Between::Own),
        sum(Outcome::Equal, source::Between::Hosts),
        sum(Outcome::Equal, source::Between::Own),
    ]
}

fn status(collisions: &Collisions, show_values: bool) -> serde_json::Value {
    serde_json::to_value(collisions.status(show_values)).unwrap()
}

#[test]
fn the_last_one_overwritten_is_shown_with_both_writers() {
    let collisions = collisions(1 << 20, 60_000);
    let (a, b) = (source(&collisions, 2), source(&collisions, 3));
    write(&collisions, a, "m\\ x,t=1 f=1i,s=\"old\" 5\n");
    write(&collisions, b, "m\\ x,t=1 g=1,f=2i 5\n");
    let shown = status(&collisions, true);
    let of = &shown["measurements"][0];
    assert_eq!((&of["database"], &of["measurement"]), (&"db".into(), &"m x".into()));
    assert_eq!(of["overwritten"]["hosts"], 1);
    let last = &of["last_overwritten"];
    assert_eq!((&last["series"], &last["time_ns"]), (&"m\\ x,t=1".into(), &5.into()));
    assert_eq!((&last["field"], &last["older"]["value"]), (&"f".into(), &"1i".into()));
    assert_eq!(last["newer"]["value"], "2i");
    assert_eq!(last["older"]["source"]["address"], "127.0.0.2:1");
    assert_eq!(last["newer"]["source"]["address"], "127.0.0.3:1");
    collisions.set_user(b, Some("ann"));
    write(&collisions, b, &format!("m\\ x,t=1 s=\"{}\" 5\n", "y".repeat(100)));
    let last = &status(&collisions, true)["measurements"][0]["last_overwritten"];
    assert_eq!(last["older"]["value"], serde_json::Value::Null, "of a string only a hash is kept");
    assert_eq!(last["newer"]["value"].as_str().unwrap().len(), 64 + 5);
    assert_eq!(last["newer"]["source"]["user"], serde_json::Value::Null, "nobody was before");
    let last = &status(&collisions, false)["measurements"][0]["last_overwritten"];
    assert_eq!(last["newer"]["value"], serde_json::Value::Null);
    assert_eq!(last["series"], "m\\ x,t=1");
}

#[test]
fn points_of_other_databases_and_policies_never_collide() {
    let collisions = collisions(1 << 20, 60_000);
    let one = source(&collisions, 2);
    for (db, policy) in [("a", "x"), ("a", "y"), ("b", "x")] {
        collisions.observe(db, policy, std::iter::once(written(one, "m f=1 5\n")));
    }
    assert_eq!(counted(&collisions), [0; 4]);
}

#[test]
fn threads_that_write_at_once_find_each_collision_once() {
    const POINTS: usize = 20_000;
    let collisions = collisions(16 << 20, 600_000);
    std::thread::scope(|scope| {
        for host in 2..6 {
            let collisions = &collisions;
            let one = source(collisions, host);
            scope.spawn(move || {
                for n in 0..POINTS {
                    write(collisions, one, &format!("m,t={} f={host} {n}\n", n % 7));
                }
            });
        }
    });
    // Of the four that write a point, all but the first overwrite.
    assert_eq!(counted(&collisions), [POINTS as u64 * 3, 0, 0, 0]);
}

#[tokio::test]
async fn a_worker_waits_for_nobody_and_looks_again() {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let collisions = collisions(1 << 20, 60_000);
            let worker = WorkerCollisions::new(Arc::clone(&collisions));
            let one = source(&collisions, 2);
            let observe = |record: &str| {
                worker.observe("db", "rp", std::iter::once(written(one, record)));
            };
            observe("m f=1 5\n");
            let held: Vec<_> =
                (0..collisions.buckets.len()).map(|n| collisions.window(n)).collect();
            observe("m f=2 5\n");
            observe("m f=2 5\n");
            assert_eq!(counted(&collisions), [0; 4]);
            let large = format!("m s=\"{}\" 6\n", "x".repeat(300 << 10));
            observe(&large);
            assert_eq!(collisions.unseen.get(), 1, "what is put aside has a limit");
            drop(held);
            let look = Rc::new(async || {
                while counted(&collisions) == [0; 4] {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
            tokio::time::timeout(Duration::from_secs(60), look()).await.unwrap();
            assert_eq!(counted(&collisions), [0, 1, 0, 1]);
        })
        .await;
}

/// Has each of `series` written at each of `times` milliseconds by one host, and again by another
/// one. Gives the share that was looked at and what part of the collisions was found.
fn flood(series: u32, times: u64, ns_of_time: i64) -> (f64, f64) {
    const WINDOW_MS: u64 = 1600;
    let collisions = collisions(256 << 10, WINDOW_MS);
    let (a, b) = (source(&collisions, 2), source(&collisions, 3));
    let to = collisions.written_to("db", "rp");
    let mut digest = PointDigest::default();
    let (mut shares, mut before) = (0.0, [0; 4]);
    for now_ms in 0..times {
        if now_ms == times / 2 {
            before = counted(&collisions);
            shares = 0.0;
        }
        shares += collisions.share.get().points();
        let time_ns = now_ms.cast_signed() * ns_of_time / 1_000_000 * 1_000_000;
        for (host, value) in [(a, 1), (b, 2)] {
            for n in 0..series {
                let record = format!("m,s={now_ms}-{n} f={value},g=1i {time_ns}\n");
                if collisions.sampler().chooses(time_ns) {
                    let point = WrittenPoint { source: host, record: record.as_bytes(), time_ns };
                    let lock = |bucket| Ok(collisions.window(bucket));
                    collisions.look(to, &point, now_ms, &mut digest, lock).unwrap();
                }
            }
        }
        collisions.turn(now_ms);
        if now_ms % 97 == 0 {
            let bytes: usize =
                (0..collisions.buckets.len()).map(|n| collisions.window(n).bytes()).sum();
            assert!(bytes <= 256 << 10, "{bytes}");
        }
    }
    let half = (times / 2) as f64;
    let found = (counted(&collisions)[0] - before[0]) as f64;
    (shares / half, found / (half * f64::from(series)))
}

#[test]
fn above_the_memory_a_share_is_looked_at_and_found_in_proportion() {
    // Many times, and one time for all points of a second.
    for ns_of_time in [1_000_000, 0] {
        let (share, found) = flood(30, 8000, ns_of_time);
        assert!(share < 0.2, "{share}");
        assert!((found / share - 1.0).abs() < 0.2, "{found} found, {share} looked at");
    }
}

#[test]
fn what_fits_is_looked_at_whole() {
    let (share, found) = flood(1, 8000, 1_000_000);
    assert_eq!((share, found), (1.0, 1.0));
}

#[test]
fn detection_may_be_off() {
    let settings =
        CollisionSettings { memory: Size::from_bytes(0), ..CollisionSettings::default() };
    assert!(Collisions::new(&settings, &Registry::new()).is_none());
}

/// What is logged on the thread of a test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(line)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn lines(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.0.lock().unwrap()).lines().map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_warning_comes_once_in_its_time_with_the_remedy_and_without_writers_and_values() {
    const EVERY: Duration = Duration::from_millis(50);
    let log = Log::default();
    let writer = log.clone();
    let lines = tracing_subscriber::fmt().with_ansi(false).without_time();
    let subscriber = lines.with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let collisions = collisions(1 << 20, 60_000);
    let (a, b) = (source(&collisions, 2), source(&collisions, 3));
    let begun = Instant::now();
    let overwrite = async {
        while log.lines().len() < 3 {
            write(&collisions, a, "m,t=hidden s=\"secret\" 5\n");
            write(&collisions, b, "m,t=hidden s=\"hush\" 5\n");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        () = Arc::clone(&collisions).warn(EVERY) => {}
        () = overwrite => {}
    }
    let lines = log.lines();
    assert!(EVERY * lines.len() as u32 <= begun.elapsed(), "{lines:?}");
    for line in &lines {
        assert!(line.contains("WARN ") && line.contains("a stamp in [influx]"), "{line}");
        assert!(line.contains("database=\"db\" measurement=\"m\""), "{line}");
        let secrets = ["127.0.0", "hidden", "secret", "hush"];
        assert!(secrets.iter().all(|secret| !line.contains(secret)), "{line}");
    }
}
