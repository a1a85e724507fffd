//! Reading a record back: what the store takes from the lines that [`normalise`](super::normalise)
//! made. Nothing is validated again, and nothing is copied but what has a backslash in it.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memrchr};

use super::frame::{series, skip_blanks};
use super::tags::{measurement_end_in, tags};

/// A record, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// Measurement and tags as written: escaped, tags in the client's order.
    pub series: &'a [u8],
    /// Nanoseconds since 1970, in UTC.
    pub time_ns: i64,
    /// The fields in the client's order.
    pub fields: Fields<'a>,
}

/// The fields of a record, without those named `time`, which InfluxDB skips.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(&'a [u8]);

/// One `key=value` of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field<'a> {
    /// Its name as written; see [`unescape_name`].
    pub name: &'a [u8],
    /// The value with the type that its suffix or quotes give it.
    pub value: Value<'a>,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// `1.5`.
    Float(f64),
    /// `1i`.
    Integer(i64),
    /// `1u`.
    Unsigned(u64),
    /// `true`.
    Boolean(bool),
    /// `"text"`: what is between the quotes, as written; see [`unescape_string`].
    String(&'a [u8]),
}

/// Takes a record of [`normalise`](super::normalise) apart; `None` for anything else.
#[inline]
pub fn read(record: &[u8]) -> Option<Point<'_>> {
    let line = record.strip_suffix(b"\n").unwrap_or(record);
    let series = series(line);
    let start = skip_blanks(line, series.len());
    let end = memrchr(b' ', line)?;
    let time_ns = integer(line.get(end + 1..)?)?;
    Some(Point { series, time_ns, fields: Fields(line.get(start..end)?) })
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    #[inline]
    fn next(&mut self) -> Option<Field<'a>> {
        loop {
            let equals = name_end(self.0)?;
            let (name, rest) = (&self.0[..equals], &self.0[equals + 1..]);
            let (value, len) = value(rest)?;
            self.0 = rest.get(len + 1..).unwrap_or_default();
            if name != b"time" {
                return Some(Field { name, value });
            }
        }
    }
}

/// Where the equals sign behind the first name is. Names are short, so a plain loop is faster than
/// a search by vectors.
#[inline]
fn name_end(fields: &[u8]) -> Option<usize> {
    let mut i = 0;
    loop {
        if *fields.get(i)? == b'=' && (i == 0 || fields[i - 1] != b'\\') {
            return Some(i);
        }
        i += 1;
    }
}

/// The value that `text` begins with, and how long it is as written.
#[inline]
fn value(text: &[u8]) -> Option<(Value<'_>, usize)> {
    match *text.first()? {
        b'"' => {
            let len = string_end(text)?;
            Some((Value::String(text.get(1..len - 1)?), len))
        }
        b'0'..=b'9' | b'-' | b'.' => number(text),
        _ => {
            let len = memchr(b',', text).unwrap_or(text.len());
            Some((Value::Boolean(matches!(text.first(), Some(b't' | b'T'))), len))
        }
    }
}

/// Behind the value that opens with a quote at the start of `text` (`scanFieldValue`).
#[inline]
fn string_end(text: &[u8]) -> Option<usize> {
    let mut i = 1;
    loop {
        i += memchr2(b'"', b'\\', text.get(i..)?)?;
        if text[i] == b'"' {
            break;
        }
        i += if matches!(text.get(i + 1), Some(b'"' | b'\\')) { 2 } else { 1 };
    }
    match text.get(i + 1) {
        None | Some(b',') => Some(i + 1),
        Some(_) => odd_string_end(text),
    }
}

/// The same where something stands behind the closing quote, which InfluxDB's parser lets through:
/// the value goes to the next comma outside quotes, and loses its last byte whatever that is.
#[cold]
fn odd_string_end(text: &[u8]) -> Option<usize> {
    let (mut i, mut quoted) = (0, false);
    while let Some(&byte) = text.get(i) {
        match byte {
            b'\\' if matches!(text.get(i + 1), Some(b'"' | b'\\')) => i += 1,
            b'"' => quoted = !quoted,
            b',' if !quoted => break,
            _ => {}
        }
        i += 1;
    }
    Some(i.min(text.len()))
}

