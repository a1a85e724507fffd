//! Reading points of some series out of one file.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_buffer::ScalarBuffer;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use crate::file::merge::Ranked;
use crate::file::open::{Opened, StoredFile};
use crate::file::plan::{Group, Piece, Planner};
use crate::file::rows;
use crate::file::{Names, Tags};
use crate::scan::{Chunk, ScanError, ScanRequest, TimeRange};
use crate::series::SeriesId;
use crate::tombstone::Active;

/// Rows of a chunk at most.
pub(crate) const CHUNK_ROWS: u32 = 1 << 16;

/// Bytes of a chunk, about: rows of many columns or of long texts come in shorter chunks.
const CHUNK_BYTES: usize = 4 << 20;
const CHUNK_ROWS_MIN: usize = 256;

/// The points of some series of one file, in the order of the series asked for, each by time.
pub struct FileScan {
    file: Arc<StoredFile>,
    request: Arc<ScanRequest>,
    series: Arc<[SeriesId]>,
    planner: Planner,
    tombstones: Vec<Active>,
    names: Arc<dyn Names>,
    layout: Option<Layout>,
    reading: Option<Reading>,
    is_over: bool,
}

impl std::fmt::Debug for FileScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileScan").field("file", &self.file).finish_non_exhaustive()
    }
}

/// The open file, and where in it the fields are that are asked for.
struct Layout {
    opened: Arc<Opened>,
    /// The file's columns to read.
    columns: Vec<usize>,
    /// For each field asked for, which of `columns` it is.
    fields: Vec<Option<usize>>,
    /// Rows read at once.
    batch_rows: u32,
}

/// A group being read.
struct Reading {
    pieces: VecDeque<Piece>,
    /// `None` where only times are asked for and they are known.
    reader: Option<ParquetRecordBatchReader>,
    batch: Option<RecordBatch>,
    /// Rows of the batch that are done.
    done: usize,
    has_times: bool,
}

impl StoredFile {
    /// The points of some series, in their order; quickest when that is the file's own. Points that
    /// the tombstones hit are left out. The file is opened at the first call of `next`.
    pub fn scan(
        self: &Arc<Self>,
        series: Arc<[SeriesId]>,
        request: Arc<ScanRequest>,
        tombstones: &[Active],
        names: Arc<dyn Names>,
    ) -> FileScan {
        let time = request.time.intersect(self.info.time);
        let tombstones = tombstones.iter().filter(|active| {
            active.tombstone.hits(&self.info) && !active.tombstone.time.intersect(time).is_empty()
        });
        FileScan {
            planner: Planner::new(series.clone(), time, request.descending),
            tombstones: tombstones.cloned().collect(),
            file: self.clone(),
            is_over: time.is_empty(),
            series,
            request,
            names,
            layout: None,
            reading: None,
        }
    }
}

impl Iterator for FileScan {
    type Item = Result<Ranked, ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let answer = self.advance().transpose();
        self.is_over = !matches!(answer, Some(Ok(_)));
        answer
    }
}

impl FileScan {
    fn advance(&mut self) -> Result<Option<Ranked>, ScanError> {
        if self.layout.is_none() {
            let layout = Layout::new(self.file.opened()?, &self.request.fields);
            self.layout = Some(layout);
        }
        let Some(layout) = self.layout.take() else {
            return Ok(None);
        };
        let answer = self.advance_in(&layout);
        self.layout = Some(layout);
        answer
    }

    fn advance_in(&mut self, layout: &Layout) -> Result<Option<Ranked>, ScanError> {
        if layout.columns.is_empty() && !self.request.fields.is_empty() {
            return Ok(None);
        }
        loop {
            let mut reading = match self.reading.take() {
                Some(reading) => reading,
                None => match self.planner.next(layout.opened.sidecar(), layout.batch_rows) {
                    Some(group) => self.begin(layout, group)?,
                    None => return Ok(None),
                },
            };
            let ranked = self.read(layout, &mut reading)?;
            if !reading.pieces.is_empty() {
                self.reading = Some(reading);
            }
            if ranked.is_some() {
                return Ok(ranked);
            }
        }
    }

    fn begin(&self, layout: &Layout, group: Group) -> Result<Reading, ScanError> {
        let has_times = !group.pieces.iter().all(|piece| piece.is_known);
        let mut columns = layout.columns.clone();
        if has_times {
            columns.insert(0, 0);
        }
        let reader = if columns.is_empty() {
            None
        } else {
            let opened = &layout.opened;
            let (groups, rows) = group.selection(opened.sidecar(), &opened.group_starts);
            let batch_rows = group.rows.min(layout.batch_rows) as usize;
            let reader = opened.reader(&columns, groups, rows, batch_rows);
            Some(reader.map_err(|error| self.file.failed(&error))?)
        };
        Ok(Reading { pieces: group.pieces, reader, batch: None, done: 0, has_times })
    }

