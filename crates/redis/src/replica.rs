//! Append-only files that Weir keeps for servers, so that these need write none: a master is
//! followed as by a replica, without a replica's memory.
//!
//! Each master has two threads. The `link` joins it and puts what it sends into a bounded
//! `inbox`; the `writer` takes all that came as one group, writes it to an `increment`, syncs
//! it, and the link tells the master up to where its stream is durable. A [`directory`] holds the
//! files, and [`scan`] finds in them where to go on. What the disk refuses closes the link. Beside
//! the link, a `survey` asks the master how it is set, and [`rewrite`] takes new bases from a
//! `source`, with a `bridge` from each one's offset to where the increments were parted for it. At
//! its `port` Weir says what it is, and fills servers by a `replay` of the files.

pub mod answers;
mod bridge;
pub mod crc64;
pub mod directory;
mod inbox;
mod increment;
pub mod keys;
pub mod lines;
mod link;
pub mod manifest;
mod port;
pub mod rdb;
mod replay;
pub mod restore;
pub mod rewrite;
pub mod scan;
mod source;
pub mod state;
pub mod stream;
mod survey;
pub mod verify;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ::watch::metrics::Registry;
use flow::backoff::Backoff;
use flow::front::{Front, Prepared};
use serde::Serialize;
use tokio::sync::{oneshot, watch};

use crate::server::Server;
use crate::settings::{AofSettings, MasterSettings, SettingsError, read_address};
use directory::{Directory, DirectoryError, Keep};
use inbox::Inbox;
use link::Link;
pub use link::Stop;
use port::Port;
use rewrite::{Hosts, Origin, Rewriter};
use state::{Followed, State};
use survey::Surveyor;
use writer::{Limits, WriteError, Writer};

/// The first and the longest wait before a directory is opened again after an error.
const RETRY: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];

/// Why the masters can not be followed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings can't work.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A master's files can't be used.
    #[error("redis.aof master {name:?}: {source}")]
    Directory {
        /// Which master.
        name: String,
        /// What is in the way.
        source: DirectoryError,
    },
    /// What the settings name can't be read.
    #[error("redis.aof: {0}")]
    Master(String),
    /// There is no thread to be had.
    #[error("redis.aof: a thread can't be started: {0}")]
    Thread(std::io::Error),
}

/// All masters that are followed.
pub struct Follower {
    settings: AofSettings,
    masters: Vec<(Arc<State>, PathBuf)>,
    stop: watch::Sender<bool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// One master, as its thread has it.
struct Master {
    link: Link,
    rewriter: Rewriter,
    dir: PathBuf,
    settings: AofSettings,
    state: Arc<State>,
}

impl Follower {
    /// Holds the masters' directories, and begins to follow.
    ///
    /// # Errors
    /// What in the settings or on the disk stands in the way.
    pub fn open(settings: AofSettings, registry: &Registry) -> Result<Arc<Self>, OpenError> {
        let stop = watch::Sender::new(false);
        let (mut masters, mut threads) = (Vec::new(), Vec::new());
        let mut hosts = Hosts::default();
        for of in &settings.master {
            let dir = settings.dir.join(&of.name);
            let server = || Server::new(&of.backend()).map_err(OpenError::Master);
            let opened = Directory::open(&dir, keep(&settings));
            let wrong = |source| OpenError::Directory { name: of.name.clone(), source };
            let opened = opened.map_err(wrong)?;
            let state = State::new(&of.name, registry);
            masters.push((Arc::clone(&state), dir.clone()));
            let port = Port::bind(&settings, of, Arc::clone(&state)).map_err(OpenError::Master)?;
            let announced = port.as_ref().map(Port::number);
            let link = Link::new(server()?, &settings, announced, Arc::clone(&state));
            let surveyor = Surveyor::new(server()?, &settings, of.tune, Arc::clone(&state));
            let rewriter = Rewriter {
                origins: origins(of, &mut hosts).map_err(OpenError::Master)?,
                state: Arc::clone(&state),
                settings: settings.rewrite.clone(),
                timeout: settings.timeout.get(),
                base_max: settings.base_max,
                of_master: dir.clone(),
            };
            let master = Master { link, rewriter, dir, settings: settings.clone(), state };
            let stop = stop.subscribe();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(OpenError::Thread)?;
            let builder = std::thread::Builder::new().name(format!("link-{}", of.name));
            runtime.spawn(surveyor.run(stop.clone()));
            if let Some(port) = port {
                runtime.spawn(port.run(stop.clone()));
            }
            let run = move || runtime.block_on(master.follow(opened, stop));
            threads.push(builder.spawn(run).map_err(OpenError::Thread)?);
        }
        Ok(Arc::new(Self { settings, masters, stop, threads: Mutex::new(threads) }))
    }
}

impl Follower {
    /// The masters, what goes on with each, and where its files are.
    pub fn kept(&self) -> impl Iterator<Item = (&MasterSettings, Arc<State>, PathBuf)> {
        let masters = self.settings.master.iter().zip(&self.masters);
        masters.map(|(of, (state, dir))| (of, Arc::clone(state), dir.clone()))
    }

