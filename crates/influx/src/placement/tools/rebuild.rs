//! Fills a member from another one of its set, while gateways hold their points for it, and puts it
//! in force. It may be killed at any step, and is run again then.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use flow::rate::RateLimit;
use serde::{Deserialize, Serialize};
use watch::words::count;

use super::super::agreement::judge;
use super::super::disk_number::DiskNumber;
use super::super::lag::lags;
use super::super::member::{DATABASE, MemberAnswer, notes_of};
use super::super::read::WrittenTable;
use super::copy::{Beside, Copying};
use super::failure::ClusterError;
use super::holding::{awaited, lacks, room};
use super::mark::RebuildMark;
use super::plan::not_fit;
use super::server::{MemberServer, answers, servers};
use super::slices::{Slice, TimeSpan, read_groups, slices};
use crate::catalogue::Listing;
use crate::settings::Settings;

/// How long a member may take to tell what it has.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is looked whether gateways hold their points by now.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long journals are watched before it is said how long they have room.
const WATCHED: Duration = Duration::from_secs(3);
/// How often it is said how far a copy is.
const SAY_INTERVAL: Duration = Duration::from_secs(5);
/// The statement that reads how far a rebuild has come.
const PROGRESS: &str = "SELECT copied FROM \"_weir\"..rebuild";

/// Which member is rebuilt, and how.
#[derive(Clone, Debug)]
pub struct Rebuild {
    pub member: String,
    pub extent: Extent,
    /// Rows a second that are copied at most; 0 for as many as there can be.
    pub rate: u64,
    /// How much a gateway's journal holds, in bytes.
    pub journal_max: u64,
}

/// How much of a member is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it, while it is not in force.
    Whole,
    /// Some time of it; the member stays in force.
    Slice(TimeSpan),
    /// Nothing: the member is alone in its set, and put in force as it is.
    Empty,
}

/// How far a rebuild has come, as it stands on the member.
#[derive(Debug, Serialize, Deserialize)]
struct Progress {
    disk: DiskNumber,
    /// The last slice that is copied.
    slice: Slice,
}

/// What is rebuilt, and what there is to do that.
struct RebuildTask<'a> {
    wanted: &'a Rebuild,
    written: WrittenTable,
    servers: Vec<MemberServer>,
    /// When it was begun, by both clocks.
    begun: (Instant, i64),
}

/// Rebuilds a member; `say` is told of each step. Gives whether the slices that were copied are
/// alike on both members.
///
/// # Errors
/// What stands in the way. The member gets nothing and is not asked until it was run to its end.
pub async fn rebuild(
    settings: &Settings,
    wanted: &Rebuild,
    now_ns: i64,
    say: &mut dyn FnMut(&str),
) -> Result<bool, ClusterError> {
    let backends = settings.backends()?;
    let written = WrittenTable::of(settings)?.ok_or_else(WrittenTable::is_missing)?;
    written.table(&backends)?;
    let servers = servers(&written, &backends)?;
    let task = RebuildTask { wanted, written, servers, begun: (Instant::now(), now_ns) };
    match wanted.extent {
        Extent::Whole => task.whole(say).await.map(|()| true),
        Extent::Empty => task.empty(say).await.map(|()| true),
        Extent::Slice(span) => task.slice(span, say).await,
    }
}

