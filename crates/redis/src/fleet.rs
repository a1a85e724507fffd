//! The servers of a pool as they are now, for all workers.
//!
//! A server has a number that stays, by which everything else knows it. Servers of a ring are those
//! of the configuration, and [`Spread`] has their shares of the keys; one that is reached otherwise
//! than before is another server, and one that leaves keeps its number for as long as anything may
//! be on its way there. In a Cluster these are where Weir begins to ask ([`keep`]): nodes come and
//! go, and [`View::slots`] says who has what. A server that Sentinels know is where they say
//! ([`masters`]). Replicas that may be read are found by asking their primary ([`replicas`]). Each
//! change makes another [`View`] with another version; a worker goes by one view until it looks
//! again, between two commands.

mod keep;
mod masters;
mod memory;
mod release;
mod replicas;
mod spread;
mod taken;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::health::Health;
use crate::placement::SLOTS;
use crate::server::Server;
use crate::topology::At;
use crate::topology::cluster::Shape;

pub use keep::keep;
pub use masters::follow;
pub use memory::ask_memory;
pub use release::Release;
pub use replicas::{Covers, read};
pub use spread::{Hashing, Share, Spread, WantedServer};

/// Servers with a number: a Cluster has at most 1,000 nodes. Beyond it, numbers of nodes that have
/// left are given again.
const SERVERS_MAX: usize = 2048;
/// After so long nothing is on its way any more to a node that has left.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// The number that stands for no node.
const NOBODY: u16 = u16::MAX;

/// The servers of a pool at a moment.
#[derive(Debug, Clone)]
pub struct View {
    /// Another one each time.
    pub version: u64,
    /// The nodes, each at its number.
    pub nodes: Vec<Node>,
    /// Those that have keys, in an order that is the same for each Weir.
    pub holders: Vec<usize>,
    /// Those of the settings, in their order: of a Cluster, where it is asked first.
    configured: Arc<[usize]>,
    /// Of a ring, how keys are spread over the holders.
    pub spread: Option<Arc<Spread>>,
    /// Of a Cluster, who has each slot.
    pub slots: Option<Slots>,
}

/// A server with its number.
#[derive(Debug, Clone)]
pub struct Node {
    /// How it is reached.
    pub server: Arc<Server>,
    /// As its settings have it: these may say no more than who knows where it is.
    origin: Arc<Server>,
    /// Counts the servers that have had this number.
    pub incarnation: u64,
    /// Since when it is not a node of the Cluster, or nobody's replica.
    gone: Option<Instant>,
    /// Whose replica it is, of those that may be read.
    replica_of: Option<usize>,
    /// Up to when it has all writes, as a replica.
    covers: Covers,
    /// Its own replicas that may be read.
    readers: Arc<[usize]>,
}

impl Node {
    fn new(server: Arc<Server>, incarnation: u64) -> Self {
        Self {
            origin: Arc::clone(&server),
            server,
            incarnation,
            gone: None,
            replica_of: None,
            covers: Covers::default(),
            readers: Arc::default(),
        }
    }

    /// What its settings know it by, wherever it is now.
    pub fn known_as(&self) -> String {
        self.origin.known_as()
    }

    fn leaves(&mut self) {
        self.gone = self.gone.or_else(|| Some(Instant::now()));
    }
}

/// Who has each slot, by its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slots(Box<[u16]>);

impl Slots {
    fn nobody() -> Self {
        Self(vec![NOBODY; usize::from(SLOTS)].into())
    }

    /// Who has a slot, as far as that is known.
    #[inline]
    pub fn holder(&self, slot: u16) -> Option<usize> {
        let holder = self.0.get(usize::from(slot)).copied().filter(|of| *of != NOBODY);
        holder.map(usize::from)
    }

    fn set(&mut self, slot: u16, number: usize) {
        if let (Some(of), Ok(number)) = (self.0.get_mut(usize::from(slot)), u16::try_from(number)) {
            *of = number;
        }
    }
}

impl View {
    /// A server by its number.
    pub fn server(&self, number: usize) -> Option<&Arc<Server>> {
        self.nodes.get(number).map(|node| &node.server)
    }

    /// Which of the servers that have had this number it is.
    pub fn incarnation(&self, number: usize) -> Option<u64> {
        self.nodes.get(number).map(|node| node.incarnation)
    }

    /// The servers that have keys.
    pub fn with_keys(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.holders.iter().filter_map(|number| self.server(*number))
    }

    /// Whether a server belongs to the pool still.
    pub fn is_there(&self, number: usize) -> bool {
        self.nodes.get(number).is_some_and(|node| node.gone.is_none())
    }

    /// Since when a server of a ring, or a replica of one, does not belong to the pool.
    pub fn left(&self, number: usize) -> Option<Instant> {
        self.nodes.get(number).filter(|_| self.slots.is_none())?.gone
    }

