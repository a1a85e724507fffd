//! Times as InfluxQL writes them.

const NS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// Days in 400 years, after which the calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;
/// From 1 March of year 0 to 1 January 1970.
const EPOCH_DAYS: i64 = 719_468;

/// Nanoseconds since the epoch as `2024-02-29T12:34:56.000000789Z`.
pub(super) fn rfc3339(time_ns: i64) -> String {
    let seconds = time_ns.div_euclid(NS_PER_SECOND);
    let (year, month, day) = civil(seconds.div_euclid(SECONDS_PER_DAY));
    let second = seconds.rem_euclid(SECONDS_PER_DAY);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:09}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        time_ns.rem_euclid(NS_PER_SECOND)
    )
}

/// The same without the zeros at the end of its fraction, as Go's `RFC3339Nano` writes it.
pub fn rfc3339_short(time_ns: i64) -> String {
    let long = rfc3339(time_ns);
    let short = long.trim_end_matches('Z').trim_end_matches('0');
    format!("{}Z", short.strip_suffix('.').unwrap_or(short))
}

/// Year, month and day of the Gregorian calendar, from days since the epoch.
///
/// Years are counted from March, so that the leap day comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_around_leap_days_and_the_ends_of_time() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(rfc3339(951_782_400_000_000_000), "2000-02-29T00:00:00.000000000Z");
        assert_eq!(rfc3339(1_709_210_096_000_000_789), "2024-02-29T12:34:56.000000789Z");
        assert_eq!(rfc3339_short(1_000_000_000), "1970-01-01T00:00:01Z");
        assert_eq!(rfc3339_short(1_200_000_000), "1970-01-01T00:00:01.2Z");
        assert_eq!(rfc3339_short(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(i64::MAX), "2262-04-11T23:47:16.854775807Z");
        assert_eq!(rfc3339(i64::MIN), "1677-09-21T00:12:43.145224192Z");
    }
}
