//! Numbers, strings and times as Go writes them.

use std::io::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;
/// Whole floats below are exact as integers.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// In which unit times are answered; without one they are RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epoch {
    /// Nanoseconds, for `ns` and for whatever is not known.
    Nanoseconds,
    /// `u`
    Microseconds,
    /// `ms`
    Milliseconds,
    /// `s`
    Seconds,
    /// `m`
    Minutes,
    /// `h`
    Hours,
}

impl Epoch {
    /// What the parameter `epoch` asks for; `None` where it is empty.
    pub fn of(parameter: &str) -> Option<Self> {
        match parameter {
            "" => None,
            "u" => Some(Self::Microseconds),
            "ms" => Some(Self::Milliseconds),
            "s" => Some(Self::Seconds),
            "m" => Some(Self::Minutes),
            "h" => Some(Self::Hours),
            _ => Some(Self::Nanoseconds),
        }
    }

    /// Nanoseconds of one unit.
    pub fn ns(self) -> i64 {
        match self {
            Self::Nanoseconds => 1,
            Self::Microseconds => 1_000,
            Self::Milliseconds => 1_000_000,
            Self::Seconds => SECOND_NS,
            Self::Minutes => 60 * SECOND_NS,
            Self::Hours => 3_600 * SECOND_NS,
        }
    }
}

/// Appends an integer in decimal digits.
pub fn integer(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    unsigned(out, value.unsigned_abs());
}

/// Appends an unsigned integer in decimal digits.
pub fn unsigned(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writing to memory does not fail.
fn write(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let written = out.write_fmt(text);
    debug_assert!(written.is_ok(), "memory takes what is written");
}

/// A float as `strconv.FormatFloat(v, 'f', -1, 64)`: the shortest digits, without an exponent.
pub fn plain_float(out: &mut Vec<u8>, value: f64) {
    if value.fract() == 0.0 && value.abs() < WHOLE_MAX && (value != 0.0 || value.is_sign_positive())
    {
        integer(out, value as i64);
    } else {
        write(out, format_args!("{value}"));
    }
}

/// A float as `encoding/json` writes it; what JSON cannot say is null.
pub fn json_float(out: &mut Vec<u8>, value: f64) {
    let size = value.abs();
    if !value.is_finite() {
        out.extend_from_slice(b"null");
    } else if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let start = out.len();
        write(out, format_args!("{value:e}"));
        let exponent = out.iter().skip(start).position(|byte| *byte == b'e');
        let sign = exponent.map(|at| start + at + 1);
        if let Some(sign) = sign.filter(|sign| out.get(*sign) != Some(&b'-')) {
            out.insert(sign, b'+');
        }
    } else {
        plain_float(out, value);
    }
}

/// A string as `encoding/json` writes it, safe inside HTML.
pub fn json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut written = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let separator = || matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9]));
        let escape = match byte {
            b'"' => Some("\\\""),
            b'\\' => Some("\\\\"),
            b'\n' => Some("\\n"),
            b'\r' => Some("\\r"),
            b'\t' => Some("\\t"),
            0..=0x1f | b'<' | b'>' | b'&' => None,
            0xe2 if separator() => None,
            _ => continue,
        };
        out.extend_from_slice(bytes.get(written..at).unwrap_or_default());
        written = at + 1;
        match escape {
            Some(escape) => out.extend_from_slice(escape.as_bytes()),
            None if *byte == 0xe2 => {
                let last = bytes.get(at + 2).map_or(0, |last| last & 0xf);
                write(out, format_args!("\\u202{last:x}"));
                written = at + 3;
            }
            None => write(out, format_args!("\\u{byte:04x}")),
        }
    }
    out.extend_from_slice(bytes.get(written..).unwrap_or_default());
    out.push(b'"');
}

/// Times, in the unit or in the zone that was asked for.
#[derive(Debug, Default)]
pub struct Times {
    /// `tz()`; without it UTC.
    zone: Option<TimeZone>,
    /// The last day that was written, as `2006-01-02T`: most times are on the same one.
    day: Option<(i64, [u8; 11])>,
}

impl Times {
    /// Times of a zone.
    pub fn in_zone(zone: TimeZone) -> Self {
        Self { zone: Some(zone), day: None }
    }

