//! Times as they are written in a query: `'2006-01-02'`, `'2006-01-02 15:04:05.999999'`, RFC 3339.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

const SECOND_NS: i128 = 1_000_000_000;
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Whether a string looks like a time, right or wrong (`StringLiteral.IsTimeLiteral`).
pub fn looks_like_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some(date) = bytes.get(..10) else { return false };
    let digits = |at: &[usize]| at.iter().all(|at| date[*at].is_ascii_digit());
    // Go's `.+` needs one character that is not a newline.
    let rest = bytes.get(10).is_none_or(|next| *next != b'\n');
    digits(&[0, 1, 2, 3, 5, 6, 8, 9]) && date[4] == b'-' && date[7] == b'-' && rest
}

/// Nanoseconds since 1970 of a written time; `None` where it is none. Times without a zone are
/// those of `zone`.
pub fn parse_time(text: &str, zone: Option<&TimeZone>) -> Option<i128> {
    let mut rest = Reader(text);
    let (year, _, month) = (rest.digits(4, 4)?, rest.literal("-")?, rest.digits(2, 2)?);
    let (_, day) = (rest.literal("-")?, rest.digits(2, 2)?);
    let date = Date::new(year as i16, month as i8, day as i8).ok()?;
    if rest.0.is_empty() {
        return Some(in_zone(date.to_datetime(Time::midnight()), 0, zone));
    }
    let zoned = rest.literal("T").is_some();
    if !zoned {
        rest.literal(" ")?;
        rest.0 = rest.0.trim_start_matches(' ');
    }
    let (time, nanos) = rest.clock()?;
    let local = date.to_datetime(time);
    if !zoned {
        return rest.0.is_empty().then(|| in_zone(local, nanos, zone));
    }
    let offset = rest.offset()?;
    let utc = seconds(local) - offset;
    rest.0.is_empty().then_some(i128::from(utc) * SECOND_NS + i128::from(nanos))
}

/// A time as RFC 3339 in UTC to the second, also beyond what points can have.
pub fn rfc3339(time: i128) -> String {
    let second = i64::try_from(time.div_euclid(SECOND_NS)).unwrap_or(i64::MAX);
    let at = EPOCH.saturating_add(SignedDuration::from_secs(second));
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Seconds since 1970 of a local time, as if it were UTC.
fn seconds(local: DateTime) -> i64 {
    local.duration_since(EPOCH).as_secs()
}

/// A local time of a zone as Go's `time.Date` has it: where clocks jump, one of the two offsets.
fn in_zone(local: DateTime, nanos: u32, zone: Option<&TimeZone>) -> i128 {
    let unix = seconds(local);
    let offset_at = |second: i64| {
        let at = Timestamp::from_second(second).unwrap_or_default();
        zone.map_or(0, |zone| i64::from(zone.to_offset(at).seconds()))
    };
    let guess = offset_at(unix);
    let offset = if guess == 0 { 0 } else { offset_at(unix - guess) };
    i128::from(unix - offset) * SECOND_NS + i128::from(nanos)
}

struct Reader<'a>(&'a str);

impl Reader<'_> {
    fn literal(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    /// A number of `least` to `most` digits.
    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let len = self.0.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        if len < least { None } else { number.parse().ok() }
    }

    /// `15:04:05` with a fraction of up to nine digits.
    fn clock(&mut self) -> Option<(Time, u32)> {
        let (hour, _, minute) = (self.digits(1, 2)?, self.literal(":")?, self.digits(2, 2)?);
        let (_, second) = (self.literal(":")?, self.digits(2, 2)?);
        let mut nanos = 0;
        let next_is_digit = self.0.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        if next_is_digit && self.literal(".").is_some() {
            let before = self.0.len();
            let fraction = self.digits(1, 9)?;
            let digits = before - self.0.len();
            nanos = (fraction as u32) * 10_u32.pow(9_u32.saturating_sub(digits as u32));
        }
        // A leap second's 60 is out of range in Go too, and jiff's `new` refuses it.
        Some((Time::new(hour as i8, minute as i8, second as i8, 0).ok()?, nanos))
    }

    /// `Z` or `+01:00`, in seconds.
    fn offset(&mut self) -> Option<i64> {
        if self.literal("Z").is_some() {
            return Some(0);
        }
        let sign = if self.literal("-").is_some() { -1 } else { self.literal("+").map(|()| 1)? };
        let (hours, _, minutes) = (self.digits(2, 2)?, self.literal(":")?, self.digits(2, 2)?);
        (hours <= 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> Option<i128> {
        parse_time(text, None)
    }

    #[test]
    fn the_forms_of_a_time() {
        let day = 1_577_836_800_000_000_000;
        assert_eq!(utc("2020-01-01"), Some(day));
        assert_eq!(utc("2020-01-01 00:00:00"), Some(day));
        assert_eq!(utc("2020-01-01  1:00:00.5"), Some(day + 3_600_500_000_000));
        assert_eq!(utc("2020-01-01 00:00:00.123456789"), Some(day + 123_456_789));
        assert_eq!(utc("2020-01-01T00:00:00Z"), Some(day));
        assert_eq!(utc("2020-01-01T01:00:00.25+01:00"), Some(day + 250_000_000));
        assert_eq!(utc("9999-12-31"), Some(253_402_214_400_000_000_000));
    }

    #[test]
    fn what_is_no_time() {
        for text in
            ["2020-01-01 00:00", "2020-13-01", "2020-02-30", "2020-01-01T00:00:00", "20-01-01", ""]
        {
            assert_eq!(utc(text), None, "{text}");
        }
        assert_eq!(utc("2020-01-01 24:00:00"), None);
        assert_eq!(utc("2020-01-01 00:00:60"), None);
        assert_eq!(utc("2020-01-01 00:00:00.1234567891"), None);
        assert!(looks_like_time("2020-99-99 what"));
        assert!(!looks_like_time("abc"));
        assert!(!looks_like_time("2020-01-0é"));
    }

    #[test]
    fn a_time_without_zone_is_of_the_querys_zone() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let at = |text| parse_time(text, Some(&berlin)).unwrap() / SECOND_NS;
        assert_eq!(at("2020-01-01"), 1_577_833_200);
        assert_eq!(at("2020-07-01 12:00:00"), 1_593_597_600);
        assert_eq!(at("2020-07-01T12:00:00Z"), 1_593_604_800);
        // 2:30 does not exist on that day; Go takes it for 3:30.
        assert_eq!(at("2020-03-29 02:30:00"), 1_585_445_400);
    }
}
