//! Every format ever written stays readable: the files in `fixtures` are never written again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use disk::Disk;

use crate::archive::{Archive, policy_dir};
use crate::catalogue::{Catalogue, Database, Ids, Policy};
use crate::file::merge::{Merge, Source};
use crate::file::tests::cell;
use crate::file::{FileSpec, Names, SortedColumns, StoredFile, Tags, Verified, write};
use crate::inspect::verify;
use crate::scan::{ScanRequest, TimeRange};
use crate::schema::FieldType;
use crate::series::{Series, SeriesId};
use crate::series_log;
use crate::tombstone::{Condition, Tombstone};

const POLICY: u64 = 100;
const WEEK_NS: i64 = 7 * 86_400_000_000_000;
/// A Monday: where partitions of a week begin.
const START_NS: i64 = 1_704_067_200_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/v1")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let from = entry.unwrap().path();
        let to = to.join(from.file_name().unwrap());
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}

/// Series 0 has no tags, 1 one and 2 two of them; their numbers are in no order.
fn series() -> [Series; 3] {
    let pair = |key: &str, value: &str| (Arc::from(key), Arc::from(value));
    let of = |id, tags: Vec<_>| Series { id: SeriesId(id), tags: tags.into() };
    [
        of(2, vec![]),
        of(0, vec![pair("host", "a b,c=d")]),
        of(1, vec![pair("host", "ü"), pair("zone", "eu")]),
    ]
}

struct Three;

impl Names for Three {
    fn tags(&self, id: SeriesId) -> Option<Tags> {
        series().into_iter().find(|series| series.id == id).map(|series| series.tags)
    }

    fn id(&self, _: &str, tags: &Tags) -> Option<SeriesId> {
        series().into_iter().find(|series| series.tags == *tags).map(|series| series.id)
    }
}

/// `f` of series 1 at second 3 was overwritten; of series 2 seconds 5 to 6 were deleted; series
/// 0 has gaps in its times.
#[test]
fn a_store_of_version_1_is_read() {
    let dir = tempfile::tempdir().unwrap();
    copy(&fixture(), dir.path());
    let report = verify(dir.path()).unwrap();
    assert!(report.is_intact(), "{report}");
    let archive = Archive::open(dir.path(), Disk::default()).unwrap();
    let version = archive.version();
    let manifest = &version.manifest;
    assert_eq!((manifest.position, manifest.next_file), (3000, 4));
    let found = manifest.catalogue.resolve("fixture", "").unwrap();
    assert_eq!(found.ids, Ids { db: POLICY, policy: POLICY });
    let entry = &manifest.policies[&POLICY];
    assert_eq!((entry.files.len(), entry.tombstones.len(), entry.series.series), (2, 1, 3));
    assert_eq!(entry.schema["m"]["u"], FieldType::Unsigned);
    let mut logged = Vec::new();
    series_log::read(&policy_dir(dir.path(), POLICY), entry.series, |series| logged.push(series))
        .unwrap();
    for series in &logged {
        assert_eq!(Three.tags(series.id).as_ref(), Some(&series.tags));
        assert_eq!(&*series.measurement, "m");
    }

    let policy = &version.policies[&POLICY];
    let fields = ["b", "f", "i", "s", "u"].map(str::to_owned).to_vec();
    let time = TimeRange::ALL;
    let request = ScanRequest { measurement: "m".into(), time, fields, descending: false };
    let (request, ids) = (Arc::new(request), series().map(|series| series.id));
    let scan = |file: &Arc<StoredFile>| {
        assert_eq!(file.verify(), Verified::Whole);
        assert!(file.named_series().unwrap().len() >= 2);
        let names = Arc::new(Three);
        let ids: Arc<[SeriesId]> = ids.into();
        Box::new(file.scan(ids, request.clone(), &policy.tombstones, names)) as Source
    };
    let mut lines = String::new();
    for ranked in Merge::new(policy.files["m"].iter().map(scan).collect(), false) {
        let chunk = ranked.unwrap().chunk;
        for (at, time) in chunk.times.iter().enumerate() {
            let value = |column: &Option<ArrayRef>| match column {
                Some(column) if column.is_valid(at) => cell(column, at),
                _ => "-".to_owned(),
            };
            let values: Vec<String> = chunk.columns.iter().map(value).collect();
            let second = (time - START_NS) / SECOND_NS;
            lines += &format!("{} {second} {}\n", chunk.series.0, values.join(" "));
        }
    }
    let expected = std::fs::read_to_string(fixture().with_extension("txt")).unwrap();
    assert_eq!(lines, expected);
}

