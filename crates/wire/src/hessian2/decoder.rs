//! Reads values from bytes that anyone may have written.

use std::sync::Arc;

use super::text::TextReader;
use super::{Class, DecodeError, DecodeErrorKind, List, Map, Object, Value, tag};

/// What the values of one message may have at most. Memory is bounded by them: about 50 bytes for
/// each value, twice that while a list grows, and the texts and binaries themselves, which are no
/// longer than the bytes that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Lists, maps and objects within each other. The decoder calls itself for each level.
    pub depth: usize,
    /// Bytes of a string, in UTF-8, or of a binary.
    pub bytes: usize,
    /// Values of any kind, with keys, elements and fields.
    pub values: usize,
    /// Classes and, apart from them, types.
    pub classes: usize,
}

impl Default for Limits {
    /// Enough for what Dubbo's own limit of 8 MiB lets through, but for lists of small numbers.
    fn default() -> Self {
        Self { depth: 256, bytes: 8 << 20, values: 1 << 20, classes: 4096 }
    }
}

/// Reads the values of one message, one after another.
#[derive(Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    limits: Limits,
    types: Vec<Arc<str>>,
    classes: Vec<Arc<Class>>,
    /// Lists, maps and objects that have begun.
    references: u32,
    /// Values that have begun.
    values: usize,
}

type Result<T> = std::result::Result<T, DecodeError>;

impl<'a> Decoder<'a> {
    /// Begins at the first byte of a message.
    pub fn new(bytes: &'a [u8], limits: Limits) -> Self {
        let (types, classes) = (Vec::new(), Vec::new());
        Self { bytes, at: 0, limits, types, classes, references: 0, values: 0 }
    }

    /// How many bytes have been read.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The bytes behind what has been read.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Reads the next value with everything in it.
    ///
    /// # Errors
    /// The bytes are not a value, or one beyond the limits. Nothing more can be read then.
    pub fn value(&mut self) -> Result<Value> {
        self.value_at(0)
    }

    /// Reads a string; `None` is null.
    ///
    /// # Errors
    /// Another value or none stands there, or the string is beyond the limits.
    pub fn string(&mut self) -> Result<Option<String>> {
        if self.peek()? == tag::NULL {
            self.at += 1;
            return Ok(None);
        }
        self.text().map(Some)
    }

    /// Reads an `int`.
    ///
    /// # Errors
    /// Another value or none stands there.
    pub fn int(&mut self) -> Result<i32> {
        let first = self.peek()?;
        let byte = |zero: u8| i32::from(first) - i32::from(zero);
        self.at += 1;
        match first {
            0x80..=0xbf => Ok(byte(tag::INT_ZERO)),
            0xc0..=0xcf => Ok(byte(tag::INT_BYTE_ZERO) << 8 | i32::from(self.byte()?)),
            0xd0..=0xd7 => Ok(byte(tag::INT_SHORT_ZERO) << 16 | i32::from(self.u16()?)),
            tag::INT => self.array().map(i32::from_be_bytes),
            _ => Err(self.unexpected("an int")),
        }
    }

    fn value_at(&mut self, depth: usize) -> Result<Value> {
        self.values += 1;
        self.limit(self.values, "values", self.limits.values)?;
        // Definitions stand before the object that needs them.
        while self.peek()? == tag::CLASS {
            self.class()?;
        }
        match self.peek()? {
            0x00..=0x1f | 0x30..=0x33 | tag::STRING_CHUNK | tag::STRING => {
                self.text().map(Value::String)
            }
            0x20..=0x2f | 0x34..=0x37 | tag::BINARY_CHUNK | tag::BINARY => {
                self.binary().map(Value::Binary)
            }
            0x80..=0xd7 | tag::INT => self.int().map(Value::Int),
            0xd8..=0xff | 0x38..=0x3f | tag::LONG | tag::LONG_INT => self.long().map(Value::Long),
            tag::DOUBLE | tag::DOUBLE_ZERO..=tag::DOUBLE_MILLI => self.double().map(Value::Double),
            0x55..=0x58 | 0x70..=0x7f => self.list(depth),
            tag::MAP | tag::MAP_UNTYPED => self.map(depth),
            tag::OBJECT | 0x60..=0x6f => self.object(depth),
            _ => self.plain(),
        }
    }

