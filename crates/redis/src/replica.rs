//! Append-only files that Weir keeps for servers, so that these need write none: a master is
//! followed as by a replica, without a replica's memory.
//!
//! Each master has a few threads. The `link` joins it and puts what it sends into a bounded
//! `inbox`; the `writer` takes all that came as one group, writes it to an `increment`, syncs
//! it, and the link tells the master up to where its stream is durable. A [`directory`] holds the
//! files, and [`scan`] finds in them where to go on; a `scrub` reads them again. What the disk
//! refuses closes the link. Beside the link, a `survey` asks the master how it is set, and
//! [`rewrite`] takes new bases from a `source`, with a `bridge` from each one's offset to where the
//! increments were parted for it. At its `port` Weir says what it is, and fills servers by a
//! `replay` of the files.

pub mod answers;
mod bridge;
mod cluster;
pub mod crc64;
pub mod directory;
mod inbox;
mod increment;
pub mod joins;
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
mod scrub;
mod source;
pub mod state;
pub mod stream;
mod survey;
pub mod verify;
mod writer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use ::watch::metrics::Registry;
use flow::backoff::Backoff;
use flow::front::{Front, PreparedSettings};
use serde::Serialize;
use tokio::sync::{oneshot, watch};

use crate::server::Server;
use crate::server::shards::Shards;
use crate::settings::{AofSettings, MasterSettings, SettingsError};
use cluster::Finder;
use directory::{Directory, DirectoryError, RetentionLimits};
use inbox::Inbox;
use link::Link;
pub use link::Stop;
use port::Port;
use rewrite::{Hosts, Origin, Rewriter};
use scrub::Scrubber;
use state::{MasterStatus, State};
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
    masters: Mutex<Vec<FollowedMaster>>,
    /// Clusters whose masters are not known, and why.
    unknown: Mutex<BTreeMap<String, String>>,
    hosts: Arc<Mutex<Hosts>>,
    registry: Registry,
    stop: watch::Sender<bool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A master that is followed, for whoever looks.
#[derive(Clone)]
pub struct FollowedMaster {
    /// How it is reached. Of a Cluster's shard, its `url` is where its master was seen last.
    pub of: MasterSettings,
    /// What goes on with it.
    pub state: Arc<State>,
    /// Where its files are.
    pub dir: PathBuf,
    shards: Option<Shards>,
}

/// One master, as its thread has it.
struct Master {
    link: Link,
    rewriter: Rewriter,
    /// A follower has one, and each attempt has it for as long as it lasts.
    scrubber: Arc<Mutex<Scrubber>>,
    dir: PathBuf,
    settings: AofSettings,
    state: Arc<State>,
}

impl FollowedMaster {
    /// Whether it is known where it is: of a shard of a Cluster, a node has said so.
    pub fn is_found(&self) -> bool {
        let found = self.shards.as_ref().map(|shards| shards.found(&self.of.name));
        found.is_none_or(|found| found.is_some_and(|found| found.master.is_some()))
    }
}

impl Follower {
    /// Holds the masters' directories, and begins to follow.
    ///
    /// # Errors
    /// What in the settings or on the disk stands in the way.
    pub fn open(settings: AofSettings, registry: &Registry) -> Result<Arc<Self>, OpenError> {
        let this = Arc::new(Self {
            settings,
            masters: Mutex::default(),
            unknown: Mutex::default(),
            hosts: Arc::default(),
            registry: registry.clone(),
            stop: watch::Sender::new(false),
            threads: Mutex::default(),
        });
        for of in &this.settings.master {
            match of.cluster.is_empty() {
                true => this.begin(of.clone(), None)?,
                false => this.begin_cluster(of)?,
            }
        }
        Ok(this)
    }

    /// Begins to follow the masters of a Cluster: those that were followed before, and those that
    /// are found.
    fn begin_cluster(self: &Arc<Self>, of: &MasterSettings) -> Result<(), OpenError> {
        let before = cluster::known(&self.settings.dir, &of.name);
        let shards = Shards::new(&of.name, &of.nodes(), before.clone());
        let shards = shards.map_err(OpenError::Master)?;
        for shard in before {
            self.begin(of.of_shard(&shard.name), Some(shards.clone()))?;
        }
        let finder = Finder::new(of.clone(), shards, Arc::downgrade(self));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (runtime, stop) = (runtime.map_err(OpenError::Thread)?, self.stop.subscribe());
        self.spawn(format!("nodes-{}", of.name), move || runtime.block_on(finder.run(stop)))
    }