/// How the fixture was made. A later version writes another directory, and reads both.
#[test]
#[ignore = "writes the fixture of the version being developed"]
fn write_the_fixture() {
    let archive = Archive::open(&fixture(), Disk::default()).unwrap();
    let policy = Policy {
        id: POLICY,
        name: "autogen".into(),
        duration_ns: 0,
        partition_ns: WEEK_NS,
        replication: 1,
        default: true,
    };
    let dir = archive.policy_dir(POLICY).unwrap();
    let mut named = series();
    named.sort_by_key(|series| series.id);
    let logged = named.iter().map(|series| (series.id, "m", &series.tags));
    let mark = series_log::append(archive.disk(), &dir, Default::default(), logged).unwrap();
    let old = columns([8, 10, 12], 0);
    let new = columns([0, 4, 6], 3);
    let mut files = Vec::new();
    for (points, positions) in [(&old, (0, 1000)), (&new, (1000, 3000))] {
        let spec = FileSpec {
            number: archive.take_number(),
            measurement: "m".into(),
            partition: TimeRange { min: START_NS, max: START_NS + WEEK_NS - 1 },
            positions,
            cleaned: 0,
            tag_keys: points.tag_keys(),
            fields: points.fields.iter().map(|(name, of, _)| (name.clone(), *of)).collect(),
        };
        files.extend(write(archive.disk(), &dir, spec, points).unwrap());
    }
    archive.take_number();
    let deleted = Tombstone {
        position: 2000,
        measurement: Some("m".into()),
        matching: Condition::Equal("zone".into(), "eu".into()),
        time: TimeRange { min: START_NS + 5 * SECOND_NS, max: START_NS + 6 * SECOND_NS },
    };
    let schema = old.fields.iter().map(|(name, of, _)| (name.clone(), *of)).collect();
    archive
        .change(|manifest| {
            manifest.position = 3000;
            let database = Database { id: POLICY, policies: vec![policy] };
            manifest.catalogue = Catalogue { databases: [("fixture".into(), database)].into() };
            let entry = manifest.policies.entry(POLICY).or_default();
            entry.ids = Ids { db: POLICY, policy: POLICY };
            entry.schema = [("m".to_owned(), schema)].into();
            entry.series = mark;
            entry.files = files;
            entry.tombstones = vec![deleted];
        })
        .unwrap();
}

/// So many points of each series, from a second on.
fn columns(rows: [u32; 3], from: i64) -> SortedColumns {
    let mut columns = SortedColumns::default();
    let mut numbers: Vec<Option<i32>> = Vec::new();
    for (series, rows) in series().into_iter().zip(rows).filter(|(_, rows)| *rows > 0) {
        for row in 0..i64::from(rows) {
            let gap = if series.id.0 == 0 { row * row % 7 / 5 + row } else { 0 };
            columns.times.push(START_NS + (from + row + gap) * SECOND_NS);
            numbers.push((row % 3 != 2).then_some((from * 100 + row) as i32));
        }
        columns.runs.push((series, rows));
    }
    let all = || numbers.iter().copied();
    let fields: [(&str, FieldType, ArrayRef); 5] = [
        (
            "b",
            FieldType::Boolean,
            Arc::new(all().map(|n| Some(n? % 2 == 0)).collect::<BooleanArray>()),
        ),
        (
            "f",
            FieldType::Float,
            Arc::new(all().map(|n| n.map(|n| f64::from(n) / 4.0)).collect::<Float64Array>()),
        ),
        (
            "i",
            FieldType::Integer,
            Arc::new(all().map(|n| n.map(|n| i64::from(-n))).collect::<Int64Array>()),
        ),
        (
            "s",
            FieldType::String,
            Arc::new(
                all()
                    .map(|n| Some(n.map_or("nöne".into(), |n| format!("t{n}"))))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "u",
            FieldType::Unsigned,
            Arc::new(all().map(|n| n.map(|n| u64::MAX - n as u64)).collect::<UInt64Array>()),
        ),
    ];
    columns.fields =
        fields.into_iter().map(|(name, of, column)| (name.into(), of, column)).collect();
    columns
}
