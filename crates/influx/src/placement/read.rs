//! The table as an operator writes it, checked; and which tables may follow which.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use super::split::SplitBy;
use super::table::{Period, Rule, Set, SetNumber, Table};
use crate::settings::{
    BackendSettings, PlacementSettings, RuleSettings, SetSettings, Settings, SettingsError,
    SplitSetting, SplitWord,
};

/// How much later than `future-max` a period that is added begins at least: so many times the
/// time in which gateways read tables.
const AHEAD_INTERVALS: u32 = 6;

/// All that decides where points lie, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenTable {
    pub cluster: String,
    pub sets: Vec<SetSettings>,
    pub placement: Vec<PlacementSettings>,
}

/// What is wrong with a key.
fn wrong(at: impl Into<String>, what: impl Into<String>) -> SettingsError {
    SettingsError { at: at.into(), what: what.into() }
}

impl WrittenTable {
    /// The table of these settings; `None` where there is no cluster.
    ///
    /// # Errors
    /// When a part of it is there without the others.
    pub fn of(settings: &Settings) -> Result<Option<Self>, SettingsError> {
        let Settings { cluster, set, placement, .. } = settings;
        match (cluster, set.is_empty(), placement.is_empty()) {
            (None, true, true) => Ok(None),
            (None, ..) => Err(wrong("cluster", "needs a name where there are sets")),
            (Some(of), ..) if of.name.is_empty() => Err(wrong("cluster", "needs a name")),
            (Some(_), true, _) => {
                Err(wrong("set", "is missing: the cluster has no [[influx.set]]"))
            }
            (Some(_), _, true) => {
                let what = "is missing: [[influx.placement]] says which sets have which points";
                Err(wrong("placement", what))
            }
            (Some(of), ..) => Ok(Some(Self {
                cluster: of.name.clone(),
                sets: set.clone(),
                placement: placement.clone(),
            })),
        }
    }

