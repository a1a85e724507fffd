//! What the clients of one worker share.

mod part;
mod shared;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use flow::clock::CoarseClock;
use flow::service::Fabric;
use tokio::sync::Semaphore;
use wire::resp::Limits;

use crate::commands::Kind;
use crate::desk::Desk;
use crate::fleet::View;
use crate::health::Health;
use crate::hub::Hubs;
use crate::metrics::Metrics;
use crate::named::Named;
use crate::placement::{Distribution, Hash, Member, Ring, slot, tagged};
use crate::servers::Servers;
use crate::settings::Settings;
use crate::unknown::Unknown;
use crate::users::Users;
pub use shared::{Call, Shared};

/// Logins that servers check at once for one worker, each on a connection.
const CHECKS_AT_ONCE: usize = 32;

/// What can change while clients are connected.
#[derive(Debug)]
pub struct InForce {
    /// Who may log in.
    pub users: Users,
    /// Commands beside Weir's own list.
    pub commands: Named,
    /// How many databases there are.
    pub databases: u32,
    /// The one in which a client begins.
    pub database: u32,
    /// What a client may send at most, once it is logged in.
    pub limits: Limits,
    /// Subscriptions that a client may have.
    pub subscriptions: usize,
}

impl InForce {
    /// What the settings say.
    pub fn new(settings: &Settings) -> Self {
        Self {
            users: Users::new(&settings.user, settings.read_from, settings.passes()),
            commands: Named::new(&settings.command),
            // A Cluster has but one.
            databases: if settings.is_cluster() { 1 } else { settings.databases },
            database: settings.database,
            limits: Limits { bulk: settings.max_value.bytes(), ..Limits::default() },
            subscriptions: settings.max_subscriptions,
        }
    }
}

/// Which server a key belongs to.
#[derive(Debug, Clone)]
pub struct Placing {
    /// The servers' names and weights.
    members: Arc<[(String, u32)]>,
    /// Those that have keys.
    live: Vec<bool>,
    distribution: Distribution,
    ring: Ring,
    hash: Hash,
    tag: Option<[u8; 2]>,
}

impl Placing {
    /// As the settings have it; `None` where no server has any weight, and of a Cluster.
    pub fn new(settings: &Settings) -> Option<Self> {
        let members = settings.backend.iter().map(|of| (of.name.clone(), of.weight)).collect();
        let live = vec![true; settings.backend.len()];
        let ring = ring(settings.distribution, &members, &live)?;
        let (distribution, hash, tag) = (settings.distribution, settings.hash, settings.tag());
        Some(Self { members, live, distribution, ring, hash, tag })
    }

    /// The same among those servers that are live; where none of them has any weight, as it was.
    fn set_live(&mut self, live: Vec<bool>) {
        if let Some(ring) = ring(self.distribution, &self.members, &live) {
            (self.ring, self.live) = (ring, live);
        }
    }

    /// The number of a key's server.
    pub fn server_of(&self, key: &[u8]) -> usize {
        let is_random = self.distribution == Distribution::Random;
        let hash = if is_random { rand::random() } else { self.hash.of(tagged(key, self.tag)) };
        self.ring.server_of(hash)
    }
}

fn ring(distribution: Distribution, members: &Arc<[(String, u32)]>, live: &[bool]) -> Option<Ring> {
    let members: Vec<Member<'_>> =
        members.iter().map(|(name, weight)| Member { name, weight: *weight }).collect();
    Ring::new(distribution, &members, &|of| live.get(of).copied().unwrap_or_default())
}

/// Where a key belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Home {
    /// The server's number.
    pub server: usize,
    /// Its slot, in a Cluster: a command has keys of one slot only.
    pub slot: Option<u16>,
}

impl Home {
    /// Of what has no key.
    pub fn at(server: usize) -> Self {
        Self { server, slot: None }
    }
}

/// What the clients of one worker share.
#[derive(Debug)]
pub struct Front {
    /// The servers, and the way to them.
    pub fabric: Rc<Fabric<Servers>>,
    /// Who is subscribed to what.
    pub hubs: Hubs,
    /// What can change.
    pub in_force: Arc<ArcSwap<InForce>>,
    /// What is counted.
    pub metrics: Metrics,
    /// What it shares with those of other workers.
    pub shared: Arc<Shared>,
    /// What servers say of commands that Weir does not know.
    pub unknown: Unknown,
    /// Permits to have a server check a login.
    pub checking: Semaphore,
    /// What is kept for operators.
    pub desk: Rc<Desk>,
    /// The worker's clock.
    pub clock: CoarseClock,
    /// This worker, among all.
    pub worker: usize,
    /// How the servers are.
    health: Arc<Health>,
    /// Of a ring.
    placing: Option<RefCell<Placing>>,
    /// The last change of who has keys that `placing` heeds.
    heeded: Cell<u64>,
    /// The servers as the hub has heeded them.
    seen: RefCell<Arc<View>>,
}

