//! Files that are damaged: an answer is right or says what is missing from it, whatever byte of
//! whatever file is wrong, also after a start and after files were joined.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::Index;

use super::testing::TestStore;
use crate::query::context::Context;
use crate::query::encode::{Format, new};

const QUERIES: [&str; 6] = [
    "SELECT * FROM m GROUP BY *",
    "SELECT f, s FROM m ORDER BY time DESC",
    "SELECT count(f), max(f), sum(i), last(s) FROM m GROUP BY host",
    "SELECT mean(f) FROM m WHERE time >= 500 AND time < 2000",
    "SELECT i FROM m WHERE f > 1000",
    "SHOW SERIES",
];

/// What is answered, and what its head says is missing.
fn answer(test: &TestStore, query: &str, format: Format) -> (String, Vec<String>) {
    let statements = wire::influxql::parse(query, &Default::default()).unwrap();
    let all = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&all);
    let take = move |piece: bytes::Bytes| {
        into.lock().unwrap().extend_from_slice(&piece);
        ControlFlow::Continue(())
    };
    let mut encoder = new(format, Box::new(take));
    let context = Context::new("db", 1_700_000_000_000_000_000);
    if format.csv {
        crate::query::foresee_missing(&test.store, &statements, &context);
    }
    crate::query::run(&test.store, &statements, &context, &mut *encoder, &mut |_| Ok(()));
    let text = String::from_utf8(all.lock().unwrap().clone()).unwrap();
    (text, context.notices.seal())
}

fn json(test: &TestStore, query: &str) -> String {
    answer(test, query, Format::default()).0
}

fn csv(test: &TestStore, query: &str) -> (String, Vec<String>) {
    answer(test, query, Format { csv: true, ..Format::default() })
}

fn says_so(document: &str) -> bool {
    document.contains("\"messages\":[{\"level\":\"warning\"") || document.contains("\"error\":")
}

/// A store in files only, and what it answers.
struct Scene {
    test: Option<TestStore>,
    answers: Vec<String>,
    tables: Vec<String>,
}

/// Three files of a measurement: points, some of them overwritten, and a series that was dropped
/// and came again. Of another series some points were deleted. All of that is still in the first
/// file.
fn scene() -> Scene {
    let test = TestStore::new();
    let mut lines = String::new();
    for n in 0..60 {
        for (host, time) in [("a", n * 50), ("b", n * n), ("c", n * 50 + n % 7), ("d", n * 50)] {
            lines += &format!("m,host={host} f={n}.5,i={n}i,s=\"text {n}\" {time}\n");
        }
    }
    test.write(&lines);
    test.store.flush().unwrap();
    let lines: String = (20..40).map(|n| format!("m,host=a f={n}000 {}\n", n * 50)).collect();
    test.write(&lines);
    test.store.flush().unwrap();
    test.run("DROP SERIES WHERE host = 'd'").unwrap();
    test.run("DELETE FROM m WHERE host = 'b' AND time < 400").unwrap();
    test.write("m,host=d f=7 3000\nm,host=e f=8,i=8i 3000\n");
    test.store.flush().unwrap();
    let answers = QUERIES.iter().map(|query| json(&test, query)).collect();
    let tables = QUERIES.iter().map(|query| csv(&test, query).0).collect();
    Scene { test: Some(test), answers, tables }
}

impl Scene {
    /// The same files in another directory.
    fn copied(&self) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let from = self.test.as_ref().map(|test| test.dir.path().to_owned()).unwrap();
        copy(&from, dir.path());
        dir
    }

    /// Whether all answers are right, and none says that anything is missing.
    fn is_whole(&self, test: &TestStore) -> bool {
        let found = QUERIES.iter().map(|query| json(test, query));
        found.zip(&self.answers).all(|(found, right)| found == *right)
    }

    /// Every answer is right, or says what is missing.
    fn holds(&self, test: &TestStore, when: &str) {
        for (at, query) in QUERIES.iter().enumerate() {
            let found = json(test, query);
            assert!(found == self.answers[at] || says_so(&found), "{when}: {query}");
            let (table, missing) = csv(test, query);
            assert!(table == self.tables[at] || !missing.is_empty(), "{when}: CSV: {query}");
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if entry.is_dir() {
            copy(&entry, &to);
        } else {
            std::fs::copy(&entry, &to).unwrap();
        }
    }
}

/// All files but the lock, which holds nothing, in an order of their own.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => waiting.push(path),
                false if path.file_name().is_some_and(|name| name == "lock") => {}
                false => found.push(path),
            }
        }
    }
    found.sort();
    found
}

fn is_a(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|of| of == extension)
}

fn flip(path: &Path, at: usize, bit: u8) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1 << bit;
    std::fs::write(path, bytes).unwrap();
}

