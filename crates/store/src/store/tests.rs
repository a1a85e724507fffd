use crate::predicate::TagPredicate;
use crate::testing::TestStore;

fn of(host: &str, time: i64, value: f64) -> (String, i64, f64) {
    (host.to_owned(), time, value)
}

#[test]
fn what_was_flushed_is_there_after_a_restart() {
    let test = TestStore::with("m,host=a f=1 1\nm,host=b f=2,s=\"x\" 2\nm,host=a f=3 3\n");
    assert_eq!(test.store.flush().unwrap(), test.store.applied());
    test.write("m,host=a f=4 2\nm,host=a f=5 3\n");
    let all = [of("a", 1, 1.0), of("a", 2, 4.0), of("a", 3, 5.0), of("b", 2, 2.0)];
    assert_eq!(test.floats(), all);
    test.store.flush().unwrap();
    assert_eq!(test.floats(), all);
    let test = test.reopened();
    assert_eq!(test.floats(), all);
    let view = test.snapshot().policy("db", None).unwrap();
    assert_eq!(view.fields("m").len(), 2);
    test.write("m,host=a f=6 1\n");
    assert_eq!(test.floats()[0], of("a", 1, 6.0));
    test.store.compact().unwrap();
    assert_eq!(test.floats().len(), 4);
}

#[test]
fn a_snapshot_sees_nothing_that_comes_later() {
    let test = TestStore::with("m,host=a f=1 1\n");
    let before = test.snapshot().policy("db", None).unwrap();
    test.write("m,host=a f=2 2\nm,host=c f=2 2\n");
    test.store.flush().unwrap();
    test.run("DELETE FROM m WHERE time = 1").unwrap();
    let series = before.series("m", &TagPredicate::All);
    assert_eq!(series.len(), 1);
    let request = crate::scan::ScanRequest {
        measurement: "m".to_owned(),
        time: crate::scan::TimeRange::ALL,
        fields: vec!["f".to_owned()],
        descending: false,
    };
    let chunks: Vec<_> = before.scan(&[series[0].id], &request).map(Result::unwrap).collect();
    assert_eq!(chunks.len(), 1);
    assert_eq!(&chunks[0].times[..], [1]);
    assert_eq!(test.floats(), [of("a", 2, 2.0), of("c", 2, 2.0)]);
}

#[test]
fn deletions_reach_memory_and_files() {
    for flushes in [false, true] {
        let test = TestStore::new();
        let flush = || {
            if flushes {
                test.store.flush().unwrap();
            }
        };
        test.write("m,host=a f=1 1\nm,host=b f=2 1\nm,host=b f=3 2\nn f=1 1\n");
        flush();
        assert_eq!(
            test.run("DELETE FROM m WHERE f = 1").unwrap_err(),
            "shard 1: fields not supported in WHERE clause during deletion"
        );
        assert_eq!(
            test.run("DROP SERIES FROM m WHERE time = 1").unwrap_err(),
            "DROP SERIES doesn't support time in WHERE clause"
        );
        test.run("DELETE WHERE time = 1 AND host = 'b'").unwrap();
        assert_eq!(test.floats(), [of("a", 1, 1.0), of("b", 2, 3.0)]);
        flush();
        assert_eq!(test.floats(), [of("a", 1, 1.0), of("b", 2, 3.0)]);
        test.run("DELETE FROM m WHERE time = 2").unwrap();
        let view = test.snapshot().policy("db", None).unwrap();
        assert_eq!(view.series_count("m", &TagPredicate::All), 1);
        test.write("m,host=b f=9 2\n");
        flush();
        assert_eq!(test.floats(), [of("a", 1, 1.0), of("b", 2, 9.0)]);
        test.run("DROP SERIES FROM /m/ WHERE host = 'a'").unwrap();
        flush();
        let test = if flushes { test.reopened() } else { test };
        assert_eq!(test.floats(), [of("b", 2, 9.0)]);
        test.run("DROP MEASUREMENT m").unwrap();
        let view = test.snapshot().policy("db", None).unwrap();
        assert_eq!(view.measurements(), ["n"]);
        test.write("m,host=b f=t 2\n".replace("f=t", "f=7").as_str());
        assert_eq!(test.floats(), [of("b", 2, 7.0)]);
        if flushes {
            test.store.flush().unwrap();
            let test = test.reopened();
            assert_eq!(test.floats(), [of("b", 2, 7.0)]);
        }
    }
}

