//! The table of a gateway: what its file says, what its members say, and what is in force by that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::Notify;

use super::agreement::{Agreement, MemberTables, check_member};
use super::announcement::Announcement;
use super::file::{self, TableError};
use super::identity::JournalPlace;
use super::member::{MemberAnswer, MemberState};
use super::notes::GatewayNotes;
use super::read::WrittenTable;
use super::shares::RecordShares;
use super::table::Table;
use crate::settings::SettingsError;

/// How often each member is told how far it is, at most.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);

/// How long writes wait at the start for a member to take a note.
const ANNOUNCED_MAX: Duration = Duration::from_secs(5);

/// The table in force, where there is one.
#[derive(Debug)]
pub struct Placement {
    /// The directory that the table in force is kept in.
    dir: PathBuf,
    file: ArcSwapOption<FileTable>,
    in_force: ArcSwapOption<Table>,
    agreement: ArcSwap<Agreement>,
    shares: Arc<RecordShares>,
    notes: GatewayNotes,
    announcement: Announcement,
    members: Mutex<HeardMembers>,
    /// Told when file and members agree on more periods than are kept.
    more_agreed: Notify,
    /// Told when a configuration was put in force.
    changed: Notify,
}

/// The table that the configuration says.
#[derive(Debug)]
struct FileTable {
    written: WrittenTable,
    table: Arc<Table>,
    check_interval: Duration,
}

/// What members have said, and how much of it is kept.
#[derive(Debug, Default)]
struct HeardMembers {
    /// How many periods are kept on the disk as in force.
    kept: usize,
    /// The last table of each.
    tables: MemberTables,
    fitness: BTreeMap<String, Fitness>,
}

/// What keeps a member from being used, by what it has answered last.
#[derive(Clone, Debug)]
pub struct Fitness {
    /// When it was asked.
    asked: Instant,
    by_table: Result<MemberState, String>,
    by_notes: Result<(), String>,
}

/// Why a member is neither given points nor asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Its table was not read for too long.
    NotRead,
    /// Its table is not the one of the file, in these words.
    Differs(String),
}

/// A table that is ready to be in force as far as the members agree.
#[derive(Debug)]
pub struct PreparedTable {
    pub written: WrittenTable,
    pub table: Table,
    /// How often the tables of members are read.
    pub check_interval: Duration,
}

/// A table that keeps what is in force.
#[derive(Debug)]
pub struct CheckedTable {
    wanted: Option<PreparedTable>,
    /// How many periods are kept on the disk as in force.
    kept: usize,
}

/// A cluster's table can't be in force.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// It can't work, or does not keep what is in force.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The one in force can't be read, or is to be without a successor.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl Fitness {
    /// Whether the member may be given points and be asked.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn fit(&self) -> Result<(), String> {
        self.by_table.clone().and_then(MemberState::in_force)?;
        self.by_notes.clone()
    }

    /// Whether the member may be given notes.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn fit_for_notes(&self) -> Result<(), String> {
        self.by_table.clone()?;
        self.by_notes.clone()
    }
}

