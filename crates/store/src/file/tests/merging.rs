use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::file::merge::{Merge, Ranked, Source};
use crate::scan::ScanRequest;

fn model() -> impl Strategy<Value = Model> {
    let value = || prop::option::of(-50..50_i32);
    let row = (value(), value(), value(), value(), value());
    let points = prop::collection::btree_map(0..60_i64, row, 1..30);
    prop::collection::btree_map(0..5_u32, points, 1..5).prop_map(|model| {
        let points = |points: BTreeMap<i64, _>| {
            points.into_iter().map(|(t, (a, b, c, d, e))| (t, [a, b, c, d, e])).collect()
        };
        model.into_iter().map(|(number, of)| (number, points(of))).collect()
    })
}

fn newest(models: &[Model]) -> Model {
    let mut merged = Model::new();
    for model in models {
        for (number, points) in model {
            for (time, row) in points {
                let old = merged.entry(*number).or_default().entry(*time).or_insert([None; 5]);
                for (old, new) in old.iter_mut().zip(row) {
                    *old = new.or(*old);
                }
            }
        }
    }
    merged
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_newest_value_of_each_field_wins(
        models in prop::collection::vec(model(), 1..5),
        shift in 0..70_i64,
        fields in prop::collection::vec("[bfisux]", 0..4),
        descending: bool,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let shifted: Vec<Model> = models.iter().enumerate().map(|(at, model)| {
            let points = |of: &BTreeMap<i64, Row>| {
                of.iter().map(|(time, row)| (time + at as i64 * shift, *row)).collect()
            };
            model.iter().map(|(number, of)| (*number, points(of))).collect()
        }).collect();
        let wanted: Vec<u32> = (0..5).collect();
        let ids: Arc<[SeriesId]> = wanted.iter().map(|number| series(*number).id).collect();
        let request = Arc::new(ScanRequest {
            measurement: "m".into(), time: TimeRange::ALL, fields: fields.clone(), descending,
        });
        let files = shifted.iter().zip(0..).map(|(model, at)| store(dir.path(), at, model));
        let files: Vec<_> = files.collect();
        let sources = || files.iter().map(|file| {
            let scan = file.scan(ids.clone(), request.clone(), &[], Arc::new(TestNames));
            (file.info.time, Box::new(scan) as Source)
        });
        let expected = expected(&newest(&shifted), &wanted, TimeRange::ALL, &fields, descending);
        let at_once = Merge::new(sources().map(|(_, source)| source).collect(), descending);
        let merged: Vec<Chunk> = at_once.map(|ranked| ranked.unwrap().chunk).collect();
        prop_assert_eq!(rows(&merged, &fields), &expected[..]);
        let one_by_one = Merge::of_spans(sources().collect(), descending);
        let merged: Vec<Chunk> = one_by_one.map(|ranked| ranked.unwrap().chunk).collect();
        prop_assert_eq!(rows(&merged, &fields), expected);
    }
}

#[test]
fn a_source_is_not_asked_before_its_times() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let count = Arc::new(AtomicU32::new(0));
    let source = |times: [i64; 2]| {
        let chunk = Chunk { series: SeriesId(0), times: times.to_vec().into(), columns: vec![] };
        let count = count.clone();
        let first = std::iter::once_with(move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(Ranked { rank: 0, chunk })
        });
        Box::new(first) as Source
    };
    let sources = [[3, 5], [1, 3], [10, 11], [5, 8]]
        .map(|times| (TimeRange { min: times[0], max: times[1] }, source(times)));
    let mut merge = Merge::of_spans(Vec::from(sources), false);
    let mut next = || {
        let times = merge.next().map(|ranked| ranked.unwrap().chunk.times.to_vec());
        (times, count.load(Ordering::Relaxed))
    };
    assert_eq!(next(), (Some(vec![1]), 1));
    assert_eq!(next(), (Some(vec![3]), 2));
    assert_eq!(next(), (Some(vec![5]), 3));
    assert_eq!(next(), (Some(vec![8]), 3));
    assert_eq!(next(), (Some(vec![10, 11]), 4));
    assert_eq!(next(), (None, 4));
}
