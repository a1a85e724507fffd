//! Reading points of some series out of one file.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_buffer::ScalarBuffer;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use crate::file::lost::Parts;
use crate::file::merge::Ranked;
use crate::file::open::{OpenFile, Readable, StoredFile};
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
    reading: Option<GroupReader>,
    /// What can be read of a group that is damaged.
    spared: VecDeque<Group>,
    /// Whether the answer says what is lost, so that it is left out.
    is_said: bool,
    is_over: bool,
}

impl std::fmt::Debug for FileScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileScan").field("file", &self.file).finish_non_exhaustive()
    }
}

/// The open file, and where in it the fields are that are asked for.
struct Layout {
    opened: Arc<OpenFile>,
    lost: Option<Arc<Parts>>,
    /// The file's columns to read.
    columns: Vec<usize>,
    /// For each field asked for, which of `columns` it is.
    fields: Vec<Option<usize>>,
    /// Rows read at once.
    batch_rows: u32,
}

/// A group being read.
struct GroupReader {
    pieces: VecDeque<Piece>,
    /// `None` where only times are asked for and they are known.
    reader: Option<ParquetRecordBatchReader>,
    batch: Option<RecordBatch>,
    /// Rows of the batch that are done.
    done: usize,
    has_times: bool,
    /// As [`Layout::fields`], where some of its columns are lost.
    fields: Option<Vec<Option<usize>>>,
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
            self.info.is_hit_by(&active.tombstone)
                && !active.tombstone.time.intersect(time).is_empty()
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
            spared: VecDeque::new(),
            is_said: false,
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
    /// Leaves out what is lost of a damaged file, if the answer says so; else that is an error.
    pub(crate) fn leaving_out_lost(mut self, is_said: bool) -> Self {
        self.is_said = is_said;
        self
    }

    fn advance(&mut self) -> Result<Option<Ranked>, ScanError> {
        if self.layout.is_none() {
            let Some(readable) = self.file.readable(self.is_said)? else {
                return Ok(None);
            };
            self.layout = Some(Layout::new(readable, &self.request.fields));
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
                None => match self.next_group(layout) {
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

    /// The next rows to read, of which nothing is lost but whole columns.
    fn next_group(&mut self, layout: &Layout) -> Option<Group> {
        let sidecar = layout.opened.sidecar();
        while self.spared.is_empty() {
            let group = self.planner.next(sidecar, layout.batch_rows)?;
            let Some(lost) = &layout.lost else {
                return Some(group);
            };
            self.spared = lost.spare(&group, sidecar, &layout.columns, self.request.descending);
        }
        self.spared.pop_front()
    }

    fn begin(&self, layout: &Layout, group: Group) -> Result<GroupReader, ScanError> {
        let has_times = !group.pieces.iter().all(|piece| piece.is_known);
        let (mut columns, fields) = layout.readable(&group);
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
        Ok(GroupReader { pieces: group.pieces, reader, batch: None, done: 0, has_times, fields })
    }

    /// The next chunk of the group. `None` where nothing is left of it, or at the end.
    fn read(
        &self,
        layout: &Layout,
        reading: &mut GroupReader,
    ) -> Result<Option<Ranked>, ScanError> {
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
        Ok(self.chunk(layout, &piece, batch.as_ref(), reading))
    }

    /// Reads the next batch where the last one is done.
    fn fill(&self, reading: &mut GroupReader) -> Result<(), ScanError> {
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
        reading: &GroupReader,
    ) -> Option<Ranked> {
        let has_times = reading.has_times;
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
        let columns = reading.fields.as_ref().unwrap_or(&layout.fields).iter().map(|at| {
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
    fn new(Readable { opened, lost }: Readable, fields: &[String]) -> Self {
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
        Self { columns, fields, batch_rows, opened: opened.clone(), lost }
    }

    /// The columns that can be read of a group, and which of them each field is where that differs
    /// from what it is otherwise.
    fn readable(&self, group: &Group) -> (Vec<usize>, Option<Vec<Option<usize>>>) {
        let sidecar = self.opened.sidecar();
        let (Some(lost), Some(piece)) = (&self.lost, group.pieces.front()) else {
            return (self.columns.clone(), None);
        };
        let start = sidecar.runs().get(piece.run).map_or(0, |run| run.start);
        let rows = start + piece.rows.start..start + piece.rows.end;
        let is_left = |column: &&usize| !lost.hit(**column, &rows);
        let left: Vec<usize> = self.columns.iter().filter(is_left).copied().collect();
        let fields = self.fields.iter().map(|at| {
            let column = self.columns.get((*at)?)?;
            left.binary_search(column).ok()
        });
        let fields = fields.collect();
        (left, Some(fields))
    }
}
