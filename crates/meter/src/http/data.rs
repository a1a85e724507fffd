//! Data sets: rows that requests are filled from, of a CSV file or of JSON lines. All of a set is
//! read before the load, so that no file and no parser is in its way.

mod csv;
mod lines;
#[cfg(test)]
mod tests;

use std::str::FromStr;

use super::RequestError;
use crate::chance::Chance;

/// The most rows of a set.
pub const ROWS_MAX: usize = 10_000_000;
/// The most bytes of its file.
pub const BYTES_MAX: usize = 256 << 20;
pub const COLUMNS_MAX: usize = 1000;

/// In which order rows come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RowOrder {
    /// One after the other, and again from the first.
    #[default]
    Sequence,
    /// By chance, each as often as any other.
    Random,
    /// One after the other; the load ends with the last.
    Once,
}

impl FromStr for RowOrder {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        match text {
            "sequence" => Ok(Self::Sequence),
            "random" => Ok(Self::Random),
            "once" => Ok(Self::Once),
            _ => Err(RequestError::Order(text.to_owned())),
        }
    }
}

/// Rows with named columns, which fill the gaps of requests.
#[derive(Debug, Clone)]
pub struct Data {
    columns: Vec<String>,
    cells: Cells,
    order: RowOrder,
    /// Which of the load's sets it is: two that are drawn by chance do not go side by side.
    salt: u64,
}

/// Values, row by row.
#[derive(Debug, Clone, Default)]
struct Cells {
    bytes: Vec<u8>,
    /// Where each value ends.
    ends: Vec<usize>,
}

impl Cells {
    fn end(&mut self) {
        self.ends.push(self.bytes.len());
    }

    fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.end();
    }

    fn get(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[at]]
    }
}

/// A set can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// A line is not a row.
    #[error("line {line}: {what}")]
    Line {
        /// The number of the line, from 1 on.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    #[error("it has no rows")]
    Empty,
    /// It is beyond a limit.
    #[error("{0}")]
    Limit(String),
}

impl DataError {
    fn line(line: usize, what: impl Into<String>) -> Self {
        Self::Line { line, what: what.into() }
    }
}

impl Data {
    /// Reads a file's bytes: JSON lines where they begin with `{`, else CSV.
    ///
    /// # Errors
    /// It is neither, has no rows, or too many.
    pub fn new(bytes: &[u8], order: RowOrder, salt: u64) -> Result<Self, DataError> {
        if bytes.len() > BYTES_MAX {
            let mib = BYTES_MAX >> 20;
            return Err(DataError::Limit(format!("it has over {mib} MiB, which is the most")));
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        let (columns, cells) = match first {
            Some(b'{') => lines::read(bytes)?,
            _ => csv::read(bytes)?,
        };
        let data = Self { columns, cells, order, salt };
        if data.rows() == 0 {
            return Err(DataError::Empty);
        }
        Ok(data)
    }

    /// The names of its columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.cells.ends.len() / self.columns.len().max(1)
    }

    /// How many requests it is enough for; nothing where it begins again.
    pub fn requests_max(&self) -> Option<u64> {
        (self.order == RowOrder::Once).then_some(self.rows() as u64)
    }

    /// The value of a column for a request.
    pub fn value(&self, number: u64, seed: u64, column: usize) -> &[u8] {
        let rows = self.rows() as u64;
        let row = match self.order {
            RowOrder::Sequence | RowOrder::Once => number % rows,
            RowOrder::Random => Chance::of(seed ^ self.salt, number).below(rows),
        };
        self.cells.get(row as usize * self.columns.len() + column)
    }
}

/// Refuses columns that gaps could not name.
fn checked(columns: Vec<String>) -> Result<Vec<String>, DataError> {
    if columns.len() > COLUMNS_MAX {
        return Err(DataError::Limit(format!("it has over {COLUMNS_MAX} columns")));
    }
    for (at, name) in columns.iter().enumerate() {
        let what = match name.as_str() {
            "" => "a column has no name".to_owned(),
            name if columns[..at].iter().any(|other| other == name) => {
                format!("there are two columns {name:?}")
            }
            name if name == "seq" || name.contains(['{', '}']) => {
                format!("a column can't be called {name:?}")
            }
            _ => continue,
        };
        return Err(DataError::line(1, what));
    }
    Ok(columns)
}

fn has_room(cells: &Cells, columns: usize) -> Result<(), DataError> {
    if cells.ends.len() / columns.max(1) >= ROWS_MAX {
        return Err(DataError::Limit(format!("it has over {ROWS_MAX} rows")));
    }
    Ok(())
}
