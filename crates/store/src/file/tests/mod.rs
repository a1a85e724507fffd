//! Files against a model: what is written comes back, in every way of asking.

mod damage;
mod merging;
mod reading;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array,
};

use disk::Disk;

use crate::file::{FileInfo, FileSpec, Names, OpenFiles, SortedColumns, StoredFile, Tags, write};
use crate::scan::{Chunk, TimeRange};
use crate::schema::FieldType;
use crate::series::{Series, SeriesId};

/// The fields of the model, one of each type.
pub(crate) const FIELDS: [(&str, FieldType); 5] = [
    ("b", FieldType::Boolean),
    ("f", FieldType::Float),
    ("i", FieldType::Integer),
    ("s", FieldType::String),
    ("u", FieldType::Unsigned),
];

/// A row of the model: an optional number a field, out of which values of its type are made.
pub(crate) type Row = [Option<i32>; 5];

/// Points by series and time.
pub(crate) type Model = BTreeMap<u32, BTreeMap<i64, Row>>;

/// Series whose tags sort as their numbers do, but for a few without tags.
pub(crate) fn series(number: u32) -> Series {
    let tag = |key: &str, value: String| (Arc::from(key), Arc::from(value));
    let mut tags = vec![tag("host", format!("h{number:05}"))];
    if number.is_multiple_of(3) {
        tags.push(tag("zone", format!("z{}", number % 7)));
    }
    // Numbers of series are in no order within a file.
    Series { id: SeriesId(number ^ 0x15), tags: tags.into() }
}

pub(crate) struct TestNames;

impl Names for TestNames {
    fn tags(&self, id: SeriesId) -> Option<Tags> {
        Some(series(id.0 ^ 0x15).tags)
    }

    fn id(&self, _: &str, tags: &Tags) -> Option<SeriesId> {
        (0..1000).map(series).find(|series| series.tags == *tags).map(|series| series.id)
    }
}

fn column(of: FieldType, values: &[Option<i32>]) -> ArrayRef {
    let values = values.iter();
    match of {
        FieldType::Float => {
            Arc::new(values.map(|v| v.map(|v| f64::from(v) / 8.0)).collect::<Float64Array>())
        }
        FieldType::Integer => Arc::new(values.map(|v| v.map(i64::from)).collect::<Int64Array>()),
        FieldType::Unsigned => {
            Arc::new(values.map(|v| v.map(|v| v as u64)).collect::<UInt64Array>())
        }
        FieldType::Boolean => {
            Arc::new(values.map(|v| v.map(|v| v & 1 == 1)).collect::<BooleanArray>())
        }
        FieldType::String => {
            Arc::new(values.map(|v| v.map(|v| format!("text {v}"))).collect::<StringArray>())
        }
    }
}

pub(crate) fn sorted(model: &Model) -> SortedColumns {
    let mut columns = SortedColumns::default();
    let mut values: [Vec<Option<i32>>; 5] = Default::default();
    for (number, points) in model.iter().filter(|(_, points)| !points.is_empty()) {
        columns.runs.push((series(*number), points.len() as u32));
        for (time, row) in points {
            columns.times.push(*time);
            for (values, value) in values.iter_mut().zip(row) {
                values.push(*value);
            }
        }
    }
    let fields = FIELDS.iter().zip(&values);
    columns.fields =
        fields.map(|((name, of), values)| ((*name).into(), *of, column(*of, values))).collect();
    columns
}

pub(crate) fn spec(number: u64, positions: (u64, u64), columns: &SortedColumns) -> FileSpec {
    FileSpec {
        number,
        measurement: "m".into(),
        partition: TimeRange::ALL,
        positions,
        cleaned: 0,
        tag_keys: columns.tag_keys(),
        fields: columns.fields.iter().map(|(name, of, _)| (name.clone(), *of)).collect(),
    }
}

pub(crate) fn store(dir: &Path, number: u64, model: &Model) -> Arc<StoredFile> {
    let columns = sorted(model);
    let disk = Disk::default();
    let spec = spec(number, (number, number + 1), &columns);
    let info: FileInfo = write(&disk, dir, spec, &columns).unwrap().unwrap();
    let open = Arc::new(OpenFiles::new(1 << 20));
    Arc::new(StoredFile::new(dir, info, &disk, &open))
}

/// What chunks hold, of the fields that were asked for; all nulls where others.
pub(crate) fn rows(chunks: &[Chunk], fields: &[String]) -> Vec<(u32, i64, Vec<String>)> {
    let mut rows = Vec::new();
    for chunk in chunks {
        assert!(!chunk.times.is_empty());
        assert_eq!(chunk.columns.len(), fields.len());
        for (at, time) in chunk.times.iter().enumerate() {
            let cell = |column: &Option<ArrayRef>| match column {
                Some(column) if column.is_valid(at) => cell(column, at),
                _ => "-".to_owned(),
            };
            let cells = chunk.columns.iter().map(cell).collect();
            rows.push((chunk.series.0 ^ 0x15, *time, cells));
        }
    }
    rows
}

pub(crate) fn cell(column: &ArrayRef, at: usize) -> String {
    let any = column.as_any();
    None.or_else(|| Some(any.downcast_ref::<Float64Array>()?.value(at).to_string()))
        .or_else(|| Some(any.downcast_ref::<Int64Array>()?.value(at).to_string()))
        .or_else(|| Some(any.downcast_ref::<UInt64Array>()?.value(at).to_string()))
        .or_else(|| Some(any.downcast_ref::<BooleanArray>()?.value(at).to_string()))
        .or_else(|| Some(any.downcast_ref::<StringArray>()?.value(at).to_owned()))
        .unwrap()
}

/// What a scan of the model gives.
pub(crate) fn expected(
    model: &Model,
    wanted: &[u32],
    range: TimeRange,
    fields: &[String],
    descending: bool,
) -> Vec<(u32, i64, Vec<String>)> {
    let mut rows = Vec::new();
    for number in wanted {
        let mut of: Vec<_> = model.get(number).into_iter().flatten().collect();
        if descending {
            of.reverse();
        }
        for (time, row) in of.into_iter().filter(|(time, _)| range.contains(**time)) {
            let value = |name: &String| {
                let at = FIELDS.iter().position(|(known, _)| known == name)?;
                let made = column(FIELDS[at].1, &[row[at]]);
                made.is_valid(0).then(|| cell(&made, 0))
            };
            let cells: Vec<Option<String>> = fields.iter().map(value).collect();
            if fields.is_empty() || cells.iter().any(Option::is_some) {
                let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(|| "-".into()));
                rows.push((*number, *time, cells.collect()));
            }
        }
    }
    rows
}
