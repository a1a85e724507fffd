//! The time zones of `tz()`.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::refusal::QueryError;

/// A time zone by its IANA name, from the database that is built in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone of a name. As in Go, the empty name is UTC.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn named(name: &str) -> Result<Self, QueryError> {
        if name.is_empty() {
            return Ok(Self(TimeZone::UTC));
        }
        // Unlike the database's own look-up, Go's tells capitals from small letters.
        let exact = |zone: &TimeZone| zone.iana_name() == Some(name);
        let zone = TimeZone::get(name).ok().filter(exact);
        zone.map(Self).ok_or_else(|| QueryError(format!("unable to find time zone {name}")))
    }

    /// Nanoseconds that this zone's clocks are ahead of UTC at a time.
    pub fn offset_ns(&self, time: i64) -> i64 {
        let at = Timestamp::from_nanosecond(i128::from(time)).unwrap_or_default();
        i64::from(self.0.to_offset(at).seconds()) * 1_000_000_000
    }

    /// The zone itself, to show times in.
    pub fn zone(&self) -> &TimeZone {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_and_unknown_ones_worded_as_influxdb_does() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        assert_eq!(berlin.offset_ns(1_700_000_000_000_000_000), 3_600_000_000_000);
        assert_eq!(berlin.offset_ns(1_690_000_000_000_000_000), 7_200_000_000_000);
        assert_eq!(Zone::named("").unwrap().offset_ns(0), 0);
        assert!(Zone::named("UTC").is_ok() && Zone::named("America/St_Johns").is_ok());
        for unknown in ["Mars/Base", "america/st_johns"] {
            let error = Zone::named(unknown).unwrap_err();
            assert_eq!(error.to_string(), format!("unable to find time zone {unknown}"));
        }
    }

    #[test]
    fn the_ends_of_time_have_an_offset() {
        let zone = Zone::named("America/New_York").unwrap();
        zone.offset_ns(i64::MIN);
        zone.offset_ns(i64::MAX);
    }
}
