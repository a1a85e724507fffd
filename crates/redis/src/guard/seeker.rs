//! Which servers there are: those of the configuration, and those that a Cluster or Sentinels are
//! asked for, which come, go and move to other hosts while Weir runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use flow::dial::Address;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use super::device::Processes;
use super::host::{Change, Host, WatchedServer};
use super::key::{Key, Peers};
use super::named::{Node, WatchTarget, named};
use super::shown::HostStatuses;
use crate::replica::rewrite::Hosts;
use crate::replica::{Follower, Stop};
use crate::server::{ControlConnection, Server};
use crate::settings::{BackendSettings, SentinelSettings, Settings, is_of_this_machine};

/// The servers that are watched, and the tasks of their hosts.
pub struct Seeker {
    settings: Settings,
    follower: Option<Arc<Follower>>,
    /// Who may have a server fork, by host: whoever takes bases asks there, too.
    turns: Arc<Mutex<Hosts>>,
    peers: Peers,
    own: String,
    processes: Arc<Mutex<Processes>>,
    shown: Arc<HostStatuses>,
    stop: watch::Sender<bool>,
    control: Handle,
    hosts: BTreeMap<String, mpsc::UnboundedSender<Change>>,
    /// By name: the host and the URL of each, and how it is reached.
    known: BTreeMap<String, (String, String, BackendSettings)>,
    /// The nodes of pools that were heard of last.
    nodes: Vec<Node>,
    /// Where masters that Sentinels know were last.
    located: Vec<(SentinelSettings, Address)>,
    /// How those are reached; each remembers which failover it has heard of.
    by_sentinel: Vec<(SentinelSettings, Server)>,
}

impl Seeker {
    /// Nothing is watched yet.
    pub fn new(
        settings: Settings,
        follower: Option<Arc<Follower>>,
        shown: Arc<HostStatuses>,
        stop: watch::Sender<bool>,
        control: &Handle,
    ) -> Self {
        let turns = follower.as_ref().map(|of| of.hosts()).unwrap_or_default();
        Self {
            settings,
            follower,
            turns,
            peers: Peers::default(),
            own: own_name(),
            processes: Arc::new(Mutex::new(Processes::default())),
            shown,
            stop,
            control: control.clone(),
            hosts: BTreeMap::new(),
            known: BTreeMap::new(),
            nodes: Vec::new(),
            located: Vec::new(),
            by_sentinel: Vec::new(),
        }
    }

    /// Whether others say which servers there are, or where.
    pub fn finds_more(&self) -> bool {
        let masters = self.settings.aof.iter().flat_map(|aof| &aof.master);
        let is_cluster = masters.into_iter().any(|of| !of.cluster.is_empty())
            || self.settings.pools().iter().any(|(_, pool)| pool.is_cluster());
        is_cluster || !self.by_sentinel().is_empty()
    }

    /// The servers that Sentinels know.
    fn by_sentinel(&self) -> Vec<(SentinelSettings, BackendSettings)> {
        let masters = self.settings.aof.iter().flat_map(|aof| &aof.master);
        let masters = masters.map(|of| of.backend());
        let pools = self.settings.pools().into_iter().flat_map(|(_, pool)| pool.backend);
        let all = masters.chain(pools);
        all.filter_map(|of| Some((of.sentinel.clone()?, of))).collect()
    }

