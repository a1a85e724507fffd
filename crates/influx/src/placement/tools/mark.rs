//! The tables by which members and gateways know that a member is being rebuilt. Pure.

use std::collections::BTreeMap;

use super::super::disk_number::DiskNumber;
use super::super::member::{MemberAnswer, MemberTable};
use super::super::read::{WrittenTable, begin_of};
use super::plan::{PlanError, complete_table, newest_disks, not_fit, tables_of};
use crate::settings::SetSettings;

/// A member that is to be rebuilt, and the tables that say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuildMark {
    pub name: String,
    /// The number of its disk while it is rebuilt, and from then on.
    pub disk: DiskNumber,
    /// The other members of its set.
    pub others: Vec<String>,
    /// By the name of the member: of all that have a table, and of the one that is rebuilt.
    pub tables: BTreeMap<String, MemberTable>,
    /// Whether it goes on with what was begun before.
    pub is_resumed: bool,
}

impl RebuildMark {
    /// Marks the member `name`, where members have given these answers; those that gave none are
    /// left out. `has_points` says whether it has some itself, `draw` gives the number of its disk.
    ///
    /// # Errors
    /// What stands in the way.
    pub fn of(
        file: &WrittenTable,
        answers: &BTreeMap<String, MemberAnswer>,
        (name, has_points): (&str, bool),
        draw: impl Fn() -> u64,
    ) -> Result<Self, PlanError> {
        let set = file.sets.iter().find(|set| set.members.iter().any(|member| member == name));
        let Some(set) = set else {
            return Err(not_fit(name, "it is in no [[influx.set]] of the configuration"));
        };
        let has_answered = |(member, answer): &(&String, &MemberAnswer)| {
            *member == name || !matches!(answer, MemberAnswer::Error(_))
        };
        let tables = tables_of(file, answers.iter().filter(has_answered))?;
        let kept = complete_periods(file, &tables, name)?;
        let own = tables.get(name);
        if own.is_none() && has_points {
            let words = "it has points, and no table that says whose they are; begin with an empty \
                         disk";
            return Err(not_fit(name, words));
        }
        let mut disks = newest_disks(&tables);
        let known = disks.get(name).copied();
        let resumed = own.filter(|own| own.rebuilding && own.disk() == known);
        let disk = resumed.and_then(|own| own.disk()).unwrap_or_else(|| DiskNumber {
            count: known.map_or(1, |known| known.count + 1),
            number: draw(),
        });
        disks.insert(name.to_owned(), disk);
        let table = |member: &str, rebuilding: bool| MemberTable {
            member: member.to_owned(),
            complete: kept,
            disks: disks.clone(),
            rebuilding,
            written: file.clone(),
        };
        let known = tables.iter().map(|(member, of)| ((*member).to_owned(), of.rebuilding));
        let marked: BTreeMap<String, bool> = known.chain([(name.to_owned(), true)]).collect();
        let marked = marked.into_iter().map(|(member, is_marked)| {
            let table = table(&member, is_marked);
            (member, table)
        });
        Ok(Self {
            name: name.to_owned(),
            disk,
            others: set.members.iter().filter(|member| *member != name).cloned().collect(),
            tables: marked.collect(),
            is_resumed: resumed.is_some(),
        })
    }

    /// The table that puts the member in force.
    pub fn in_force(&self) -> Option<MemberTable> {
        let table = self.tables.get(&self.name)?;
        Some(MemberTable { rebuilding: false, ..table.clone() })
    }
}

/// How many periods are complete: all of the file's, whose sets are those of the members but for
/// the one that is rebuilt.
fn complete_periods(
    file: &WrittenTable,
    tables: &BTreeMap<&str, &MemberTable>,
    name: &str,
) -> Result<usize, PlanError> {
    let Some(complete) = complete_table(tables)? else {
        let words = "no member that answers has a complete table; run `weir placement apply`";
        return Err(not_fit(name, words));
    };
    file.keeps(&complete, &[])?;
    let kept = complete.placement.len();
    if let Some(next) = file.placement.get(kept) {
        let words = format!(
            "the period {} is not complete on the members: first run `weir placement apply`, or \
             take it out of the file meanwhile",
            begin_of(next)
        );
        return Err(not_fit(name, words));
    }
    let without = |sets: &[SetSettings]| -> Vec<SetSettings> {
        let without = |set: &SetSettings| {
            let mut set = set.clone();
            set.members.retain(|member| member != name);
            set
        };
        sets.iter().map(without).collect()
    };
    match tables.iter().find(|(_, table)| without(&table.written.sets) != without(&file.sets)) {
        None => Ok(kept),
        Some((member, _)) => {
            let words = format!(
                "{member} has other sets than the file: first run `weir placement apply`, or have \
                 the file differ by this member alone"
            );
            Err(not_fit(name, words))
        }
    }
}
