//! Durations as InfluxQL writes them (`ParseDuration` and `FormatDuration` of `parser.go`).

const US: i64 = 1_000;
const MS: i64 = 1_000 * US;
const SECOND: i64 = 1_000 * MS;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

/// Longest first where one begins another.
const UNITS: [(&str, i64); 9] = [
    ("ns", 1),
    ("u", US),
    ("µ", US),
    ("ms", MS),
    ("m", MINUTE),
    ("s", SECOND),
    ("h", HOUR),
    ("d", DAY),
    ("w", WEEK),
];

const INVALID: &str = "invalid duration";

/// Reads `1h30m`, `-5m`: nanoseconds.
///
/// The sum wraps around as InfluxDB's does, which sees an overflow only where it ends below zero.
///
/// # Errors
/// Says what is wrong as InfluxDB does.
pub(super) fn parse(text: &str) -> Result<i64, String> {
    if text.len() < 2 {
        return Err(INVALID.to_owned());
    }
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut sum: i64 = 0;
    let mut last = (0, "");
    while !rest.is_empty() {
        let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = rest.strip_suffix(behind).unwrap_or_default();
        let count: i64 = digits.parse().map_err(|_| INVALID.to_owned())?;
        let known = UNITS.iter().find(|(unit, _)| behind.starts_with(unit));
        let Some((unit, size_ns)) = known else { return Err(INVALID.to_owned()) };
        sum = sum.wrapping_add(count.wrapping_mul(*size_ns));
        last = (count, unit);
        rest = behind.strip_prefix(unit).unwrap_or_default();
    }
    if sum < 0 && !negative {
        let (count, unit) = last;
        return Err(format!("overflowed duration {count}{unit}: choose a smaller duration or INF"));
    }
    Ok(if negative { sum.wrapping_neg() } else { sum })
}

/// Whether what [`parse`] makes of a duration is the duration that is written: the sum may wrap
/// around to one above zero.
pub(super) fn is_exact(text: &str) -> bool {
    let mut rest = text.trim_start_matches('-');
    let mut sum: i64 = 0;
    while !rest.is_empty() {
        let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let count = rest.strip_suffix(behind).and_then(|digits| digits.parse::<i64>().ok());
        let unit = UNITS.iter().find(|(unit, _)| behind.starts_with(unit));
        let Some((count, (unit, size_ns))) = count.zip(unit) else { return false };
        let Some(more) = count.checked_mul(*size_ns).and_then(|more| sum.checked_add(more)) else {
            return false;
        };
        sum = more;
        rest = behind.strip_prefix(unit).unwrap_or_default();
    }
    true
}

/// The duration in the largest unit that measures it whole.
pub(super) fn format(duration_ns: i64) -> String {
    const LARGEST_FIRST: [(&str, i64); 8] = [
        ("w", WEEK),
        ("d", DAY),
        ("h", HOUR),
        ("m", MINUTE),
        ("s", SECOND),
        ("ms", MS),
        ("u", US),
        ("ns", 1),
    ];
    if duration_ns == 0 {
        return "0s".to_owned();
    }
    let whole = LARGEST_FIRST.iter().find(|(_, size_ns)| duration_ns % size_ns == 0);
    whole.map_or_else(String::new, |(unit, size_ns)| format!("{}{unit}", duration_ns / size_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_and_what_is_none() {
        assert_eq!(parse("1w2d3h4m5s6ms7u8ns"), Ok(788_645_006_007_008));
        assert_eq!(parse("1µ"), Ok(1_000));
        assert_eq!(parse("-5m"), Ok(-300_000_000_000));
        for bad in ["", "1", "m", "1x", "1n", "5m3", "1.5h", "99999999999999999999s", "1µµ"] {
            assert_eq!(parse(bad), Err(INVALID.to_owned()), "{bad}");
        }
        let overflowed = "overflowed duration 16000w: choose a smaller duration or INF";
        assert_eq!(parse("16000w"), Err(overflowed.to_owned()));
    }

    #[test]
    fn a_duration_that_wraps_around_is_not_exact() {
        assert!(is_exact("-5m") && is_exact("1w2d3h") && is_exact("106751d"));
        // A thousand years, which are taken for six days.
        assert_eq!(parse("61002w"), Ok(521_452_580_896_768));
        assert!(!is_exact("61002w") && !is_exact("106751d24h"));
    }

    #[test]
    fn the_largest_whole_unit() {
        assert_eq!(format(0), "0s");
        assert_eq!(format(14 * DAY), "2w");
        assert_eq!(format(90 * SECOND), "90s");
        assert_eq!(format(-MINUTE), "-1m");
        assert_eq!(format(7 * US), "7u");
        assert_eq!(format(1), "1ns");
        assert_eq!(parse(&format(i64::MAX)), Ok(i64::MAX));
    }
}