    /// Begins to watch the servers that are known now.
    ///
    /// # Errors
    /// What in the settings stands in the way.
    pub fn begin(&mut self) -> Result<(), String> {
        let follower = self.follower.as_deref();
        let all = named(&self.settings, follower, &self.nodes, &self.located)?;
        self.peers.set(all.iter().filter_map(|of| of.at.clone()));
        let gone: Vec<String> = self
            .known
            .iter()
            .filter(|(name, (host, url, settings))| {
                let is_it = |of: &WatchTarget| {
                    (&of.name, &of.host, &of.url) == (name, host, url)
                        && of.settings.is_reached_as(settings)
                };
                !all.iter().any(is_it)
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            let Some((host, ..)) = self.known.remove(&name) else { continue };
            if let Some(changes) = self.hosts.get(&host) {
                // Its task ends with the process only.
                let _ = changes.send(Change::Gone(name));
            }
        }
        for of in all {
            if !self.known.contains_key(&of.name) {
                let known = (of.host.clone(), of.url.clone(), of.settings.clone());
                self.known.insert(of.name.clone(), known);
                self.watch(of)?;
            }
        }
        Ok(())
    }

    fn watch(&mut self, of: WatchTarget) -> Result<(), String> {
        let server = Server::new(&of.settings)?;
        let asked = ControlConnection::new(server, of.settings.connect_timeout.get());
        let mut watched = WatchedServer::new(of.name, of.url, asked, of.kept, of.is_here);
        if !of.is_placed {
            watched = watched.of_unknown_host();
        }
        let changes = match self.hosts.get(&of.host) {
            Some(changes) => changes.clone(),
            None => {
                let changes = self.host(&of.host);
                self.hosts.insert(of.host, changes.clone());
                changes
            }
        };
        // Its task ends with the process only.
        let _ = changes.send(Change::Come(Box::new(watched)));
        Ok(())
    }

    /// Begins the task of a host.
    fn host(&self, name: &str) -> mpsc::UnboundedSender<Change> {
        let guard = &self.settings.guard;
        // As many as servers of the host come and go between two looks at it.
        let (changes, coming) = mpsc::unbounded_channel();
        let key = format!("{}:{name}", guard.key);
        let key = Key::new(&key, &self.own, guard.key_expiry.get(), self.peers.clone());
        let mut turns = self.turns.lock();
        let turn = turns.permit(name.to_owned());
        drop(turns);
        let settles = self.finds_more();
        let (processes, shown) = (Arc::clone(&self.processes), Arc::clone(&self.shown));
        let host = Host::new(name.to_owned(), coming, key, guard, processes, shown)
            .in_turns(turn)
            .settling(settles);
        self.control.spawn(host.run(self.stop.subscribe()));
        changes
    }

    /// Looks for servers that have come or gone, by what others or other settings say, until the
    /// process stops.
    pub async fn run(mut self, mut wanted: watch::Receiver<Settings>, mut stop: Stop) {
        let mut ticks = interval(self.settings.guard.ask_every.get());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = None;
        loop {
            tokio::select! {
                _ = ticks.tick(), if self.finds_more() => {}
                Ok(()) = wanted.changed() => {
                    let (aof, guard) = (self.settings.aof.clone(), self.settings.guard.clone());
                    self.settings = Settings { aof, guard, ..wanted.borrow_and_update().clone() };
                }
                _ = stop.wait_for(|stop| *stop) => return,
            }
            let sought = match self.seek().await {
                Ok(()) => self.begin(),
                Err(why) => self.begin().and(Err(why)),
            };
            if told != sought.as_ref().err().cloned() {
                told = sought.err();
                told.iter().for_each(|why| tracing::warn!("servers to guard: {why}"));
            }
        }
    }

    /// Asks Sentinels where masters are, and the Clusters of pools for their nodes; keeps what was
    /// said before where none answers.
    async fn seek(&mut self) -> Result<(), String> {
        let of_sentinels = self.locate().await;
        self.seek_nodes().await.and(of_sentinels)
    }

    async fn locate(&mut self) -> Result<(), String> {
        for (sentinel, of) in self.by_sentinel() {
            if !self.by_sentinel.iter().any(|(known, _)| *known == sentinel) {
                self.by_sentinel.push((sentinel, Server::new(&of)?));
            }
        }
        let mut wrong = Ok(());
        for (sentinel, server) in &self.by_sentinel {
            match server.address_now().await {
                Ok(at) => {
                    self.located.retain(|(of, _)| of != sentinel);
                    self.located.push((sentinel.clone(), at));
                }
                Err(why) => wrong = Err(format!("{}: {why}", sentinel.whereabouts())),
            }
        }
        wrong
    }

    async fn seek_nodes(&mut self) -> Result<(), String> {
        let (mut found, mut wrong) = (Vec::new(), Ok(()));
        for (pool, settings) in self.settings.pools() {
            if !settings.is_cluster() {
                continue;
            }
            let before = self.nodes.iter().filter(|node| node.pool == pool);
            match nodes(&pool, &settings).await {
                Ok(nodes) => found.extend(nodes),
                Err(why) => {
                    found.extend(before.cloned());
                    wrong = Err(format!("pool {pool}: no node says who the others are: {why}"));
                }
            }
        }
        self.nodes = found;
        wrong
    }
}

/// The nodes of a pool's Cluster, as the first of its servers that answers says.
async fn nodes(pool: &str, settings: &Settings) -> Result<Vec<Node>, String> {
    let mut why = "it has no servers".to_owned();
    for like in &settings.backend {
        let server = Server::new(like)?;
        let shape = match server.cluster(like.connect_timeout.get()).await {
            Ok(shape) => shape,
            Err(words) => {
                why = format!("{}: {words}", like.name);
                continue;
            }
        };
        let own = server.host().unwrap_or_default();
        let mut found = Vec::new();
        for range in &shape.ranges {
            for at in [&range.primary].into_iter().chain(&range.replicas) {
                let host = at.host.as_deref().unwrap_or(own);
                let at = (host.to_owned(), at.port);
                let goes_out = is_of_this_machine(own) && server.tells_password(host);
                let node = Node { pool: pool.to_owned(), like: like.clone(), at };
                // Its password would travel in the clear where nobody has allowed it.
                if !goes_out && !found.contains(&node) {
                    found.push(node);
                }
            }
        }
        return Ok(found);
    }
    Err(why)
}

/// Who this Weir is, for others and for a person.
fn own_name() -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let salt: u32 = rand::random();
    format!("{}:{}:{salt:08x}", machine.trim(), std::process::id())
}
