//! The rows that are being added to.

use arrow_buffer::ScalarBuffer;
use wire::line::Value;

use super::BLOCK_ROWS;
use super::column::{Column, STRING_BYTES_MAX};
use super::sealed::Sealed;
use crate::scan::TimeRange;
use crate::schema::FieldType;

/// Rows in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    series: Vec<u32>,
    times: Vec<i64>,
    /// By the number of the field; those behind the last one are all null.
    columns: Vec<Option<Column>>,
    extent: Option<TimeRange>,
    /// More than any column has.
    string_bytes: usize,
}

/// Bytes of a row without its values.
const ROW_BYTES: usize = 12;

impl Block {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// From the first to the last time; empty where there is no row.
    pub(crate) fn extent(&self) -> TimeRange {
        self.extent.unwrap_or(TimeRange { min: i64::MAX, max: i64::MIN })
    }

    /// Whether another row may be added: offsets of strings have 31 bits.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= BLOCK_ROWS || self.string_bytes >= STRING_BYTES_MAX
    }

    /// Adds a row: numbers, types and values of its fields. Returns the bytes it takes.
    #[inline]
    pub(crate) fn push(
        &mut self,
        series: u32,
        time: i64,
        fields: &[(u32, FieldType, Value<'_>)],
    ) -> usize {
        let row = self.times.len();
        self.series.push(series);
        self.times.push(time);
        let extent = self.extent.get_or_insert(TimeRange { min: time, max: time });
        extent.min = extent.min.min(time);
        extent.max = extent.max.max(time);
        let mut bytes = ROW_BYTES;
        for &(field, of, value) in fields {
            let field = field as usize;
            if field >= self.columns.len() {
                self.columns.resize_with(field + 1, || None);
            }
            let column = self.columns[field].get_or_insert_with(|| Column::new(of));
            let len = column.len();
            if len < row {
                column.pad(row);
            } else if len > row {
                column.pop();
            }
            bytes += column.push(value);
        }
        self.string_bytes += bytes;
        bytes
    }

    pub(crate) fn seal(self) -> Sealed {
        let rows = self.times.len();
        let extent = self.extent();
        let columns =
            self.columns.into_iter().map(|column| column.map(|column| column.finish(rows)));
        Sealed::new(
            ScalarBuffer::from(self.series),
            ScalarBuffer::from(self.times),
            columns.collect(),
            extent,
        )
    }
}
