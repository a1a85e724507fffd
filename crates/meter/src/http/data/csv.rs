//! CSV (RFC 4180): a line of names, then rows; values with commas, quotes or line ends in them are
//! quoted.

use super::{Cells, DataError, checked, has_room};

/// The names of the columns, and all rows.
pub fn read(bytes: &[u8]) -> Result<(Vec<String>, Cells), DataError> {
    let mut reader = Reader { bytes, at: 0, line: 1 };
    let mut names = Cells::default();
    if reader.row(&mut names)?.is_none() {
        return Err(DataError::Empty);
    }
    let name = |at| {
        let name = std::str::from_utf8(names.get(at));
        let name = name.map_err(|_| DataError::line(1, "a column's name is not UTF-8"))?;
        Ok(name.trim().to_owned())
    };
    let columns = checked((0..names.ends.len()).map(name).collect::<Result<_, _>>()?)?;
    let mut cells = Cells::default();
    while let Some((line, count)) = reader.row(&mut cells)? {
        if count != columns.len() {
            let what = format!("it has {count} values, and there are {} columns", columns.len());
            return Err(DataError::line(line, what));
        }
        has_room(&cells, columns.len())?;
    }
    Ok((columns, cells))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The number of the line, from 1 on.
    line: usize,
}

impl Reader<'_> {
    /// Adds the values of a row; gives its line and how many there are, nothing at the end.
    fn row(&mut self, cells: &mut Cells) -> Result<Option<(usize, usize)>, DataError> {
        while let Some(b'\n' | b'\r') = self.peek() {
            self.next();
        }
        if self.peek().is_none() {
            return Ok(None);
        }
        let (line, mut count) = (self.line, 0);
        loop {
            self.value(cells)?;
            count += 1;
            match self.next() {
                Some(b',') => {}
                Some(b'\r') if self.peek() == Some(b'\n') => {
                    self.next();
                    return Ok(Some((line, count)));
                }
                _ => return Ok(Some((line, count))),
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        self.line += usize::from(byte == b'\n');
        Some(byte)
    }

    /// Adds a value, up to the comma or line end behind it.
    fn value(&mut self, cells: &mut Cells) -> Result<(), DataError> {
        if self.peek() == Some(b'"') {
            self.quoted(cells)?;
        } else {
            let rest = &self.bytes[self.at..];
            let end = rest.iter().position(|byte| b",\r\n".contains(byte));
            let end = end.unwrap_or(rest.len());
            cells.bytes.extend_from_slice(&rest[..end]);
            self.at += end;
        }
        cells.end();
        match self.peek() {
            None | Some(b',' | b'\r' | b'\n') => Ok(()),
            Some(_) => Err(DataError::line(self.line, "something stands behind a quoted value")),
        }
    }

    fn quoted(&mut self, cells: &mut Cells) -> Result<(), DataError> {
        let line = self.line;
        self.next();
        loop {
            match self.next() {
                None => return Err(DataError::line(line, "a quoted value has no end")),
                Some(b'"') if self.peek() != Some(b'"') => return Ok(()),
                Some(b'"') => {
                    self.next();
                    cells.bytes.push(b'"');
                }
                Some(byte) => cells.bytes.push(byte),
            }
        }
    }
}
