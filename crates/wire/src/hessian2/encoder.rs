//! Writes values, each in its shortest form, as hessian-lite does.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Class, Value, tag, text};

/// Code units of a string's chunk that is not the last one, and bytes of a binary's.
const CHUNK_LENGTH: usize = 0x8000;

/// Writes the values of one message. All of them share its tables, so that a type or class is
/// written once. An encoder and a buffer that are used again allocate nothing once both are as
/// large as the largest message needs them.
#[derive(Debug, Default)]
pub struct Encoder {
    types: HashMap<Arc<str>, u32, foldhash::fast::RandomState>,
    classes: HashMap<Arc<Class>, u32, foldhash::fast::RandomState>,
    /// Lists, maps and objects that have begun.
    references: u32,
}

impl Encoder {
    /// Forgets the tables: the next value is the first one of a message.
    pub fn reset(&mut self) {
        self.types.clear();
        self.classes.clear();
        self.references = 0;
    }

    /// Appends a value with everything in it. It calls itself for each level of the tree.
    pub fn value(&mut self, out: &mut Vec<u8>, value: &Value) {
        match value {
            Value::Null => put_null(out),
            Value::Bool(value) => put_bool(out, *value),
            Value::Int(value) => put_int(out, *value),
            Value::Long(value) => put_long(out, *value),
            Value::Double(value) => put_double(out, *value),
            Value::Date(milliseconds) => put_date(out, *milliseconds),
            Value::String(text) => put_string(out, text),
            Value::Binary(bytes) => put_binary(out, bytes),
            Value::List(list) => {
                self.begin_list(out, list.type_name.as_ref(), list.elements.len());
                list.elements.iter().for_each(|element| self.value(out, element));
            }
            Value::Map(map) => {
                self.begin_map(out, map.type_name.as_ref());
                for (key, value) in &map.entries {
                    self.value(out, key);
                    self.value(out, value);
                }
                end_map(out);
            }
            Value::Object(object) => {
                self.begin_object(out, &object.class);
                let missing = std::iter::repeat(&Value::Null);
                let values = object.values.iter().chain(missing);
                for (_, value) in object.class.fields.iter().zip(values) {
                    self.value(out, value);
                }
            }
            Value::Reference(number) => {
                out.push(tag::REFERENCE);
                put_int(out, number.cast_signed());
            }
        }
    }

    /// Begins a list of so many elements, which the caller appends next. Gives its number.
    pub fn begin_list(
        &mut self,
        out: &mut Vec<u8>,
        type_name: Option<&Arc<str>>,
        length: usize,
    ) -> u32 {
        let direct = u8::try_from(length).ok().filter(|length| *length <= tag::LIST_DIRECT_MAX);
        match (type_name, direct) {
            (Some(_), Some(length)) => out.push(tag::LIST_DIRECT + length),
            (Some(_), None) => out.push(tag::LIST),
            (None, Some(length)) => out.push(tag::LIST_DIRECT_UNTYPED + length),
            (None, None) => out.push(tag::LIST_UNTYPED),
        }
        if let Some(type_name) = type_name {
            self.put_type(out, type_name);
        }
        if direct.is_none() {
            // A list in memory has fewer elements than Java's lists can have.
            put_int(out, i32::try_from(length).unwrap_or(i32::MAX));
        }
        self.next_reference()
    }

    /// Begins a map: keys and values in turn follow, then [`Encoder::end_map`]. Gives its number.
    pub fn begin_map(&mut self, out: &mut Vec<u8>, type_name: Option<&Arc<str>>) -> u32 {
        match type_name {
            Some(type_name) => {
                out.push(tag::MAP);
                self.put_type(out, type_name);
            }
            None => out.push(tag::MAP_UNTYPED),
        }
        self.next_reference()
    }

    /// Ends the map that began last.
    pub fn end_map(&mut self, out: &mut Vec<u8>) {
        end_map(out);
    }

    /// Begins an object: one value for each field of its class follows. Gives its number.
    pub fn begin_object(&mut self, out: &mut Vec<u8>, class: &Arc<Class>) -> u32 {
        let next = u32::try_from(self.classes.len()).unwrap_or(u32::MAX);
        let number = match self.classes.get(class) {
            Some(number) => *number,
            None => {
                self.classes.insert(Arc::clone(class), next);
                out.push(tag::CLASS);
                put_string(out, &class.name);
                put_int(out, i32::try_from(class.fields.len()).unwrap_or(i32::MAX));
                class.fields.iter().for_each(|field| put_string(out, field));
                next
            }
        };
        match u8::try_from(number) {
            Ok(direct) if number <= tag::OBJECT_DIRECT_MAX => out.push(tag::OBJECT_DIRECT + direct),
            _ => {
                out.push(tag::OBJECT);
                put_int(out, number.cast_signed());
            }
        }
        self.next_reference()
    }

    fn put_type(&mut self, out: &mut Vec<u8>, name: &Arc<str>) {
        let next = u32::try_from(self.types.len()).unwrap_or(u32::MAX);
        match self.types.get(name) {
            Some(number) => put_int(out, number.cast_signed()),
            None => {
                self.types.insert(Arc::clone(name), next);
                put_string(out, name);
            }
        }
    }

    fn next_reference(&mut self) -> u32 {
        let number = self.references;
        self.references = number.wrapping_add(1);
        number
    }
}

fn end_map(out: &mut Vec<u8>) {
    out.push(tag::END);
}