    /// How the masters are.
    pub fn followed(&self) -> Vec<Followed> {
        let masters = self.settings.master.iter().zip(&self.masters);
        let followed = masters.map(|(of, (state, dir))| Followed {
            name: of.name.clone(),
            url: of.whereabouts(),
            dir: dir.display().to_string(),
            ..state.followed()
        });
        followed.collect()
    }
}

/// Which older generations are kept.
fn keep(settings: &AofSettings) -> Keep {
    Keep {
        count: settings.keep,
        age: settings.keep_for.get(),
        bytes: settings.keep_bytes.bytes(),
        pinned: settings.keep_pinned,
    }
}

/// Where new bases of a master are taken from: its replicas, and else itself. As for the guard, a
/// master that Sentinels find is of a host of its own where none is named.
fn origins(of: &MasterSettings, hosts: &mut Hosts) -> Result<Vec<Origin>, String> {
    let mut found = Vec::new();
    for backend in of.replicas().into_iter().chain([of.backend()]) {
        let by_sentinel = backend.sentinel.as_ref().map(|_| of.name.clone());
        let named = backend.host.clone().or(by_sentinel);
        let by_url = || read_address(&backend.url).ok()?.address.host().map(str::to_owned);
        let host = hosts.permit(named.or_else(by_url).unwrap_or_default());
        let is_replica = found.len() < of.replicas.len();
        let server = Server::new(&backend)?;
        found.push(Origin { server, host, is_replica });
    }
    Ok(found)
}

impl Master {
    /// Follows until it is told to stop.
    async fn follow(mut self, first: Directory, mut stop: Stop) {
        let mut backoff = Backoff::new(RETRY[0], RETRY[1]);
        let (mut directory, mut is_full) = (Some(first), false);
        while !*stop.borrow() {
            let opened = match directory.take() {
                Some(directory) => Ok(directory),
                None => self.open(std::mem::take(&mut is_full)),
            };
            let done = match opened {
                Ok(directory) => self.attempt(directory, &mut stop).await,
                Err(error) => Err(error),
            };
            self.state.gave_up();
            if let Err(error) = done {
                self.tell(&error);
                is_full = error.is_full();
                if error.is_final() {
                    self.state.link("stopped");
                    // The sender lives as long as the process serves.
                    let _ = stop.wait_for(|stop| *stop).await;
                    return;
                }
            }
            tokio::select! {
                () = backoff.wait() => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
    }

    /// Opens the directory again. Where the disk was full, the oldest generation goes that is
    /// neither pinned nor the current one: what is written now is worth more.
    fn open(&self, is_full: bool) -> Result<Directory, WriteError> {
        let directory = Directory::open(&self.dir, keep(&self.settings))?;
        if is_full && let Some(removed) = directory.make_room()? {
            tracing::error!(
                master = self.link.name(),
                removed,
                "the disk is full: an older generation is removed before its time"
            );
        }
        Ok(directory)
    }

    /// Says why nothing more is acknowledged.
    fn tell(&self, error: &WriteError) {
        let name = self.link.name();
        if self.state.trouble(Some(error.to_string())) {
            tracing::error!(master = name, "nothing more is acknowledged: {error}");
        }
        if error.is_final() {
            tracing::error!(
                master = name,
                "a sync has failed: nothing more is written before a restart, which takes a new \
                 base"
            );
        }
    }

    /// Follows until the disk refuses, or until it is told to stop.
    async fn attempt(&mut self, directory: Directory, stop: &mut Stop) -> Result<(), WriteError> {
        let state = Arc::clone(&self.state);
        let limits = Limits {
            increment_max: self.settings.increment_size.bytes(),
            accept_percent: self.settings.accept_keys.into(),
        };
        let writer = Writer::open(directory, state, limits)?;
        let inbox = Arc::new(Inbox::new(self.settings.buffer.len()));
        self.link.resume(writer.position());
        let (ended, end) = oneshot::channel();
        let of_writer = Arc::clone(&inbox);
        let run = move || {
            // The follower waits for it.
            let _ = ended.send(writer.run(&of_writer));
        };
        let builder = std::thread::Builder::new().name(format!("aof-{}", self.link.name()));
        builder.spawn(run).map_err(WriteError::Thread)?;
        let rewriting = self.rewriting(&inbox);
        if rewriting.is_ok() {
            self.link.run(&inbox, stop).await;
        }
        inbox.close();
        let ended = end.await.unwrap_or(Err(WriteError::Died));
        // It has ended where its thread has died.
        let _ = rewriting?.await;
        ended
    }

    /// Takes new bases on a thread of its own, until the inbox is closed.
    fn rewriting(&self, inbox: &Arc<Inbox>) -> Result<oneshot::Receiver<()>, WriteError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(WriteError::Thread)?;
        let (rewriter, inbox) = (self.rewriter.clone(), Arc::clone(inbox));
        let (ended, end) = oneshot::channel();
        let run = move || {
            runtime.block_on(rewriter.run(&inbox));
            // The follower waits for it.
            let _ = ended.send(());
        };
        let builder = std::thread::Builder::new().name(format!("base-{}", self.link.name()));
        builder.spawn(run).map_err(WriteError::Thread)?;
        Ok(end)
    }
}

impl Front for Follower {
    const NAME: &'static str = "redis.aof";
    type Settings = AofSettings;
    type Error = OpenError;

    fn prepare(self: &Arc<Self>, wanted: AofSettings) -> Result<Prepared<'_>, OpenError> {
        Ok(Prepared::new(move || match wanted == self.settings {
            true => Vec::new(),
            false => vec!["[redis.aof]".to_owned()],
        }))
    }

    fn status(&self) -> impl Serialize {
        self.followed()
    }

    async fn stop(&self, within: Duration) {
        self.stop.send_replace(true);
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let ended = async {
            while !threads.iter().all(JoinHandle::is_finished) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(within, ended).await.is_err() {
            tracing::warn!("an append-only file was not closed in time; the disk may stand still");
        }
    }
}
