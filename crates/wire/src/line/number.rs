//! Values that are no strings: numbers and booleans.

use std::str;

use super::fault::Fault;

/// Digits (and a sign) from which on an int64 is parsed to see whether it fits.
const INTEGER_SUSPECT: usize = 19;
/// The same for a uint64.
const UNSIGNED_SUSPECT: usize = 20;
/// Bytes from which on a float is parsed to see whether it fits.
const FLOAT_SUSPECT: usize = 25;

/// What marks the digits seen so far as one kind of number.
#[derive(Default)]
struct Marks {
    integer: bool,
    unsigned: bool,
    decimal: bool,
    scientific: bool,
}

/// Where the number that starts at `start` ends (`models/points.go`, `scanNumber`).
pub(super) fn number_end(
    text: &[u8],
    start: usize,
    unsigned_allowed: bool,
) -> Result<usize, Fault<'_>> {
    let mut marks = Marks::default();
    let mut i = start;
    if text.get(i) == Some(&b'-') {
        i += 1;
        if i == text.len() {
            return Err(Fault::InvalidNumber);
        }
    }
    while let Some(&byte) = text.get(i) {
        let after_e = i > start && matches!(text[i - 1], b'e' | b'E');
        match byte {
            b',' | b' ' => break,
            b'i' if i > start && !marks.integer && !marks.unsigned => marks.integer = true,
            b'u' if i > start && !marks.integer && !marks.unsigned => marks.unsigned = true,
            b'.' if marks.decimal => return Err(Fault::InvalidNumber),
            b'.' => marks.decimal = true,
            b'e' | b'E' if i > start => marks.scientific = true,
            b'+' | b'-' if after_e => {}
            b'0'..=b'9' => {}
            _ => return Err(Fault::InvalidNumber),
        }
        i += 1;
    }
    check(&text[start..i], &marks, unsigned_allowed)?;
    Ok(i)
}

fn check<'a>(number: &'a [u8], marks: &Marks, unsigned_allowed: bool) -> Result<(), Fault<'a>> {
    if (marks.integer || marks.unsigned) && (marks.decimal || marks.scientific) {
        return Err(Fault::InvalidNumber);
    }
    let negative = number.first() == Some(&b'-');
    // The `u` of an unsigned counts as a digit here, as it does in InfluxDB.
    let no_digits = usize::from(marks.integer) + usize::from(marks.decimal) + usize::from(negative);
    if number.len() <= no_digits {
        return Err(Fault::InvalidNumber);
    }
    // Only ASCII has come this far.
    let text = str::from_utf8(number).map_err(|_| Fault::InvalidNumber)?;
    if marks.integer {
        let digits = text.strip_suffix('i').ok_or(Fault::InvalidNumber)?;
        if digits.len() >= INTEGER_SUSPECT && digits.parse::<i64>().is_err() {
            return Err(Fault::IntegerRange(digits));
        }
    } else if marks.unsigned {
        let digits = text.strip_suffix('u').ok_or(Fault::InvalidNumber)?;
        if !unsigned_allowed || negative {
            return Err(Fault::InvalidNumber);
        }
        if digits.len() >= UNSIGNED_SUSPECT && digits.parse::<u64>().is_err() {
            return Err(Fault::UnsignedRange(digits));
        }
    } else if (marks.scientific || number.len() >= FLOAT_SUSPECT) && !is_float(text) {
        return Err(Fault::InvalidFloat);
    }
    Ok(())
}

/// Whether Go's `ParseFloat` takes the text: out of range is an error there, infinity here.
pub(super) fn is_float(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Where the boolean that starts at `start` ends (`models/points.go`, `scanBoolean`).
pub(super) fn boolean_end(text: &[u8], start: usize) -> Result<usize, Fault<'_>> {
    let word = &text[start.min(text.len())..];
    let len = word.iter().position(|byte| matches!(byte, b',' | b' ')).unwrap_or(word.len());
    if is_boolean(&word[..len]) { Ok(start + len) } else { Err(Fault::InvalidBoolean) }
}

/// Every spelling of a boolean there is.
pub(super) fn is_boolean(word: &[u8]) -> bool {
    matches!(
        word,
        b"t" | b"T" | b"true" | b"True" | b"TRUE" | b"f" | b"F" | b"false" | b"False" | b"FALSE"
    )
}
