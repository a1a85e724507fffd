//! What a measurement has in some partitions, in memory and in files.

use std::collections::BTreeSet;

use crate::predicate::TagPredicate;
use crate::scan::TimeRange;
use crate::testing::TestStore;

const DAY: i64 = 86_400_000_000_000;

/// Days since 1970, both inside; partitions of a week begin at day 4, 11, 18.
fn days(from: i64, to: i64) -> TimeRange {
    TimeRange { min: from * DAY, max: to * DAY }
}

/// One series in each of three weeks, with a tag and a field that only it has.
fn three_weeks() -> TestStore {
    let lines = [5, 12, 19].map(|day| format!("m,h=h{day},t{day}=x v=1,f{day}=1 {}\n", day * DAY));
    TestStore::with(&lines.concat())
}

/// Fields, tag keys and values of `h` in some days.
fn seen(store: &TestStore, range: TimeRange) -> String {
    let view = store.snapshot().policy("db", None).unwrap();
    let (fields, tag_keys) = view.columns_within("m", range).unwrap();
    assert_eq!(view.tag_keys_within("m", range).unwrap(), tag_keys);
    let set = view.series_within("m", range).unwrap();
    let values = view.tag_values("m", "h", &TagPredicate::All, set.as_ref());
    assert!(values.is_empty() || view.is_within("m", range));
    let fields: BTreeSet<String> = fields.into_keys().collect();
    let fields = fields.into_iter().collect::<Vec<_>>().join(",");
    format!("{fields} {} {}", tag_keys.join(","), values.join(","))
}

#[track_caller]
fn check_three_weeks(store: &TestStore) {
    let all = "f12,f19,f5,v h,t12,t19,t5 h12,h19,h5";
    assert_eq!(seen(store, TimeRange::ALL), all);
    assert_eq!(seen(store, days(5, 19)), all);
    assert_eq!(seen(store, days(9, 9)), "f5,v h,t5 h5");
    assert_eq!(seen(store, days(10, 11)), "f12,f5,v h,t12,t5 h12,h5");
    let end = TimeRange { min: 17 * DAY, max: 18 * DAY - 1 };
    assert_eq!(seen(store, end), "f12,v h,t12 h12");
    assert_eq!(seen(store, days(30, 40)), "  ");
    // InfluxDB finds the shard around a span that ends before it begins.
    assert_eq!(seen(store, days(16, 14)), "f12,v h,t12 h12");
}

#[test]
fn each_partition_has_its_own_tags_in_memory_and_in_files() {
    let store = three_weeks();
    check_three_weeks(&store);
    store.store.flush().unwrap();
    check_three_weeks(&store);
    store.write(&format!("m,h=h13,t13=x v=1 {}\n", 13 * DAY));
    assert_eq!(seen(&store, days(12, 12)), "f12,v h,t12,t13 h12,h13");
    let store = store.reopened();
    assert_eq!(seen(&store, days(12, 12)), "f12,v h,t12 h12");
}

#[test]
fn a_series_that_was_deleted_from_a_partition_is_no_longer_seen_there() {
    for flushed in [false, true] {
        let store = three_weeks();
        store.write(&format!("m,h=h5,t5=x v=1 {}\n", 12 * DAY));
        if flushed {
            store.store.flush().unwrap();
        }
        assert_eq!(seen(&store, days(12, 12)), "f12,v h,t12,t5 h12,h5");
        store.run("DELETE FROM m WHERE h = 'h5' AND time > 11d").unwrap();
        assert_eq!(seen(&store, days(12, 12)), "f12,v h,t12 h12", "flushed: {flushed}");
        assert_eq!(seen(&store, days(5, 5)), "f5,v h,t5 h5");
        store.run("DELETE FROM m WHERE time > 11d AND time < 18d").unwrap();
        assert_eq!(seen(&store, days(14, 14)).split(' ').nth(1), Some(""));
        // A file still has the column of a field that was deleted.
        assert!(seen(&store, days(10, 12)).ends_with("f5,v h,t5 h5"));
    }
}

#[test]
fn partitions_that_began_before_their_length_was_altered_keep_theirs() {
    let store = three_weeks();
    store.store.flush().unwrap();
    store.run("ALTER RETENTION POLICY autogen ON db SHARD DURATION 1d").unwrap();
    store.write(&format!("m,h=h14,t14=x v=1 {}\n", 14 * DAY));
    assert_eq!(seen(&store, days(15, 15)), "f12,v h,t12 h12");
    assert_eq!(seen(&store, days(14, 14)), "f12,v h,t12,t14 h12,h14");
}

#[test]
fn a_file_is_not_opened_where_memory_has_all_tags_or_no_other_partition_is_there() {
    let store = three_weeks();
    store.store.flush().unwrap();
    let all = "m,h=h6,t5=x,t12=x,t19=x v=1,f5=1,f12=1,f19=1";
    store.write(&format!("{all} {}\n", 6 * DAY));
    std::fs::remove_dir_all(store.dir.path().join("data")).unwrap();
    let view = store.snapshot().policy("db", None).unwrap();
    let keys = |range| view.tag_keys_within("m", range).map_err(|error| error.to_string());
    assert_eq!(keys(days(5, 5)).unwrap(), ["h", "t12", "t19", "t5"]);
    assert_eq!(keys(TimeRange::ALL).unwrap().len(), 4);
    assert!(view.series_within("m", TimeRange::ALL).unwrap().is_none());
    assert!(keys(days(12, 12)).unwrap_err().contains("store file"));
}

#[test]
fn a_tag_of_series_that_were_deleted_is_gone_after_files_were_joined() {
    let store = three_weeks();
    store.store.flush().unwrap();
    store.write(&format!("m,h=h13,t5=x v=1 {}\n", 13 * DAY));
    store.store.flush().unwrap();
    store.run("DELETE FROM m WHERE h = 'h13'").unwrap();
    store.store.compact().unwrap();
    assert_eq!(seen(&store, days(12, 12)), "f12,v h,t12 h12");
    assert_eq!(seen(&store, days(5, 5)), "f5,v h,t5 h5");
}
