//! What the clients of one worker share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::ArcSwap;
use flow::service::Fabric;
use wire::resp::Limits;

use crate::commands::Kind;
use crate::health::Health;
use crate::hub::Hub;
use crate::metrics::Metrics;
use crate::named::Named;
use crate::placement::{Distribution, Hash, Member, Ring, tagged};
use crate::server::Servers;
use crate::settings::Settings;
use crate::users::Users;

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
            users: Users::new(&settings.user),
            commands: Named::new(&settings.command),
            databases: settings.databases,
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
    /// As the settings have it; `None` where no server has any weight.
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

/// What the clients of one worker share.
#[derive(Debug)]
pub struct Front {
    /// The servers, and the way to them.
    pub fabric: Rc<Fabric<Servers>>,
    /// Who is subscribed to what.
    pub hub: Rc<Hub>,
    /// What can change.
    pub in_force: Arc<ArcSwap<InForce>>,
    /// What is counted.
    pub metrics: Metrics,
    /// This worker, among all.
    pub worker: usize,
    /// How the servers are.
    health: Arc<Health>,
    placing: RefCell<Placing>,
    /// The last change of who has keys that `placing` heeds.
    heeded: Cell<u64>,
}

impl Front {
    /// What the clients of a worker share that no client uses yet.
    pub fn new(
        fabric: Rc<Fabric<Servers>>,
        hub: Rc<Hub>,
        in_force: Arc<ArcSwap<InForce>>,
        metrics: Metrics,
        worker: usize,
        health: Arc<Health>,
        placing: Placing,
    ) -> Self {
        // A worker that starts late has not heard of what was ejected before.
        let heeded = Cell::new(u64::MAX);
        let placing = RefCell::new(placing);
        Self { fabric, hub, in_force, metrics, worker, health, placing, heeded }
    }

    /// Heeds what has changed of who has keys: between two commands, so that all keys of one are
    /// looked for in the same way.
    #[inline]
    pub fn look(&self) {
        let changes = self.health.changes();
        if changes != self.heeded.get() {
            self.heeded.set(changes);
            self.placing.borrow_mut().set_live(self.health.live());
            let is_at = |kind: Kind, name: &[u8], server: usize| {
                self.is_everywhere(kind, name) || self.server_of(name) == server
            };
            self.hub.is_placed_anew(is_at);
        }
    }

    /// The servers where a subscription is kept: all that may publish what it is for.
    pub fn servers_of(&self, kind: Kind, name: &[u8]) -> Vec<usize> {
        if self.is_everywhere(kind, name) {
            return (0..self.servers()).collect();
        }
        vec![self.server_of(name)]
    }

    /// What a pattern matches may be anywhere; so is what servers say of their keys.
    fn is_everywhere(&self, kind: Kind, name: &[u8]) -> bool {
        let is_random = self.placing.borrow().distribution == Distribution::Random;
        kind == Kind::Pattern || name.starts_with(b"__key") || is_random
    }

    /// The server that a key belongs to.
    #[inline]
    pub fn server_of(&self, key: &[u8]) -> usize {
        if self.fabric.service().len() == 1 {
            return 0;
        }
        self.placing.borrow().server_of(key)
    }

    /// A server for what any can answer: for each worker another one, of those that have keys.
    pub fn any_server(&self) -> usize {
        let placing = self.placing.borrow();
        let own = self.worker % self.servers();
        let all = (own..self.servers()).chain(0..own);
        all.into_iter().find(|of| placing.live.get(*of) == Some(&true)).unwrap_or(own)
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.fabric.service().len()
    }
}