impl RebuildTask<'_> {
    async fn whole(&self, say: &mut dyn FnMut(&str)) -> Result<(), ClusterError> {
        let target = self.target()?;
        let begun = Instant::now();
        let found = answers(&self.servers, TIMEOUT).await;
        let mark = self.mark(&found, target.has_points().await?)?;
        if mark.others.is_empty() {
            let words = "it is alone in its set, so nobody has its points; `--empty` puts it in \
                         force as it is";
            return Err(not_fit(target.name(), words).into());
        }
        match mark.is_resumed {
            true => say(&format!("{}: the rebuild that was begun goes on", mark.name)),
            false => say(&format!("{}: is marked as being rebuilt", mark.name)),
        }
        self.put_mark(&mark, &found, say).await?;
        let all = self.databases(&found).await?;
        // What its policies drop meanwhile would be missed in it, or refused.
        target.create_alike(&all.kept_for_ever()).await?;
        let source = self.wait_for_gateways(&mark, say).await?;
        tokio::time::sleep(WATCHED.saturating_sub(begun.elapsed())).await;
        let now = notes_of(&answers(&self.servers, TIMEOUT).await);
        let moments = (&notes_of(&found), &now);
        room(moments, begun.elapsed(), self.wanted.journal_max).iter().for_each(|line| say(line));
        tell_lacking_users(source, target, say).await;
        self.have_nothing_else(source, target, &all).await?;
        let done = progress(target).await?.filter(|done| done.disk == mark.disk);
        let slices = self.slices(source, TimeSpan::ALL).await?;
        let is_done =
            |slice: &Slice| done.as_ref().is_some_and(|of| slice.is_copied_with(&of.slice));
        let left: Vec<&Slice> = slices.iter().filter(|slice| !is_done(slice)).collect();
        say(&format!("{} slices are copied from {}", left.len(), source.name()));
        let differences = self.copy((source, target), &left, Some(mark.disk), say).await?;
        if let Some(difference) = differences.first() {
            let words = format!(
                "the copy is not right: {difference}; take the points that others lack away \
                 there, and run it again"
            );
            return Err(target.failed(words));
        }
        target.create_alike(&all).await?;
        if let Some(table) = mark.in_force() {
            target.put(&table).await?;
        }
        say(&format!("{}: is in force", mark.name));
        Ok(())
    }

    async fn empty(&self, say: &mut dyn FnMut(&str)) -> Result<(), ClusterError> {
        let target = self.target()?;
        let found = answers(&self.servers, TIMEOUT).await;
        let mark = self.mark(&found, false)?;
        if let Some(other) = mark.others.first() {
            let words =
                format!("{other} is of its set, too: without --empty its points are copied");
            return Err(not_fit(target.name(), words).into());
        }
        self.put_mark(&mark, &found, say).await?;
        target.create_alike(&self.databases(&found).await?).await?;
        if let Some(table) = mark.in_force() {
            target.put(&table).await?;
        }
        say(&format!("{}: is in force as it is", mark.name));
        Ok(())
    }

    async fn slice(&self, span: TimeSpan, say: &mut dyn FnMut(&str)) -> Result<bool, ClusterError> {
        let target = self.target()?;
        let found = answers(&self.servers, TIMEOUT).await;
        let (fitness, _) = judge(&self.written, found.clone());
        let name = target.name();
        let unfit = |member: &str| fitness.get(member).and_then(|fit| fit.clone().err());
        if let Some(words) = unfit(name) {
            let words = format!("{words}; slices are copied into a member that is in force");
            return Err(not_fit(name, words).into());
        }
        let set = self.written.sets.iter().find(|set| set.members.iter().any(|of| of == name));
        let lags = set.map(|set| lags(set, &notes_of(&found))).unwrap_or_default();
        let others = set.into_iter().flat_map(|set| &set.members).filter(|other| *other != name);
        let best = others.filter(|other| unfit(other).is_none()).min_by_key(|of| lags.get(*of));
        let source = best.and_then(|best| self.server(best));
        let source = source.ok_or_else(|| not_fit(name, "no other member of its set is fit"))?;
        let slices = self.slices(source, span).await?;
        say(&format!("{} slices are copied from {}", slices.len(), source.name()));
        let slices: Vec<&Slice> = slices.iter().collect();
        let differences = self.copy((source, target), &slices, None, say).await?;
        differences.iter().for_each(|difference| say(difference));
        Ok(differences.is_empty())
    }

    fn target(&self) -> Result<&MemberServer, ClusterError> {
        let name = &self.wanted.member;
        let unknown = || not_fit(name, "it is in no [[influx.set]] of the configuration").into();
        self.server(name).ok_or_else(unknown)
    }

    fn server(&self, name: &str) -> Option<&MemberServer> {
        self.servers.iter().find(|server| server.name() == name)
    }

    fn mark(
        &self,
        found: &BTreeMap<String, MemberAnswer>,
        has_points: bool,
    ) -> Result<RebuildMark, ClusterError> {
        let member = (self.wanted.member.as_str(), has_points);
        Ok(RebuildMark::of(&self.written, found, member, rand::random)?)
    }

    /// Puts the tables of a mark on the member itself, and then on all others that answer. What
    /// gateways had noted on it is of before, but that some are forgotten: they find that before
    /// they can find the mark.
    async fn put_mark(
        &self,
        mark: &RebuildMark,
        found: &BTreeMap<String, MemberAnswer>,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), ClusterError> {
        let target = self.target()?;
        if !mark.is_resumed && matches!(found.get(&mark.name), Some(MemberAnswer::Table(..))) {
            target.ask_in(DATABASE, "DROP MEASUREMENT note").await?;
        }
        target.note_forgotten(&notes_of(found)).await?;
        let put = |server: &MemberServer| mark.tables.get(server.name()).cloned();
        if let Some(table) = put(target) {
            target.put(&table).await?;
        }
        for server in self.servers.iter().filter(|server| server.name() != mark.name) {
            match (put(server), found.get(server.name())) {
                (Some(table), _) => server.put(&table).await?,
                (None, Some(MemberAnswer::Error(words))) => {
                    say(&format!("{}: does not know of it: {words}", server.name()));
                }
                (None, _) => {}
            }
        }
        Ok(())
    }

    /// The databases and policies of all that answer but the member itself.
    async fn databases(
        &self,
        found: &BTreeMap<String, MemberAnswer>,
    ) -> Result<Listing, ClusterError> {
        let mut all = Listing::default();
        for server in self.servers.iter().filter(|server| server.name() != self.wanted.member) {
            if matches!(found.get(server.name()), Some(MemberAnswer::Table(..))) {
                all.unite(&server.databases().await?);
            }
        }
        Ok(all)
    }

    /// Waits until all gateways hold their points for the member, and another of its set has all
    /// from before; gives that one.
    async fn wait_for_gateways(
        &self,
        mark: &RebuildMark,
        say: &mut dyn FnMut(&str),
    ) -> Result<&MemberServer, ClusterError> {
        let mut said = String::new();
        loop {
            let found = answers(&self.servers, TIMEOUT).await;
            let notes = notes_of(&found);
            let (fitness, _) = judge(&self.written, found);
            let mut waits = Vec::new();
            let mut ready = Vec::new();
            for other in &mark.others {
                let words = match fitness.get(other) {
                    Some(Err(words)) => format!("{other}: {words}"),
                    _ => awaited(&notes, (&mark.name, mark.disk), other).join("; "),
                };
                match words.is_empty() {
                    true => ready.push(other),
                    false => waits.push(words),
                }
            }
            let lacking = |member: &String| notes.get(member).map_or(0, lacks);
            let best = ready.into_iter().min_by_key(|member| lacking(member));
            if let Some(source) = best.and_then(|best| self.server(best)) {
                let lacking = best.map_or(0, lacking);
                if lacking > 0 {
                    let (name, lacking) = (source.name(), count(lacking));
                    say(&format!("{name} itself lacks {lacking} points that it was never given"));
                }
                return Ok(source);
            }
            let words = waits.join("; ");
            if words != said {
                say(&format!("waiting for {words}"));
                said = words;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Whether the member has no databases or measurements that the others have not: then they are
    /// from before something was dropped.
    async fn have_nothing_else(
        &self,
        source: &MemberServer,
        target: &MemberServer,
        all: &Listing,
    ) -> Result<(), ClusterError> {
        let own = target.databases().await?;
        if let Some(db) = own.databases.keys().find(|db| !all.databases.contains_key(*db)) {
            let words = format!("it has the database {db:?}, which no other has: drop it there");
            return Err(target.failed(words));
        }
        let theirs = source.measurements(all).await?;
        for (db, names) in target.measurements(&own).await? {
            let theirs = theirs.get(&db);
            let other = names.iter().find(|name| !theirs.is_some_and(|of| of.contains(name)));
            if let Some(name) = other {
                let words = format!(
                    "it has the measurement {name:?} of {db:?}, which {} has not: drop it there",
                    source.name()
                );
                return Err(target.failed(words));
            }
        }
        Ok(())
    }

    async fn slices(
        &self,
        source: &MemberServer,
        wanted: TimeSpan,
    ) -> Result<Vec<Slice>, ClusterError> {
        let listing = source.databases().await?;
        let measurements = source.measurements(&listing).await?;
        let groups = read_groups(&source.ask("SHOW SHARD GROUPS").await?);
        let (begun, begun_ns) = self.begun;
        let passed_ns = i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let now_ns = begun_ns.saturating_add(passed_ns);
        Ok(slices(&listing, &measurements, &groups, (wanted, now_ns)))
    }

    /// Whether a slice that was to be copied is not there any more: its policy has dropped it, or
    /// does so within the day.
    async fn is_dropped(&self, source: &MemberServer, slice: &Slice) -> Result<bool, ClusterError> {
        let there = self.slices(source, slice.span).await?;
        Ok(!there.iter().any(|of| of.place() == slice.place()))
    }

    /// Copies slices in order, and gives what is not alike then; with the number of its disk the
    /// member is told how far it is, and the first difference ends it.
    async fn copy(
        &self,
        (source, target): (&MemberServer, &MemberServer),
        slices: &[&Slice],
        disk: Option<DiskNumber>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<String>, ClusterError> {
        let rate = RateLimit::new(self.wanted.rate, self.wanted.rate / 10);
        let beside = if disk.is_some() { Beside::Nothing } else { Beside::Anything };
        let copying = Copying { source, target, rate: &rate, beside };
        let (begun, mut said, mut rows) = (Instant::now(), Instant::now(), 0);
        let mut differences = Vec::new();
        for (number, slice) in slices.iter().enumerate() {
            if let Some(disk) = disk {
                is_still_marked(target, disk).await?;
            }
            let copied = copying.slice(slice).await?;
            rows += copied.rows;
            match copied.difference {
                Some(_) if self.is_dropped(source, slice).await? => {
                    say(&format!("{slice}: {} has dropped it meanwhile", source.name()));
                }
                difference => differences.extend(difference),
            }
            if let Some(disk) = disk {
                if !differences.is_empty() {
                    break;
                }
                target.keep(progress_line(disk, slice)).await?;
            }
            if said.elapsed() >= SAY_INTERVAL {
                let (done, all) = (number + 1, slices.len());
                say(&format!("{done} of {all} slices, {}", rate_of(rows, begun)));
                said = Instant::now();
            }
        }
        say(&format!("{} are copied", rate_of(rows, begun)));
        Ok(differences)
    }
}

/// Whether nobody else has put the member in force, or its disk away, since it was marked: what is
/// copied would overwrite what gateways give it.
async fn is_still_marked(target: &MemberServer, disk: DiskNumber) -> Result<(), ClusterError> {
    match target.answer().await? {
        MemberAnswer::Table(table, _) if table.rebuilding && table.disk() == Some(disk) => Ok(()),
        _ => Err(target.failed("somebody else has put it in force, or its disk away: look at it")),
    }
}

fn rate_of(rows: u64, begun: Instant) -> String {
    let rate = rows as f64 / begun.elapsed().as_secs_f64().max(0.001);
    format!("{} rows, {} a second,", count(rows), count(rate as u64))
}

/// Passwords cannot be read, so that users have to be made by hand.
async fn tell_lacking_users(
    source: &MemberServer,
    target: &MemberServer,
    say: &mut dyn FnMut(&str),
) {
    let name = target.name();
    match (source.users().await, target.users().await) {
        (Ok(theirs), Ok(own)) => {
            let lacking: Vec<String> = theirs.difference(&own).cloned().collect();
            if !lacking.is_empty() {
                let users = lacking.join(", ");
                say(&format!(
                    "{name}: lacks the users {users}, whose passwords no server tells: create them \
                     there"
                ));
            }
        }
        (Err(error), _) | (_, Err(error)) => say(&format!("users are not compared: {error}")),
    }
}

async fn progress(target: &MemberServer) -> Result<Option<Progress>, ClusterError> {
    let answer = target.ask(PROGRESS).await?;
    let text = answer.pointer("/results/0/series/0/values/0/1").and_then(|text| text.as_str());
    Ok(text.and_then(|text| serde_json::from_str(text).ok()))
}

fn progress_line(disk: DiskNumber, slice: &Slice) -> Vec<u8> {
    let progress = Progress { disk, slice: slice.clone() };
    // Strings and numbers can always be written.
    let text = serde_json::to_string(&progress).unwrap_or_default();
    let mut line = b"rebuild copied=".to_vec();
    wire::line::push_string(&mut line, &text);
    line.extend_from_slice(b" 0\n");
    line
}
