//! Compares the members of each set, slice by slice of time: by how many values each field has, or
//! by all that they have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use wire::influxql::{quote_identifier, rfc3339_short};

use super::super::read::WrittenTable;
use super::failure::ClusterError;
use super::server::{MemberServer, servers};
use crate::settings::Settings;

/// How members are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verification {
    /// The length of a slice.
    pub slice: Duration,
    /// Whether all that they have is compared, and not its number alone.
    pub is_deep: bool,
}

/// A slice of a measurement that the members of a set have differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub set: String,
    /// Database, policy and measurement.
    pub place: String,
    /// Where the slice begins, in nanoseconds since 1970.
    pub from_ns: i64,
    /// What each member has of it, by its name.
    pub members: BTreeMap<String, String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { set, place, from_ns, members } = self;
        write!(f, "set {set}, {place} from {}: ", rfc3339_short(*from_ns))?;
        for (number, (name, has)) in members.iter().enumerate() {
            let between = if number == 0 { "" } else { ", " };
            write!(f, "{between}{name} has {has}")?;
        }
        Ok(())
    }
}

/// What a member has of a measurement: by slice, how many values of each field.
type SliceCounts = BTreeMap<i64, BTreeMap<String, u64>>;

/// Compares the members of each set; `tell` is told of each slice that differs. Gives how many
/// slices were compared.
///
/// # Errors
/// When a member does not answer.
pub async fn verify(
    settings: &Settings,
    wanted: Verification,
    tell: &mut dyn FnMut(&Difference),
) -> Result<u64, ClusterError> {
    let written = WrittenTable::of(settings)?.ok_or_else(WrittenTable::is_missing)?;
    let backends = settings.backends()?;
    written.table(&backends)?;
    let servers = servers(&written, &backends)?;
    let mut compared = 0;
    for set in written.sets.iter().filter(|set| set.members.len() > 1) {
        let of_set = servers.iter().filter(|server| set.members.iter().any(|m| m == server.name()));
        let of_set: Vec<&MemberServer> = of_set.collect();
        for place in places(&of_set).await? {
            let comparison = Comparison { set: &set.name, place: &place, servers: &of_set, wanted };
            compared += comparison.run(tell).await?;
        }
    }
    Ok(compared)
}

/// Each database, policy and measurement that a member of a set has.
async fn places(servers: &[&MemberServer]) -> Result<BTreeSet<String>, ClusterError> {
    let mut places = BTreeSet::new();
    for server in servers {
        for (db, policies) in &server.databases().await?.databases {
            let db = quote_identifier(db);
            let shown = server.ask(&format!("SHOW MEASUREMENTS ON {db}")).await?;
            let rows = shown.pointer("/results/0/series/0/values").and_then(Value::as_array);
            let names = rows.into_iter().flatten().filter_map(|row| row.get(0)?.as_str());
            for name in names.map(quote_identifier) {
                let policies = policies.policies.keys().map(|policy| quote_identifier(policy));
                places.extend(policies.map(|policy| format!("{db}.{policy}.{name}")));
            }
        }
    }
    Ok(places)
}

/// A measurement on the members of one set.
struct Comparison<'a> {
    set: &'a str,
    place: &'a str,
    servers: &'a [&'a MemberServer],
    wanted: Verification,
}

