//! New bases beside the stream: when one is due, where it is taken from, and how it takes the
//! current one's place.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use ::units::Size;
use ::units::window::Window;
use ::watch::words::bytes;
use disk::{Disk, FileError};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::bridge::{BridgeError, bridge};
use super::directory::{APPEND_DIR, DirectoryError, NEW, NEW_BASE, NextGeneration, is_held};
use super::inbox::{Inbox, Order};
use super::link::LinkError;
use super::manifest::{BaseSum, CURRENT};
use super::rdb::{Check, RdbError};
use super::source::Source;
use super::state::{Figure, State};
use crate::server::Server;
use crate::settings::{RewriteSettings, machine};

/// There from `weir redis rewrite` until a new base is in force.
const ASK: &str = "weir.rewrite";
/// How often it is looked whether a new base is due, or whether all is to end.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often it is looked whether older generations are too old.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// The first and the longest wait after one that failed.
const RETRY: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(600)];
/// A window brings a new base only where more than this was written since the last: the pings of a
/// day are less.
const WINDOW_BYTES_MIN: u64 = 1 << 20;
/// What must be left on the disk beside a base of the size of the last one, and a quarter.
const ROOM_BYTES_MIN: u64 = 16 << 20;
/// A base is synced in steps of so many bytes, so that the stream's syncs wait for no long one.
const SYNC_BYTES: u64 = 32 << 20;