    /// The next chunk of the group. `None` where nothing is left of it, or at the end.
    fn read(&self, layout: &Layout, reading: &mut Reading) -> Result<Option<Ranked>, ScanError> {
        self.fill(reading)?;
        let Some(mut piece) = reading.pieces.pop_front() else {
            return Ok(None);
        };
        let rows = (piece.rows.end - piece.rows.start).min(CHUNK_ROWS) as usize;
        let (batch, rows) = match &reading.batch {
            Some(batch) => {
                let rows = rows.min(batch.num_rows() - reading.done);
                let part = batch.slice(reading.done, rows);
                reading.done += rows;
                (Some(part), rows)
            }
            None => (None, rows),
        };
        let mut rest = piece.clone();
        // Read backwards, a group is one batch, so that no piece is cut.
        piece.rows.end = piece.rows.start + rows as u32;
        rest.rows.start = piece.rows.end;
        if !rest.rows.is_empty() {
            reading.pieces.push_front(rest);
        }
        Ok(self.chunk(layout, &piece, batch.as_ref(), reading.has_times))
    }

    /// Reads the next batch where the last one is done.
    fn fill(&self, reading: &mut Reading) -> Result<(), ScanError> {
        let Some(reader) = &mut reading.reader else {
            return Ok(());
        };
        if reading.batch.as_ref().is_some_and(|batch| reading.done < batch.num_rows()) {
            return Ok(());
        }
        let failed =
            |error: arrow_schema::ArrowError| self.file.failed(&rows::parquet_error(error));
        let mut batches = vec![reader.next().transpose().map_err(failed)?];
        // Read backwards, a group is turned around as a whole.
        while self.request.descending && batches.last().is_some_and(Option::is_some) {
            batches.push(reader.next().transpose().map_err(failed)?);
        }
        let batches: Vec<RecordBatch> = batches.into_iter().flatten().collect();
        reading.batch = match batches.as_slice() {
            [] => return Err(self.file.short()),
            [only] => Some(only.clone()),
            [first, ..] => {
                let schema = first.schema();
                Some(arrow_select::concat::concat_batches(&schema, &batches).map_err(failed)?)
            }
        };
        reading.done = 0;
        Ok(())
    }

    /// The rows of a piece as a chunk. `None` where none is left.
    fn chunk(
        &self,
        layout: &Layout,
        piece: &Piece,
        batch: Option<&RecordBatch>,
        has_times: bool,
    ) -> Option<Ranked> {
        let series = *self.series.get(piece.rank as usize)?;
        let times = match batch {
            Some(batch) if has_times => {
                batch.column(0).as_primitive_opt::<TimestampNanosecondType>()?.values().clone()
            }
            _ => {
                let sidecar = layout.opened.sidecar();
                let mut times = Vec::with_capacity((piece.rows.end - piece.rows.start) as usize);
                sidecar.times_of(sidecar.runs().get(piece.run)?, piece.rows.clone(), &mut times);
                ScalarBuffer::from(times)
            }
        };
        let skipped = usize::from(has_times);
        let columns = layout.fields.iter().map(|at| {
            let column = batch?.columns().get((*at)? + skipped)?;
            Some(column.clone())
        });
        let mut chunk = Chunk { series, times, columns: columns.collect() };
        if !piece.is_known {
            chunk = rows::within(chunk, self.request.time);
        }
        if !self.request.fields.is_empty() {
            chunk = rows::with_values(chunk)?;
        }
        let erased = self.erased(series);
        if !erased.is_empty() {
            chunk = rows::without(chunk, &erased)?;
        }
        if self.request.descending {
            chunk = rows::reversed(chunk)?;
        }
        rows::clear_nulls(&mut chunk);
        (!chunk.times.is_empty()).then_some(Ranked { rank: piece.rank, chunk })
    }

    /// The times that tombstones take from a series.
    fn erased(&self, series: SeriesId) -> Vec<TimeRange> {
        if self.tombstones.is_empty() {
            return Vec::new();
        }
        let tags: Option<Tags> = self.names.tags(series);
        let hits = self
            .tombstones
            .iter()
            .filter(|active| tags.as_ref().is_some_and(|tags| active.matches(tags)));
        hits.map(|active| active.tombstone.time).collect()
    }
}

impl Layout {
    fn new(opened: Arc<Opened>, fields: &[String]) -> Self {
        let mut columns: Vec<usize> = Vec::new();
        let known: Vec<(usize, &str)> = opened.columns("field.").collect();
        let wanted = |name: &String| {
            known.iter().find(|(_, known)| known == name).map(|(column, _)| *column)
        };
        columns.extend(fields.iter().filter_map(wanted));
        columns.sort_unstable();
        columns.dedup();
        let at = |name| columns.binary_search(&wanted(name)?).ok();
        let fields = fields.iter().map(at).collect();
        let rows = CHUNK_BYTES / opened.row_bytes(&columns).max(1);
        let batch_rows = rows.clamp(CHUNK_ROWS_MIN, CHUNK_ROWS as usize) as u32;
        Self { columns, fields, batch_rows, opened: opened.clone() }
    }
}