/// After damage: asked at once, after files were joined, and after a start.
fn live_on(
    scene: &Scene,
    dir: tempfile::TempDir,
    joins_first: bool,
    when: &str,
) -> Option<TestStore> {
    // A store that does not open says what is wrong.
    let test = TestStore::over(dir)?;
    if joins_first {
        // It may meet the damage, and breaks off then.
        let _ = test.store.compact();
    }
    scene.holds(&test, when);
    scene.holds(&test, when);
    let _ = test.store.compact();
    scene.holds(&test, when);
    let test = test.reopened();
    scene.holds(&test, when);
    let _ = test.store.compact();
    scene.holds(&test, when);
    Some(test)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn a_flipped_bit_anywhere_is_never_silent(
        flips in prop::collection::vec(
            (any::<Index>(), any::<Index>(), 0..8_u8, any::<bool>()),
            32,
        ),
    ) {
        let scene = scene();
        for (file, at, bit, joins_first) in flips {
            let dir = scene.copied();
            let all = files(dir.path());
            let path = file.get(&all);
            let len = std::fs::metadata(path).unwrap().len() as usize;
            let at = at.index(len);
            flip(path, at, bit);
            let when = format!("bit {bit} of byte {at} of {len} of {path:?}");
            let (is_parquet, is_manifest) = (is_a(path, "parquet"), path.ends_with("manifest"));
            let test = live_on(&scene, dir, joins_first, &when);
            // A letter of the manifest's checksum may change its case.
            prop_assert!(test.is_some() || is_manifest, "{}", when);
            if let Some(test) = test.filter(|_| !is_parquet) {
                prop_assert!(scene.is_whole(&test), "{}", when);
            }
        }
    }
}

#[test]
fn a_sidecar_with_one_bit_turned_takes_nothing_away_though_a_dropped_series_is_in_the_file() {
    let scene = scene();
    let dir = scene.copied();
    let sidecars: Vec<PathBuf> =
        files(dir.path()).into_iter().filter(|path| is_a(path, "runs")).collect();
    assert_eq!(sidecars.len(), 3);
    for path in &sidecars {
        flip(path, 20, 3);
    }
    let test = TestStore::over(dir).unwrap();
    assert!(scene.is_whole(&test));
    assert!(test.store.missing().is_empty());
    let test = test.reopened();
    assert!(scene.is_whole(&test));
    test.store.compact().unwrap();
    assert!(scene.is_whole(&test));
}

#[test]
fn sidecars_and_the_log_of_series_damaged_together_take_nothing_away() {
    let scene = scene();
    let dir = scene.copied();
    for path in files(dir.path()).iter().filter(|path| is_a(path, "runs") || is_a(path, "log")) {
        flip(path, 20, 3);
    }
    let test = TestStore::over(dir).unwrap();
    assert!(scene.is_whole(&test), "{}", json(&test, QUERIES[5]));
    test.store.compact().unwrap();
    let test = test.reopened();
    assert!(scene.is_whole(&test));
}

#[test]
fn files_that_are_cut_or_missing_are_said_and_what_is_appended_is_not_read() {
    let scene = scene();
    let count = files(scene.test.as_ref().unwrap().dir.path()).len();
    for at in 0..count {
        for cut in ["gone", "empty", "half", "longer"] {
            let dir = scene.copied();
            let path = files(dir.path())[at].clone();
            let mut bytes = std::fs::read(&path).unwrap();
            match cut {
                "gone" => std::fs::remove_file(&path).unwrap(),
                "longer" => {
                    bytes.extend_from_slice(&[7; 30]);
                    std::fs::write(&path, &bytes).unwrap();
                }
                _ => {
                    let len = if cut == "half" { bytes.len() / 2 } else { 0 };
                    std::fs::write(&path, &bytes[..len]).unwrap();
                }
            }
            let when = format!("{cut}: {path:?}");
            let test = live_on(&scene, dir, at % 2 == 0, &when);
            if path.ends_with("manifest") {
                assert!(test.is_none(), "{when}");
                continue;
            }
            let is_whole = scene.is_whole(&test.expect("it opens"));
            assert_eq!(is_whole, !is_a(&path, "parquet") || cut == "longer", "{when}");
        }
    }
}

/// Twenty thousand points, of series whose times are known without reading and of one whose are
/// not, in one file.
fn pages() -> TestStore {
    let test = TestStore::new();
    let mut lines = String::new();
    for n in 0..20_000_i64 {
        let crooked = n * 20 + n * n % 17;
        lines += &format!("m,host=a f={}.5,i={n}i {n}\n", n * 7919 % 10_007);
        lines += &format!("m,host=b f={}.5,i={n}i {crooked}\n", n * 7919 % 10_007);
    }
    test.write(&lines);
    test.store.flush().unwrap();
    test
}

fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split_once(word).expect(text).0;
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn of_a_file_with_one_wrong_page_all_else_is_served() {
    let intact = pages();
    let mut partly = [0; 2];
    let from = intact.dir.path().to_owned();
    let path = files(&from).into_iter().find(|path| is_a(path, "parquet")).unwrap();
    let len = std::fs::metadata(&path).unwrap().len() as usize;
    for at in (8..len).step_by(len / 24) {
        let dir = tempfile::tempdir().unwrap();
        copy(&from, dir.path());
        let damaged = dir.path().join(path.strip_prefix(&from).unwrap());
        flip(&damaged, at, 5);
        let test = TestStore::over(dir).unwrap();
        // The first query that meets it already reads around it, and says so.
        for order in ["", " ORDER BY time DESC"] {
            let found = json(&test, &format!("SELECT f, i FROM m GROUP BY host{order}"));
            assert!(!found.contains("\"error\""), "{at}: {found}");
            let document: serde_json::Value = serde_json::from_str(&found).unwrap();
            let result = &document["results"][0];
            let Some(message) = result["messages"][0]["text"].as_str() else {
                assert_eq!(
                    json(&intact, &format!("SELECT f, i FROM m GROUP BY host{order}")),
                    found
                );
                continue;
            };
            let lost = number_before(message, " points of measurement m");
            assert!(lost <= 2 * 8192 || at > len * 9 / 10, "{at}: {message}");
            let series = result["series"].as_array().cloned().unwrap_or_default();
            let rows = || series.iter().flat_map(|of| of["values"].as_array().unwrap());
            let whole = rows().filter(|row| !row[1].is_null() && !row[2].is_null()).count() as u64;
            assert_eq!(whole + lost, 40_000, "{at}: {message}");
            for row in rows().filter(|row| !row[2].is_null()) {
                let n = row[2].as_i64().unwrap();
                let right = (n * 7919 % 10_007) as f64 + 0.5;
                assert!(row[1].is_null() || row[1].as_f64() == Some(right), "{row}");
            }
            partly[usize::from(whole > 20_000)] += 1;
        }
        // What functions make of it is what can be read, too.
        let counted = json(&test, "SELECT count(f), max(f), min(i) FROM m WHERE host = 'a'");
        assert!(!counted.contains("\"error\""), "{at}: {counted}");
    }
    assert!(partly[1] > 10, "{partly:?}");
}

#[test]
fn an_answer_that_is_on_its_way_when_it_meets_damage_breaks_off_and_says_why() {
    let test = TestStore::new();
    let text = "x".repeat(60);
    let of = |n: i64| format!("m f={n},s=\"{text}{n}\" {n}\n");
    test.write(&(0..60_000).map(of).collect::<String>());
    test.store.flush().unwrap();
    let path = files(test.dir.path()).into_iter().find(|path| is_a(path, "parquet")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    copy(test.dir.path(), dir.path());
    let damaged = dir.path().join(path.strip_prefix(test.dir.path()).unwrap());
    let len = std::fs::metadata(&damaged).unwrap().len() as usize;
    // Of the last column, and there among the last pages.
    flip(&damaged, len * 8 / 10, 1);
    let query = "SELECT s FROM m";
    let again = tempfile::tempdir().unwrap();
    copy(dir.path(), again.path());
    let (first, second) = (TestStore::over(dir).unwrap(), TestStore::over(again).unwrap());
    let found = json(&first, query);
    assert!(found.contains("\"error\":\"store file"), "{}", &found[found.len() - 300..]);
    let found = json(&first, query);
    assert!(found.contains("\"messages\"") && !found.contains("\"error\""));
    let (table, missing) = csv(&second, query);
    assert!(table.contains("\nerror\n") && missing.is_empty(), "{missing:?}");
    let (table, missing) = csv(&second, query);
    assert!(!table.contains("\nerror\n") && missing.len() == 1, "{missing:?}");
    // A statement of other points has nothing to say.
    let found = json(&second, "SELECT s FROM m WHERE time < 10");
    assert!(!says_so(&found), "{found}");
}

#[test]
fn what_is_missing_is_said_until_it_is_accepted_and_said_again_when_more_is() {
    let test = pages();
    let path = files(test.dir.path()).into_iter().find(|path| is_a(path, "parquet")).unwrap();
    let test = {
        flip(&path, 3000, 2);
        test.reopened()
    };
    let query = "SELECT f, i FROM m";
    assert!(json(&test, query).contains("\"warning\""));
    assert_eq!(test.store.missing().len(), 1);
    assert_eq!(crate::accept(test.dir.path()).unwrap().len(), 1);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !test.store.missing().is_empty() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    let left = json(&test, query);
    assert!(!says_so(&left));
    let test = test.reopened();
    assert_eq!(json(&test, query), left);
    // Another page.
    let len = std::fs::metadata(&path).unwrap().len() as usize;
    flip(&path, len / 2, 2);
    let test = test.reopened();
    let found = json(&test, query);
    assert!(says_so(&found) && !found.contains("\"error\""));
    assert_eq!(test.store.missing().len(), 1);
}
