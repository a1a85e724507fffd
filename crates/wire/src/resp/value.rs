//! A whole reply, read.

use super::{NESTING_MAX, content, line_end, number};

/// A message of a server. Texts are borrowed from what came.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// A short word, as `OK`.
    Simple(&'a [u8]),
    /// An error, without its minus.
    Error(&'a [u8]),
    /// An integer of 64 bits.
    Integer(i64),
    /// A text of any bytes.
    Bulk(&'a [u8]),
    /// Nothing: of RESP2 either kind.
    Null,
    /// Messages in their order.
    Array(Vec<Value<'a>>),
    /// Keys with their values, in the server's order (RESP3).
    Map(Vec<(Value<'a>, Value<'a>)>),
    /// Messages in no order.
    Set(Vec<Value<'a>>),
    /// What the server says by itself.
    Push(Vec<Value<'a>>),
    /// A number with a fraction, as it was written.
    Double(&'a [u8]),
    /// A boolean (`#t` or `#f`, RESP3).
    Boolean(bool),
    /// A number of any length, as it was written.
    BigNumber(&'a [u8]),
    /// A text with its kind before it, as `txt:`.
    Verbatim(&'a [u8]),
    /// An error of any bytes.
    BlobError(&'a [u8]),
}

/// What came is not a whole reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what came is not a whole reply")]
pub struct ValueError;

/// Reads the reply at the front of `bytes`, and how long it is. Attributes are left out.
///
/// # Errors
/// It is not a reply, or not whole, or arrays are in arrays too deep.
pub fn value(bytes: &[u8]) -> Result<(Value<'_>, usize), ValueError> {
    let mut at = 0;
    let value = one(bytes, &mut at, 0)?;
    Ok((value, at))
}

/// The elements of an array, one after the other, each with its bytes as they came.
#[derive(Debug, Clone)]
pub struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// Of the whole array that `bytes` are.
    ///
    /// # Errors
    /// It is something else.
    pub fn of(bytes: &'a [u8]) -> Result<Self, ValueError> {
        let head = line_end(bytes).filter(|_| bytes.first() == Some(&b'*')).ok_or(ValueError)?;
        bytes.get(head..).map(Self).ok_or(ValueError)
    }

    /// The next one.
    ///
    /// # Errors
    /// There is none, or it is not whole.
    pub fn take(&mut self) -> Result<(Value<'a>, &'a [u8]), ValueError> {
        let (value, length) = value(self.0)?;
        let (own, rest) = self.0.split_at_checked(length).ok_or(ValueError)?;
        self.0 = rest;
        Ok((value, own))
    }
}

fn one<'a>(bytes: &'a [u8], at: &mut usize, depth: usize) -> Result<Value<'a>, ValueError> {
    if depth > NESTING_MAX {
        return Err(ValueError);
    }
    let rest = bytes.get(*at..).ok_or(ValueError)?;
    let end = line_end(rest).ok_or(ValueError)?;
    let line = rest.get(..end).and_then(content).ok_or(ValueError)?;
    let (kind, line) = line.split_first().ok_or(ValueError)?;
    *at += end;
    let value = match kind {
        b'+' => Value::Simple(line),
        b'-' => Value::Error(line),
        b':' => Value::Integer(number(line).ok_or(ValueError)?),
        b'_' => Value::Null,
        b'#' => Value::Boolean(line == b"t"),
        b',' => Value::Double(line),
        b'(' => Value::BigNumber(line),
        b'$' | b'*' if line == b"-1" => Value::Null,
        b'$' => Value::Bulk(text(bytes, at, line)?),
        b'=' => Value::Verbatim(text(bytes, at, line)?),
        b'!' => Value::BlobError(text(bytes, at, line)?),
        b'*' => Value::Array(many(bytes, at, line, depth)?),
        b'~' => Value::Set(many(bytes, at, line, depth)?),
        b'>' => Value::Push(many(bytes, at, line, depth)?),
        b'%' => Value::Map(pairs(bytes, at, line, depth)?),
        b'|' => {
            pairs(bytes, at, line, depth)?;
            one(bytes, at, depth + 1)?
        }
        _ => return Err(ValueError),
    };
    Ok(value)
}

fn length(line: &[u8]) -> Result<usize, ValueError> {
    number(line).and_then(|length| usize::try_from(length).ok()).ok_or(ValueError)
}

fn text<'a>(bytes: &'a [u8], at: &mut usize, line: &[u8]) -> Result<&'a [u8], ValueError> {
    let end = at.checked_add(length(line)?).ok_or(ValueError)?;
    let text = bytes.get(*at..end).ok_or(ValueError)?;
    let behind = end.checked_add(2).ok_or(ValueError)?;
    if bytes.get(end..behind) != Some(b"\r\n") {
        return Err(ValueError);
    }
    *at = behind;
    Ok(text)
}

fn many<'a>(
    bytes: &'a [u8],
    at: &mut usize,
    line: &[u8],
    depth: usize,
) -> Result<Vec<Value<'a>>, ValueError> {
    let mut all = Vec::new();
    // What is announced may never come: room is made as it does.
    for _ in 0..length(line)? {
        all.push(one(bytes, at, depth + 1)?);
    }
    Ok(all)
}

fn pairs<'a>(
    bytes: &'a [u8],
    at: &mut usize,
    line: &[u8],
    depth: usize,
) -> Result<Vec<(Value<'a>, Value<'a>)>, ValueError> {
    let mut all = Vec::new();
    for _ in 0..length(line)? {
        all.push((one(bytes, at, depth + 1)?, one(bytes, at, depth + 1)?));
    }
    Ok(all)
}