/// Why a new base was not taken.
#[derive(Debug, thiserror::Error)]
enum RewriteError {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Rdb(#[from] RdbError),
    #[error(transparent)]
    Disk(#[from] FileError),
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    #[error("the disk has {0} left, which is not enough beside the files that there are")]
    NoRoom(String),
    #[error("{0}")]
    Refused(String),
    #[error("the stream did not come to its offset in time")]
    NotReached,
    #[error("the follower ends")]
    Closed,
}

impl RewriteError {
    /// Whether another server may have a base that can be used.
    fn is_of_source(&self) -> bool {
        matches!(self, Self::Link(_) | Self::Rdb(_) | Self::Refused(_) | Self::NotReached)
    }
}

/// A server that bases are taken from.
#[derive(Clone)]
pub struct Origin {
    /// How it is reached.
    pub server: Server,
    /// The host that it is on, where one is named: one server of a host sends a base, or does what
    /// the guard has it do, at a time.
    pub host: Option<String>,
    /// It is a replica, and must be one of the same history.
    pub is_replica: bool,
}

impl Origin {
    /// The host that it is on now; the guard has the same names.
    async fn host(&self) -> Result<String, RewriteError> {
        match &self.host {
            Some(host) => Ok(host.clone()),
            None => {
                let address = self.server.address_now().await.map_err(RewriteError::Refused)?;
                Ok(machine(address.host()).to_owned())
            }
        }
    }
}

/// One permit for each host.
#[derive(Debug, Default)]
pub struct Hosts(HashMap<String, Arc<Semaphore>>);

impl Hosts {
    /// The permit of a host.
    pub fn permit(&mut self, host: String) -> Arc<Semaphore> {
        Arc::clone(self.0.entry(host).or_insert_with(|| Arc::new(Semaphore::new(1))))
    }
}

/// Takes new bases of one master.
#[derive(Clone)]
pub struct Rewriter {
    /// Where from: the first that can.
    pub origins: Vec<Origin>,
    /// Whose turn it is on each host.
    pub hosts: Arc<Mutex<Hosts>>,
    pub state: Arc<State>,
    /// When a new base is due.
    pub settings: RewriteSettings,
    /// How long a server may be silent.
    pub timeout: Duration,
    /// A larger base is refused.
    pub base_max: Size,
    pub of_master: PathBuf,
}

/// Has a running Weir, or the next that starts, take a new base. Gives whether one runs.
///
/// # Errors
/// There is no generation, or the file system refuses.
pub fn ask(of_master: &Path) -> Result<bool, DirectoryError> {
    let manifest = of_master.join(APPEND_DIR).join(CURRENT);
    fs::metadata(&manifest).map_err(FileError::of("find", &manifest))?;
    let path = of_master.join(ASK);
    Disk::of(of_master).put(&path, &[])?;
    is_held(of_master)
}

/// Whether a new base is due at a time: `base` bytes, whole since `since`, and `increments` bytes
/// since then.
fn is_due(
    settings: &RewriteSettings,
    now: SystemTime,
    since: SystemTime,
    (base, increments): (u64, u64),
) -> bool {
    let percent = u128::from(settings.percentage);
    let has_outgrown = u128::from(increments) * 100 >= u128::from(base) * percent;
    let is_grown = percent > 0 && has_outgrown && increments >= settings.min_size.bytes();
    let opened = settings.window.and_then(|window: Window| window.opened(now));
    is_grown || (increments >= WINDOW_BYTES_MIN && opened.is_some_and(|opened| since < opened))
}

/// Waits, unless the follower ends.
async fn unless_closed<T>(inbox: &Inbox, done: impl Future<Output = T>) -> Result<T, RewriteError> {
    let closed = async {
        while !inbox.is_closed() {
            sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        done = done => Ok(done),
        () = closed => Err(RewriteError::Closed),
    }
}

impl Rewriter {
    /// Takes new bases when they are due, until the inbox is closed. It writes on the thread that
    /// runs it.
    pub async fn run(self, inbox: &Inbox) {
        let (mut wait, mut next) = (RETRY[0], Instant::now());
        let mut pruned = Instant::now();
        while !inbox.is_closed() {
            sleep(LOOK_EVERY).await;
            if pruned.elapsed() > PRUNE_EVERY {
                pruned = Instant::now();
                inbox.push(Order::Prune);
            }
            // A master that has lost what was confirmed is not believed.
            let can_be = self.state.is_following() && self.state.doubt().is_none();
            let is_due = || self.of_master.join(ASK).exists() || self.is_due();
            if Instant::now() < next || !can_be || !is_due() {
                continue;
            }
            match self.rewrite(inbox).await {
                Ok(()) => {
                    wait = RETRY[0];
                    self.state.rewrite(None);
                    // Best effort: another base is taken else.
                    let _ = fs::remove_file(self.of_master.join(ASK));
                }
                Err(RewriteError::Closed) => self.state.rewrite(None),
                Err(error) => {
                    self.state.count(Figure::RewritesFailed);
                    let words = format!("no new base: {error}; tried again in {wait:?}");
                    tracing::warn!(dir = %self.of_master.display(), "{words}");
                    self.state.rewrite(Some(words));
                    next = Instant::now() + wait;
                    wait = (wait * 2).min(RETRY[1]);
                }
            }
        }
    }

    fn is_due(&self) -> bool {
        let figure = |of| self.state.figure(of);
        let since = UNIX_EPOCH + Duration::from_secs(figure(Figure::BaseTime));
        let sizes = (figure(Figure::Base), figure(Figure::Increments));
        is_due(&self.settings, SystemTime::now(), since, sizes)
    }

    async fn rewrite(&self, inbox: &Inbox) -> Result<(), RewriteError> {
        let mut done = Err(RewriteError::Closed);
        for origin in &self.origins {
            let name = &*origin.server.name;
            self.state.rewrite(Some(format!("a new base waits for other servers beside {name}")));
            done = self.take_in_turn(origin, inbox).await;
            match &done {
                Err(error) if error.is_of_source() => {
                    tracing::warn!(from = name, "no base can be had there: {error}");
                }
                _ => break,
            }
        }
        done
    }

    /// Takes a base from a server once it is its host's turn.
    async fn take_in_turn(&self, origin: &Origin, inbox: &Inbox) -> Result<(), RewriteError> {
        let host = unless_closed(inbox, origin.host()).await??;
        let turn = self.hosts.lock().permit(host);
        // It is never closed.
        let _permit = unless_closed(inbox, turn.acquire()).await?;
        self.has_room()?;
        self.take(origin, inbox).await
    }

    /// Whether the disk has room for a base beside what there is.
    fn has_room(&self) -> Result<(), RewriteError> {
        let base = self.state.figure(Figure::Base);
        let wanted = base + base / 4 + ROOM_BYTES_MIN;
        match Disk::room(&self.of_master) {
            Ok(room) if room < wanted => Err(RewriteError::NoRoom(bytes(room))),
            // Where it can't be asked, the write says it.
            _ => Ok(()),
        }
    }

    /// Takes a base from a server.
    async fn take(&self, origin: &Origin, inbox: &Inbox) -> Result<(), RewriteError> {
        let of = self.state.id().filter(|_| origin.is_replica);
        let joins = (!origin.is_replica).then_some(&self.state.joins);
        let joined = Source::join(&origin.server, of, joins, self.timeout, self.base_max.bytes());
        let mut source = unless_closed(inbox, joined).await??;
        let (from, offset) = (&*origin.server.name, source.offset);
        tracing::info!(from, offset, "a new base comes beside the stream");
        let (answer, mut answered) = oneshot::channel();
        inbox.push(Order::Part(source.id, offset, answer));
        let (parted, written) = self.write(&mut source, from, &mut answered, inbox).await;
        drop(source);
        let (parted, made) = match written {
            Ok(check) => {
                let sum = BaseSum { len: check.bytes(), crc: check.sum(), offset };
                let (parted, made) = self.between(parted, answered, offset, inbox).await;
                (parted, made.map(|()| sum))
            }
            Err(error) => (parted, Err(error)),
        };
        let (parted, sum) = match (parted, made) {
            (Some(parted), Ok(sum)) => (parted, sum),
            (parted, made) => {
                inbox.push(Order::GiveUp(parted));
                return Err(made.err().unwrap_or(RewriteError::Closed));
            }
        };
        let (answer, done) = oneshot::channel();
        inbox.push(Order::Rewrite(parted, sum, answer));
        let done = unless_closed(inbox, done).await?.map_err(|_| RewriteError::Closed)?;
        done.map_err(RewriteError::Refused)?;
        tracing::info!(from, offset, "the new base is in force");
        Ok(())
    }

    /// Writes a base as it comes; also gives where the increments were parted, if they were.
    async fn write(
        &self,
        source: &mut Source,
        from: &str,
        answered: &mut oneshot::Receiver<Result<NextGeneration, String>>,
        inbox: &Inbox,
    ) -> (Option<NextGeneration>, Result<Check, RewriteError>) {
        let mut parted = None;
        let written = async {
            let disk = Disk::of(&self.of_master);
            let path = self.of_master.join(APPEND_DIR).join(NEW_BASE);
            // Left by one that was given up.
            let _ = fs::remove_file(&path);
            let (file, mut check, mut synced) = (disk.make(&path)?, Check::default(), 0);
            let show = |len| {
                let words = format!("a new base comes from {from}: {}", bytes(len));
                self.state.rewrite(Some(words));
            };
            show(0);
            while let Some(piece) = unless_closed(inbox, source.next()).await?? {
                let written = disk.write_all(&file, &[&piece], check.bytes());
                written.map_err(FileError::of("write", &path))?;
                check.take(&piece);
                if check.bytes() - synced >= SYNC_BYTES {
                    disk.sync(&file).map_err(FileError::of("sync", &path))?;
                    synced = check.bytes();
                    show(synced);
                }
                match answered.try_recv() {
                    Ok(Ok(at)) => parted = Some(at),
                    Ok(Err(words)) => return Err(RewriteError::Refused(words)),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => {}
                }
            }
            check.finish()?;
            disk.sync(&file).map_err(FileError::of("sync", &path))?;
            Ok(check)
        };
        let written = written.await;
        (parted, written)
    }

    /// Makes the increments from the base's offset up to where they were parted.
    async fn between(
        &self,
        parted: Option<NextGeneration>,
        answered: oneshot::Receiver<Result<NextGeneration, String>>,
        offset: u64,
        inbox: &Inbox,
    ) -> (Option<NextGeneration>, Result<(), RewriteError>) {
        let parted = match parted {
            Some(parted) => Ok(parted),
            None => match unless_closed(inbox, timeout(self.timeout, answered)).await {
                Ok(Ok(Ok(answered))) => answered.map_err(RewriteError::Refused),
                Ok(Err(_)) => Err(RewriteError::NotReached),
                Ok(Ok(Err(_))) | Err(_) => Err(RewriteError::Closed),
            },
        };
        match parted {
            Ok(parted) => {
                let made = self.make_between(&parted, offset);
                (Some(parted), made)
            }
            Err(error) => (None, Err(error)),
        }
    }

    fn make_between(&self, parted: &NextGeneration, offset: u64) -> Result<(), RewriteError> {
        let (disk, dir) = (Disk::of(&self.of_master), self.of_master.join(APPEND_DIR));
        for (number, (from, part)) in parted.between.iter().enumerate() {
            let to = dir.join(format!("{}{NEW}", part.name));
            let _ = fs::remove_file(&to);
            match number {
                0 => bridge(&disk, from, offset, &to)?,
                // It is closed, and never changes.
                _ => fs::hard_link(from, &to).map_err(FileError::of("link", &to))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{RewriteSettings, is_due};

    #[test]
    fn a_base_is_due_when_it_is_outgrown_and_once_in_each_window() {
        const MIB: u64 = 1 << 20;
        let hour = |hour: u64| UNIX_EPOCH + Duration::from_secs((10_000 * 24 + hour) * 3600);
        let settings = |text: &str| toml::from_str::<RewriteSettings>(text).unwrap();
        let grown = settings("percentage = 50\nmin-size = \"64MiB\"");
        let due =
            |base, increments| is_due(&grown, hour(12), hour(0), (base * MIB, increments * MIB));
        assert!(!due(10, 63) && due(10, 64), "not below min-size");
        assert!(!due(1000, 499) && due(1000, 500));
        let never = settings("percentage = 0");
        assert!(!is_due(&never, hour(12), hour(0), (1, u64::MAX)));
        let night = settings("percentage = 0\nwindow = \"02:00-05:00\"");
        let due = |now, since, bytes| is_due(&night, hour(now), hour(since), (1, bytes));
        assert!(due(3, 0, MIB) && !due(1, 0, MIB) && !due(6, 0, MIB));
        assert!(!due(4, 3, MIB), "it was taken in this window");
        assert!(due(24 + 3, 3, MIB), "and is again in the next");
        assert!(!due(3, 0, MIB - 1), "nothing but pings was written");
    }
}
