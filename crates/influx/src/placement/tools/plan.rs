//! What members are given so that a table comes in force. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::disk_number::DiskNumber;
use super::super::member::{MemberAnswer, MemberTable};
use super::super::read::{WrittenTable, begin_ns, begin_of};
use crate::settings::SettingsError;

/// What a member has when it is looked at.
#[derive(Clone, Debug)]
pub struct FoundMember {
    pub answer: MemberAnswer,
    pub has_points: bool,
}

/// The tables that members are given so that one comes in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// By the name of the member; the periods that are added are not complete in them.
    pub tables: BTreeMap<String, MemberTable>,
    /// Those that have no table yet.
    pub new_members: Vec<String>,
    /// When the first of the periods that are added to others begins.
    pub new_from_ns: Option<i64>,
}

/// The table can't follow what the members have.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It changes what stays as it is.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A member is not fit, for this reason.
    #[error("member {name:?}: {words}")]
    Member { name: String, words: String },
}

/// That a member is not fit, for this reason.
pub fn not_fit(name: &str, words: impl Into<String>) -> PlanError {
    PlanError::Member { name: name.to_owned(), words: words.into() }
}

impl Plan {
    /// What is to be done for `file`, where its members have what was `found` at a time, in
    /// nanoseconds since 1970; `draw` gives numbers for new disks.
    ///
    /// # Errors
    /// What stands in the way.
    pub fn of(
        file: &WrittenTable,
        found: &BTreeMap<String, FoundMember>,
        (now_ns, check_interval): (i64, Duration),
        draw: impl Fn() -> u64,
    ) -> Result<Self, PlanError> {
        let tables = tables_of(file, found.iter().map(|(name, found)| (name, &found.answer)))?;
        let before = complete_table(&tables)?;
        let kept = before.as_ref().map_or(0, |before| before.placement.len());
        if let Some(before) = &before {
            file.keeps(before, &[])?;
        }
        let is_resumed = tables.values().any(|table| table.written == *file);
        if !is_resumed {
            file.may_be_added(kept, now_ns, check_interval)?;
        }
        let mut disks = newest_disks(&tables);
        let mut new_members = Vec::new();
        for member in file.members() {
            let known = disks.get(member).copied();
            match (tables.get(member.as_str()).map(|table| table.disk()), known) {
                (Some(own), newest) if own != newest => {
                    return Err(not_fit(member, "it has a disk of before"));
                }
                (Some(_), _) => continue,
                (None, Some(_)) if kept > 0 => {
                    let words = format!(
                        "it had a table, and has none: its disk is another one, and lacks what \
                         its set has; `weir placement rebuild {member}` brings that back"
                    );
                    return Err(not_fit(member, words));
                }
                (None, _) => new_members.push(member.clone()),
            }
            let count = known.map_or(1, |known| known.count);
            let number = known.map_or_else(&draw, |known| known.number);
            disks.insert(member.clone(), DiskNumber { count, number });
        }
        let plan = Self {
            tables: BTreeMap::new(),
            new_from_ns: file.placement.get(kept).filter(|_| kept > 0).map(begin_ns),
            new_members,
        };
        plan.check_new(file, found, kept)?;
        let table = |member: &String| {
            let rebuilding = tables.get(member.as_str()).is_some_and(|table| table.rebuilding);
            let (member, written, disks) = (member.clone(), file.clone(), disks.clone());
            (member.clone(), MemberTable { member, complete: kept, disks, rebuilding, written })
        };
        Ok(Self { tables: file.members().map(table).collect(), ..plan })
    }

