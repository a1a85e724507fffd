//! What the clients of one worker share.

mod part;
mod placing;
mod shared;
mod tracking;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use flow::clock::CoarseClock;
use flow::service::Fabric;
use tokio::sync::Semaphore;
use wire::resp::{Command, Limits};

use crate::commands::{Kind, Positions, Spec};
use crate::desk::Desk;
use crate::fleet::View;
use crate::health::Health;
use crate::hub::Hubs;
use crate::metrics::Metrics;
use crate::named::NamedCommands;
use crate::placement::{Distribution, slot};
use crate::servers::{BlockedConnection, LeadsTo, Servers};
use crate::settings::Settings;
use crate::unknown::Unknown;
use crate::users::Users;
use placing::Placing;
pub use shared::{Call, PoolState};

/// Logins that servers check at once for one worker, each on a connection.
const CHECKS_AT_ONCE: usize = 32;

/// What can change while clients are connected.
#[derive(Debug)]
pub struct InForce {
    /// Who may log in.
    pub users: Users,
    /// Commands beside Weir's own list.
    pub commands: NamedCommands,
    /// How many databases there are.
    pub databases: u32,
    /// The one in which a client begins.
    pub database: u32,
    /// What a client may send at most, once it is logged in.
    pub limits: Limits,
    /// Subscriptions that a client may have.
    pub subscriptions: usize,
    /// Equal reads that wait together are asked once.
    pub share_reads: bool,
}

impl InForce {
    /// What the settings say.
    ///
    /// # Errors
    /// The file of a password can't be read.
    pub fn new(settings: &Settings) -> Result<Self, String> {
        Ok(Self {
            users: Users::new(&settings.user, settings.read_from, settings.passes())?,
            commands: NamedCommands::new(&settings.command),
            // A Cluster has but one.
            databases: if settings.is_cluster() { 1 } else { settings.databases },
            database: settings.database,
            limits: Limits { bulk: settings.max_value.bytes(), ..Limits::default() },
            subscriptions: settings.max_subscriptions,
            share_reads: settings.share_reads,
        })
    }
}

/// Where a key belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Home {
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
    /// Settings that a reload may change.
    pub in_force: Arc<ArcSwap<InForce>>,
    pub metrics: Metrics,
    /// What it shares with those of other workers.
    pub shared: Arc<PoolState>,
    /// What servers say of commands that Weir does not know.
    pub unknown: Unknown,
    /// Permits to have a server check a login.
    pub checking: Semaphore,
    /// What is kept for operators.
    pub desk: Rc<Desk>,
    pub clock: CoarseClock,
    /// This worker, among all.
    pub worker: usize,
    /// How the servers are.
    health: Arc<Health>,
    /// Where keys are, if the pool is a ring.
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
        shared: Arc<PoolState>,
        worker: &flow::Worker,
    ) -> Self {
        let (health, desk) =
            (Arc::clone(shared.fleet.health()), Rc::clone(fabric.service().desk()));
        let (clock, worker) = (worker.clock.clone(), worker.index);
        // A worker that starts late has not heard of what was ejected before.
        let heeded = Cell::new(u64::MAX);
        let seen = fabric.service().view();
        let placing = seen.spread.as_ref().and_then(Placing::new).map(RefCell::new);
        let seen = RefCell::new(seen);
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

    /// Where a client of this worker waits for what others do, by its number in the process. The
    /// connection is closed behind its answer.
    pub fn waiting(&self, id: i64) -> Vec<BlockedConnection> {
        let mut all = self.desk.clients().into_iter();
        let found = all.find(|(_, card)| i64::try_from(card.id) == Ok(id));
        let client = found.and_then(|(client, _)| self.fabric.client(client));
        client.map_or_else(Vec::new, |client| client.where_it_waits(LeadsTo::spend))
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
        let servers = self.fabric.service();
        servers.look();
        if servers.version() != self.seen.borrow().version {
            self.are_others(servers.view());
        }
        let changes = self.health.changes();
        if changes != self.heeded.get() {
            self.heeded.set(changes);
            self.are_live_others(true);
        }
        Servers::heed_left(&self.fabric);
    }

    /// Heeds that other servers of a ring have keys than before. What is subscribed to at all of
    /// them stays where these are the same.
    fn are_live_others(&self, are_same: bool) {
        let Some(placing) = &self.placing else { return };
        if placing.borrow_mut().set_live(&self.health.live()) {
            self.close_who_tracks();
        }
        self.hubs.is_placed_anew(|kind, name, server| match self.is_everywhere(kind, name) {
            true => are_same,
            false => self.home(name).server == server,
        });
    }

    /// Heeds that the servers are others now.
    fn are_others(&self, now: Arc<View>) {
        let before = self.seen.replace(Arc::clone(&now));
        self.fabric.service().are_others(&before, &now);
        self.fabric.close_outdated();
        self.hubs.are_others(&now);
        let has_same_holders = before.holders == now.holders;
        if !has_same_holders {
            self.close_who_tracks();
        }
        if let Some(placing) = &self.placing {
            if let Some(spread) =
                now.spread.as_ref().filter(|of| before.spread.as_ref() != Some(*of))
                && let Some(placed) = Placing::new(spread)
            {
                *placing.borrow_mut() = placed;
                // Others have keys than before, also where the servers are the same.
                self.close_who_tracks();
                self.are_live_others(has_same_holders);
            }
            return;
        }
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
        let random = |of: &RefCell<Placing>| of.borrow().distribution() == Distribution::Random;
        let is_random = self.placing.as_ref().is_some_and(random);
        let is_of_keys = kind == Kind::Channel && name.starts_with(KEYSPACE);
        kind == Kind::Pattern || is_of_keys || is_random
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
            Some(placing) => Home::at(placing.borrow().server_of(key)),
        }
    }

    /// The servers that a command may go to: those of its keys, or else any.
    pub fn homes_of(&self, spec: &Spec, command: &Command<'_>) -> Vec<usize> {
        let positions = spec.keys_of(command).unwrap_or(Positions::NONE);
        let keys = positions.iter().filter_map(|at| command.get(at));
        let homes: Vec<usize> = keys.map(|key| self.home(key).server).collect();
        if homes.is_empty() { self.holders() } else { homes }
    }

    /// A server for what any can answer: for each worker another one, of those that have keys.
    pub fn any_server(&self) -> usize {
        let holders = self.holders();
        let own = self.worker % holders.len().max(1);
        let all = holders.iter().skip(own).chain(holders.iter().take(own)).copied();
        all.clone().find(|of| self.is_live(*of)).or_else(|| all.clone().next()).unwrap_or(0)
    }

    /// Those that have keys now, of a ring.
    pub fn live(&self) -> Vec<usize> {
        self.holders().into_iter().filter(|of| self.is_live(*of)).collect()
    }

    fn is_live(&self, server: usize) -> bool {
        self.placing.as_ref().is_none_or(|placing| placing.borrow().is_live(server))
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