    /// The number of the server that has left first, once nothing is on its way there any more.
    fn forgotten(&self) -> Option<usize> {
        let left = |(number, node): (usize, &Node)| {
            let gone = node.gone.filter(|gone| gone.elapsed() > FORGOTTEN)?;
            (!self.configured.contains(&number)).then_some((gone, number))
        };
        self.nodes.iter().enumerate().filter_map(left).min().map(|(_, number)| number)
    }

    /// A server has this number from now on, or one more has the next.
    fn put(&mut self, number: usize, server: Arc<Server>) {
        match self.nodes.get_mut(number) {
            Some(former) => *former = Node::new(server, former.incarnation + 1),
            None => self.nodes.push(Node::new(server, 0)),
        }
    }
}

/// How a pool's servers share its keys.
enum Kind {
    Ring(Spread),
    Cluster(Slots),
}

/// The servers of a pool.
#[derive(Debug)]
pub struct Fleet {
    view: ArcSwap<View>,
    /// That of the view, to be looked at for each command.
    version: AtomicU64,
    /// Who changes the view has it.
    changing: Mutex<()>,
    health: Arc<Health>,
    /// A password may be sent to a node in the clear.
    allows_cleartext: AtomicBool,
    /// The Cluster is to be asked how it is.
    called: Notify,
    /// Sentinels are to be asked where their masters are.
    missed: Notify,
    /// There is another view.
    changed: Notify,
    /// Who is asked first: whom another node has named.
    first: AtomicU64,
    /// The newest epoch that was heard of.
    epoch: AtomicU64,
    begun: Instant,
    /// What servers say of commands.
    taken: taken::AllTaken,
}

impl Fleet {
    /// Servers of which each has its own keys. They are in the order of the [`Health`].
    pub fn of_ring(
        servers: Vec<WantedServer>,
        hashing: Hashing,
        health: Arc<Health>,
        allows_cleartext: bool,
    ) -> Arc<Self> {
        let share = |(server, of): (usize, &WantedServer)| Share {
            name: Arc::clone(&of.server.name),
            weight: of.weight,
            server,
        };
        let shares = servers.iter().enumerate().map(share).collect();
        let servers = servers.into_iter().map(|of| of.server).collect();
        let kind = Kind::Ring(Spread { shares, hashing });
        Self::new(servers, kind, health, allows_cleartext)
    }

    /// Nodes of a Cluster, of which others are heard.
    pub fn of_cluster(
        servers: Vec<Server>,
        health: Arc<Health>,
        allows_cleartext: bool,
    ) -> Arc<Self> {
        Self::new(servers, Kind::Cluster(Slots::nobody()), health, allows_cleartext)
    }

    fn new(
        servers: Vec<Server>,
        kind: Kind,
        health: Arc<Health>,
        allows_cleartext: bool,
    ) -> Arc<Self> {
        let (slots, spread) = match kind {
            Kind::Cluster(slots) => (Some(slots), None),
            Kind::Ring(spread) => (None, Some(Arc::new(spread))),
        };
        let is_cluster = slots.is_some();
        let node = |server: Server| {
            Node::new(Arc::new(if is_cluster { server.into_node() } else { server }), 0)
        };
        let nodes: Vec<Node> = servers.into_iter().map(node).collect();
        let (holders, configured) = ((0..nodes.len()).collect(), (0..nodes.len()).collect());
        let view = View { version: 0, nodes, holders, configured, spread, slots };
        Arc::new(Self {
            view: ArcSwap::from_pointee(view),
            version: AtomicU64::new(0),
            changing: Mutex::default(),
            health,
            allows_cleartext: AtomicBool::new(allows_cleartext),
            called: Notify::new(),
            missed: Notify::new(),
            changed: Notify::new(),
            first: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            begun: Instant::now(),
            taken: taken::AllTaken::default(),
        })
    }

    /// The servers as they are now.
    pub fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// The version of that view.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// How the servers are.
    pub fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// Has the Cluster asked how it is, or Sentinels where their masters are, soon.
    pub fn call(&self) {
        self.called.notify_one();
        self.missed.notify_waiters();
    }

    /// A node has said that a slot is with another one: its number. Nothing changes where that is
    /// known.
    pub fn moved(&self, slot: u16, at: &At, by: usize) -> Option<usize> {
        // Whoever says so in a pool that is no Cluster may say it to each command.
        self.view.load().slots.as_ref()?;
        let _changing = self.lock();
        let mut view = View::clone(&self.view.load());
        let (number, is_new) = self.number(&mut view, at, by)?;
        self.first.store(number as u64, Ordering::Relaxed);
        self.call();
        if is_new || view.slots.as_ref()?.holder(slot) != Some(number) {
            view.slots.as_mut()?.set(slot, number);
            if !view.holders.contains(&number) {
                view.holders.push(number);
                in_order(&mut view);
            }
            self.change(view);
        }
        Some(number)
    }

