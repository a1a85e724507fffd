//! Times of the day, for a person.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A time in seconds since 1970, as the clock on the wall has it.
pub fn local(at: f64) -> String {
    let moment = Timestamp::from_second(at as i64).map(|at| at.to_zoned(TimeZone::system()));
    moment.map_or_else(|_| "?".to_owned(), |of| of.strftime("%Y-%m-%d %H:%M:%S").to_string())
}
