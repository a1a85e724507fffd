//! Which points a cluster does not take, since they could not be found again.

use wire::line::{Marks, read};

use super::split::SplitBy;
use super::table::Table;

/// The points of a write that are not taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NotTaken {
    /// Their numbers among the lines, from 0.
    pub numbers: Vec<usize>,
    /// Why the first of them is not, in words.
    pub reason: Option<String>,
}

impl Table {
    /// The latest time of points that are taken at `now_ns`: those behind could not be found again.
    pub fn newest_taken_ns(&self, now_ns: i64) -> i64 {
        let now = self.period(now_ns);
        now.map_or(i64::MAX, |(_, now)| now_ns.saturating_add(now.future_max_ns))
    }

    /// Whether it refuses points for the names of their fields.
    pub fn looks_at_fields(&self) -> bool {
        let mut rules = self.periods.iter().flat_map(|period| &period.rules);
        rules.any(|rule| matches!(rule.by, SplitBy::Tags(_)))
    }

    /// The points of a write to `db` that are not taken at `now_ns`: those too far ahead of the
    /// clock, and those with a field of the name of a tag that they are shared out by.
    pub fn not_taken(&self, db: &str, lines: &[u8], marks: &Marks, now_ns: i64) -> NotTaken {
        let mut found = NotTaken::default();
        let (newest, by_tags) = (self.newest_taken_ns(now_ns), self.looks_at_fields());
        let mut start = 0;
        for (number, mark) in marks.iter().enumerate() {
            let line = lines.get(start..mark.end).unwrap_or_default();
            start = mark.end;
            let reason = if mark.time_ns > newest {
                Some("points beyond influx.placement's future-max".to_owned())
            } else if by_tags {
                self.field_of_a_tags_name(db, line)
            } else {
                None
            };
            if let Some(reason) = reason {
                found.reason.get_or_insert(reason);
                found.numbers.push(number);
            }
        }
        found
    }

    fn field_of_a_tags_name(&self, db: &str, line: &[u8]) -> Option<String> {
        let point = read(line)?;
        let name = wire::line::unescape_name(wire::line::measurement(point.series));
        let (_, period) = self.period(point.time_ns)?;
        let rule = period.rule(db, &name)?;
        let SplitBy::Tags(keys) = &rule.by else { return None };
        point.fields.into_iter().find_map(|field| {
            let field = wire::line::unescape_name(field.name);
            let key = keys.iter().find(|key| ***key == *field)?;
            let (key, name) = (String::from_utf8_lossy(key), String::from_utf8_lossy(&name));
            Some(format!(
                "field {key:?} on measurement {name:?} has the name of a tag that points are \
                 shared out by"
            ))
        })
    }
}
