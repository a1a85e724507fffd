//! A run that several injectors share: which part this one has, and when all of them begin.

use std::time::{Duration, SystemTime};

use clap::Args;
use meter::part::RunPart;
use serde::{Deserialize, Deserializer};

use super::values;

/// The options of a run that several injectors share.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SharedRun {
    /// Sends part N of M parts of the run; the same load with the other parts runs on other
    /// machines, and `weir load merge` makes one of their results. Rates and connections are those
    /// of the whole run
    #[arg(long, value_name = "N/M", requires_all = ["run_id", "start_at"])]
    #[arg(conflicts_with = "find_limit")]
    #[serde(default, deserialize_with = "values::text_if_any")]
    pub part: Option<RunPart>,
    /// What all parts of a run are known by
    #[arg(long, value_name = "ID", value_parser = run_id)]
    #[serde(default, deserialize_with = "run_name")]
    pub run_id: Option<String>,
    /// When what is measured begins, a whole second, as 2026-11-28T12:00:00Z: the warm-up is over
    /// by then
    #[arg(long, value_name = "TIME", value_parser = start)]
    #[arg(conflicts_with = "find_limit")]
    #[serde(default, deserialize_with = "start_time")]
    pub start_at: Option<SystemTime>,
}

/// Characters of a run's id.
const ID_MAX: usize = 64;

impl SharedRun {
    /// The part that is sent here.
    pub fn part(&self) -> RunPart {
        self.part.unwrap_or_default()
    }

    /// A number that all parts of the run have, and no other run; nothing where it is not shared.
    pub fn number(&self) -> Option<u64> {
        let id = self.run_id.as_ref().filter(|_| self.part.is_some())?;
        let start = self.start_at?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let start = start.as_secs().to_le_bytes();
        // FNV-1a, the same on each machine; 63 bits fit in a bigint.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Some(id.bytes().chain(start).fold(0xcbf2_9ce4_8422_2325, mix) >> 1)
    }
}

fn run_name<'de, D: Deserializer<'de>>(field: D) -> Result<Option<String>, D::Error> {
    values::one(field, run_id).map(Some)
}

fn start_time<'de, D: Deserializer<'de>>(field: D) -> Result<Option<SystemTime>, D::Error> {
    values::one(field, start).map(Some)
}

fn run_id(text: &str) -> Result<String, String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    match (1..=ID_MAX).contains(&text.len()) && text.chars().all(is_good) {
        true => Ok(text.to_owned()),
        false => Err(format!("an id has up to {ID_MAX} letters, digits, and - _ . :")),
    }
}

fn start(text: &str) -> Result<SystemTime, String> {
    let wrong = || format!("{text:?} is not a whole second: write it as 2026-11-28T12:00:00Z");
    let at: jiff::Timestamp = text.parse().map_err(|_| wrong())?;
    let seconds = u64::try_from(at.as_second()).ok().filter(|_| at.subsec_nanosecond() == 0);
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.ok_or_else(wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_a_whole_second_of_any_zone() {
        let at =
            |text: &str| start(text).map(|at| at.duration_since(SystemTime::UNIX_EPOCH).unwrap());
        assert_eq!(at("2023-11-14T22:13:20Z").unwrap().as_secs(), 1_700_000_000);
        assert_eq!(at("2023-11-14T23:13:20+01:00").unwrap().as_secs(), 1_700_000_000);
        for wrong in ["soon", "2023-11-14T22:13:20.5Z", "1950-01-01T00:00:00Z", "22:13:20"] {
            assert!(start(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_id_is_short_and_makes_a_number_that_all_parts_have() {
        assert!(run_id("night-1.a:b_2").is_ok());
        for wrong in ["", "a b", "a/b", &"x".repeat(65)] {
            assert!(run_id(wrong).is_err(), "{wrong}");
        }
        let of = |id: &str, part: Option<&str>, second: &str| SharedRun {
            part: part.map(|part| part.parse().unwrap()),
            run_id: Some(id.to_owned()),
            start_at: start(&format!("2023-11-14T22:13:{second}Z")).ok(),
        };
        let number = |id, part| of(id, part, "20").number();
        assert_eq!(number("a", None), None);
        assert_eq!(number("a", Some("1/2")), number("a", Some("2/2")));
        assert_ne!(number("a", Some("1/2")), number("b", Some("1/2")));
        assert_ne!(number("a", Some("1/2")), of("a", Some("1/2"), "21").number(), "another night");
        assert!(number("a", Some("1/2")).is_some_and(|number| i64::try_from(number).is_ok()));
    }
}