/// Appends `null`, in one byte.
pub fn put_null(out: &mut Vec<u8>) {
    out.push(tag::NULL);
}

/// Appends a `boolean`, in one byte.
pub fn put_bool(out: &mut Vec<u8>, value: bool) {
    out.push(if value { tag::TRUE } else { tag::FALSE });
}

/// Appends an `int` in one to three bytes, or five.
pub fn put_int(out: &mut Vec<u8>, value: i32) {
    let [_, high, middle, low] = value.to_be_bytes();
    match value {
        -0x10..=0x2f => out.push(tag::INT_ZERO.wrapping_add(low)),
        -0x800..=0x7ff => out.extend_from_slice(&[tag::INT_BYTE_ZERO.wrapping_add(middle), low]),
        -0x4_0000..=0x3_ffff => {
            out.extend_from_slice(&[tag::INT_SHORT_ZERO.wrapping_add(high), middle, low]);
        }
        _ => {
            out.push(tag::INT);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// Appends a `long` in one to three bytes, five or nine.
pub fn put_long(out: &mut Vec<u8>, value: i64) {
    let [.., high, middle, low] = value.to_be_bytes();
    match value {
        -0x08..=0x0f => out.push(tag::LONG_ZERO.wrapping_add(low)),
        -0x800..=0x7ff => out.extend_from_slice(&[tag::LONG_BYTE_ZERO.wrapping_add(middle), low]),
        -0x4_0000..=0x3_ffff => {
            out.extend_from_slice(&[tag::LONG_SHORT_ZERO.wrapping_add(high), middle, low]);
        }
        _ => match i32::try_from(value) {
            Ok(value) => {
                out.push(tag::LONG_INT);
                out.extend_from_slice(&value.to_be_bytes());
            }
            Err(_) => {
                out.push(tag::LONG);
                out.extend_from_slice(&value.to_be_bytes());
            }
        },
    }
}

/// Appends a `double` in one to three bytes, five or nine. A short form is taken only where it
/// reads as the same bits: hessian-lite writes zero for negative zero.
pub fn put_double(out: &mut Vec<u8>, value: f64) {
    let is = |other: f64| other.to_bits() == value.to_bits();
    let whole = value as i16;
    if is(0.0) {
        return out.push(tag::DOUBLE_ZERO);
    }
    if is(1.0) {
        return out.push(tag::DOUBLE_ONE);
    }
    if is(f64::from(whole)) {
        match i8::try_from(whole) {
            Ok(byte) => out.extend_from_slice(&[tag::DOUBLE_BYTE, byte.cast_unsigned()]),
            Err(_) => {
                out.push(tag::DOUBLE_SHORT);
                out.extend_from_slice(&whole.to_be_bytes());
            }
        }
        return;
    }
    let thousandths = (value * 1000.0) as i32;
    if is(0.001 * f64::from(thousandths)) {
        out.push(tag::DOUBLE_MILLI);
        out.extend_from_slice(&thousandths.to_be_bytes());
    } else {
        out.push(tag::DOUBLE);
        out.extend_from_slice(&value.to_bits().to_be_bytes());
    }
}

/// Appends a date, of milliseconds since 1970, in five bytes or nine.
pub fn put_date(out: &mut Vec<u8>, milliseconds: i64) {
    match i32::try_from(milliseconds / 60_000) {
        Ok(minutes) if milliseconds % 60_000 == 0 => {
            out.push(tag::DATE_MINUTES);
            out.extend_from_slice(&minutes.to_be_bytes());
        }
        _ => {
            out.push(tag::DATE);
            out.extend_from_slice(&milliseconds.to_be_bytes());
        }
    }
}

/// Appends a string; one of more than 32,768 code units in chunks.
pub fn put_string(out: &mut Vec<u8>, value: &str) {
    let mut rest = value;
    loop {
        let (chunk, units, behind) = text::chunk(rest, CHUNK_LENGTH);
        let [high, low] = u16::try_from(units).unwrap_or(u16::MAX).to_be_bytes();
        if !behind.is_empty() {
            out.extend_from_slice(&[tag::STRING_CHUNK, high, low]);
        } else if units <= tag::STRING_DIRECT_MAX {
            out.push(low);
        } else if units <= tag::SHORT_LENGTH_MAX {
            out.extend_from_slice(&[tag::STRING_SHORT + high, low]);
        } else {
            out.extend_from_slice(&[tag::STRING, high, low]);
        }
        text::put(out, chunk);
        rest = behind;
        if rest.is_empty() {
            return;
        }
    }
}

/// Appends a `byte[]`; one of more than 32,768 bytes in chunks.
pub fn put_binary(out: &mut Vec<u8>, value: &[u8]) {
    let mut rest = value;
    loop {
        let (chunk, behind) = rest.split_at(rest.len().min(CHUNK_LENGTH));
        let [high, low] = u16::try_from(chunk.len()).unwrap_or(u16::MAX).to_be_bytes();
        if !behind.is_empty() {
            out.extend_from_slice(&[tag::BINARY_CHUNK, high, low]);
        } else if chunk.len() <= tag::BINARY_DIRECT_MAX {
            out.push(tag::BINARY_DIRECT + low);
        } else if chunk.len() <= tag::SHORT_LENGTH_MAX {
            out.extend_from_slice(&[tag::BINARY_SHORT + high, low]);
        } else {
            out.extend_from_slice(&[tag::BINARY, high, low]);
        }
        out.extend_from_slice(chunk);
        rest = behind;
        if rest.is_empty() {
            return;
        }
    }
}