    /// Reads a value of one byte, a date, or a reference.
    fn plain(&mut self) -> Result<Value> {
        match self.byte()? {
            tag::NULL => Ok(Value::Null),
            tag::TRUE => Ok(Value::Bool(true)),
            tag::FALSE => Ok(Value::Bool(false)),
            tag::DATE => self.array().map(|bytes| Value::Date(i64::from_be_bytes(bytes))),
            tag::DATE_MINUTES => {
                let minutes = i32::from_be_bytes(self.array()?);
                Ok(Value::Date(i64::from(minutes) * 60_000))
            }
            tag::REFERENCE => {
                let at = self.at;
                let number = self.int()?;
                match u32::try_from(number) {
                    Ok(number) if number < self.references => Ok(Value::Reference(number)),
                    _ => Err(error(at, DecodeErrorKind::UndefinedReference(number))),
                }
            }
            other => Err(error(self.at - 1, DecodeErrorKind::UnknownTag(other))),
        }
    }

    fn long(&mut self) -> Result<i64> {
        let first = self.byte()?;
        let byte = |zero: u8| i64::from(first) - i64::from(zero);
        match first {
            // The one-byte forms go from -8 to 15.
            0xd8..=0xef => Ok(byte(tag::LONG_ZERO)),
            0xf0..=0xff => Ok(byte(tag::LONG_BYTE_ZERO) << 8 | i64::from(self.byte()?)),
            0x38..=0x3f => Ok(byte(tag::LONG_SHORT_ZERO) << 16 | i64::from(self.u16()?)),
            tag::LONG_INT => self.array().map(|bytes| i64::from(i32::from_be_bytes(bytes))),
            _ => self.array().map(i64::from_be_bytes),
        }
    }

    fn double(&mut self) -> Result<f64> {
        match self.byte()? {
            tag::DOUBLE_ZERO => Ok(0.0),
            tag::DOUBLE_ONE => Ok(1.0),
            tag::DOUBLE_BYTE => self.byte().map(|byte| f64::from(byte.cast_signed())),
            tag::DOUBLE_SHORT => self.u16().map(|short| f64::from(short.cast_signed())),
            tag::DOUBLE_MILLI => {
                self.array().map(|bytes| 0.001 * f64::from(i32::from_be_bytes(bytes)))
            }
            _ => self.array().map(f64::from_be_bytes),
        }
    }

    fn text(&mut self) -> Result<String> {
        let mut reader = TextReader::default();
        loop {
            let first = self.byte()?;
            let units = match first {
                0x00..=0x1f => usize::from(first),
                0x30..=0x33 => usize::from(first - tag::STRING_SHORT) << 8 | self.next_usize()?,
                tag::STRING | tag::STRING_CHUNK => usize::from(self.u16()?),
                _ => return Err(self.unexpected("a string")),
            };
            self.limit(reader.len() + units, "bytes of a string", self.limits.bytes)?;
            let read = reader.read(self.rest(), units);
            self.at += read.map_err(|(before, kind)| error(self.at + before, kind))?;
            self.limit(reader.len(), "bytes of a string", self.limits.bytes)?;
            if first != tag::STRING_CHUNK {
                return reader.finish().map_err(|kind| error(self.at, kind));
            }
        }
    }

