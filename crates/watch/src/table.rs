//! Columns and rows that an operator is shown.

/// One cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Shown as it is.
    Text(String),
    /// A number without a fraction.
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

impl Value {
    /// As text; `None` where there is none.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Count(count) => Some(count.to_string()),
            Self::Null => None,
        }
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text of any length.
    Text,
    /// Whole numbers of 64 bits.
    Int,
    /// Numbers that may become very large.
    Numeric,
}

/// Rows of cells below named columns.
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

    /// The columns: their names, and what they hold.
    pub fn columns(&self) -> &[(&'static str, Kind)] {
        &self.columns
    }

    /// The columns' names, from left to right.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|(name, _)| *name)
    }

    /// The rows in the order they were pushed.
    pub fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }

    /// The cell of a column in a row.
    pub fn cell(&self, row: usize, column: &str) -> Option<&Value> {
        let at = self.columns.iter().position(|(name, _)| *name == column)?;
        self.rows.get(row)?.get(at)
    }
}
