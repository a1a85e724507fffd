//! Numbers and texts as a person reads them.

/// Groups of three digits: `1234567` as `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes with three digits at most, as `98 MiB` or `1.2 GiB`.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = value as f64;
    let mut unit = 0;
    // 999.5 would be shown as 1000.
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && scaled < 9.95);
    format!("{scaled:.digits$} {}", UNITS[unit])
}

/// A number of seconds by its two largest units, as `3h 12m` or `250ms`.
pub fn seconds(value: f64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    if value < 1.0 {
        return format!("{:.0}ms", value * 1000.0);
    }
    let whole = value as u64;
    let first = UNITS.iter().position(|(scale, _)| whole >= *scale).unwrap_or(UNITS.len() - 1);
    let mut rest = whole;
    let mut parts = Vec::new();
    for (scale, unit) in UNITS.iter().skip(first).take(2) {
        parts.push((rest / scale, unit));
        rest %= scale;
    }
    let shown = parts.iter().enumerate().filter(|(index, (value, _))| *index == 0 || *value > 0);
    shown.map(|(_, (value, unit))| format!("{value}{unit}")).collect::<Vec<_>>().join(" ")
}

/// A text of somebody else's for a terminal, which would do what control characters say.
pub fn harmless(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::{bytes, count, seconds};

    #[test]
    fn thousands_are_told_apart() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn bytes_have_three_digits_at_most() {
        for (value, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (98 << 20, "98 MiB"),
            (10 << 30, "10 GiB"),
            (1023 << 20, "1.0 GiB"),
        ] {
            assert_eq!(bytes(value), text);
        }
    }

    #[test]
    fn spans_have_two_units_at_most() {
        for (value, text) in [
            (0.0, "0ms"),
            (0.25, "250ms"),
            (1.0, "1s"),
            (61.0, "1m 1s"),
            (3600.0, "1h"),
            (11_520.0, "3h 12m"),
            (90_061.0, "1d 1h"),
        ] {
            assert_eq!(seconds(value), text);
        }
    }
}