    /// Begins to follow a master, which may be a shard of a Cluster.
    fn begin(&self, of: MasterSettings, shards: Option<Shards>) -> Result<(), OpenError> {
        let settings = &self.settings;
        let dir = settings.dir.join(&of.name);
        let server = || match &shards {
            Some(shards) => shards.master_of(&of.name, &of.backend()),
            None => Server::new(&of.backend()),
        };
        let server = || server().map_err(OpenError::Master);
        let opened = Directory::open(&dir, keep(settings));
        let wrong = |source| OpenError::Directory { name: of.name.clone(), source };
        let opened = opened.map_err(wrong)?;
        let state = State::new(&of.name, &self.registry);
        let followed = server()?;
        let port = Port::bind(settings, &of, &followed, Arc::clone(&state));
        let port = port.map_err(OpenError::Master)?;
        let announced = port.as_ref().map(Port::number);
        let link = Link::new(followed, settings, announced, Arc::clone(&state));
        let surveyor = Surveyor::new(server()?, settings, of.tune, Arc::clone(&state));
        let origins = origins(&of, server()?).map_err(OpenError::Master)?;
        let rewriter = Rewriter {
            origins,
            hosts: self.hosts(),
            state: Arc::clone(&state),
            settings: settings.rewrite.clone(),
            timeout: settings.timeout.get(),
            base_max: settings.base_max,
            of_master: dir.clone(),
        };
        let kept = FollowedMaster { of, state: Arc::clone(&state), dir: dir.clone(), shards };
        let name = format!("link-{}", kept.of.name);
        let (rate, every) = (settings.scrub_rate.bytes(), settings.scrub_every.get());
        let scrubber = Scrubber::new(&dir, Arc::clone(&state), rate, every);
        let scrubber = Arc::new(Mutex::new(scrubber));
        let settings = settings.clone();
        let master = Master { link, rewriter, scrubber, dir, settings, state };
        let stop = self.stop.subscribe();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(OpenError::Thread)?;
        runtime.spawn(surveyor.run(stop.clone()));
        if let Some(port) = port {
            runtime.spawn(port.run(stop.clone()));
        }
        self.spawn(name, move || runtime.block_on(master.follow(opened, stop)))?;
        self.masters().push(kept);
        Ok(())
    }

    fn spawn(&self, name: String, run: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
        let thread = std::thread::Builder::new().name(name).spawn(run);
        let mut threads = self.threads.lock();
        threads.push(thread.map_err(OpenError::Thread)?);
        Ok(())
    }

    fn masters(&self) -> MutexGuard<'_, Vec<FollowedMaster>> {
        self.masters.lock()
    }

    fn unknown(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.unknown.lock()
    }

    /// Whose turn it is to fork, by host.
    pub fn hosts(&self) -> Arc<Mutex<Hosts>> {
        Arc::clone(&self.hosts)
    }

    /// The masters that are followed now.
    pub fn kept(&self) -> Vec<FollowedMaster> {
        let mut all = self.masters().clone();
        for kept in &mut all {
            let found = kept.shards.as_ref().and_then(|shards| shards.found(&kept.of.name));
            if let Some(at) = found.and_then(|found| found.master) {
                kept.of = kept.of.moved_to(&at);
            }
        }
        all
    }

    /// How the masters are.
    pub fn followed(&self) -> Vec<MasterStatus> {
        let followed = self.kept().into_iter().map(|kept| MasterStatus {
            name: kept.of.name.clone(),
            url: kept.of.whereabouts(),
            dir: kept.dir.display().to_string(),
            ..kept.state.followed()
        });
        let unknown = self.unknown().clone().into_iter().map(|(name, why)| MasterStatus {
            name,
            link: "connecting".to_owned(),
            trouble: Some(why),
            ..MasterStatus::default()
        });
        followed.chain(unknown).collect()
    }
}

/// Which older generations are kept.
fn keep(settings: &AofSettings) -> RetentionLimits {
    RetentionLimits {
        count: settings.keep,
        age: settings.keep_for.get(),
        bytes: settings.keep_bytes.bytes(),
        pinned: settings.keep_pinned,
    }
}

/// Where new bases of a master are taken from: its replicas, and else itself.
fn origins(of: &MasterSettings, master: Server) -> Result<Vec<Origin>, String> {
    let mut found = Vec::new();
    for replica in of.replicas() {
        found.push(Origin { server: Server::new(&replica)?, host: None, is_replica: true });
    }
    found.push(Origin { server: master, host: of.host.clone(), is_replica: false });
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
        self.link.resume(writer.position(), writer.confirmed());
        self.scrubber().begin(writer.position().is_some());
        let (ended, end) = oneshot::channel();
        let of_writer = Arc::clone(&inbox);
        let run = move || {
            // The follower waits for it.
            let _ = ended.send(writer.run(&of_writer));
        };
        let builder = std::thread::Builder::new().name(format!("aof-{}", self.link.name()));
        builder.spawn(run).map_err(WriteError::Thread)?;
        let rewriting = self.rewriting(&inbox);
        let scrubbing = self.scrubbing(&inbox);
        if rewriting.is_ok() && scrubbing.is_ok() {
            self.link.run(&inbox, stop).await;
        }
        inbox.close();
        let ended = end.await.unwrap_or(Err(WriteError::Died));
        for beside in [rewriting, scrubbing] {
            // It has ended where its thread has died.
            let _ = beside?.await;
        }
        ended
    }

    fn scrubber(&self) -> MutexGuard<'_, Scrubber> {
        self.scrubber.lock()
    }

    /// Reads the files again on a thread of its own, until the inbox is closed.
    fn scrubbing(&self, inbox: &Arc<Inbox>) -> Result<oneshot::Receiver<()>, WriteError> {
        let (scrubber, inbox) = (Arc::clone(&self.scrubber), Arc::clone(inbox));
        let (ended, end) = oneshot::channel();
        let run = move || {
            scrubber.lock().run(&inbox);
            // The follower waits for it.
            let _ = ended.send(());
        };
        let builder = std::thread::Builder::new().name(format!("scrub-{}", self.link.name()));
        builder.spawn(run).map_err(WriteError::Thread)?;
        Ok(end)
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

    fn prepare(self: &Arc<Self>, wanted: AofSettings) -> Result<PreparedSettings<'_>, OpenError> {
        Ok(PreparedSettings::new(move || match wanted == self.settings {
            true => Vec::new(),
            false => vec!["[redis.aof]".to_owned()],
        }))
    }

    fn status(&self) -> impl Serialize {
        self.followed()
    }

    async fn stop(&self, within: Duration) {
        self.stop.send_replace(true);
        let threads = std::mem::take(&mut *self.threads.lock());
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
