//! What decides which of the sets of a group has a point: a hash of some of what names it.

use std::borrow::Cow;
use std::fmt;

use twox_hash::XxHash64;
use wire::line::{measurement, tag_pairs, unescape_name, unescape_tag};

/// The parts of a point that are hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitBy {
    Measurement,
    Series,
    /// The series and the time.
    Point,
    /// The measurement and these tags, in the order of their keys.
    Tags(Vec<Box<[u8]>>),
}

impl fmt::Display for SplitBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measurement => f.write_str("measurement"),
            Self::Series => f.write_str("series"),
            Self::Point => f.write_str("series and time"),
            Self::Tags(keys) => {
                let keys: Vec<_> = keys.iter().map(|key| String::from_utf8_lossy(key)).collect();
                write!(f, "measurement and {}", keys.join(", "))
            }
        }
    }
}

/// A hash in the making: XXH64 with seed 0 of parts, each after its length (u32, little-endian).
#[derive(Debug, Default)]
pub struct SplitHash {
    bytes: Vec<u8>,
}

impl SplitHash {
    fn begin(&mut self, measurement: &[u8]) {
        self.bytes.clear();
        self.part(measurement);
    }

    fn part(&mut self, part: &[u8]) {
        // No part is longer than a body.
        let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(part);
    }

    fn end(&self) -> u64 {
        XxHash64::oneshot(0, &self.bytes)
    }

    /// The hash of a point: of its measurement, then of key and value of each chosen tag in the
    /// order of their keys, unescaped; an absent tag is an empty one. `series` is as written.
    pub fn of_point(&mut self, split: &SplitBy, series: &[u8], time_ns: i64) -> u64 {
        self.of_series(split, series).of_time(time_ns, &mut self.bytes)
    }

    /// The part of the hash that all points of a series have in common.
    pub fn of_series(&mut self, split: &SplitBy, series: &[u8]) -> SeriesHash {
        self.begin(&unescape_name(measurement(series)));
        match split {
            SplitBy::Measurement => {}
            SplitBy::Series | SplitBy::Point => {
                for (key, value) in &sorted(series) {
                    self.part(key);
                    self.part(value);
                }
            }
            SplitBy::Tags(keys) => {
                for key in keys {
                    let value = tag_pairs(series).find(|(name, _)| *unescape_tag(name) == **key);
                    self.part(key);
                    self.part(&value.map_or(Cow::default(), |(_, value)| unescape_tag(value)));
                }
            }
        }
        match split {
            SplitBy::Point => SeriesHash::Begun(self.bytes.as_slice().into()),
            _ => SeriesHash::Whole(self.end()),
        }
    }

    /// The hash that all points of a measurement have whose tags have the values that `tag` gives;
    /// `None` where that depends on more.
    pub fn of_query<'a>(
        &mut self,
        split: &SplitBy,
        measurement: &str,
        tag: impl Fn(&[u8]) -> Option<&'a str>,
    ) -> Option<u64> {
        self.begin(measurement.as_bytes());
        match split {
            SplitBy::Measurement => {}
            SplitBy::Series | SplitBy::Point => return None,
            SplitBy::Tags(keys) => {
                for key in keys {
                    self.part(key);
                    self.part(tag(key)?.as_bytes());
                }
            }
        }
        Some(self.end())
    }
}

/// What the hashes of a series' points have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeriesHash {
    /// They have one hash.
    Whole(u64),
    /// What is hashed before the time.
    Begun(Box<[u8]>),
}

impl SeriesHash {
    /// The hash of the point of this time, made in `room`.
    pub fn of_time(&self, time_ns: i64, room: &mut Vec<u8>) -> u64 {
        match self {
            Self::Whole(hash) => *hash,
            Self::Begun(begun) => {
                room.clear();
                room.extend_from_slice(begun);
                room.extend_from_slice(&time_ns.to_le_bytes());
                XxHash64::oneshot(0, room)
            }
        }
    }
}

type Pair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The tags of a series in the order of their keys.
fn sorted(series: &[u8]) -> Vec<Pair<'_>> {
    let pairs = tag_pairs(series).map(|(key, value)| (unescape_tag(key), unescape_tag(value)));
    let mut pairs: Vec<Pair<'_>> = pairs.collect();
    pairs.sort_unstable();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(split: &SplitBy, series: &str, time_ns: i64) -> u64 {
        SplitHash::default().of_point(split, series.as_bytes(), time_ns)
    }

    fn tags(keys: &[&str]) -> SplitBy {
        SplitBy::Tags(keys.iter().map(|key| key.as_bytes().into()).collect())
    }

    /// Whatever else changes: a point that has its place keeps it.
    #[test]
    fn hashes_are_the_same_for_ever() {
        for (split, series, time_ns, pinned) in [
            (SplitBy::Measurement, "cpu,host=a", 1, 0xc3b2_e0b8_bf45_3517),
            (SplitBy::Series, "cpu,host=a,region=b", 1, 0x4e7e_3808_b2fa_a366),
            (SplitBy::Point, "cpu,host=a,region=b", 1, 0xce5e_f778_435b_7354),
            (tags(&["host"]), "cpu,host=a,region=b", 1, 0xf004_12af_bee0_9c42),
            (tags(&["host", "rack"]), "cpu,host=a,region=b", 1, 0x5336_a12c_88c1_f32c),
        ] {
            assert_eq!(hash(&split, series, time_ns), pinned, "{split:?} {series}");
        }
    }

    #[test]
    fn a_point_has_one_hash_however_it_is_written() {
        for split in [SplitBy::Series, SplitBy::Point, tags(&["a b", "c"])] {
            let wanted = hash(&split, r"m\ 1,a\ b=x\,y,c=z", 5);
            assert_eq!(hash(&split, r"m\ 1,c=z,a\ b=x\,y", 5), wanted, "{split:?}");
            assert_ne!(hash(&split, r"m\ 1,a\ b=x\,y,c=y", 5), wanted, "{split:?}");
            let at_another_time = hash(&split, r"m\ 1,a\ b=x\,y,c=z", 6);
            assert_eq!(at_another_time != wanted, split == SplitBy::Point, "{split:?}");
        }
        let by_host = tags(&["host"]);
        assert_eq!(hash(&by_host, "m,host=a,x=1", 0), hash(&by_host, "m,host=a,x=2", 0));
        assert_ne!(hash(&by_host, "m,host=a", 0), hash(&by_host, "n,host=a", 0));
    }

    #[test]
    fn a_query_that_names_all_that_counts_has_its_points_hash() {
        let mut of = SplitHash::default();
        let known = |key: &[u8]| match key {
            b"host" => Some("a,b"),
            b"rack" => Some(""),
            _ => None,
        };
        let (one, two) = (tags(&["host"]), tags(&["host", "rack"]));
        assert_eq!(of.of_query(&one, "m", known), Some(hash(&one, r"m,host=a\,b,x=1", 0)));
        assert_eq!(of.of_query(&two, "m", known), Some(hash(&two, r"m,host=a\,b,x=1", 0)));
        assert_eq!(of.of_query(&tags(&["host", "x"]), "m", known), None);
        assert_eq!(of.of_query(&SplitBy::Series, "m", known), None);
        let all = hash(&SplitBy::Measurement, "m,x=1", 0);
        assert_eq!(of.of_query(&SplitBy::Measurement, "m", known), Some(all));
    }
}