    fn binary(&mut self) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let first = self.byte()?;
            let length = match first {
                0x20..=0x2f => usize::from(first - tag::BINARY_DIRECT),
                0x34..=0x37 => usize::from(first - tag::BINARY_SHORT) << 8 | self.next_usize()?,
                tag::BINARY | tag::BINARY_CHUNK => usize::from(self.u16()?),
                _ => return Err(self.unexpected("a binary")),
            };
            self.limit(all.len() + length, "bytes of a binary", self.limits.bytes)?;
            all.extend_from_slice(self.take(length)?);
            if first != tag::BINARY_CHUNK {
                return Ok(all);
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value> {
        let first = self.byte()?;
        let is_typed = matches!(first, tag::LIST_VARIABLE | tag::LIST | 0x70..=0x77);
        let type_name = if is_typed { Some(self.type_name()?) } else { None };
        let length = match first {
            tag::LIST_VARIABLE | tag::LIST_VARIABLE_UNTYPED => None,
            tag::LIST | tag::LIST_UNTYPED => Some(self.length()?),
            _ => Some(usize::from(first & tag::LIST_DIRECT_MAX)),
        };
        self.begin(depth)?;
        let elements = match length {
            Some(length) => self.elements(length, depth)?,
            None => {
                let mut elements = Vec::new();
                while self.peek()? != tag::END {
                    elements.push(self.value_at(depth + 1)?);
                }
                self.at += 1;
                elements
            }
        };
        Ok(Value::List(List { type_name, elements }))
    }

    fn map(&mut self, depth: usize) -> Result<Value> {
        let type_name = if self.byte()? == tag::MAP { Some(self.type_name()?) } else { None };
        self.begin(depth)?;
        let mut entries = Vec::new();
        while self.peek()? != tag::END {
            entries.push((self.value_at(depth + 1)?, self.value_at(depth + 1)?));
        }
        self.at += 1;
        Ok(Value::Map(Map { type_name, entries }))
    }

    fn object(&mut self, depth: usize) -> Result<Value> {
        let at = self.at;
        let number = match self.byte()? {
            tag::OBJECT => self.int()?,
            direct => i32::from(direct - tag::OBJECT_DIRECT),
        };
        let class = usize::try_from(number).ok().and_then(|number| self.classes.get(number));
        let class = class.ok_or(error(at, DecodeErrorKind::UndefinedClass(number)))?;
        let class = Arc::clone(class);
        self.begin(depth)?;
        let values = self.elements(class.fields.len(), depth)?;
        Ok(Value::Object(Object { class, values }))
    }

    /// Reads so many values. As each of them has at least one byte, no more room is made at first
    /// than there are bytes.
    fn elements(&mut self, length: usize, depth: usize) -> Result<Vec<Value>> {
        if length > self.rest().len() {
            return Err(error(self.bytes.len(), DecodeErrorKind::UnexpectedEnd));
        }
        self.limit(self.values.saturating_add(length), "values", self.limits.values)?;
        let mut elements = Vec::with_capacity(length);
        for _ in 0..length {
            elements.push(self.value_at(depth + 1)?);
        }
        Ok(elements)
    }

    fn class(&mut self) -> Result<()> {
        self.limit(self.classes.len() + 1, "classes", self.limits.classes)?;
        self.at += 1;
        let name = self.text()?;
        let count = self.length()?;
        if count > self.rest().len() {
            return Err(error(self.bytes.len(), DecodeErrorKind::UnexpectedEnd));
        }
        self.limit(count, "fields of a class", self.limits.values)?;
        let mut fields = Vec::with_capacity(count);
        for _ in 0..count {
            fields.push(self.text()?);
        }
        self.classes.push(Arc::new(Class { name, fields }));
        Ok(())
    }

    fn type_name(&mut self) -> Result<Arc<str>> {
        if let 0x80..=0xd7 | tag::INT = self.peek()? {
            let at = self.at;
            let number = self.int()?;
            let name = usize::try_from(number).ok().and_then(|number| self.types.get(number));
            return name.cloned().ok_or(error(at, DecodeErrorKind::UndefinedType(number)));
        }
        self.limit(self.types.len() + 1, "types", self.limits.classes)?;
        let name: Arc<str> = self.text()?.into();
        self.types.push(Arc::clone(&name));
        Ok(name)
    }

    /// A list, map or object begins at this depth.
    fn begin(&mut self, depth: usize) -> Result<()> {
        self.limit(depth + 1, "levels", self.limits.depth)?;
        // Each has a byte of its own, and there are fewer values than a u32 holds.
        self.references = self.references.saturating_add(1);
        Ok(())
    }

    fn limit(&self, count: usize, what: &'static str, max: usize) -> Result<()> {
        if count > max {
            return Err(error(self.at, DecodeErrorKind::LimitExceeded { what, max }));
        }
        Ok(())
    }

    fn length(&mut self) -> Result<usize> {
        let at = self.at;
        let length = self.int()?;
        usize::try_from(length).map_err(|_| error(at, DecodeErrorKind::NegativeLength(length)))
    }

    fn peek(&self) -> Result<u8> {
        self.bytes.get(self.at).copied().ok_or(self.end())
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    fn next_usize(&mut self) -> Result<usize> {
        self.byte().map(usize::from)
    }

    fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let array = self.rest().first_chunk().copied().ok_or(self.end())?;
        self.at += N;
        Ok(array)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, _) = self.rest().split_at_checked(length).ok_or(self.end())?;
        self.at += length;
        Ok(taken)
    }

    fn end(&self) -> DecodeError {
        error(self.bytes.len(), DecodeErrorKind::UnexpectedEnd)
    }

    /// The byte before is the first one of a value of another kind.
    fn unexpected(&self, expected: &'static str) -> DecodeError {
        let at = self.at.saturating_sub(1);
        let tag = self.bytes.get(at).copied().unwrap_or_default();
        error(at, DecodeErrorKind::UnexpectedTag { expected, tag })
    }
}

fn error(offset: usize, kind: DecodeErrorKind) -> DecodeError {
    DecodeError { offset, kind }
}
