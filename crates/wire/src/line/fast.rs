//! Plain lines, which nearly all are, in one pass.
//!
//! A line is plain when nothing about it is in doubt: no blanks but the two that separate its
//! parts, no backslash before another or before a newline, few tags, short numbers. It is accepted
//! only where the careful way would accept it with the same parts; everything else is left to
//! that one, which also finds the words for what is wrong.

use memchr::memchr2;

use super::fault::KEY_BYTES_MAX;
use super::marks::{FormParts, ValueType};
use super::number::is_boolean;
use super::point::{KEY_SEPARATOR_BYTES, starts_no_field};

/// Tags up to which a line is plain.
const TAGS_MAX: usize = 16;
/// Digits of an integer that always fit an int64.
const INTEGER_DIGITS_MAX: usize = 18;
/// Bytes of a float that is valid by its form alone.
const FLOAT_BYTES_MAX: usize = 24;
/// Digits of a timestamp that may be too large.
const TIME_DIGITS_MAX: usize = 19;
/// The latest and the earliest time in nanoseconds, without sign.
const TIME_LIMIT: &[u8; TIME_DIGITS_MAX] = b"9223372036854775806";

/// A plain line; positions are within the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plain {
    /// Where measurement and tags end.
    pub(super) key_end: usize,
    /// Where the fields end.
    pub(super) fields_end: usize,
    /// Where the line ends, before its newline if it has one.
    pub(super) end: usize,
    /// Whether a timestamp stands between `fields_end + 1` and `end`.
    pub(super) has_time: bool,
}

/// Where the tag keys of the line at hand are.
pub(super) struct TagKeys {
    at: [(usize, usize); TAGS_MAX],
    count: usize,
}

impl TagKeys {
    pub(super) const fn new() -> Self {
        Self { at: [(0, 0); TAGS_MAX], count: 0 }
    }

    /// Whether the line at hand, in `body`, has a tag of this escaped key.
    pub(super) fn contains(&self, body: &[u8], key: &[u8]) -> bool {
        self.at[..self.count].iter().any(|&(start, end)| body[start..end] == *key)
    }

    /// Notes a key; `None` when it is there already or they are too many.
    #[inline]
    fn add(&mut self, body: &[u8], start: usize, end: usize) -> Option<()> {
        let key = &body[start..end];
        for &(other, other_end) in &self.at[..self.count] {
            // Lengths and first bytes nearly always differ, and cost less than a comparison.
            if other_end - other == key.len()
                && body[other] == key[0]
                && body[other..other_end] == *key
            {
                return None;
            }
        }
        *self.at.get_mut(self.count)? = (start, end);
        self.count += 1;
        Some(())
    }
}

/// Bytes that may end a measurement, a key or a tag's value.
const STOPS: [bool; 256] = {
    let mut table = [false; 256];
    table[b',' as usize] = true;
    table[b' ' as usize] = true;
    table[b'=' as usize] = true;
    table[b'\\' as usize] = true;
    table[b'\n' as usize] = true;
    table
};

/// The first stop from `i` on that is not escaped, and where it is.
#[inline]
fn stop(body: &[u8], mut i: usize) -> Option<(usize, u8)> {
    loop {
        let byte = *body.get(i)?;
        if STOPS[usize::from(byte)] {
            if byte != b'\\' {
                return Some((i, byte));
            }
            i = behind_escape(body, i)? - 1;
        }
        i += 1;
    }
}

/// Behind the escape whose backslash is at `i`, if all of InfluxDB's ways to read agree on it.
///
/// Its splitter takes backslashes in pairs where its parser looks only at the byte before; and at
/// the very end of a body the splitter sees no escape where the parser does.
#[inline]
fn behind_escape(body: &[u8], i: usize) -> Option<usize> {
    match body.get(i + 1) {
        Some(b'\\' | b'\n') => None,
        _ if i + 2 >= body.len() => None,
        _ => Some(i + 2),
    }
}

/// The line of `body` that starts at `start`, if it is plain. Gives its parts to `form`, perhaps
/// not all where it is not.
#[inline]
pub(super) fn plain(
    body: &[u8],
    start: usize,
    tags: &mut TagKeys,
    form: &mut impl FormParts,
) -> Option<Plain> {
    let key_end = key(body, start, tags, form)?;
    let fields_end = fields(body, key_end + 1, form)?;
    let (end, has_time) = match body.get(fields_end) {
        Some(b' ') => (timestamp(body, fields_end + 1)?, true),
        _ => (fields_end, false),
    };
    if end - start + KEY_SEPARATOR_BYTES > KEY_BYTES_MAX {
        return None;
    }
    Some(Plain { key_end, fields_end, end, has_time })
}

