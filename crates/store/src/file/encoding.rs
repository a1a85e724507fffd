//! Which encoding and compression a column gets: a sample of it is written in each way that may
//! suit its type, and the smallest wins.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion,
};
use parquet::schema::types::ColumnPath;

/// Rows of a page: few, since a query for a short time reads whole pages.
const PAGE_ROWS: usize = 8192;
/// Rows of a row group at most.
const GROUP_ROWS: usize = 1 << 20;
/// Bytes of a row group once encoded; a row group is held in memory until it is complete.
const GROUP_BYTES: usize = 8 << 20;
/// Rows of the sample, taken in [`SAMPLE_PIECES`] pieces.
const SAMPLE_ROWS: usize = 16_384;
const SAMPLE_PIECES: usize = 4;
/// With fewer rows than this a trial costs more than it saves.
const TRIAL_ROWS: usize = 1024;
/// Compressed columns must be smaller by this much, since they take longer to read.
const COMPRESSION_HANDICAP: f64 = 1.1;

/// A way to write a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ColumnEncoding {
    dictionary: bool,
    /// Of values outside of the dictionary.
    encoding: Encoding,
    compression: Compression,
}

impl ColumnEncoding {
    fn new(dictionary: bool, encoding: Encoding, compression: Compression) -> Self {
        Self { dictionary, encoding, compression }
    }

    fn handicap(&self) -> f64 {
        if self.compression == Compression::UNCOMPRESSED { 1.0 } else { COMPRESSION_HANDICAP }
    }
}

fn zstd() -> Compression {
    Compression::ZSTD(ZstdLevel::try_new(1).unwrap_or_default())
}

/// The ways that may suit a type; the first is that of columns too short for a trial.
fn ways(of: &DataType) -> Vec<ColumnEncoding> {
    let none = Compression::UNCOMPRESSED;
    match of {
        DataType::Timestamp(..) => vec![
            ColumnEncoding::new(false, Encoding::DELTA_BINARY_PACKED, zstd()),
            ColumnEncoding::new(false, Encoding::DELTA_BINARY_PACKED, none),
        ],
        DataType::Int64 | DataType::UInt64 => vec![
            ColumnEncoding::new(false, Encoding::DELTA_BINARY_PACKED, none),
            ColumnEncoding::new(false, Encoding::DELTA_BINARY_PACKED, zstd()),
            ColumnEncoding::new(true, Encoding::DELTA_BINARY_PACKED, none),
            ColumnEncoding::new(true, Encoding::DELTA_BINARY_PACKED, zstd()),
            ColumnEncoding::new(false, Encoding::PLAIN, none),
        ],
        DataType::Float64 => vec![
            ColumnEncoding::new(true, Encoding::BYTE_STREAM_SPLIT, zstd()),
            ColumnEncoding::new(true, Encoding::PLAIN, none),
            ColumnEncoding::new(false, Encoding::BYTE_STREAM_SPLIT, zstd()),
            ColumnEncoding::new(false, Encoding::PLAIN, zstd()),
            ColumnEncoding::new(false, Encoding::PLAIN, none),
        ],
        DataType::Boolean => vec![ColumnEncoding::new(false, Encoding::RLE, none)],
        DataType::Utf8 => vec![
            ColumnEncoding::new(true, Encoding::PLAIN, zstd()),
            ColumnEncoding::new(false, Encoding::PLAIN, zstd()),
            ColumnEncoding::new(false, Encoding::PLAIN, none),
        ],
        // Tags: few values in long runs, or many that share their beginnings.
        _ => vec![ColumnEncoding::new(true, Encoding::DELTA_BYTE_ARRAY, zstd())],
    }
}

/// The best way for a column that begins like this one.
fn choose(column: &ArrayRef) -> ColumnEncoding {
    let ways = ways(column.data_type());
    let first = ways.first().copied();
    let first = first.unwrap_or(ColumnEncoding::new(true, Encoding::PLAIN, zstd()));
    if ways.len() < 2 || column.len() - column.null_count() < TRIAL_ROWS {
        return first;
    }
    let Some(sample) = sample(column) else {
        return first;
    };
    let tried = ways.into_iter().filter_map(|way| Some((way, size(&sample, way)? as f64)));
    let best = tried.min_by(|(a, a_size), (b, b_size)| {
        (a_size * a.handicap()).total_cmp(&(b_size * b.handicap()))
    });
    best.map_or(first, |(way, _)| way)
}

fn sample(column: &ArrayRef) -> Option<ArrayRef> {
    if column.len() <= SAMPLE_ROWS {
        return Some(column.clone());
    }
    let len = SAMPLE_ROWS / SAMPLE_PIECES;
    let pieces: Vec<ArrayRef> = (0..SAMPLE_PIECES)
        .map(|n| column.slice((column.len() - len) / (SAMPLE_PIECES - 1) * n, len))
        .collect();
    let pieces: Vec<&dyn Array> = pieces.iter().map(|piece| &**piece).collect();
    arrow_select::concat::concat(&pieces).ok()
}

/// Bytes of the sample written this way.
fn size(sample: &ArrayRef, way: ColumnEncoding) -> Option<usize> {
    let field = Field::new("sample", sample.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(schema.clone(), vec![sample.clone()]).ok()?;
    let builder = WriterProperties::builder().set_statistics_enabled(EnabledStatistics::None);
    let properties = with(builder, &ColumnPath::from("sample"), way).build();
    let options =
        ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), schema, options).ok()?;
    writer.write(&batch).ok()?;
    let metadata = writer.close().ok()?;
    let size: i64 = metadata.row_groups().iter().map(|group| group.compressed_size()).sum();
    usize::try_from(size).ok()
}

fn with(
    builder: WriterPropertiesBuilder,
    path: &ColumnPath,
    way: ColumnEncoding,
) -> WriterPropertiesBuilder {
    builder
        .set_column_dictionary_enabled(path.clone(), way.dictionary)
        .set_column_encoding(path.clone(), way.encoding)
        .set_column_compression(path.clone(), way.compression)
}

/// How a file is written whose columns begin like those of `batch`.
pub(crate) fn properties(batch: &RecordBatch) -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by(format!("weir {}", env!("CARGO_PKG_VERSION")))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES))
        .set_statistics_enabled(EnabledStatistics::Page);
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let path = ColumnPath::new(vec![field.name().clone()]);
        if matches!(field.data_type(), DataType::Utf8 | DataType::Dictionary(..)) {
            let chunk = EnabledStatistics::Chunk;
            builder = builder.set_column_statistics_enabled(path.clone(), chunk);
        }
        builder = with(builder, &path, choose(column));
    }
    builder.build()
}