impl Placement {
    /// No table yet; what was in force is in `dir`.
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            file: ArcSwapOption::empty(),
            in_force: ArcSwapOption::empty(),
            agreement: ArcSwap::default(),
            shares: Arc::default(),
            notes: GatewayNotes::default(),
            announcement: Announcement::default(),
            members: Mutex::default(),
            more_agreed: Notify::new(),
            changed: Notify::new(),
        }
    }

    /// The table of the configuration; `None` where points are not shared out.
    pub fn table(&self) -> Option<Arc<Table>> {
        self.file.load().as_ref().map(|file| Arc::clone(&file.table))
    }

    /// The part of the table that the members agree on; `None` where points are not shared out.
    pub fn in_force(&self) -> Option<Arc<Table>> {
        self.in_force.load_full()
    }

    /// What the last records are shared out to, for all deliveries.
    pub fn shares(&self) -> &Arc<RecordShares> {
        &self.shares
    }

    /// What points past the agreement wait for, in words.
    pub fn awaited(&self) -> Option<String> {
        self.agreement.load().awaited.clone()
    }

    /// How old what was read of a member's table may be; `None` where points are not shared out.
    pub fn check_interval(&self) -> Option<Duration> {
        self.file.load().as_ref().map(|file| file.check_interval)
    }

    /// Looks whether a table keeps what is in force, and reads who this gateway is. `configured`
    /// are the backends of its file.
    ///
    /// # Errors
    /// When it does not, or what is in force can't be read.
    pub fn check(
        &self,
        wanted: Option<PreparedTable>,
        configured: &[&str],
    ) -> Result<CheckedTable, PlacementError> {
        let kept = file::read(&self.dir)?;
        if wanted.is_some() {
            self.notes.begin(&self.dir)?;
        }
        match (&wanted, &kept) {
            (None, Some(kept)) => {
                return Err(TableError::Gone { cluster: kept.cluster.clone() }.into());
            }
            (Some(of), Some(kept)) => of.written.keeps(kept, configured)?,
            (_, None) => {}
        }
        Ok(CheckedTable { wanted, kept: kept.map_or(0, |kept| kept.placement.len()) })
    }

    /// Puts the table of a configuration in force, as far as members agree.
    pub fn put_in_force(&self, CheckedTable { wanted, kept }: CheckedTable) {
        let file = wanted.map(|PreparedTable { written, table, check_interval }| {
            Arc::new(FileTable { written, table: Arc::new(table), check_interval })
        });
        let mut members = self.lock();
        members.kept = kept.max(members.kept);
        self.file.store(file.clone());
        let Some(file) = file else {
            self.in_force.store(None);
            return;
        };
        let HeardMembers { tables, fitness, .. } = &mut *members;
        for (member, fitness) in fitness.iter_mut() {
            fitness.by_table = check_member(&file.written, tables, member);
        }
        self.agree(&file, &members);
        self.changed.notify_one();
    }

    /// Takes what a member has answered that was asked for its table at `asked`, when its place in
    /// the journal was `place`: what that says of the server that gave the answer. `None` where
    /// points are not shared out.
    pub fn hear(
        &self,
        member: &str,
        (asked, place): (Instant, JournalPlace),
        answer: MemberAnswer,
    ) -> Option<Fitness> {
        let file = self.file.load_full()?;
        let mut members = self.lock();
        let HeardMembers { tables, fitness, .. } = &mut *members;
        // An answer that was overtaken by a later one says nothing of now. But the later one may be
        // of another server, as behind a URL that was changed: of its own it says all.
        if let Some(later) = fitness.get(member).filter(|heard| heard.asked > asked) {
            let by_own = check_server(&file.written, tables.clone(), member, answer);
            return Some(Fitness { by_table: by_own.and(later.by_table.clone()), ..later.clone() });
        }
        let mut by_notes = Ok(());
        let (is_news, by_table) = match answer {
            MemberAnswer::Error(words) => (false, Err(unreadable(&words))),
            MemberAnswer::Nothing => {
                let is_news = tables.remove(member).is_some();
                (is_news, check_member(&file.written, tables, member))
            }
            MemberAnswer::Table(table, notes) => {
                let is_news = tables.get(member) != Some(&*table);
                by_notes = self.notes.hear(&file.written, (member, &table), notes, place);
                tables.insert(member.to_owned(), *table);
                (is_news, check_member(&file.written, tables, member))
            }
        };
        let heard = Fitness { asked, by_table, by_notes };
        fitness.insert(member.to_owned(), heard.clone());
        if is_news {
            self.agree(&file, &members);
        }
        if self.notes.is_taken_twice() {
            self.more_agreed.notify_one();
        }
        Some(heard)
    }

    /// Whether a backend may be given points and be asked; one in no set may always.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn is_fit(&self, backend: &str) -> Result<(), Unfit> {
        self.judged(backend, Fitness::fit)
    }

    /// Whether a backend may be given a note of this gateway: one that is being rebuilt may.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn is_fit_for_notes(&self, backend: &str) -> Result<(), Unfit> {
        self.judged(backend, Fitness::fit_for_notes)
    }

    /// Whether a member is being rebuilt, by what it has answered last.
    pub fn is_rebuilding(&self, member: &str) -> bool {
        let members = self.lock();
        let heard = members.fitness.get(member);
        heard.is_some_and(|heard| heard.by_table == Ok(MemberState::Rebuilding))
    }

    fn judged(
        &self,
        backend: &str,
        fit: impl FnOnce(&Fitness) -> Result<(), String>,
    ) -> Result<(), Unfit> {
        let Some(file) = self.file.load_full() else { return Ok(()) };
        if file.table.set_of(backend).is_none() {
            return Ok(());
        }
        match self.lock().fitness.get(backend) {
            Some(heard) if heard.asked.elapsed() <= file.check_interval => {
                fit(heard).map_err(Unfit::Differs)
            }
            _ => Err(Unfit::NotRead),
        }
    }

    /// The notes of all gateways.
    pub fn notes(&self) -> &GatewayNotes {
        &self.notes
    }

    /// What tells the other gateways of this one.
    pub fn announcement(&self) -> &Announcement {
        &self.announcement
    }

    /// Waits until the other gateways can know of this one; not at all where points are not shared
    /// out, nor for long where no member takes a note.
    pub async fn announced(&self) {
        let Some(file) = self.file.load_full() else { return };
        let members = file.written.sets.iter().map(|set| set.members.len()).sum();
        // Best effort: clients do not wait for members that are away.
        let _ = tokio::time::timeout(ANNOUNCED_MAX, self.announcement.made(members)).await;
    }

    /// How often each member is given a note; `None` where points are not shared out.
    pub fn note_interval(&self) -> Option<Duration> {
        Some(NOTE_INTERVAL.min(self.check_interval()? / 4))
    }

    /// Waits until there is something to keep: file and members agree on more periods, or the
    /// gateway needs another name.
    pub async fn more_is_agreed(&self) {
        self.more_agreed.notified().await;
    }

    /// Has it kept, where that has failed.
    pub fn try_again(&self) {
        self.more_agreed.notify_one();
    }

    /// Waits until a configuration may have other members.
    pub async fn members_changed(&self) {
        self.changed.notified().await;
    }

    /// Keeps the periods that file and members agree on, and puts them in force; takes another name
    /// where somebody has that of this gateway. Blocks on the disk.
    ///
    /// # Errors
    /// When the disk does not take it; what was in force then stays.
    pub fn keep_agreed(&self) -> Result<(), TableError> {
        if self.notes.take_name()? {
            // What was said by the notes of before is to be read again.
            self.lock().fitness.clear();
        }
        let Some(file) = self.file.load_full() else { return Ok(()) };
        let agreed = {
            let members = self.lock();
            let agreed = Agreement::between(&file.written, &members.tables, usize::MAX).periods;
            Some(agreed).filter(|agreed| *agreed > members.kept)
        };
        let Some(agreed) = agreed else { return Ok(()) };
        file::write(&self.dir, &file.written.first_periods(agreed))?;
        let mut members = self.lock();
        members.kept = members.kept.max(agreed);
        if let Some(file) = self.file.load_full() {
            self.agree(&file, &members);
        }
        Ok(())
    }

    /// Puts in force what is kept and agreed on: at once, so that what is to wait waits.
    fn agree(&self, file: &FileTable, members: &HeardMembers) {
        let HeardMembers { tables, kept, .. } = members;
        let agreement = Agreement::between(&file.written, tables, *kept);
        self.in_force.store(Some(Arc::new(agreement.part_of(&file.table))));
        self.agreement.store(Arc::new(agreement));
        if Agreement::between(&file.written, tables, usize::MAX).periods > *kept {
            self.more_agreed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HeardMembers> {
        // No one panics while holding it, and what it guards is whole at any time.
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a member's answer alone says of the server that gave it, beside the `tables` of others.
fn check_server(
    file: &WrittenTable,
    mut tables: MemberTables,
    member: &str,
    answer: MemberAnswer,
) -> Result<MemberState, String> {
    match answer {
        MemberAnswer::Error(words) => return Err(unreadable(&words)),
        MemberAnswer::Nothing => drop(tables.remove(member)),
        MemberAnswer::Table(table, _) => drop(tables.insert(member.to_owned(), *table)),
    }
    check_member(file, &tables, member)
}

fn unreadable(words: &str) -> String {
    format!("its table can't be read: {words}")
}
