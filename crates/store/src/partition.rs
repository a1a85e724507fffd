//! Where the partitions of a policy begin.

/// Days from the first of January of the year 1, where Go's clock begins, to 1970.
const DAYS_TO_1970: i128 = 719_162;
const DAY_NS: i128 = 86_400_000_000_000;

/// Partitions of one length, cut as InfluxDB cuts its shard groups: at multiples of the length
/// since the year 1 (`time.Truncate`), so that those of a week begin on Mondays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partitions {
    length: i64,
    /// What 1970 is past the start of its partition.
    offset: i64,
}

impl Partitions {
    pub(crate) fn new(length_ns: i64) -> Self {
        let length = length_ns.max(1);
        // The remainder is less than the length.
        let offset = (DAYS_TO_1970 * DAY_NS).rem_euclid(i128::from(length)) as i64;
        Self { length, offset }
    }

    /// The start of the partition of `time`; the first one there is begins with time itself.
    #[inline]
    pub(crate) fn start(self, time: i64) -> i64 {
        let within = time.rem_euclid(self.length);
        let within = if within >= self.length - self.offset {
            within - (self.length - self.offset)
        } else {
            within + self.offset
        };
        time.saturating_sub(within)
    }

    /// The last time of the partition that begins at `start`.
    pub(crate) fn last(self, start: i64) -> i64 {
        start.saturating_add(self.length - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::Partitions;

    const DAY: i64 = 86_400_000_000_000;

    #[test]
    fn weeks_begin_on_mondays() {
        let weeks = Partitions::new(7 * DAY);
        // The fifth of January 1970 was a Monday.
        assert_eq!(weeks.start(0), -3 * DAY);
        assert_eq!(weeks.start(4 * DAY), 4 * DAY);
        assert_eq!(weeks.start(4 * DAY - 1), -3 * DAY);
        assert_eq!(weeks.last(4 * DAY), 11 * DAY - 1);
        let days = Partitions::new(DAY);
        assert_eq!(days.start(DAY + 5), DAY);
        assert_eq!(days.start(-1), -DAY);
        assert_eq!(days.start(i64::MIN), i64::MIN);
    }
}
