//! Why a line is not a point, in the words of `models/points.go`, which clients match on.

use std::fmt::Write;

use super::ERROR_BYTES_MAX;

/// The earliest and latest times a point may have, in nanoseconds since the epoch
/// (`models/time.go`: the outermost values are sentinels).
pub(super) const TIME_MIN_NS: i64 = i64::MIN + 2;
pub(super) const TIME_MAX_NS: i64 = i64::MAX - 1;

/// Bytes that measurement, tags and one field's key may have together.
pub(super) const KEY_BYTES_MAX: usize = 65_535;

/// Bytes of a bad line that its message quotes.
const LINE_BYTES_MAX: usize = ERROR_BYTES_MAX / 2;

/// Why a line is not a point. Borrows the part of the line that the message quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault<'a> {
    #[error("missing measurement")]
    MissingMeasurement,
    #[error("missing fields")]
    MissingFields,
    #[error("missing tag key")]
    MissingTagKey,
    #[error("missing tag value")]
    MissingTagValue,
    #[error("invalid tag format")]
    InvalidTagFormat,
    #[error("duplicate tags")]
    DuplicateTags,
    #[error("max key length exceeded: {0} > {KEY_BYTES_MAX}")]
    KeyTooLong(usize),
    #[error("missing field key")]
    MissingFieldKey,
    #[error("missing field value")]
    MissingFieldValue,
    #[error("unbalanced quotes")]
    UnbalancedQuotes,
    #[error("invalid field format")]
    InvalidFieldFormat,
    #[error("invalid value: field-key={}", String::from_utf8_lossy(.0))]
    InvalidValue(&'a [u8]),
    #[error("invalid number")]
    InvalidNumber,
    #[error("invalid float")]
    InvalidFloat,
    #[error("invalid boolean")]
    InvalidBoolean,
    #[error("unable to parse integer {0}: strconv.ParseInt: parsing {0:?}: value out of range")]
    IntegerRange(&'a str),
    #[error("unable to parse unsigned {0}: strconv.ParseUint: parsing {0:?}: value out of range")]
    UnsignedRange(&'a str),
    #[error("bad timestamp")]
    BadTimestamp,
    #[error("strconv.ParseInt: parsing {0:?}: invalid syntax")]
    TimestampSyntax(&'a str),
    #[error("strconv.ParseInt: parsing {0:?}: value out of range")]
    TimestampDigits(&'a str),
    #[error("time outside range {TIME_MIN_NS} - {TIME_MAX_NS}")]
    TimestampRange,
    #[error("point is invalid")]
    InvalidPoint,
    /// InfluxDB accepts it as the last line of a body, but it would run into a line after it.
    #[error("the end of the line is ambiguous")]
    AmbiguousEnd,
}

/// The messages of all bad lines of a body, joined and bounded.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) count: u32,
    text: Option<String>,
}

impl Faults {
    /// Notes that `line` is not a point.
    pub(super) fn add(&mut self, line: &[u8], fault: Fault<'_>) {
        self.count = self.count.saturating_add(1);
        let text = self.text.get_or_insert_default();
        if text.len() > ERROR_BYTES_MAX {
            return;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str("unable to parse '");
        // The reason comes last, and must be seen even of a body that is one endless line.
        let shown = &line[..line.len().min(LINE_BYTES_MAX)];
        text.push_str(&String::from_utf8_lossy(shown));
        if shown.len() < line.len() {
            text.push_str("...");
        }
        // Writing to a String has no way to fail.
        let _ = write!(text, "': {fault}");
        if text.len() > ERROR_BYTES_MAX {
            let cut = (0..=ERROR_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at));
            text.truncate(cut.unwrap_or(0));
            text.push_str("...");
        }
    }

    pub(super) fn into_text(self) -> Option<String> {
        self.text
    }
}
