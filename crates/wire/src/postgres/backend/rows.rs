//! Rows, as far as a gateway asks a server something of its own.

use super::super::read::{Malformed, Reader};

/// RowDescription: what columns the rows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns<'a> {
    body: &'a [u8],
    /// How many columns the rows have.
    pub count: usize,
}

/// One column of a RowDescription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    /// The column's name as the query gives it.
    pub name: &'a [u8],
    /// OID of its type.
    pub type_oid: u32,
    /// Whether values come in binary format.
    pub binary: bool,
}

impl<'a> Columns<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Columns are missing, or something is left over.
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "RowDescription");
        let count = usize::from(reader.u16()?);
        let columns = Self { body: reader.rest(), count };
        for _ in 0..count {
            column(&mut reader)?;
        }
        reader.end()?;
        Ok(columns)
    }

    /// Each column in its order.
    pub fn iter(&self) -> impl Iterator<Item = Column<'a>> + use<'a> {
        let mut reader = Reader::new(self.body, "RowDescription");
        (0..self.count).map_while(move |_| column(&mut reader).ok())
    }
}

fn column<'a>(reader: &mut Reader<'a>) -> Result<Column<'a>, Malformed> {
    let name = reader.text()?;
    // The table's OID and the column's number in it; behind the type its size and modifier.
    reader.bytes(6)?;
    let type_oid = reader.u32()?;
    reader.bytes(6)?;
    Ok(Column { name, type_oid, binary: reader.u16()? == 1 })
}

/// DataRow: the values of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    body: &'a [u8],
    /// How many values the row has.
    pub count: usize,
}

/// A row is not what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// Not a DataRow at all.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The row has another number of columns.
    #[error("a row of {found} values where {wanted} were asked for")]
    Count {
        /// How many values the row has.
        found: usize,
        /// How many should have.
        wanted: usize,
    },
}

/// The values of a [`Row`]; `None` is NULL.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    reader: Reader<'a>,
    left: usize,
}

impl<'a> Row<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Values are missing, or something is left over.
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "DataRow");
        let count = usize::from(reader.u16()?);
        let row = Self { body: reader.rest(), count };
        for _ in 0..count {
            value(&mut reader)?;
        }
        reader.end()?;
        Ok(row)
    }

    /// Each value in its order.
    pub fn values(&self) -> Values<'a> {
        Values { reader: Reader::new(self.body, "DataRow"), left: self.count }
    }

    /// All values, where there are `N`.
    ///
    /// # Errors
    /// There are more or fewer.
    pub fn array<const N: usize>(&self) -> Result<[Option<&'a [u8]>; N], RowError> {
        if self.count != N {
            return Err(RowError::Count { found: self.count, wanted: N });
        }
        let mut values = [None; N];
        for (place, value) in values.iter_mut().zip(self.values()) {
            *place = value;
        }
        Ok(values)
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        value(&mut self.reader).ok()
    }
}

fn value<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    match reader.i32()? {
        -1 => Ok(None),
        length => {
            let length = usize::try_from(length).map_err(|_| reader.malformed())?;
            reader.bytes(length).map(Some)
        }
    }
}