/// Where measurement and tags end.
#[inline]
fn key(body: &[u8], start: usize, tags: &mut TagKeys, form: &mut impl FormParts) -> Option<usize> {
    tags.count = 0;
    let first = *body.get(start)?;
    if STOPS[usize::from(first)] || starts_no_field(first) || first == b'#' {
        return None;
    }
    let (mut i, mut byte) = stop(body, start + 1)?;
    while byte == b'=' {
        (i, byte) = stop(body, i + 1)?;
    }
    form.measurement(&body[start..i]);
    while byte == b',' {
        let tag = i + 1;
        let (equals, found) = stop(body, tag)?;
        if found != b'=' || equals == tag || body[tag..equals] == *b"time" {
            return None;
        }
        tags.add(body, tag, equals)?;
        (i, byte) = stop(body, equals + 1)?;
        if i == equals + 1 {
            return None;
        }
    }
    (byte == b' ').then_some(i)
}

/// Where the fields end: at a space, a newline or the end of the body.
#[inline]
fn fields(body: &[u8], start: usize, form: &mut impl FormParts) -> Option<usize> {
    if starts_no_field(*body.get(start)?) {
        return None;
    }
    let mut key = start;
    loop {
        let (equals, found) = stop(body, key)?;
        if found != b'=' || equals == key || body[key..equals] == *b"time" {
            return None;
        }
        let value = equals + 1;
        let (end, of) = match *body.get(value)? {
            b'0'..=b'9' | b'-' | b'.' => match number(body, value)? {
                end if body[end - 1] == b'i' => (end, ValueType::Integer),
                end => (end, ValueType::Float),
            },
            b'"' => (string(body, value)?, ValueType::String),
            b't' | b'T' | b'f' | b'F' => (boolean(body, value)?, ValueType::Boolean),
            _ => return None,
        };
        form.field(&body[key..equals], of);
        match body.get(end) {
            Some(b',') => key = end + 1,
            None | Some(b' ' | b'\n') => return Some(end),
            Some(_) => return None,
        }
    }
}

#[inline]
fn digits_end(body: &[u8], mut i: usize) -> usize {
    while body.get(i).is_some_and(u8::is_ascii_digit) {
        i += 1;
    }
    i
}

#[inline]
fn number(body: &[u8], start: usize) -> Option<usize> {
    let whole = start + usize::from(body[start] == b'-');
    let mut i = digits_end(body, whole);
    let mut digits = i - whole;
    match body.get(i) {
        Some(b'i') if (1..=INTEGER_DIGITS_MAX).contains(&digits) => return Some(i + 1),
        Some(b'.') => {
            let fraction = i + 1;
            i = digits_end(body, fraction);
            digits += i - fraction;
        }
        _ => {}
    }
    (digits > 0 && i - start <= FLOAT_BYTES_MAX).then_some(i)
}

/// Behind the closing quote of the string that opens at `start`.
#[inline]
fn string(body: &[u8], start: usize) -> Option<usize> {
    let mut i = start + 1;
    loop {
        i += memchr2(b'"', b'\\', body.get(i..)?)?;
        if body[i] == b'"' {
            return Some(i + 1);
        }
        // See `behind_escape`; within a string both take backslashes in pairs.
        if i + 2 >= body.len() {
            return None;
        }
        i += 2;
    }
}

#[inline]
fn boolean(body: &[u8], start: usize) -> Option<usize> {
    let mut end = start + 1;
    while body.get(end).is_some_and(u8::is_ascii_alphabetic) {
        end += 1;
    }
    is_boolean(&body[start..end]).then_some(end)
}

/// Behind a timestamp that would be good in nanoseconds and that ends the line.
#[inline]
fn timestamp(body: &[u8], start: usize) -> Option<usize> {
    let first = start + usize::from(body.get(start) == Some(&b'-'));
    let end = digits_end(body, first);
    let digits = &body[first..end];
    let in_range = match digits.len() {
        1..TIME_DIGITS_MAX => true,
        TIME_DIGITS_MAX => digits <= TIME_LIMIT.as_slice(),
        _ => false,
    };
    (in_range && matches!(body.get(end), None | Some(b'\n'))).then_some(end)
}