    /// A time as `time.RFC3339Nano` writes it.
    pub fn rfc3339(&mut self, out: &mut Vec<u8>, time: i64) {
        let offset = self.zone.as_ref().map_or(0, |zone| {
            let at = Timestamp::from_nanosecond(i128::from(time)).unwrap_or_default();
            i64::from(zone.to_offset(at).seconds())
        });
        let second = time.div_euclid(SECOND_NS) + offset;
        let (day, clock) = (second.div_euclid(DAY_S), second.rem_euclid(DAY_S));
        let text = match self.day {
            Some((known, text)) if known == day => text,
            _ => self.day.insert((day, date(day))).1,
        };
        out.extend_from_slice(&text);
        two(out, clock / 3600);
        out.push(b':');
        two(out, clock / 60 % 60);
        out.push(b':');
        two(out, clock % 60);
        fraction(out, time.rem_euclid(SECOND_NS));
        if offset == 0 {
            out.push(b'Z');
        } else {
            out.push(if offset < 0 { b'-' } else { b'+' });
            two(out, offset.abs() / 3600);
            out.push(b':');
            two(out, offset.abs() / 60 % 60);
        }
    }
}

fn two(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&[b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]);
}

/// The fraction of a second, without the zeros at its end.
fn fraction(out: &mut Vec<u8>, mut nanos: i64) {
    if nanos == 0 {
        return;
    }
    let mut digits = [b'.'; 10];
    for digit in digits.iter_mut().skip(1).rev() {
        *digit = b'0' + (nanos % 10) as u8;
        nanos /= 10;
    }
    let end = digits.iter().rposition(|digit| *digit != b'0').unwrap_or(0);
    out.extend_from_slice(&digits[..=end]);
}

/// The date of a day since 1970 in the Gregorian calendar, as `2006-01-02T`.
fn date(day: i64) -> [u8; 11] {
    // Years of this count begin in March, so that the leap day is their last one.
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let date = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let mut text = *b"0000-00-00T";
    let digit = |value: i64| b'0' + value.rem_euclid(10) as u8;
    for (at, value) in [(0, year / 1000), (1, year / 100), (2, year / 10), (3, year)] {
        text[at] = digit(value);
    }
    for (at, value) in [(5, month / 10), (6, month), (8, date / 10), (9, date)] {
        text[at] = digit(value);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(with: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        with(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_are_written_as_go_does() {
        let json = |value| written(|out| json_float(out, value));
        let expected = [
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (1e-7, "1e-7"),
            (0.000_001, "0.000001"),
            (2.5e-9, "2.5e-9"),
            (123_456_789_012_345_680_000.0, "123456789012345680000"),
            (-0.0, "-0"),
            (0.0, "0"),
            (3.15, "3.15"),
            (-100.0, "-100"),
            (1e100, "1e+100"),
            (f64::NAN, "null"),
        ];
        for (value, text) in expected {
            assert_eq!(json(value), text);
        }
        assert_eq!(written(|out| plain_float(out, 2.5e-9)), "0.0000000025");
        assert_eq!(written(|out| plain_float(out, 1e21)), "1000000000000000000000");
    }

    #[test]
    fn strings_are_escaped_as_go_does() {
        let text = "<>&\u{2028}\u{2029} \u{8}\u{c}\u{1}\"\\ \u{7f} tab\tnl\n é €";
        let expected = concat!(
            "\"\\u003c\\u003e\\u0026\\u2028\\u2029 \\u0008\\u000c\\u0001\\\"\\\\ \u{7f} ",
            "tab\\tnl\\n é €\""
        );
        assert_eq!(written(|out| json_string(out, text)), expected);
    }

    #[test]
    fn times_are_written_as_go_does() {
        let mut times = Times::default();
        let mut at = |time| written(|_| ()) + &written_time(&mut times, time);
        assert_eq!(at(1_500_000_000_123_456_780), "2017-07-14T02:40:00.12345678Z");
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(-1), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(at(i64::MIN), "1677-09-21T00:12:43.145224192Z");
        assert_eq!(at(i64::MAX), "2262-04-11T23:47:16.854775807Z");
        times = Times::in_zone(TimeZone::get("America/St_Johns").unwrap());
        let local = written_time(&mut times, 1_500_000_000_123_456_780);
        assert_eq!(local, "2017-07-14T00:10:00.12345678-02:30");
    }

    fn written_time(times: &mut Times, time: i64) -> String {
        let mut out = Vec::new();
        times.rfc3339(&mut out, time);
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn dates_are_those_of_the_calendar(second in -9_000_000_000_i64..9_000_000_000) {
            let text = written_time(&mut Times::default(), second * SECOND_NS);
            let expected = Timestamp::from_second(second).unwrap().to_string();
            prop_assert_eq!(text, expected);
        }

        #[test]
        fn numbers_are_read_back(value: f64, number: i64) {
            let text = written(|out| json_float(out, value));
            if value.is_finite() {
                prop_assert_eq!(text.parse::<f64>().unwrap(), value);
            }
            prop_assert_eq!(written(|out| integer(out, number)), number.to_string());
        }

        #[test]
        fn strings_are_read_back(text: String) {
            let json = written(|out| json_string(out, &text));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}
