//! The disk's thread of one master: takes all that came as one group, writes it, syncs it, and says
//! up to where the stream is durable.

mod replaced;

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use disk::FileError;

use super::directory::{CurrentGeneration, Directory, DirectoryError, NextGeneration, last_of};
use super::inbox::{Answer, BaseHead, Inbox, Order};
use super::increment::Increment;
use super::keys::{self, Keys};
use super::lines::Id;
use super::manifest::{BaseSum, GenerationFile};
use super::rdb::{Check, RdbError};
use super::scan::{AofPosition, Tail};
use super::state::{Durable, Figure, State};
use super::stream::{StreamError, Tracker};

/// A base is synced in steps of so many bytes, so that its end is not a long wait.
const BASE_SYNC_BYTES: u64 = 32 << 20;

/// Why nothing more is written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A write or a sync failed.
    #[error(transparent)]
    Disk(#[from] FileError),
    /// The directory can't be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// A base is not what the master wrote.
    #[error(transparent)]
    Rdb(#[from] RdbError),
    /// What the master sends is not a stream.
    #[error("the master's stream is broken: {0}")]
    Stream(#[from] StreamError),
    /// A file of the current generation is not what was written.
    #[error("{0}; nothing is confirmed before a new base is on the disk")]
    Damaged(String),
    /// Orders out of turn: a fault in Weir.
    #[error("a stream came with no base before it")]
    NoBase,
    /// There is no thread to be had.
    #[error("the disk's thread can't be started: {0}")]
    Thread(std::io::Error),
    /// The disk's thread panicked: a fault in Weir.
    #[error("the disk's thread died; the log says where")]
    Died,
}

impl WriteError {
    /// Whether a sync failed: nothing is written again before a restart.
    pub fn is_final(&self) -> bool {
        self.of_disk().is_some_and(FileError::is_failed_sync)
    }

    /// Whether there was no room.
    pub fn is_full(&self) -> bool {
        self.of_disk().is_some_and(FileError::is_full)
    }

    fn of_disk(&self) -> Option<&FileError> {
        match self {
            Self::Disk(error) | Self::Directory(DirectoryError::Io(error)) => Some(error),
            _ => None,
        }
    }
}

/// A base that is coming.
#[derive(Debug)]
struct NewBase {
    part: GenerationFile,
    path: PathBuf,
    file: File,
    check: Check,
    synced: u64,
    head: BaseHead,
}

/// A base comes beside the stream, and the increments are not parted for it yet.
#[derive(Debug)]
struct Parting {
    offset: u64,
    answer: Answer<NextGeneration>,
}

/// What a writer goes by.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// An increment that is longer is closed.
    pub increment_max: u64,
    /// How many of 100 keys a master must have still to be believed.
    pub accept_percent: u64,
}

/// The state of the disk's thread.
#[derive(Debug)]
pub struct Writer {
    directory: Directory,
    state: Arc<State>,
    increment: Option<Increment>,
    base: Option<NewBase>,
    parting: Option<Parting>,
    /// The number behind which the increments were parted for a base that comes.
    parted: Option<u64>,
    /// The current generation can't be continued, and is to be pinned.
    pins: bool,
    /// Where it ended, as far as that can be read.
    before: Option<AofPosition>,
    bases: u64,
    limits: Limits,
    /// Bytes of the increments before the last.
    closed_bytes: u64,
}

impl Writer {
    /// Looks what there is to go on with.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn open(
        directory: Directory,
        state: Arc<State>,
        limits: Limits,
    ) -> Result<Self, WriteError> {
        let dir = directory.path().display().to_string();
        let (mut increment, mut pins, mut before) = (None, false, None);
        match directory.find()? {
            CurrentGeneration::Nothing => {}
            CurrentGeneration::Whole(path, place, tail) => {
                if let Tail::Torn(bytes) = tail {
                    tracing::warn!(dir, bytes, "what was being written at the end is cut off");
                }
                let resumed = Increment::resume(&directory.disk, path, place);
                increment = Some(resumed.inspect_err(|error| {
                    if error.is_failed_sync() {
                        directory.distrust();
                    }
                })?);
            }
            CurrentGeneration::Unfit(why) => {
                tracing::error!(
                    dir,
                    "the generation cannot be continued: {why}; a new base comes beside it, and it \
                     is pinned"
                );
                pins = true;
                // What is damaged may not be readable at all.
                before = last_of(directory.path()).ok().flatten();
            }
        }
        directory.pin_unnamed()?;
        directory.sweep_new()?;
        directory.prune()?;
        let bases = state.durable.borrow().bases;
        let mut writer = Self {
            directory,
            state,
            increment,
            base: None,
            parting: None,
            parted: None,
            pins,
            before,
            bases,
            limits,
            closed_bytes: 0,
        };
        writer.figures();
        writer.publish();
        Ok(writer)
    }

    /// Where the stream goes on, if there is a generation.
    pub fn position(&self) -> Option<(Id, u64)> {
        self.increment.as_ref().map(Increment::position)
    }

    /// How much of whose history was confirmed, as far as that is known: also where the stream does
    /// not go on there.
    pub fn confirmed(&self) -> Option<(Id, u64)> {
        self.position().or(self.before.map(|place| (place.id, place.offset)))
    }

    /// How many keys the master had by then.
    fn keys(&self) -> Option<Keys> {
        match &self.increment {
            Some(increment) => increment.keys(),
            None => self.before.and_then(|place| place.keys),
        }
    }

    /// Works until the inbox is closed and what it held is on the disk.
    ///
    /// # Errors
    /// Why it ended before.
    pub fn run(mut self, inbox: &Inbox) -> Result<(), WriteError> {
        let _closing = inbox.closing();
        let done = self.work(inbox);
        if let Err(error) = &done {
            if error.is_final() {
                self.directory.distrust();
            }
            if let Some(base) = self.base.take() {
                // Best effort: it is removed at the next start else.
                let _ = self.directory.disk.remove(&base.path);
            }
        }
        done
    }

    fn work(&mut self, inbox: &Inbox) -> Result<(), WriteError> {
        while let Some((orders, bytes)) = inbox.take() {
            let taken = Instant::now();
            let streamed = self.group(orders)?;
            self.state.has(streamed, taken);
            inbox.done(bytes);
            self.state.set(Figure::Buffer, inbox.bytes() as u64);
        }
        Ok(())
    }

    /// Does what was ordered; gives how many bytes of the stream there were.
    fn group(&mut self, orders: VecDeque<Order>) -> Result<u64, WriteError> {
        let (mut pieces, mut streamed) = (Vec::new(), 0);
        for order in orders {
            match order {
                Order::Stream(bytes) => {
                    streamed += bytes.len() as u64;
                    pieces.push(bytes);
                    continue;
                }
                order => {
                    self.stream(&std::mem::take(&mut pieces))?;
                    self.order(order)?;
                }
            }
        }
        self.stream(&pieces)?;
        self.publish();
        Ok(streamed)
    }

    fn order(&mut self, order: Order) -> Result<(), WriteError> {
        match order {
            Order::Base(head) => {
                self.lose_base();
                self.refuse_parting("the master sends its data set by itself");
                self.parted = None;
                self.bases += 1;
                let (part, path, file) = self.directory.new_base()?;
                let check = Check::default();
                self.base = Some(NewBase { part, path, file, check, synced: 0, head });
            }
            Order::BaseBytes(bytes) => {
                let base = self.base.as_mut().ok_or(WriteError::NoBase)?;
                let disk = &self.directory.disk;
                let written = disk.write_all(&base.file, &[&bytes], base.check.bytes());
                written.map_err(FileError::of("write", &base.path))?;
                base.check.take(&bytes);
                if base.check.bytes() - base.synced >= BASE_SYNC_BYTES {
                    disk.sync(&base.file).map_err(FileError::of("sync", &base.path))?;
                    base.synced = base.check.bytes();
                }
            }
            Order::BaseEnd => self.end_base()?,
            Order::BaseLost => self.lose_base(),
            Order::Renamed(id) => {
                self.refuse_parting("the master's history has changed");
                if let Some(increment) = &mut self.increment {
                    increment.rename(id);
                }
            }
            Order::Stream(_) => {}
            Order::Part(id, offset, answer) => self.part(id, Parting { offset, answer })?,
            Order::Rewrite(parted, sum, answer) => self.rewrite(parted, sum, answer)?,
            Order::GiveUp(parted) => {
                (self.parting, self.parted) = (None, None);
                self.directory.give_up(parted.as_ref());
            }
            Order::Prune => {
                self.directory.prune()?;
                self.figures();
            }
            Order::Damaged(name, why) if self.directory.is_of_current(&name) => {
                self.directory.condemn(&why);
                return Err(WriteError::Damaged(why));
            }
            // Another generation has taken its place.
            Order::Damaged(..) => {}
            Order::RestoreManifest => self.directory.restore_manifest()?,
            Order::Summed(name, sum) => self.directory.note_sum(&name, sum)?,
        }
        Ok(())
    }

    /// Parts the increments where the stream has come to the base's offset, at once if it has.
    fn part(&mut self, id: Id, parting: Parting) -> Result<(), WriteError> {
        let why = match &self.increment {
            _ if self.base.is_some() => "the master sends its data set by itself",
            None => "there is no generation yet",
            Some(increment) if increment.is_doubted() => "the master is not believed yet",
            Some(increment) if increment.position().0 != id => "it is of another history",
            Some(_) => {
                self.parting = Some(parting);
                let at_rest = self.increment.as_ref().and_then(Increment::at_rest).cloned();
                if let Some(at_rest) = at_rest.filter(|_| self.is_to_part()) {
                    self.rotate(&at_rest)?;
                    self.figures();
                }
                return Ok(());
            }
        };
        // Nobody waits for it any more, else.
        let _ = parting.answer.send(Err(why.to_owned()));
        Ok(())
    }

    fn refuse_parting(&mut self, why: &str) {
        if let Some(parting) = self.parting.take() {
            // Nobody waits for it any more, else.
            let _ = parting.answer.send(Err(why.to_owned()));
        }
    }

    /// Whether the stream has come to where the increments are to be parted.
    fn is_to_part(&self) -> bool {
        let offset = self.parting.as_ref().map(|parting| parting.offset);
        let at = self.increment.as_ref().map(|increment| increment.position().1);
        offset.zip(at).is_some_and(|(offset, at)| offset <= at)
    }

    /// A base that came beside the stream takes the current one's place.
    fn rewrite(
        &mut self,
        parted: NextGeneration,
        sum: BaseSum,
        answer: Answer<()>,
    ) -> Result<(), WriteError> {
        let done = match self.parted.take() == Some(parted.since) {
            true => self.directory.rewrite(parted.clone(), sum),
            false => {
                let _ = answer.send(Err("the master has sent its data set by itself".to_owned()));
                self.directory.give_up(Some(&parted));
                return Ok(());
            }
        };
        match done {
            Err(error) if error.is_failed_sync() => return Err(error.into()),
            Err(error) => {
                self.directory.give_up(Some(&parted));
                let _ = answer.send(Err(error.to_string()));
            }
            Ok(()) => {
                self.state.count(Figure::Rewrites);
                self.directory.prune()?;
                self.figures();
                let _ = answer.send(Ok(()));
            }
        }
        Ok(())
    }

    fn lose_base(&mut self) {
        if let Some(base) = self.base.take() {
            // Best effort: it is removed at the next start else.
            let _ = self.directory.disk.remove(&base.path);
        }
    }

    /// The base is whole: it and an empty increment become the current generation.
    fn end_base(&mut self) -> Result<(), WriteError> {
        let base = self.base.as_ref().ok_or(WriteError::NoBase)?;
        base.check.finish()?;
        let BaseHead { id, offset, .. } = base.head;
        let disk = self.directory.disk.clone();
        disk.sync(&base.file).map_err(FileError::of("sync", &base.path))?;
        let (part, path, file) = self.directory.new_increment()?;
        let keys = self.believed(&base.head);
        // The master begins what follows a base with a SELECT.
        let increment = Increment::begin(&disk, (path, file), id, offset, 0, keys)?;
        let dir = self.directory.path();
        disk.sync_dir(dir).map_err(FileError::of("sync", dir))?;
        let base = self.base.take().ok_or(WriteError::NoBase)?;
        let (path, bytes) = (base.path.display().to_string(), base.check.bytes());
        let sum = BaseSum { len: bytes, crc: base.check.sum(), offset };
        let pin = self.pin(&base, keys);
        // What was accepted was not of this base.
        keys::forget(self.directory.of_master());
        self.directory.replace((base.part, sum), part, pin)?;
        (self.pins, self.before, self.increment) = (false, None, Some(increment));
        self.state.count(Figure::Bases);
        tracing::info!(path, bytes, offset, "a base is whole and on the disk");
        self.directory.prune()?;
        self.figures();
        Ok(())
    }

    /// Writes and syncs what came of the stream.
    fn stream(&mut self, pieces: &[Vec<u8>]) -> Result<(), WriteError> {
        if pieces.is_empty() {
            return Ok(());
        }
        let increment = self.increment.as_mut().ok_or(WriteError::NoBase)?;
        let of_master = self.directory.of_master();
        let was_doubted = increment.is_doubted();
        let now = self.state.count_of(increment.position().0);
        if was_doubted && keys::is_accepted(of_master) {
            let count = now.or(increment.keys().map(Keys::count)).unwrap_or(0);
            tracing::info!(master = %of_master.display(), keys = count, "accepted as it is now");
            increment.recount(Keys::Accepted(count));
        } else if let Some(now) = now {
            let percent = self.limits.accept_percent;
            increment.recount(Keys::recounted(increment.keys(), now, percent));
        }
        let disk = self.directory.disk.clone();
        let was_at_rest = increment.is_at_rest();
        let group = increment.group(pieces)?;
        increment.write_before(&disk, &group, was_at_rest)?;
        let is_long = increment.len() >= self.limits.increment_max;
        let rotated = group.at_rest().filter(|_| is_long || self.is_to_part());
        if let Some(at_rest) = rotated {
            self.rotate(at_rest)?;
        }
        let increment = self.increment.as_mut().ok_or(WriteError::NoBase)?;
        increment.write_behind(&disk, &group)?;
        let begun = Instant::now();
        increment.sync(&disk)?;
        self.state.syncs.observe(begun.elapsed());
        if was_doubted && !increment.is_recounted() && !increment.is_doubted() {
            keys::forget(self.directory.of_master());
        }
        if rotated.is_some() {
            self.figures();
        }
        Ok(())
    }

    /// Closes the increment where a file may end, and begins another. Where a base comes whose
    /// offset has been reached, the increments are parted here.
    fn rotate(&mut self, at_rest: &Tracker) -> Result<(), WriteError> {
        let is_to_part = self.is_to_part();
        let parting = self.parting.take_if(|_| is_to_part);
        let increment = self.increment.as_mut().ok_or(WriteError::NoBase)?;
        let disk = self.directory.disk.clone();
        increment.sync(&disk)?;
        let parted = parting.map(|of| (self.directory.part(of.offset), of.answer));
        let (part, path, file) = self.directory.new_increment()?;
        *increment = increment.go_on_in(&disk, (path, file), at_rest)?;
        let dir = self.directory.path();
        disk.sync_dir(dir).map_err(FileError::of("sync", dir))?;
        self.directory.append(part)?;
        if let Some((parted, answer)) = parted {
            self.parted = parted.as_ref().ok().map(|parted| parted.since);
            // Nobody waits for it any more, else.
            let _ = answer.send(parted.map_err(|error| error.to_string()));
        }
        Ok(())
    }

    /// Says up to where the stream is durable.
    fn publish(&self) {
        if let Some((id, offset)) = self.position() {
            self.state.is_of(id);
            self.state.has_keys(self.increment.as_ref().and_then(Increment::keys));
            // While a base comes, what is durable is of the one before.
            let bases = if self.base.is_some() { self.bases - 1 } else { self.bases };
            self.state.durable.send_replace(Durable { bases, offset });
        }
        let open = self.increment.as_ref().map_or(0, Increment::len);
        self.state.set(Figure::Increments, self.closed_bytes + open);
    }

    /// Looks at the files, which is done when there are others.
    fn figures(&mut self) {
        let (base, increments) = self.directory.sizes();
        let open = self.increment.as_ref().map_or(0, Increment::len);
        self.closed_bytes = increments.saturating_sub(open);
        self.state.set(Figure::Base, base);
        self.state.set(Figure::BaseTime, self.directory.base_time());
        let (generations, pinned) = self.directory.generations();
        self.state.set(Figure::Generations, generations);
        self.state.set(Figure::Pinned, pinned);
    }
}
