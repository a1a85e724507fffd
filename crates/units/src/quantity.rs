//! Durations and sizes as an operator writes them: `500ms`, `10GiB`.
//!
//! A bare number is refused on purpose: nobody can tell whether `timeout = 10` means seconds or
//! milliseconds. Only `"0"` needs no unit.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a duration or a size could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text does not begin with a number.
    #[error("{text:?} does not begin with a number; write {example}")]
    Number {
        /// What stood in the configuration.
        text: String,
        /// A value that would be accepted.
        example: &'static str,
    },
    /// The unit after the number is not known.
    #[error("{text:?} has no known unit; use one of {units}")]
    Unit {
        /// What stood in the configuration.
        text: String,
        /// The units that are known.
        units: &'static str,
    },
    /// The value does not fit into 64 bits of the smallest unit.
    #[error("{text:?} is too large")]
    Range {
        /// What stood in the configuration.
        text: String,
    },
}

const DURATION_UNITS: [(&str, u64); 8] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// A span of time in the configuration: one or more numbers with units, as `500ms` or `1m30s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(std::time::Duration);

impl Duration {
    /// A span of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(std::time::Duration::from_millis(millis))
    }

    /// A span of whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(std::time::Duration::from_secs(secs))
    }

    /// The same span as the standard library's type.
    pub const fn get(self) -> std::time::Duration {
        self.0
    }
}

impl From<std::time::Duration> for Duration {
    fn from(span: std::time::Duration) -> Self {
        Self(span)
    }
}

impl From<Duration> for std::time::Duration {
    fn from(span: Duration) -> Self {
        span.0
    }
}

impl FromStr for Duration {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let units = "ns, us, ms, s, m, h, d";
        let nanos = parse(text, &DURATION_UNITS, units, "500ms or 1m30s")?;
        Ok(Self(std::time::Duration::from_nanos(nanos)))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        write_largest(f, nanos, &DURATION_UNITS, "0s")
    }
}

/// A number of bytes in the configuration: `64MiB`, `10GiB`, `500kB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Size(u64);

impl Size {
    /// A size of so many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A size of so many KiB (1024 bytes).
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib << 10)
    }

    /// A size of so many MiB (1024 KiB).
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// A size of so many GiB (1024 MiB).
    pub const fn from_gib(gib: u64) -> Self {
        Self(gib << 30)
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The size in bytes as a length in memory; the largest length where it does not fit.
    pub fn len(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Whether the size is zero.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let units = "B, kB, KiB, MB, MiB, GB, GiB, TB, TiB";
        parse(text, &SIZE_UNITS, units, "64MiB").map(Self)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_largest(f, self.0, &SIZE_UNITS, "0B")
    }
}

/// The sum of `number unit` pairs in units of one; a fraction is cut to the smallest unit.
fn parse(
    text: &str,
    known: &[(&str, u64)],
    units: &'static str,
    example: &'static str,
) -> Result<u64, UnitError> {
    let written = || text.to_owned();
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(0);
    }
    let mut total = 0_u64;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let unit_len = tail.find(|c: char| c.is_ascii_digit() || c == ' ').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        if number.is_empty() {
            return Err(UnitError::Number { text: written(), example });
        }
        let Some((_, scale)) = known.iter().find(|(name, _)| *name == unit) else {
            return Err(UnitError::Unit { text: written(), units });
        };
        let value = scaled(number, *scale).ok_or_else(|| {
            if number.matches('.').count() > 1 || number.starts_with('.') {
                UnitError::Number { text: written(), example }
            } else {
                UnitError::Range { text: written() }
            }
        })?;
        total = total.checked_add(value).ok_or_else(|| UnitError::Range { text: written() })?;
        rest = tail.trim_start();
        if rest.is_empty() {
            return Ok(total);
        }
    }
}

/// `number` times `scale`, with up to nine digits after the point.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().ok()?;
    let mut value = u128::from(whole) * u128::from(scale);
    if !fraction.is_empty() {
        if fraction.len() > 9 {
            return None;
        }
        let digits: u64 = fraction.parse().ok()?;
        let power = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
        value += u128::from(digits) * u128::from(scale) / power;
    }
    u64::try_from(value).ok()
}

/// Writes `value` in the largest unit that divides it, so that it reads back as the same value.
fn write_largest(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    known: &[(&str, u64)],
    zero: &str,
) -> fmt::Result {
    if value == 0 {
        return f.write_str(zero);
    }
    let fitting = known.iter().filter(|(_, scale)| value.is_multiple_of(*scale));
    match fitting.max_by_key(|(name, scale)| (*scale, name.is_ascii())) {
        Some((unit, scale)) => write!(f, "{}{unit}", value / scale),
        None => write!(f, "{value}"),
    }
}

macro_rules! as_text {
    ($name:ident, $title:literal, $pattern:literal, $about:literal) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $title.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern, "description": $about })
            }
        }
    };
}

as_text!(
    Duration,
    "Duration",
    r"^(0|([0-9.]+(ns|us|µs|ms|s|m|h|d) ?)+)$",
    "A duration, as \"500ms\" or \"1m30s\"."
);
as_text!(
    Size,
    "Size",
    r"^(0|([0-9.]+(B|kB|KiB|MB|MiB|GB|GiB|TB|TiB) ?)+)$",
    "A size in bytes, as \"64MiB\" or \"10GiB\"."
);

#[cfg(test)]
mod tests {
    use super::{Duration, Size, UnitError};
    use proptest::prelude::{any, proptest};

    #[test]
    fn reads_what_an_operator_writes() {
        for (text, millis) in
            [("500ms", 500), ("1m30s", 90_000), ("1.5s", 1_500), ("0", 0), ("1h 1ms", 3_600_001)]
        {
            assert_eq!(text.parse(), Ok(Duration::from_millis(millis)), "{text}");
        }
        for (text, bytes) in [("10GiB", 10 << 30), ("1.5KiB", 1536), ("25MB", 25_000_000)] {
            assert_eq!(text.parse(), Ok(Size::from_bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn refuses_what_could_mean_two_things() {
        for text in ["10", "", "ms", "1 0s", "-1s", "1x", "1.2.3s", ".5s", "5s."] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
        assert!(matches!("5gb".parse::<Size>(), Err(UnitError::Unit { .. })));
        assert!(matches!("99999999TiB".parse::<Size>(), Err(UnitError::Range { .. })));
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(value in any::<u64>()) {
            let span = Duration::from(std::time::Duration::from_nanos(value));
            assert_eq!(span.to_string().parse(), Ok(span));
            let size = Size::from_bytes(value);
            assert_eq!(size.to_string().parse(), Ok(size));
        }

        #[test]
        fn no_text_panics(text in ".{0,12}") {
            let _ = text.parse::<Duration>();
            let _ = text.parse::<Size>();
        }
    }
}