    /// Whether a new member can begin without what its set has.
    fn check_new(
        &self,
        file: &WrittenTable,
        found: &BTreeMap<String, FoundMember>,
        kept: usize,
    ) -> Result<(), PlanError> {
        let has_points = |name: &String| found.get(name).is_some_and(|found| found.has_points);
        // The lone set of a cluster's first table is taken as it is.
        if kept == 0 && file.sets.len() == 1 {
            return Ok(());
        }
        for set in &file.sets {
            let (new, known): (Vec<_>, Vec<_>) =
                set.members.iter().partition(|member| kept == 0 || self.is_new(member));
            if let Some(name) = new.iter().find(|name| has_points(name)) {
                let words = match kept {
                    0 => {
                        "it has points of before; begin with the one set that it is in, and add \
                         others for a later period"
                    }
                    _ => "it has points of before; a new member begins without any",
                };
                return Err(not_fit(name, words));
            }
            if let (Some(name), true) = (new.first(), known.into_iter().any(has_points)) {
                let words = format!(
                    "it lacks the points that set {:?} has already; `weir placement rebuild \
                     {name}` brings them",
                    set.name
                );
                return Err(not_fit(name, words));
            }
        }
        Ok(())
    }

    /// Whether a member has no table yet.
    pub fn is_new(&self, member: &str) -> bool {
        self.new_members.iter().any(|new| new == member)
    }

    /// Whether all members have all of it, complete.
    pub fn is_done(&self, found: &BTreeMap<String, FoundMember>) -> bool {
        self.tables.iter().all(|(name, wanted)| match found.get(name).map(|of| &of.answer) {
            Some(MemberAnswer::Table(table, _)) => {
                **table == *wanted && table.complete == table.written.placement.len()
            }
            _ => false,
        })
    }

    /// Tells what will be done.
    pub fn describe(&self, say: &mut dyn FnMut(&str)) {
        for name in &self.new_members {
            say(&format!("{name}: is a new member"));
        }
        let Some(table) = self.tables.values().next() else { return };
        for period in table.written.placement.iter().skip(table.complete) {
            say(&format!("the period {} is added, over {:?}", begin_of(period), period.sets));
        }
    }
}

/// The newest disk of each member, by all tables.
pub fn newest_disks(tables: &BTreeMap<&str, &MemberTable>) -> BTreeMap<String, DiskNumber> {
    let mut disks: BTreeMap<String, DiskNumber> = BTreeMap::new();
    for (member, disk) in tables.values().flat_map(|table| &table.disks) {
        let newest = disks.entry(member.clone()).or_insert(*disk);
        *newest = disk.max(newest).to_owned();
    }
    disks
}

/// The tables of the members, each of its own member and of this cluster.
///
/// # Errors
/// That one is another member or of another cluster, or does not say.
pub fn tables_of<'a>(
    file: &WrittenTable,
    found: impl Iterator<Item = (&'a String, &'a MemberAnswer)>,
) -> Result<BTreeMap<&'a str, &'a MemberTable>, PlanError> {
    let mut tables = BTreeMap::new();
    for (name, answer) in found {
        match answer {
            MemberAnswer::Error(words) => return Err(not_fit(name, words.as_str())),
            MemberAnswer::Nothing => {}
            MemberAnswer::Table(table, _) if table.written.cluster != file.cluster => {
                let words = format!("it is of the cluster {:?}", table.written.cluster);
                return Err(not_fit(name, words));
            }
            MemberAnswer::Table(table, _) if table.member != *name => {
                let words =
                    format!("its server is the member {:?}; look at the URLs", table.member);
                return Err(not_fit(name, words));
            }
            MemberAnswer::Table(table, _) => {
                tables.insert(name.as_str(), &**table);
            }
        }
    }
    Ok(tables)
}

/// What all members have complete; `None` where nothing is.
///
/// # Errors
/// That the periods of one are others.
pub fn complete_table(
    tables: &BTreeMap<&str, &MemberTable>,
) -> Result<Option<WrittenTable>, PlanError> {
    let of = tables.values().max_by_key(|table| table.complete);
    let Some(of) = of.filter(|of| of.complete > 0) else { return Ok(None) };
    let complete = of.written.first_periods(of.complete);
    for (name, table) in tables {
        let own = table.written.first_periods(table.complete);
        if complete.placement.get(..own.placement.len()) != Some(own.placement.as_slice()) {
            return Err(not_fit(name, "its periods are others than those of the other members"));
        }
    }
    Ok(Some(complete))
}
