//! Sub-queries: their rows become points that the statement around them reads.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use std::ops::ControlFlow;

use super::execute::{self, execute};
use super::expressions::{field_name, ranking_columns};
use super::feeds::Key;
use super::frame::Frame;
use super::merged::Rows;
use super::prepare::PreparedSelect;
use super::types::{self, Types};
use crate::query::context::{Context, Reserved};
use crate::query::drive;
use crate::query::expr::cast;
use crate::refusal::QueryError;
use crate::scan::Chunk;
use crate::schema::FieldType;
use crate::series::{Series, SeriesId};
use crate::value::Value;
use wire::influxql::ast::Expr;

/// Rows of a chunk of a sub-query's answer.
const CHUNK_ROWS: usize = 65_536;

/// What takes the groups of a sub-query: measurement, place, tags and rows.
pub(super) type EachGroup<'a> =
    &'a mut (dyn FnMut(Arc<str>, usize, Series, Vec<Chunk>) -> Result<(), QueryError> + Send);

/// The names by which the columns of a sub-query are known outside, and their places; of columns
/// of one name the first.
pub(super) fn column_places(of: &PreparedSelect) -> Vec<(String, usize)> {
    let mut places = Vec::new();
    let mut at = 0;
    for field in &of.select.fields {
        places.push((field_name(field), at));
        at += 1;
        for added in ranking_columns(&field.expr) {
            if let Expr::Reference { name, .. } = added {
                places.push((name.clone(), at));
            }
            at += 1;
        }
    }
    places
}

/// The types of the columns of a sub-query.
fn kinds(of: &PreparedSelect) -> Vec<Option<FieldType>> {
    let typing = Types { of_name: &|_| Ok(None) };
    let kind = |expr: &Expr| types::values(typing.of(expr).ok().flatten());
    let fields = of.select.fields.iter();
    fields
        .flat_map(|field| std::iter::once(&field.expr).chain(ranking_columns(&field.expr)))
        .map(kind)
        .collect()
}

/// Executes a sub-query and gives its groups; returns what its rows take of memory.
///
/// # Errors
/// Of the sub-query, and those of `each`.
pub(super) fn collect(
    frame: &Frame<'_>,
    context: &Context,
    each: EachGroup<'_>,
) -> Result<Reserved, QueryError> {
    let kinds = kinds(frame.of);
    let keys = frame.tags.iter().map(|tag| Arc::from(tag.as_str())).collect();
    // Its rows wait for no client.
    let reserved = Reserved { cancel: context.cancel.clone(), bytes: 0 };
    let mut collector = Collector { kinds, keys, reserved, each };
    drive::to_end(execute(frame, context, &mut collector))?;
    Ok(collector.reserved)
}

/// Makes chunks of the rows of a sub-query.
struct Collector<'a> {
    kinds: Vec<Option<FieldType>>,
    /// The tags grouped by.
    keys: Vec<Arc<str>>,
    reserved: Reserved,
    each: EachGroup<'a>,
}

impl execute::EachGroup for Collector<'_> {
    async fn group(
        &mut self,
        key: &Key,
        order: usize,
        rows: Rows<'_>,
    ) -> Result<ControlFlow<()>, QueryError> {
        let kinds = &self.kinds;
        let mut chunks = Vec::new();
        let mut rows = rows.peekable();
        while rows.peek().is_some() {
            let part = rows.by_ref().take(CHUNK_ROWS).collect::<Result<Vec<_>, _>>()?;
            let bytes = part.len() * (8 + 16 * kinds.len());
            self.reserved.cancel.reserve(bytes)?;
            self.reserved.bytes += bytes;
            chunks.push(chunk(&part, kinds));
        }
        let pairs = self.keys.iter().cloned().zip(key.values.iter().cloned());
        let tags = pairs.filter(|(_, value)| !value.is_empty()).collect();
        (self.each)(Arc::clone(&key.name), order, Series { id: SeriesId(0), tags }, chunks)?;
        Ok(ControlFlow::Continue(()))
    }
}

fn chunk(rows: &[(i64, Vec<Value>)], kinds: &[Option<FieldType>]) -> Chunk {
    let column = |(at, kind): (usize, &Option<FieldType>)| {
        let values = rows.iter().map(|(_, row)| match row.get(at) {
            Some(value) => kind.map_or(Value::Null, |kind| cast(value, kind)),
            None => Value::Null,
        });
        kind.map(|kind| array(kind, values))
    };
    Chunk {
        series: SeriesId(0),
        times: rows.iter().map(|(time, _)| *time).collect(),
        columns: kinds.iter().enumerate().map(column).collect(),
    }
}

fn array(kind: FieldType, values: impl Iterator<Item = Value>) -> ArrayRef {
    match kind {
        FieldType::Float => Arc::new(Float64Array::from_iter(values.map(|value| match value {
            Value::Float(value) => Some(value),
            _ => None,
        }))),
        FieldType::Integer => Arc::new(Int64Array::from_iter(values.map(|value| match value {
            Value::Integer(value) => Some(value),
            _ => None,
        }))),
        FieldType::Unsigned => Arc::new(UInt64Array::from_iter(values.map(|value| match value {
            Value::Unsigned(value) => Some(value),
            _ => None,
        }))),
        FieldType::String => Arc::new(StringArray::from_iter(values.map(|value| match value {
            Value::String(value) => Some(value),
            _ => None,
        }))),
        FieldType::Boolean => Arc::new(BooleanArray::from_iter(values.map(|value| match value {
            Value::Boolean(value) => Some(value),
            _ => None,
        }))),
    }
}