    /// The table, each part of it checked by itself.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub fn table(&self, backends: &[BackendSettings]) -> Result<Table, SettingsError> {
        if let Some(own) = backends.iter().find(|backend| backend.server().is_none()) {
            let what = "is embedded; a cluster's backends are servers";
            return Err(wrong(format!("backend {:?}", own.name()), what));
        }
        let sets = self.checked_sets(backends)?;
        let mut periods: Vec<Period> = Vec::new();
        for of in &self.placement {
            let before = periods.last().map(|period| period.from_ns);
            periods.push(period(of, &sets, before)?);
        }
        Ok(Table { sets, periods, waits_from_ns: None, unknown_from_ns: None })
    }

    fn checked_sets(&self, backends: &[BackendSettings]) -> Result<Vec<Set>, SettingsError> {
        let (mut names, mut taken) = (HashSet::new(), HashSet::new());
        for set in &self.sets {
            let at = format!("set {:?}", set.name);
            if set.name.is_empty() {
                return Err(wrong(at, "needs a name"));
            }
            if !names.insert(&set.name) {
                return Err(wrong(at, "is there twice"));
            }
            if set.members.is_empty() {
                return Err(wrong(at, "has no members"));
            }
            for member in &set.members {
                let Some(backend) = backends.iter().find(|backend| backend.name() == member) else {
                    return Err(wrong(
                        at,
                        format!("has no [[influx.backend]] of the name {member:?}"),
                    ));
                };
                if backend.server().is_some_and(|server| !server.kind.has_catalogue()) {
                    return Err(wrong(at, format!("{member:?} is not of the kind \"influxdb\"")));
                }
                if !taken.insert(member) {
                    return Err(wrong(at, format!("{member:?} is in a set already")));
                }
            }
        }
        let set = |of: &SetSettings| Set { name: of.name.clone(), members: of.members.clone() };
        Ok(self.sets.iter().map(set).collect())
    }

    /// Checks what settings say of a cluster, where they say anything, without regard to what is in
    /// force.
    ///
    /// # Errors
    /// The first thing found wrong; what is wrong with a backend is not.
    pub fn check(settings: &Settings) -> Result<(), SettingsError> {
        match (Self::of(settings)?, settings.backends()) {
            (Some(written), Ok(backends)) => written.table(&backends).map(drop),
            _ => Ok(()),
        }
    }

    /// Whether this table keeps all that `before` says, so that no point lies elsewhere than where
    /// it was put. `configured` are the backends of the file.
    ///
    /// # Errors
    /// The first thing that may not change.
    pub fn keeps(&self, before: &Self, configured: &[&str]) -> Result<(), SettingsError> {
        if self.cluster != before.cluster {
            let what = format!("was named {:?}; a cluster keeps its name", before.cluster);
            return Err(wrong("cluster", what));
        }
        let kept = self.placement.iter().zip(&before.placement).take_while(|(new, old)| new == old);
        let kept = kept.count();
        if kept < before.placement.len() {
            let at = format!("placement {}", begin_of(&before.placement[kept]));
            let what =
                "differs from what is in force; a period stays as it is, and others may follow";
            return Err(wrong(at, what));
        }
        let left = configured.iter().find(|name| before.has(name) && !self.has(name));
        if let Some(backend) = left {
            let what =
                "is in no set any more; a member that leaves its set is not a backend either";
            return Err(wrong(format!("backend {backend:?}"), what));
        }
        Ok(())
    }

    /// Whether the periods that come behind the first `kept` begin later than any point that may
    /// have been taken by now.
    ///
    /// # Errors
    /// The first one that does not, with the earliest time that would do.
    pub fn may_be_added(
        &self,
        kept: usize,
        now_ns: i64,
        check_interval: Duration,
    ) -> Result<(), SettingsError> {
        let (before, added) = self.placement.split_at(kept.min(self.placement.len()));
        // Points may lie as far ahead as any period has ever let them.
        let Some(future_max) = before.iter().map(|of| of.future_max.get()).max() else {
            return Ok(());
        };
        let earliest =
            i128::from(now_ns) + (future_max + check_interval * AHEAD_INTERVALS).as_nanos() as i128;
        let earliest = i64::try_from(earliest).unwrap_or(i64::MAX);
        match added.iter().find(|of| begin_ns(of) <= earliest) {
            None => Ok(()),
            Some(of) => {
                let at = wire::influxql::rfc3339_short(earliest);
                let what = format!(
                    "begins too early: there may be points already; from {at} on is late enough"
                );
                Err(wrong(format!("placement {}", begin_of(of)), what))
            }
        }
    }

    /// What is wrong where there is no cluster.
    pub fn is_missing() -> SettingsError {
        wrong("cluster", "is missing: there is no [influx.cluster]")
    }

    /// The table as people read it, a set or a period in each line.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("cluster {}", self.cluster)];
        for set in &self.sets {
            lines.push(format!("set {}: {}", set.name, set.members.join(", ")));
        }
        for of in &self.placement {
            let split = of.split.unwrap_or(of.sets.len());
            let (sets, span) = (of.sets.join(", "), &of.span);
            let begins = begin_of(of);
            lines.push(format!("period {begins}: {sets}; {split} of them share {span}"));
        }
        lines
    }

    /// The names of all members, each once.
    pub fn members(&self) -> impl Iterator<Item = &String> {
        self.sets.iter().flat_map(|set| &set.members)
    }

    /// The same table with its first periods alone.
    pub fn first_periods(&self, count: usize) -> Self {
        let placement = self.placement.iter().take(count).cloned().collect();
        Self { placement, ..self.clone() }
    }

    fn has(&self, backend: &str) -> bool {
        self.members().any(|member| member == backend)
    }
}

/// When a period begins, in nanoseconds since 1970; with time itself where that can't be read.
pub fn begin_ns(of: &PlacementSettings) -> i64 {
    from(of).ok().flatten().unwrap_or(i64::MIN)
}

/// A period as errors call it.
pub fn begin_of(of: &PlacementSettings) -> String {
    of.from.as_ref().map_or_else(|| "without from".to_owned(), |from| format!("from {from:?}"))
}