    /// Somebody says, who may not be a node, that a slot is with another one: that holds where the
    /// other one is known. Else whoever has scripts run could have Weir log in anywhere.
    pub fn is_said_to_have_moved(&self, slot: u16, at: &At, by: usize) {
        let view = self.view.load();
        let host = at.host.as_deref().or_else(|| view.server(by)?.host());
        let is_it = |node: &Node| {
            node.gone.is_none() && host.is_some_and(|host| node.server.is_at(host, at.port))
        };
        if view.nodes.iter().any(is_it) {
            self.moved(slot, at, by);
        } else {
            self.call();
        }
    }

    /// A node has said that some of a slot is with another one: its number.
    pub fn asks(&self, at: &At, by: usize) -> Option<usize> {
        let _changing = self.lock();
        let mut view = View::clone(&self.view.load());
        let (number, is_new) = self.number(&mut view, at, by)?;
        if is_new {
            self.change(view);
        }
        Some(number)
    }

    /// A node says how the Cluster is.
    pub fn take(&self, shape: &Shape, by: usize) {
        let _changing = self.lock();
        let before = self.view.load();
        let mut view = View::clone(&before);
        let (mut slots, mut holders) = (Slots::nobody(), Vec::new());
        let mut there = HashSet::new();
        for range in &shape.ranges {
            let Some((number, _)) = self.number(&mut view, &range.primary, by) else { continue };
            (range.first..=range.last).for_each(|slot| slots.set(slot, number));
            if !holders.contains(&number) {
                holders.push(number);
            }
            there.insert(number);
            let replicas = range.replicas.iter();
            there.extend(replicas.filter_map(|at| Some(self.number(&mut view, at, by)?.0)));
        }
        if holders.is_empty() {
            return;
        }
        for (number, node) in view.nodes.iter_mut().enumerate() {
            match there.contains(&number) {
                true => node.gone = None,
                false => node.leaves(),
            }
        }
        (view.holders, view.slots) = (holders, Some(slots));
        in_order(&mut view);
        let is_same = view.slots == before.slots
            && view.holders == before.holders
            && view.nodes.len() == before.nodes.len()
            && view.nodes.iter().zip(&before.nodes).all(|(now, before)| {
                now.gone.is_none() == before.gone.is_none() && now.incarnation == before.incarnation
            });
        if !is_same {
            tracing::info!(
                primaries = view.holders.len(),
                epoch = shape.epoch,
                "the Cluster has changed"
            );
            self.change(view);
        }
    }

    /// The number of a node, and whether it is new: then it is logged in to as the first server of
    /// the configuration, and a replica as its primary.
    fn number(&self, view: &mut View, at: &At, by: usize) -> Option<(usize, bool)> {
        let host = match &at.host {
            Some(host) => host.clone(),
            None => view.server(by)?.host()?.to_owned(),
        };
        let is_cluster = view.slots.is_some();
        // A replica of another server, or one that was reached otherwise, is another one here.
        let is_it = |node: &Node| {
            node.server.is_at(&host, at.port) && (is_cluster || node.replica_of == Some(by))
        };
        if let Some(number) = view.nodes.iter().position(is_it) {
            return Some((number, false));
        }
        let first = view.configured.first().copied().unwrap_or(0);
        let like = view.server(if is_cluster { first } else { by })?;
        let server = self.like(like, &host, at.port)?;
        let server = Arc::new(if is_cluster { server.into_node() } else { server });
        let next = || Some(view.nodes.len()).filter(|number| *number < SERVERS_MAX);
        let Some(number) = next().or_else(|| view.forgotten()) else {
            tracing::warn!(host, port = at.port, "there are more nodes than Weir keeps apart");
            return None;
        };
        self.health.is_new(number, &server.name, is_cluster);
        view.put(number, server);
        Some((number, true))
    }

    /// A server elsewhere that is logged in to as this one, if that can be.
    fn like(&self, like: &Server, host: &str, port: u16) -> Option<Server> {
        if like.tells_password(host) && !self.allows_cleartext() {
            tracing::warn!(
                host,
                port,
                "a server is left out: the password would travel in the clear; write rediss:// in \
                 url, or allow-cleartext"
            );
            return None;
        }
        let server = like.at(host, port);
        server.inspect_err(|error| tracing::warn!(host, port, error, "it cannot be reached")).ok()
    }

    /// Whether a password may be sent to a server that others name, in the clear.
    pub fn allow_cleartext(&self, allows: bool) {
        self.allows_cleartext.store(allows, Ordering::Relaxed);
    }

    fn allows_cleartext(&self) -> bool {
        self.allows_cleartext.load(Ordering::Relaxed)
    }

    fn change(&self, mut view: View) {
        view.version += 1;
        // Who has keys itself is not a replica any more.
        for holder in view.holders.clone() {
            if let Some(node) = view.nodes.get_mut(holder) {
                node.replica_of = None;
            }
        }
        let version = view.version;
        self.view.store(Arc::new(view));
        self.version.store(version, Ordering::Release);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }
}

/// Puts those that have keys in the order of their names: cursors of `SCAN` count them.
fn in_order(view: &mut View) {
    let nodes = &view.nodes;
    view.holders.sort_by(|one, other| nodes[*one].server.name.cmp(&nodes[*other].server.name));
}
