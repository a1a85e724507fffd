use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};

use crate::predicate::TagPredicate;
use crate::scan::{Chunk, ScanRequest, TimeRange};
use crate::schema::FieldType;
use crate::testing::TestStore;
use crate::view::PolicyView;

fn request(fields: &[&str]) -> ScanRequest {
    ScanRequest {
        measurement: "m".to_owned(),
        time: TimeRange::ALL,
        fields: fields.iter().map(|&field| field.to_owned()).collect(),
        descending: false,
    }
}

fn chunks(view: &PolicyView, request: &ScanRequest) -> Vec<Chunk> {
    let series: Vec<_> = view.series("m", &TagPredicate::All).iter().map(|s| s.id).collect();
    view.scan(&series, request).map(Result::unwrap).collect()
}

#[test]
fn what_is_written_is_scanned() {
    let test =
        TestStore::with("m,host=b f=1,s=\"x\" 1\nm,host=a f=2.5,i=3i 2\nm,host=a f=4 1\nn g=t 5\n");
    let view = test.snapshot().policy("db", None).unwrap();
    assert_eq!(view.measurements(), ["m", "n"]);
    assert_eq!(
        view.fields("m").into_iter().collect::<Vec<_>>(),
        [
            ("f".to_owned(), FieldType::Float),
            ("i".to_owned(), FieldType::Integer),
            ("s".to_owned(), FieldType::String),
        ]
    );
    assert_eq!(view.tag_keys("m"), ["host"]);
    assert_eq!(view.tag_values("m", "host", &TagPredicate::All, None), ["a", "b"]);
    let series = view.series("m", &TagPredicate::All);
    assert_eq!(series.iter().map(|s| s.tag("host")).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(view.extent("m", TimeRange::ALL), Some(TimeRange { min: 1, max: 2 }));
    let found = chunks(&view, &request(&["f", "i", "none"]));
    assert_eq!(found.len(), 2);
    assert_eq!(&found[0].times[..], [1, 2]);
    assert_eq!(
        found[0].columns[0].as_ref().unwrap().as_primitive::<Float64Type>().values()[..],
        [4.0, 2.5]
    );
    let i = found[0].columns[1].as_ref().unwrap().as_primitive::<Int64Type>();
    assert_eq!(i.iter().collect::<Vec<_>>(), [None, Some(3)]);
    assert!(found[0].columns[2].is_none());
    assert_eq!(&found[1].times[..], [1]);
    // A point without the field asked for is left out.
    let found = chunks(&view, &request(&["i"]));
    assert_eq!(found.len(), 1);
    assert_eq!(&found[0].times[..], [2]);
}

#[test]
fn the_newest_value_of_each_field_wins() {
    let test = TestStore::with("m a=1,b=1 1\nm a=2 1\nm b=3,b=4 1\n");
    let view = test.snapshot().policy("db", Some("autogen")).unwrap();
    test.write("m a=9 1\n");
    let found = chunks(&view, &request(&["a", "b"]));
    let value = |at: usize| found[0].columns[at].as_ref().unwrap().as_primitive::<Float64Type>();
    assert_eq!(&found[0].times[..], [1]);
    assert_eq!((value(0).value(0), value(1).value(0)), (2.0, 4.0));
}

#[test]
fn newest_first_over_partitions() {
    let week = 7 * 86_400_000_000_000i64;
    let lines: String = (0..5).map(|i| format!("m f={i} {}\n", i * week / 2)).collect();
    let test = TestStore::with(&lines);
    let view = test.snapshot().policy("db", None).unwrap();
    let descending = ScanRequest { descending: true, ..request(&["f"]) };
    let times: Vec<i64> =
        chunks(&view, &descending).iter().flat_map(|c| c.times.to_vec()).collect();
    assert_eq!(times, [4, 3, 2, 1, 0].map(|i| i * week / 2));
    let middle = TimeRange { min: week / 2, max: week };
    let some = ScanRequest { time: middle, ..request(&[]) };
    let times: Vec<i64> = chunks(&view, &some).iter().flat_map(|c| c.times.to_vec()).collect();
    assert_eq!(times, [week / 2, week]);
}

#[test]
fn blocks_that_share_times_are_read_one_by_one_and_the_newest_value_wins() {
    // Several writers: a block reaches back into the times of those before it.
    let rows = 40_000_u64;
    let time = |n: u64| (n ^ 0x1f) + if n.is_multiple_of(5_000) { 9_000 } else { 0 };
    let line = |n: u64| format!("m f={n}i,t=\"{n}\" {}\n", time(n));
    let test = TestStore::with(&(0..rows).map(line).collect::<String>());
    let mut expected = std::collections::BTreeMap::new();
    expected.extend((0..rows).map(|n| (time(n) as i64, n as i64)));
    let view = test.snapshot().policy("db", None).unwrap();
    for (descending, range) in [
        (false, TimeRange::ALL),
        (true, TimeRange::ALL),
        (true, TimeRange { min: 77, max: 30_001 }),
    ] {
        let request = ScanRequest { descending, time: range, ..request(&["f", "t"]) };
        let read = chunks(&view, &request);
        assert!(read.len() > 3 && read.iter().all(|chunk| chunk.times.len() < 20_000));
        let points = read.iter().flat_map(|chunk| {
            let (values, texts) = (&chunk.columns[0], &chunk.columns[1]);
            let values = values.as_ref().unwrap().as_primitive::<Int64Type>().values().to_vec();
            let texts = texts.as_ref().unwrap();
            let texts: Vec<i64> =
                texts.as_string::<i32>().iter().map(|t| t.unwrap().parse().unwrap()).collect();
            assert_eq!(values, texts);
            chunk.times.iter().copied().zip(values)
        });
        let points: Vec<(i64, i64)> = points.collect();
        let mut wanted: Vec<(i64, i64)> =
            expected.range(range.min..=range.max).map(|(time, value)| (*time, *value)).collect();
        if descending {
            wanted.reverse();
        }
        assert!(points == wanted);
    }
}
