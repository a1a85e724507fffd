//! One line as InfluxDB parses it, step by step and with its words for what is wrong.
//!
//! The careful way, for any line that is not plain: it must agree with `models/points.go` on
//! every byte, odd as some of its rules are.

use std::str;

use super::fault::{Fault, KEY_BYTES_MAX, TIME_MAX_NS, TIME_MIN_NS};
use super::frame::{is_blank, skip_blanks};
use super::number::{boolean_end, is_boolean, is_float, number_end};
use super::{Precision, tags};

/// Bytes between the series key and a field's key in the storage engine, which count against
/// [`KEY_BYTES_MAX`] (`seriesKeySize`).
pub(super) const KEY_SEPARATOR_BYTES: usize = 4;

/// A line that is a point; positions are within the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// Where measurement and tags end.
    pub(super) key_end: usize,
    /// Where the fields start, after the blanks behind the key.
    pub(super) fields_start: usize,
    /// Where the fields end.
    pub(super) fields_end: usize,
    /// In nanoseconds since the epoch; `None` when the line has none.
    pub(super) time_ns: Option<i64>,
}

/// Parses `line`, which starts with no blank and has no newline at its end (`parsePoint`).
pub(super) fn parse(line: &[u8], precision: Precision, unsigned: bool) -> Result<Point, Fault<'_>> {
    let key_end = tags::key_end(line)?;
    if key_end > KEY_BYTES_MAX {
        return Err(Fault::KeyTooLong(key_end));
    }
    let fields_start = skip_blanks(line, key_end);
    let fields_end = fields_end(line, fields_start, unsigned)?;
    if fields_start == fields_end {
        return Err(Fault::MissingFields);
    }
    check_field_keys(&line[fields_start..fields_end], key_end)?;
    let time_ns = timestamp(line, fields_end, precision)?;
    check_values(&line[fields_start..fields_end])?;
    Ok(Point { key_end, fields_start, fields_end, time_ns })
}

/// Where the fields that start at `start` end (`scanFields`).
fn fields_end(line: &[u8], start: usize, unsigned: bool) -> Result<usize, Fault<'_>> {
    let mut i = start;
    let mut quoted = false;
    let (mut equals, mut commas) = (0usize, 0usize);
    while let Some(&byte) = line.get(i) {
        match byte {
            b'\\' if i + 1 < line.len() => i += 1,
            b'"' if equals > commas => quoted = !quoted,
            b'=' if !quoted => {
                equals += 1;
                check_field_key(line, i)?;
                match line.get(i + 1) {
                    None | Some(b',' | b' ') => return Err(Fault::MissingFieldValue),
                    Some(b'0'..=b'9' | b'.' | b'-' | b'N' | b'n') => {
                        i = number_end(line, i + 1, unsigned)?;
                        continue;
                    }
                    Some(b'"') => {}
                    Some(_) => {
                        i = boolean_end(line, i + 1)?;
                        continue;
                    }
                }
            }
            b',' if !quoted => commas += 1,
            b' ' if !quoted => break,
            _ => {}
        }
        i += 1;
    }
    if quoted {
        return Err(Fault::UnbalancedQuotes);
    }
    if equals == 0 || commas != equals - 1 {
        return Err(Fault::InvalidFieldFormat);
    }
    Ok(i)
}

/// The equals sign at `at` must have a key before it; `a\ =1` and `b=1,a\,=2` do have one.
fn check_field_key(line: &[u8], at: usize) -> Result<(), Fault<'static>> {
    let before = |n: usize| at.checked_sub(n).map(|i| line[i]);
    match before(1) {
        Some(b' ' | b',') if before(2) != Some(b'\\') => Err(Fault::MissingFieldKey),
        _ => Ok(()),
    }
}

