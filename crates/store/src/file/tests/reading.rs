use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::scan::ScanRequest;

fn read(
    file: &Arc<StoredFile>,
    wanted: &[u32],
    time: TimeRange,
    fields: &[String],
    descending: bool,
) -> Vec<(u32, i64, Vec<String>)> {
    let request =
        ScanRequest { measurement: "m".into(), time, fields: fields.to_vec(), descending };
    let ids: Arc<[SeriesId]> = wanted.iter().map(|number| series(*number).id).collect();
    let scan = file.scan(ids, Arc::new(request), &[], Arc::new(TestNames));
    let chunks: Vec<Chunk> = scan.map(|ranked| ranked.unwrap().chunk).collect();
    rows(&chunks, fields)
}

fn names(fields: &[&str]) -> Vec<String> {
    fields.iter().map(|name| (*name).to_owned()).collect()
}

/// Steady, jittered and sparse series; the long one has more rows than a group or a page.
fn large() -> Model {
    let mut model = Model::new();
    for number in 0..40 {
        let rows = if number == 7 { 150_000 } else { 700 };
        let points = (0..rows).map(|n| {
            let jitter = if number % 2 == 0 { 0 } else { (n * 7919) % 13 };
            let value = (n % 5 != 0).then_some((n * 31 % 1000) as i32);
            (n * 100 + jitter, [value, Some(n as i32), value, value, None])
        });
        model.insert(number, points.collect());
    }
    model
}

#[test]
fn a_large_file_comes_back_in_every_way() {
    let dir = tempfile::tempdir().unwrap();
    let model = large();
    let file = store(dir.path(), 1, &model);
    let all: Vec<u32> = (0..45).collect();
    let some = [3, 7, 8, 20];
    let backwards = [20, 8, 7, 3];
    for descending in [false, true] {
        for fields in [names(&["f"]), names(&["s", "nothing", "b"]), names(&["u"]), names(&[])] {
            for range in [
                TimeRange::ALL,
                TimeRange { min: 33_333, max: 9_999_950 },
                TimeRange { min: 7, max: 7 },
                TimeRange { min: 9, max: 8 },
            ] {
                for wanted in [&all[..], &some, &backwards] {
                    let found = read(&file, wanted, range, &fields, descending);
                    let right = expected(&model, wanted, range, &fields, descending);
                    assert!(found == right, "{fields:?} {range:?} {descending} {}", found.len());
                }
            }
        }
    }
}

#[test]
fn series_and_columns_are_known_from_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = store(dir.path(), 1, &large());
    assert_eq!(file.tag_keys().unwrap(), ["host", "zone"]);
    assert_eq!(file.fields().unwrap().len(), 5);
    let series = file.series().unwrap();
    assert_eq!(series.len(), 40);
    let named = file.named_series().unwrap();
    let ids = named.iter().map(|(id, time, _)| (*id, *time));
    assert!(ids.eq(series.iter().copied()));
    assert!(named.iter().all(|(id, _, tags)| TestNames.tags(*id).as_ref() == Some(tags)));
    assert_eq!(file.verify(), crate::file::Verified::Whole);
}

fn model() -> impl Strategy<Value = Model> {
    let value = || prop::option::of(-50..50_i32);
    let row = (value(), value(), value(), value(), value());
    let points = prop::collection::btree_map(-200..200_i64, row, 0..40);
    prop::collection::btree_map(0..12_u32, points, 0..8).prop_map(|model| {
        let points = |points: BTreeMap<i64, _>| {
            points.into_iter().map(|(t, (a, b, c, d, e))| (t, [a, b, c, d, e])).collect()
        };
        model.into_iter().map(|(number, of)| (number, points(of))).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_written_comes_back(
        model in model(),
        fields in prop::collection::vec("[bfisux]", 0..4),
        (min, max) in (-210..210_i64, -210..210_i64),
        descending: bool,
    ) {
        let dir = tempfile::tempdir().unwrap();
        if model.values().all(BTreeMap::is_empty) {
            return Ok(());
        }
        let file = store(dir.path(), 1, &model);
        let range = TimeRange { min, max };
        let wanted: Vec<u32> = (0..12).collect();
        prop_assert_eq!(
            read(&file, &wanted, range, &fields, descending),
            expected(&model, &wanted, range, &fields, descending)
        );
    }
}
