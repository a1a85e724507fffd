//! The unit of the timestamps in a write.

/// The unit of the timestamps of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// `n`, `ns`, or nothing said.
    #[default]
    Nanosecond,
    /// `u`; in the 2.x API `us`.
    Microsecond,
    /// `ms`.
    Millisecond,
    /// `s`.
    Second,
    /// `m`, in the 1.x API only.
    Minute,
    /// `h`, in the 1.x API only.
    Hour,
}

impl Precision {
    /// The `precision` parameter of `/write`; `None` is a 400 (`handler.go`, `serveWriteV1`).
    pub fn parse_v1(text: &str) -> Option<Self> {
        Some(match text {
            "" | "n" | "ns" => Self::Nanosecond,
            "u" => Self::Microsecond,
            "ms" => Self::Millisecond,
            "s" => Self::Second,
            "m" => Self::Minute,
            "h" => Self::Hour,
            _ => return None,
        })
    }

    /// The `precision` parameter of `/api/v2/write`; `None` is a 400 (`handler.go`,
    /// `serveWriteV2`).
    pub fn parse_v2(text: &str) -> Option<Self> {
        Some(match text {
            "" | "ns" => Self::Nanosecond,
            "us" => Self::Microsecond,
            "ms" => Self::Millisecond,
            "s" => Self::Second,
            _ => return None,
        })
    }

    /// How many nanoseconds one unit has.
    pub const fn nanoseconds(self) -> i64 {
        match self {
            Self::Nanosecond => 1,
            Self::Microsecond => 1_000,
            Self::Millisecond => 1_000_000,
            Self::Second => 1_000_000_000,
            Self::Minute => 60_000_000_000,
            Self::Hour => 3_600_000_000_000,
        }
    }
}