/// When a period begins; `None` is with time itself.
fn from(of: &PlacementSettings) -> Result<Option<i64>, SettingsError> {
    let Some(text) = &of.from else { return Ok(None) };
    let at = || format!("placement {}", begin_of(of));
    let time: Timestamp = text
        .parse()
        .map_err(|_| wrong(at(), "is not a time; write it as in \"2026-12-07T00:00:00Z\""))?;
    let ns = i64::try_from(time.as_nanosecond());
    ns.map(Some).map_err(|_| wrong(at(), "is beyond the times that InfluxDB has"))
}

fn period(
    of: &PlacementSettings,
    sets: &[Set],
    before: Option<i64>,
) -> Result<Period, SettingsError> {
    let at = format!("placement {}", begin_of(of));
    let from_ns = match (from(of)?, before) {
        (None, None) => i64::MIN,
        (Some(_), None) => return Err(wrong(at, "is the first period, which has no `from`")),
        (None, Some(_)) => {
            return Err(wrong(at, "needs a `from`: the first period alone has none"));
        }
        (Some(from), Some(before)) if from <= before => {
            return Err(wrong(at, "does not begin behind the period in front of it"));
        }
        (Some(from), Some(_)) => from,
    };
    let mut numbers: Vec<SetNumber> = Vec::new();
    for name in &of.sets {
        let Some(number) = sets.iter().position(|set| set.name == *name) else {
            return Err(wrong(at, format!("there is no [[influx.set]] of the name {name:?}")));
        };
        if numbers.contains(&number) {
            return Err(wrong(at, format!("set {name:?} is there twice")));
        }
        numbers.push(number);
    }
    if numbers.is_empty() {
        return Err(wrong(at, "sets: needs at least one"));
    }
    let ns = |duration: &units::Duration| i64::try_from(duration.get().as_nanos());
    let span_ns = ns(&of.span).ok().filter(|ns| *ns >= 1_000_000_000);
    let span_ns = span_ns.ok_or_else(|| wrong(at.as_str(), "span must be from 1s to 292 years"))?;
    let future_max_ns = ns(&of.future_max)
        .map_err(|_| wrong(at.as_str(), "future-max must be at most 292 years"))?;
    let whole = RuleSettings { database: None, measurement: None, split: None, split_by: None };
    let rules = of.rule.iter().chain([&whole]);
    let rules = rules.map(|rule| self::rule(rule, of)).collect::<Result<_, _>>();
    let rules = rules.map_err(|what| wrong(at.as_str(), what))?;
    Ok(Period { from_ns, sets: numbers, span_ns, future_max_ns, rules })
}

/// A rule of a period, or what is wrong with it.
fn rule(of: &RuleSettings, period: &PlacementSettings) -> Result<Rule, String> {
    let pattern = |text: &Option<String>| {
        let pattern = text.as_deref().map(Regex::new).transpose();
        pattern.map_err(|error| format!("rule: {error}"))
    };
    let sets = period.sets.len();
    let split = of.split.or(period.split).unwrap_or(sets);
    if !(1..=sets).contains(&split) {
        return Err(format!("split must be from 1 to {sets}, the number of its sets"));
    }
    let by = match of.split_by.as_ref().unwrap_or(&period.split_by) {
        SplitSetting::By(SplitWord::Series) => SplitBy::Series,
        SplitSetting::By(SplitWord::Measurement) => SplitBy::Measurement,
        SplitSetting::By(SplitWord::Point) => SplitBy::Point,
        SplitSetting::Tags(tags) => SplitBy::Tags(sorted(tags)?),
    };
    Ok(Rule { database: pattern(&of.database)?, measurement: pattern(&of.measurement)?, split, by })
}

fn sorted(tags: &[String]) -> Result<Vec<Box<[u8]>>, String> {
    let mut keys: Vec<Box<[u8]>> = tags.iter().map(|tag| tag.as_bytes().into()).collect();
    keys.sort_unstable();
    let named = keys.len();
    keys.dedup();
    match keys.len() {
        0 => Err("split-by: needs at least one tag".to_owned()),
        len if len < named => Err("split-by: a tag is there twice".to_owned()),
        _ if keys.iter().any(|key| key.is_empty() || **key == *b"time") => {
            Err("split-by: a tag has a name, and it is not \"time\"".to_owned())
        }
        _ => Ok(keys),
    }
}
