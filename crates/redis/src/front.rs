//! What the clients of one worker share.

use std::rc::Rc;
use std::sync::Arc;

use arc_swap::ArcSwap;
use flow::service::Fabric;
use wire::resp::Limits;

use crate::metrics::Metrics;
use crate::placement::{Distribution, Hash, Member, Ring, tagged};
use crate::server::Servers;
use crate::settings::Settings;
use crate::users::Users;

/// What can change while clients are connected.
#[derive(Debug)]
pub struct InForce {
    /// Who may log in.
    pub users: Users,
    /// How many databases there are.
    pub databases: u32,
    /// What a client may send at most, once it is logged in.
    pub limits: Limits,
}

impl InForce {
    /// What the settings say.
    pub fn new(settings: &Settings) -> Self {
        Self {
            users: Users::new(&settings.user),
            databases: settings.databases,
            limits: Limits { bulk: settings.max_value.bytes(), ..Limits::default() },
        }
    }
}

/// Which server a key belongs to.
#[derive(Debug, Clone)]
pub struct Placing {
    ring: Ring,
    hash: Hash,
    tag: Option<[u8; 2]>,
    is_random: bool,
}

impl Placing {
    /// As the settings have it; `None` where no server has any weight.
    pub fn new(settings: &Settings) -> Option<Self> {
        let backends = settings.backend.iter();
        let members: Vec<Member<'_>> =
            backends.map(|of| Member { name: &of.name, weight: of.weight }).collect();
        Some(Self {
            ring: Ring::new(settings.distribution, &members, &|_| true)?,
            hash: settings.hash,
            tag: settings.tag(),
            is_random: settings.distribution == Distribution::Random,
        })
    }

    /// The number of a key's server.
    pub fn server_of(&self, key: &[u8]) -> usize {
        let hash =
            if self.is_random { rand::random() } else { self.hash.of(tagged(key, self.tag)) };
        self.ring.server_of(hash)
    }
}

/// What the clients of one worker share.
#[derive(Debug)]
pub struct Front {
    /// The servers, and the way to them.
    pub fabric: Rc<Fabric<Servers>>,
    /// What can change.
    pub in_force: Arc<ArcSwap<InForce>>,
    /// What is counted.
    pub metrics: Metrics,
    /// Which server a key belongs to.
    pub placing: Placing,
    /// This worker, among all.
    pub worker: usize,
}

impl Front {
    /// The server that a key belongs to.
    #[inline]
    pub fn server_of(&self, key: &[u8]) -> usize {
        if self.fabric.service().len() == 1 {
            return 0;
        }
        self.placing.server_of(key)
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.fabric.service().len()
    }
}