/// Digits that always fit an integer of 64 bits.
const DIGITS_MAX: usize = 18;
/// Digits up to which a number is a float exactly, and powers of ten that are.
const EXACT_DIGITS_MAX: usize = 15;
const EXACT_POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

#[inline]
fn number(text: &[u8]) -> Option<(Value<'_>, usize)> {
    let negative = text.first() == Some(&b'-');
    let start = usize::from(negative);
    let (whole, mut i) = digits(text, start, 0);
    let mut count = i - start;
    let sign = |value: f64| if negative { -value } else { value };
    match text.get(i) {
        Some(b'i') if count <= DIGITS_MAX => {
            // At most 18 digits, so the value fits.
            let value = i64::try_from(whole).ok()?;
            return Some((Value::Integer(if negative { -value } else { value }), i + 1));
        }
        None | Some(b',') if (1..=EXACT_DIGITS_MAX).contains(&count) => {
            return Some((Value::Float(sign(whole as f64)), i));
        }
        Some(b'.') => {
            let (all, end) = digits(text, i + 1, whole);
            let fraction = end - i - 1;
            count += fraction;
            i = end;
            if matches!(text.get(i), None | Some(b',')) && (1..=EXACT_DIGITS_MAX).contains(&count) {
                // A quotient of two exact numbers is rounded once: the nearest float.
                return Some((Value::Float(sign(all as f64 / EXACT_POWERS[fraction])), i));
            }
        }
        _ => {}
    }
    odd_number(text)
}

/// Reads digits from `at` on behind those that make `value`; wraps where they are too many.
#[inline]
fn digits(text: &[u8], mut at: usize, mut value: u64) -> (u64, usize) {
    while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|d| *d < 10) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (value, at)
}

/// A number that is long or has an exponent.
fn odd_number(text: &[u8]) -> Option<(Value<'_>, usize)> {
    let len = memchr(b',', text).unwrap_or(text.len());
    let number = str::from_utf8(&text[..len]).ok()?;
    let value = if let Some(digits) = number.strip_suffix('i') {
        Value::Integer(digits.parse().ok()?)
    } else if let Some(digits) = number.strip_suffix('u') {
        Value::Unsigned(digits.parse().ok()?)
    } else {
        Value::Float(number.parse().ok()?)
    };
    Some((value, len))
}

#[inline]
fn integer(text: &[u8]) -> Option<i64> {
    let negative = text.first() == Some(&b'-');
    let start = usize::from(negative);
    let (value, end) = digits(text, start, 0);
    if end != text.len() || end == start || end - start > DIGITS_MAX + 1 {
        return None;
    }
    let value = i64::try_from(value).ok()?;
    Some(if negative { -value } else { value })
}

/// The measurement of a series as written.
pub fn measurement(series: &[u8]) -> &[u8] {
    &series[..measurement_end_in(series)]
}

/// The tags of a series as written, in the client's order.
pub fn tag_pairs(series: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    tags(series)
}

/// A measurement's or a field's name without its escapes (`pkg/escape`).
pub fn unescape_name(text: &[u8]) -> Cow<'_, [u8]> {
    unescape(text, |byte| matches!(byte, b',' | b'"' | b' ' | b'='))
}

/// A tag's key or value without its escapes (`models/points.go`, `unescapeTag`).
pub fn unescape_tag(text: &[u8]) -> Cow<'_, [u8]> {
    unescape(text, |byte| matches!(byte, b',' | b' ' | b'='))
}

/// A string without its escapes (`models/points.go`, `unescapeStringField`).
pub fn unescape_string(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut i = 0;
    while let Some(&byte) = text.get(i) {
        let next = text.get(i + 1).filter(|next| byte == b'\\' && matches!(next, b'\\' | b'"'));
        out.push(*next.unwrap_or(&byte));
        i += 1 + usize::from(next.is_some());
    }
    Cow::Owned(out)
}

fn unescape(text: &[u8], escaped: impl Fn(u8) -> bool) -> Cow<'_, [u8]> {
    if memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    for (i, &byte) in text.iter().enumerate() {
        if byte != b'\\' || !text.get(i + 1).is_some_and(|&next| escaped(next)) {
            out.push(byte);
        }
    }
    Cow::Owned(out)
}