impl Comparison<'_> {
    async fn run(&self, tell: &mut dyn FnMut(&Difference)) -> Result<u64, ClusterError> {
        let mut counts = BTreeMap::new();
        for server in self.servers {
            counts.insert(server.name(), self.counts(server).await?);
        }
        let slices: BTreeSet<i64> = counts.values().flat_map(|of| of.keys().copied()).collect();
        for from_ns in &slices {
            let of_slice = counts.iter().map(|(name, of)| (*name, of.get(from_ns)));
            let of_slice: Vec<_> = of_slice.collect();
            let first = of_slice.first().and_then(|(_, of)| *of);
            let is_equal = of_slice.iter().all(|(_, of)| *of == first);
            let members = match (is_equal, self.wanted.is_deep) {
                (true, false) => continue,
                (true, true) => match self.contents(*from_ns).await? {
                    None => continue,
                    Some(members) => members,
                },
                (false, _) => {
                    let told = of_slice.iter().map(|(name, of)| (name.to_string(), in_words(*of)));
                    told.collect()
                }
            };
            let (set, place) = (self.set.to_owned(), self.place.to_owned());
            tell(&Difference { set, place, from_ns: *from_ns, members });
        }
        Ok(slices.len() as u64)
    }

    async fn counts(&self, server: &MemberServer) -> Result<SliceCounts, ClusterError> {
        let slice = self.wanted.slice.as_secs().max(1);
        let text =
            format!("SELECT count(*) FROM {} GROUP BY time({slice}s) fill(none)", self.place);
        let answer = server.ask(&text).await?;
        let series = answer.pointer("/results/0/series/0").cloned().unwrap_or_default();
        read_counts(&series).ok_or_else(|| server.failed("its answer to count(*) is no table"))
    }

    /// What members have of a slice, where that differs: a number that stands for all of it.
    async fn contents(
        &self,
        from_ns: i64,
    ) -> Result<Option<BTreeMap<String, String>>, ClusterError> {
        let slice_ns = i64::try_from(self.wanted.slice.as_nanos()).unwrap_or(i64::MAX);
        let to_ns = from_ns.saturating_add(slice_ns);
        let text = format!(
            "SELECT * FROM {} WHERE time >= {from_ns} AND time < {to_ns} GROUP BY *",
            self.place
        );
        let mut members = BTreeMap::new();
        for server in self.servers {
            let answer = server.ask(&text).await.map_err(|_| {
                server.failed("a slice is too large to be read at once: try a shorter --slice")
            })?;
            let series = answer.pointer("/results/0/series").cloned().unwrap_or_default();
            let sum = twox_hash::XxHash64::oneshot(0, series.to_string().as_bytes());
            members.insert(server.name().to_owned(), format!("the checksum {sum:016x}"));
        }
        let sums: BTreeSet<&String> = members.values().collect();
        Ok(if sums.len() > 1 { Some(members) } else { None })
    }
}

/// The counts in a series of `count(*)`; `None` where it is none.
fn read_counts(series: &Value) -> Option<SliceCounts> {
    if series.is_null() {
        return Some(SliceCounts::new());
    }
    let columns = series.get("columns")?.as_array()?;
    let row = |row: &Value| {
        let values = row.as_array()?;
        let time = values.first()?.as_i64()?;
        let fields = columns.iter().zip(values).skip(1).filter_map(|(column, value)| {
            let count = value.as_u64().filter(|count| *count > 0)?;
            let name = column.as_str()?;
            Some((name.strip_prefix("count_").unwrap_or(name).to_owned(), count))
        });
        Some((time, fields.collect()))
    };
    series.get("values")?.as_array()?.iter().map(row).collect()
}

pub fn in_words(counts: Option<&BTreeMap<String, u64>>) -> String {
    let Some(counts) = counts.filter(|counts| !counts.is_empty()) else {
        return "nothing".to_owned();
    };
    let of_each: Vec<String> =
        counts.iter().map(|(field, count)| format!("{count} of {field}")).collect();
    of_each.join(" and ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_a_slice_lacks_do_not_count() {
        let series = json!({
            "columns": ["time", "count_a", "count_b"],
            "values": [[0, 2, 0], [10, 1, 3]],
        });
        let counts = read_counts(&series).unwrap();
        assert_eq!(in_words(counts.get(&0)), "2 of a");
        assert_eq!(in_words(counts.get(&10)), "1 of a and 3 of b");
        assert_eq!(in_words(counts.get(&20)), "nothing");
        assert_eq!(in_words(Some(&BTreeMap::new())), "nothing");
        assert_eq!(read_counts(&Value::Null), Some(SliceCounts::new()));
        assert_eq!(read_counts(&json!({ "columns": ["time"] })), None);
    }

    #[test]
    fn a_difference_names_the_slice_and_what_each_member_has() {
        let members = [("a", "2 of v"), ("b", "nothing")];
        let members = members.map(|(name, has)| (name.to_owned(), has.to_owned()));
        let (set, place) = ("s1".to_owned(), "db.autogen.m".to_owned());
        let difference = Difference { set, place, from_ns: 0, members: members.into() };
        let words = "set s1, db.autogen.m from 1970-01-01T00:00:00Z: a has 2 of v, b has nothing";
        assert_eq!(difference.to_string(), words);
    }
}