/// Walks the fields as the storage engine will (`walkFields`, `scanTo`, `scanFieldValue`), which
/// reads escapes differently from the scan that found where they end.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    /// A key, and its value unless nothing follows the key.
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let key_end = (0..self.0.len())
            .find(|&i| self.0[i] == b'=' && (i == 0 || self.0[i - 1] != b'\\'))
            .unwrap_or(self.0.len());
        let key = &self.0[..key_end];
        if key_end + 2 > self.0.len() {
            self.0 = &[];
            return Some((key, None));
        }
        let rest = &self.0[key_end + 1..];
        let (value, rest) = rest.split_at(field_value_end(rest));
        self.0 = rest.get(1..).unwrap_or_default();
        Some((key, Some(value)))
    }
}

fn field_value_end(text: &[u8]) -> usize {
    let mut i = 0;
    let mut quoted = false;
    while let Some(&byte) = text.get(i) {
        match byte {
            b'\\' if matches!(text.get(i + 1), Some(b'"' | b'\\')) => i += 1,
            b'"' => quoted = !quoted,
            b',' if !quoted => break,
            _ => {}
        }
        i += 1;
    }
    i
}

fn check_field_keys(fields: &[u8], key_len: usize) -> Result<(), Fault<'_>> {
    for (key, value) in Fields(fields) {
        if value.is_none() {
            return Err(Fault::InvalidValue(key));
        }
        let size = key_len + KEY_SEPARATOR_BYTES + key.len();
        if size > KEY_BYTES_MAX {
            return Err(Fault::KeyTooLong(size));
        }
    }
    Ok(())
}

/// Refuses what InfluxDB's parser lets through and its storage engine then can't read: the
/// server would answer 500 and store nothing of the whole body.
fn check_values(fields: &[u8]) -> Result<(), Fault<'static>> {
    let readable = |value: &[u8]| match value {
        [b'"', .., _] => true,
        [b'0'..=b'9' | b'-' | b'.', ..] => match value {
            [digits @ .., b'i'] => as_text(digits).parse::<i64>().is_ok(),
            [digits @ .., b'u'] => as_text(digits).parse::<u64>().is_ok(),
            float => is_float(as_text(float)),
        },
        word => is_boolean(word),
    };
    let good = Fields(fields).all(|(_, value)| value.is_some_and(readable));
    if good { Ok(()) } else { Err(Fault::InvalidPoint) }
}

fn as_text(number: &[u8]) -> &str {
    str::from_utf8(number).unwrap_or_default()
}

/// Whether every field is named `time`, so that InfluxDB has nothing to store.
pub(super) fn has_only_time_fields(fields: &[u8]) -> bool {
    Fields(fields).all(|(key, _)| key == b"time")
}

/// The timestamp behind `from` (`scanTime` and the end of `parsePoint`).
fn timestamp(line: &[u8], from: usize, precision: Precision) -> Result<Option<i64>, Fault<'_>> {
    let start = skip_blanks(line, from);
    let mut end = start;
    while let Some(&byte) = line.get(end) {
        match byte {
            b'\n' | b' ' => break,
            b'-' if end == start => {}
            b'0'..=b'9' => {}
            _ => return Err(Fault::BadTimestamp),
        }
        end += 1;
    }
    if start == end {
        // InfluxDB looks at nothing behind a timestamp that isn't there.
        return Ok(None);
    }
    let text = str::from_utf8(&line[start..end]).map_err(|_| Fault::BadTimestamp)?;
    let units: i64 = text.parse().map_err(|_| match text {
        "-" => Fault::TimestampSyntax(text),
        _ => Fault::TimestampDigits(text),
    })?;
    let time_ns = scale(units, precision).ok_or(Fault::TimestampRange)?;
    if line[end..].iter().any(|&byte| byte != b' ') {
        return Err(Fault::InvalidPoint);
    }
    Ok(Some(time_ns))
}

/// `units` in nanoseconds, if that is a time a point may have (`SafeCalcTime`).
pub(super) fn scale(units: i64, precision: Precision) -> Option<i64> {
    let time_ns = units.checked_mul(precision.nanoseconds())?;
    (TIME_MIN_NS..=TIME_MAX_NS).contains(&time_ns).then_some(time_ns)
}

/// Whether `byte` may not be first in a field's key that follows a single space.
pub(super) const fn starts_no_field(byte: u8) -> bool {
    is_blank(byte)
}
