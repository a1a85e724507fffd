//! A table as it goes to a client.

use wire::postgres::backend::{
    INT8_OID, Status, TEXT_OID, put_command_complete, put_data_row, put_ready_for_query,
    put_row_description,
};

/// OID of the type `numeric`, which PgBouncer gives its statistics.
const NUMERIC_OID: u32 = 1700;

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A number.
    Count(u64),
    /// Nothing is known, or nothing is set.
    Null,
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Count(u64::from(yes))
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// Whole numbers.
    Int,
    /// Numbers that may become very large.
    Numeric,
}

/// Columns and rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    columns: Vec<(&'static str, Kind)>,
    rows: Vec<Vec<Value>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[(&'static str, Kind)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; one that is too short is filled with nulls, so that what goes out is always a
    /// table.
    pub fn push(&mut self, mut row: Vec<Value>) {
        row.resize(self.columns.len(), Value::Null);
        self.rows.push(row);
    }

    /// The columns' names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|(name, _)| *name)
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }

    /// The cell of a column in a row.
    pub fn cell(&self, row: usize, column: &str) -> Option<&Value> {
        let at = self.columns.iter().position(|(name, _)| *name == column)?;
        self.rows.get(row)?.get(at)
    }

    /// Appends the whole answer to a `SHOW`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let columns: Vec<(&str, u32)> = self
            .columns
            .iter()
            .map(|(name, kind)| {
                let oid = match kind {
                    Kind::Text => TEXT_OID,
                    Kind::Int => INT8_OID,
                    Kind::Numeric => NUMERIC_OID,
                };
                (*name, oid)
            })
            .collect();
        put_row_description(out, &columns);
        for row in &self.rows {
            let cells: Vec<Option<String>> = row
                .iter()
                .map(|value| match value {
                    Value::Text(text) => Some(text.clone()),
                    Value::Count(count) => Some(count.to_string()),
                    Value::Null => None,
                })
                .collect();
            put_data_row(out, cells.iter().map(|cell| cell.as_deref().map(str::as_bytes)));
        }
        put_command_complete(out, "SHOW");
        put_ready_for_query(out, Status::Idle);
    }
}
