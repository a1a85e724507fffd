//! Rows on their way to the sink, in pieces.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::execute::EachGroup;
use super::feeds::Key;
use super::frame::Frame;
use super::merged::{Row, Rows};
use crate::query::context::Context;
use crate::query::results::{self, Sink};
use crate::refusal::QueryError;
use crate::value::Value;

/// Rows of a piece at most.
const PIECE_ROWS: usize = 10_000;
/// Bytes of a piece in the answer, about, which is what a query may be held up with.
const PIECE_BYTES: usize = 192 << 10;
/// What a value that is not text has in an answer, about.
const VALUE_BYTES: usize = 20;
/// Rows between two looks at whether the query is to end.
const ROWS_PER_CHECK: usize = 1024;

/// Sends groups to the sink.
pub(super) struct Emitter<'a> {
    tags: &'a [String],
    columns: Arc<[String]>,
    context: &'a Context,
    sink: &'a mut dyn Sink,
    /// What the client's chunk has of the group at hand, which is sent once it is complete.
    chunk: Chunk<'a>,
}

/// The rows of a chunk so far, which are in memory until there are as many as the client wants.
struct Chunk<'a> {
    context: &'a Context,
    rows: usize,
    bytes: usize,
}

impl Chunk<'_> {
    /// Adds rows of about so many bytes.
    fn add(&mut self, rows: usize, bytes: usize) -> Result<(), QueryError> {
        let Some(size) = self.context.chunk_size else { return Ok(()) };
        self.context.cancel.reserve(bytes)?;
        self.bytes += bytes;
        self.rows += rows;
        if self.rows > size {
            self.rows %= size.max(1);
            self.end();
        }
        Ok(())
    }

    fn end(&mut self) {
        self.context.cancel.release(std::mem::take(&mut self.bytes));
    }
}

impl Drop for Chunk<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<'a> Emitter<'a> {
    /// For the outermost statement.
    pub(super) fn new(frame: &'a Frame<'_>, context: &'a Context, sink: &'a mut dyn Sink) -> Self {
        let columns = frame.of.columns.iter().cloned().collect();
        Self::of(&frame.tags, &columns, context, sink)
    }

    /// For groups by these tags, and rows of these columns.
    pub(super) fn of(
        tags: &'a [String],
        columns: &Arc<[String]>,
        context: &'a Context,
        sink: &'a mut dyn Sink,
    ) -> Self {
        let chunk = Chunk { context, rows: 0, bytes: 0 };
        Self { tags, columns: Arc::clone(columns), context, sink, chunk }
    }

    fn send(&mut self, key: &Key, values: Vec<Vec<Value>>, partial: bool) -> ControlFlow<()> {
        let pairs = self.tags.iter().zip(&key.values);
        self.sink.rows(results::Rows {
            name: key.name.to_string(),
            tags: pairs.map(|(tag, value)| (tag.clone(), value.to_string())).collect(),
            columns: Arc::clone(&self.columns),
            values,
            partial,
        })
    }

    /// Bytes of a row in the answer besides its values: CSV has the group's name in each.
    fn row_bytes(&self, key: &Key) -> usize {
        let tags = self.tags.iter().zip(&key.values).map(|(tag, value)| tag.len() + value.len());
        VALUE_BYTES + key.name.len() + tags.sum::<usize>()
    }
}

impl EachGroup for Emitter<'_> {
    async fn group(
        &mut self,
        key: &Key,
        _: usize,
        mut rows: Rows<'_>,
    ) -> Result<ControlFlow<()>, QueryError> {
        let of_row = self.row_bytes(key);
        let piece_rows = self.context.chunk_size.unwrap_or(PIECE_ROWS).clamp(1, PIECE_ROWS);
        let mut piece: Vec<Vec<Value>> = Vec::new();
        let (mut bytes, mut made) = (0, 0_usize);
        let mut next = rows.next().transpose()?;
        while let Some((time, values)) = next {
            bytes += of_row + values.iter().map(value_bytes).sum::<usize>();
            piece.push(shown((time, values)));
            made = made.wrapping_add(1);
            if made.is_multiple_of(ROWS_PER_CHECK) {
                self.context.check()?;
            }
            next = rows.next().transpose()?;
            if next.is_none() || piece.len() >= piece_rows || bytes >= PIECE_BYTES {
                let values = std::mem::take(&mut piece);
                self.chunk.add(values.len(), std::mem::take(&mut bytes))?;
                if self.send(key, values, next.is_some()).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                self.context.room().await;
            }
        }
        self.chunk.rows = 0;
        self.chunk.end();
        Ok(ControlFlow::Continue(()))
    }
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 3,
        _ => VALUE_BYTES,
    }
}

/// A row with its time; what is not a number is shown as null.
fn shown((time, mut values): Row) -> Vec<Value> {
    for value in &mut values {
        if matches!(value, Value::Float(number) if number.is_nan()) {
            *value = Value::Null;
        }
    }
    values.insert(0, Value::Time(time));
    values
}