#[test]
fn a_dropped_measurement_may_have_other_types() {
    let test = TestStore::with("m f=1 1\n");
    test.store.flush().unwrap();
    test.run("DROP MEASUREMENT m").unwrap();
    test.write("m f=\"text\" 1\n");
    test.store.flush().unwrap();
    let view = test.snapshot().policy("db", None).unwrap();
    assert_eq!(view.fields("m")["f"], crate::schema::FieldType::String);
    let test = test.reopened();
    let view = test.snapshot().policy("db", None).unwrap();
    assert_eq!(view.fields("m")["f"], crate::schema::FieldType::String);
}

#[test]
fn a_database_made_again_is_a_new_one() {
    let test = TestStore::with("m f=1 1\n");
    let old = test.store.catalogue().resolve("db", "").unwrap().ids;
    test.store.flush().unwrap();
    test.run("DROP DATABASE db").unwrap();
    let applied = test.store.apply_points(test.next(), old, b"m f=2 2\n", &mut |_, _| {});
    assert_eq!((applied.points, applied.dropped), (0, 1));
    test.run("CREATE DATABASE db").unwrap();
    assert!(test.floats().is_empty());
    assert_ne!(test.store.catalogue().resolve("db", "").unwrap().ids, old);
    test.store.flush().unwrap();
    let test = test.reopened();
    assert!(test.floats().is_empty());
}

#[test]
fn partitions_past_the_retention_are_dropped_whole() {
    let hour = 3_600_000_000_000i64;
    let test = TestStore::new();
    test.run("ALTER RETENTION POLICY autogen ON db DURATION 4h SHARD DURATION 1h").unwrap();
    test.write(&format!("m f=1 1\nm f=2 {}\nm f=3 {}\n", hour, 2 * hour));
    test.write("m,host=old f=1 1\nold f=1 1\n");
    test.store.flush().unwrap();
    assert_eq!(test.store.drop_expired(5 * hour).unwrap(), 2);
    let view = test.snapshot().policy("db", None).unwrap();
    assert_eq!(view.measurements(), ["m"]);
    assert_eq!(view.series_count("m", &TagPredicate::All), 1);
    assert_eq!(test.floats(), [of("", hour, 2.0), of("", 2 * hour, 3.0)]);
    assert_eq!(test.store.drop_expired(5 * hour).unwrap(), 0);
    let test = test.reopened();
    assert_eq!(test.floats().len(), 2);
}

#[test]
fn a_damaged_log_of_series_is_made_anew_of_the_files() {
    let test = TestStore::with("m,host=a f=1 1\nm,host=b f=2 2\nm f=3 3\n");
    test.run("DROP SERIES WHERE host = 'a'").unwrap();
    test.write("m,host=a f=4 4\n");
    test.store.flush().unwrap();
    let all = test.floats();
    let ids = test.store.catalogue().resolve("db", "").unwrap().ids;
    let log = test.dir.path().join(format!("data/{}/series.log", ids.policy));
    let mut bytes = std::fs::read(&log).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let test = test.reopened();
    assert_eq!(test.floats(), all);
    test.write("m,host=c f=5 5\n");
    test.store.flush().unwrap();
    let test = test.reopened();
    assert_eq!(test.floats().len(), 4);
}

#[test]
fn series_are_new_until_they_are_in_files() {
    let store = TestStore::with("m,host=a f=1 1\nm,host=b f=1 1\nm,host=a f=2 2");
    assert_eq!(store.store.new_series(), 2);
    store.store.flush().unwrap();
    assert_eq!(store.store.new_series(), 0);
    store.write("m,host=a f=3 3\nm,host=c f=1 1");
    assert_eq!(store.store.new_series(), 1);
    store.run("DROP DATABASE db").unwrap();
    store.store.flush().unwrap();
    assert_eq!(store.store.new_series(), 0, "there are none");
}
