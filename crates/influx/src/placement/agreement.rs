//! What a gateway's file and the tables on the members agree on: below that points are delivered
//! and found, past it they wait. Pure.

use std::collections::BTreeMap;

use super::disk_number::DiskNumber;
use super::member::{MemberAnswer, MemberState, MemberTable};
use super::read::{WrittenTable, begin_ns, begin_of};
use super::table::Table;
use crate::settings::SetSettings;

/// What a gateway's file and the members' tables have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// How many of the file's periods are in force.
    pub periods: usize,
    /// Points at or past this time wait, in nanoseconds since 1970.
    pub waits_from_ns: Option<i64>,
    /// Queries that reach this time are refused: a period is complete that the file lacks.
    pub unknown_from_ns: Option<i64>,
    /// What points past the agreement wait for, in words.
    pub awaited: Option<String>,
}

/// What stands on the members, as far as they were asked.
pub type MemberTables = BTreeMap<String, MemberTable>;

/// The disk of a member that came last, by all tables of the cluster.
fn newest_disk(cluster: &str, tables: &MemberTables, member: &str) -> Option<DiskNumber> {
    let of_cluster = tables.values().filter(|table| table.written.cluster == cluster);
    of_cluster.filter_map(|table| table.disks.get(member).copied()).max()
}

/// Why a member that is being rebuilt is neither given points nor asked.
pub const REBUILDING: &str = "it is being rebuilt from another member of its set; should nobody do \
                              that any more, run `weir placement rebuild` again";

impl MemberState {
    /// Whether the member is given points and asked.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn in_force(self) -> Result<(), String> {
        match self {
            Self::InForce => Ok(()),
            Self::Rebuilding => Err(REBUILDING.to_owned()),
        }
    }
}

/// What may be done with `member`.
///
/// # Errors
/// Why nothing, in words: that it is another member or of another cluster, has a disk of before, or
/// that its table and the file differ in what can't be changed.
pub fn check_member(
    file: &WrittenTable,
    tables: &MemberTables,
    member: &str,
) -> Result<MemberState, String> {
    let Some(table) = tables.get(member) else {
        return Err("it has no table yet; run `weir placement apply`".to_owned());
    };
    let (cluster, there) = (&file.cluster, &table.written);
    if there.cluster != *cluster {
        return Err(format!("its server is of the cluster {:?}, not {cluster:?}", there.cluster));
    }
    if table.member != member {
        return Err(format!("its server is the member {:?}; look at the URLs", table.member));
    }
    let newest = newest_disk(cluster, tables, member);
    if table.disk() != newest {
        let words = "it has a disk of before: other members know a newer one by its name";
        return Err(words.to_owned());
    }
    for of in &file.sets {
        let Some(set) = there.sets.iter().find(|set| set.name == of.name) else { continue };
        if !are_alike(of, set) {
            return Err(format!(
                "set {:?} has the members {:?} in the file and {:?} there; run `weir placement \
                 apply` where the file is right, or reload the one that is",
                of.name, of.members, set.members
            ));
        }
    }
    let alike = periods_alike(file, there);
    if alike < table.complete.min(file.placement.len()) {
        return Err(format!(
            "the period {} differs there from that in the file; one that is complete stays as \
             it is",
            begin_of(&file.placement[alike])
        ));
    }
    Ok(if table.rebuilding { MemberState::Rebuilding } else { MemberState::InForce })
}

/// What keeps each of the members that were asked from being used, and what file and members do
/// not agree on.
pub fn judge(
    file: &WrittenTable,
    answers: BTreeMap<String, MemberAnswer>,
) -> (BTreeMap<String, Result<(), String>>, Option<String>) {
    let mut tables = MemberTables::new();
    let mut silent = BTreeMap::new();
    for (name, answer) in answers {
        match answer {
            MemberAnswer::Table(table, _) => drop(tables.insert(name, *table)),
            MemberAnswer::Nothing => {}
            MemberAnswer::Error(words) => drop(silent.insert(name, words)),
        }
    }
    let fitness = file.members().map(|name| {
        let fit = match silent.remove(name) {
            Some(words) => Err(words),
            None => check_member(file, &tables, name).and_then(MemberState::in_force),
        };
        (name.clone(), fit)
    });
    let fitness = fitness.collect();
    (fitness, Agreement::between(file, &tables, usize::MAX).awaited)
}

/// Whether two forms of a set differ by members that come or go, and by nothing else.
fn are_alike(of: &SetSettings, other: &SetSettings) -> bool {
    let has_all = |of: &SetSettings, other: &SetSettings| {
        other.members.iter().all(|member| of.members.contains(member))
    };
    has_all(of, other) || has_all(other, of)
}

fn periods_alike(of: &WrittenTable, other: &WrittenTable) -> usize {
    let both = of.placement.iter().zip(&other.placement);
    both.take_while(|(one, other)| one == other).count()
}

impl Agreement {
    /// The part of the file's table that is agreed on.
    pub fn part_of(&self, table: &Table) -> Table {
        Table {
            sets: table.sets.clone(),
            periods: table.periods.iter().take(self.periods).cloned().collect(),
            waits_from_ns: self.waits_from_ns,
            unknown_from_ns: self.unknown_from_ns,
        }
    }

    /// What `file` and its members' tables agree on, of the first `most` periods; members that are
    /// not fit do not count.
    pub fn between(file: &WrittenTable, tables: &MemberTables, most: usize) -> Self {
        let fit = || {
            let is_fit = |(member, _): &(&String, _)| check_member(file, tables, member).is_ok();
            tables.iter().filter(is_fit).map(|(_, table)| table)
        };
        // A period is complete once one member says so: all of them had it before.
        let agreed = |table: &MemberTable| table.complete.min(periods_alike(file, &table.written));
        let periods = fit().map(agreed).max().unwrap_or(0).min(most);
        let mut new = Self { periods, ..Self::default() };
        if let Some(next) = file.placement.get(periods) {
            new.waits_from_ns = Some(begin_ns(next));
            new.awaited = Some(match periods {
                0 => "no member has a complete table; run `weir placement apply`".to_owned(),
                _ => format!(
                    "the period {} is not complete on the members; run `weir placement apply`",
                    begin_of(next)
                ),
            });
        }
        let further =
            fit().filter_map(|table| Some((table, table.written.placement.get(periods)?)));
        for (table, next) in further.filter(|(_, next)| file.placement.get(periods) != Some(next)) {
            let from_ns = begin_ns(next);
            if new.waits_from_ns.is_none_or(|waits| from_ns < waits) {
                new.waits_from_ns = Some(from_ns);
                new.awaited = Some(format!(
                    "the members have a period {} that the file lacks; put it in and reload",
                    begin_of(next)
                ));
            }
            if table.complete > periods {
                let known = new.unknown_from_ns.unwrap_or(i64::MAX);
                new.unknown_from_ns = Some(known.min(from_ns));
            }
        }
        new
    }
}
