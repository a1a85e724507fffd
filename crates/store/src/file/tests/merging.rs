use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::file::merge::{Merge, Source};
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
        let sources: Vec<Source> = shifted.iter().enumerate().map(|(at, model)| {
            let file = store(dir.path(), at as u64, model);
            Box::new(file.scan(ids.clone(), request.clone(), &[], Arc::new(Known))) as Source
        }).collect();
        let merged: Vec<Chunk> =
            Merge::new(sources, descending).map(|ranked| ranked.unwrap().chunk).collect();
        prop_assert_eq!(
            rows(&merged, &fields),
            expected(&newest(&shifted), &wanted, TimeRange::ALL, &fields, descending)
        );
    }
}
