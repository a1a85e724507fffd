//! JSON lines: an object a line. The keys of the first are the columns.

use serde_json::{Map, Value};

use super::{Cells, DataError, checked, has_room};

/// The names of the columns, and all rows.
pub fn read(bytes: &[u8]) -> Result<(Vec<String>, Cells), DataError> {
    let (mut columns, mut cells) = (Vec::new(), Cells::default());
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let object: Map<String, Value> = serde_json::from_slice(line).map_err(|error| {
            DataError::line(at + 1, format!("it is not a JSON object: {error}"))
        })?;
        if columns.is_empty() {
            columns = checked(object.keys().cloned().collect())?;
        }
        if columns.is_empty() {
            return Err(DataError::line(at + 1, "its object is empty"));
        }
        has_room(&cells, columns.len())?;
        for column in &columns {
            match object.get(column) {
                None => return Err(DataError::line(at + 1, format!("it has no {column:?}"))),
                Some(Value::Null) => cells.push(b""),
                Some(Value::String(text)) => cells.push(text.as_bytes()),
                Some(other) => cells.push(other.to_string().as_bytes()),
            }
        }
    }
    Ok((columns, cells))
}
