//! Rows on their way to the sink, in pieces.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::feeds::Key;
use super::frame::Frame;
use super::merged::{Row, Rows};
use crate::query::context::Context;
use crate::query::results::{self, QueryError, Sink, Value};

/// Rows of a piece where the client does not say.
const PIECE_ROWS: usize = 10_000;
/// Rows between two looks at whether the query is to end.
const ROWS_PER_CHECK: usize = 1024;

/// Sends groups to the sink.
pub(super) struct Emitter<'a> {
    tags: &'a [String],
    columns: Arc<[String]>,
    piece_rows: usize,
    context: &'a Context,
    sink: &'a mut dyn Sink,
}

impl<'a> Emitter<'a> {
    /// For the outermost statement.
    pub(super) fn new(frame: &'a Frame<'_>, context: &'a Context, sink: &'a mut dyn Sink) -> Self {
        Self {
            tags: &frame.tags,
            columns: frame.of.columns.iter().cloned().collect(),
            piece_rows: context.chunk_size.unwrap_or(PIECE_ROWS).max(1),
            context,
            sink,
        }
    }

    /// Sends the rows of a group; `Break` where no more are wanted.
    ///
    /// # Errors
    /// When the query fails or is to end.
    pub(super) fn group(
        &mut self,
        key: &Key,
        mut rows: Rows<'_>,
    ) -> Result<ControlFlow<()>, QueryError> {
        let mut piece: Vec<Vec<Value>> = Vec::new();
        let mut next = rows.next().transpose()?;
        while let Some(row) = next {
            piece.push(shown(row));
            if piece.len().is_multiple_of(ROWS_PER_CHECK) {
                self.context.check()?;
            }
            next = rows.next().transpose()?;
            if next.is_none() || piece.len() >= self.piece_rows {
                let values = std::mem::take(&mut piece);
                if self.send(key, values, next.is_some()).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
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
}

/// A row with its time; what is no number is shown as null.
fn shown((time, mut values): Row) -> Vec<Value> {
    for value in &mut values {
        if matches!(value, Value::Float(number) if number.is_nan()) {
            *value = Value::Null;
        }
    }
    values.insert(0, Value::Time(time));
    values
}