impl Front {
    /// What the clients of a worker share that no client uses yet.
    pub fn new(
        fabric: Rc<Fabric<Servers>>,
        hubs: Hubs,
        in_force: Arc<ArcSwap<InForce>>,
        metrics: Metrics,
        shared: Arc<Shared>,
        worker: &flow::Worker,
        placing: Option<Placing>,
    ) -> Self {
        let (health, desk) =
            (Arc::clone(shared.fleet.health()), Rc::clone(fabric.service().desk()));
        let (clock, worker) = (worker.clock.clone(), worker.index);
        // A worker that starts late has not heard of what was ejected before.
        let heeded = Cell::new(u64::MAX);
        let placing = placing.map(RefCell::new);
        let seen = RefCell::new(fabric.service().view());
        Self {
            fabric,
            hubs,
            in_force,
            metrics,
            shared,
            unknown: Unknown::default(),
            checking: Semaphore::new(CHECKS_AT_ONCE),
            desk,
            clock,
            worker,
            health,
            placing,
            heeded,
            seen,
        }
    }

    /// Closes the clients that are such by their numbers in the process; how many there were.
    pub fn kill(&self, is_such: &dyn Fn(u64) -> bool) -> i64 {
        let all = self.desk.clients().into_iter().filter(|(_, card)| is_such(card.id));
        let all: Vec<_> = all.filter_map(|(client, _)| self.fabric.client(client)).collect();
        all.iter().for_each(|client| client.kill());
        i64::try_from(all.len()).unwrap_or(i64::MAX)
    }

    /// What is done from time to time.
    pub fn tick(&self) {
        self.look();
        let now = Instant::now();
        self.desk.samples.tick(now);
        Servers::give_up(&self.fabric, now, |account| self.hubs.give_up(account));
    }

    /// Heeds what has changed of who has keys: between two commands, so that all keys of one are
    /// looked for in the same way.
    #[inline]
    pub fn look(&self) {
        let changes = self.health.changes();
        if changes != self.heeded.get() {
            self.heeded.set(changes);
            if let Some(placing) = &self.placing {
                placing.borrow_mut().set_live(self.health.live());
                self.hubs.is_placed_anew(|kind, name, server| {
                    self.is_everywhere(kind, name) || self.home(name).server == server
                });
            }
        }
        let servers = self.fabric.service();
        servers.look();
        if servers.version() != self.seen.borrow().version {
            self.are_others(servers.view());
        }
        Servers::heed_left(&self.fabric);
    }

    /// Heeds that the servers are others now.
    fn are_others(&self, now: Arc<View>) {
        let before = self.seen.replace(Arc::clone(&now));
        self.fabric.service().are_others(&before, &now);
        self.fabric.close_outdated();
        self.hubs.are_others(&now);
        if !self.is_cluster() {
            return;
        }
        let has_same_holders = before.holders == now.holders;
        self.hubs.is_placed_anew(|kind, name, server| match kind {
            // All nodes hear what is published at any.
            _ if name.starts_with(KEYSPACE) => has_same_holders,
            Kind::Channel | Kind::Pattern => now.is_there(server),
            Kind::Shard => self.home(name).server == server,
        });
    }

    /// The servers where a subscription is kept: all that may publish what it is for.
    pub fn servers_of(&self, kind: Kind, name: &[u8]) -> Vec<usize> {
        let is_one_enough = self.is_cluster() && !name.starts_with(KEYSPACE);
        if !is_one_enough && self.is_everywhere(kind, name) {
            return self.holders();
        }
        vec![self.home(name).server]
    }

    /// What a pattern matches may be anywhere; so is what servers say of their keys.
    fn is_everywhere(&self, kind: Kind, name: &[u8]) -> bool {
        let random = |of: &RefCell<Placing>| of.borrow().distribution == Distribution::Random;
        let is_random = self.placing.as_ref().is_some_and(random);
        kind == Kind::Pattern || name.starts_with(KEYSPACE) || is_random
    }

    /// Whether keys are where a Cluster has them.
    #[inline]
    pub fn is_cluster(&self) -> bool {
        self.placing.is_none()
    }

    /// Where a key belongs.
    #[inline]
    pub fn home(&self, key: &[u8]) -> Home {
        let servers = self.fabric.service();
        match &self.placing {
            None => {
                let slot = slot(key);
                Home { server: servers.holder(slot), slot: Some(slot) }
            }
            Some(_) if servers.len() == 1 => Home::at(0),
            Some(placing) => Home::at(placing.borrow().server_of(key)),
        }
    }

    /// A server for what any can answer: for each worker another one, of those that have keys.
    pub fn any_server(&self) -> usize {
        let holders = self.holders();
        let own = self.worker % holders.len().max(1);
        let all = holders.iter().skip(own).chain(holders.iter().take(own)).copied();
        let placing = self.placing.as_ref().map(RefCell::borrow);
        let is_live = |of: &usize| {
            placing.as_ref().is_none_or(|placing| placing.live.get(*of) == Some(&true))
        };
        all.clone().find(is_live).or_else(|| all.clone().next()).unwrap_or(0)
    }

    /// Those that have keys.
    pub fn holders(&self) -> Vec<usize> {
        self.fabric.service().holders()
    }

    /// The only server, where there is but one.
    pub fn only(&self) -> Option<usize> {
        match *self.fabric.service().view().holders {
            [only] => Some(only),
            _ => None,
        }
    }
}

/// What the names of channels begin with by which servers tell of their keys.
const KEYSPACE: &[u8] = b"__key";
