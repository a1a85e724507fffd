//! From a hash to a server.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::jump::Buckets;
use super::ketama::{Circle, Entry};
use super::shares::Shares;

/// memcached's port, which libmemcached left out of the names it hashed.
const SILENT_PORT: u16 = 11211;

/// How hashes are spread over a pool's servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Consistent hashing over points on a circle, as libmemcached and twemproxy have it. Without a
    /// server, its keys spread over the others and those of the others stay.
    #[default]
    Ketama,
    /// The hash modulo the sum of the weights, as twemproxy has it. Without a server nearly all
    /// keys move.
    Modula,
    /// Any server, by weight. For caches that hold the same, or for servers that only compute.
    Random,
    /// Jump consistent hash: evener than `ketama`. Without a server, its keys spread over the
    /// others and those of the others stay; new servers belong at the end of the list. twemproxy
    /// does not have it.
    Jump,
    /// By slots, as the Redis Cluster has them of which the servers are nodes. It is asked who its
    /// nodes are: a few of them are enough, and all are logged in to as the first says.
    Cluster,
}

impl Distribution {
    /// The name in the configuration; of the first three, in `nutcracker.yml`, too.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ketama => "ketama",
            Self::Modula => "modula",
            Self::Random => "random",
            Self::Jump => "jump",
            Self::Cluster => "cluster",
        }
    }
}

/// A server of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// What `ketama` hashes, and what `modula` sorts by: the server's name, else
    /// [`default_name`].
    pub name: &'a str,
    /// Its part of the keys, beside the others'. With 0 it gets none.
    pub weight: u32,
}

/// What stands for a server without a name, as twemproxy has it: the address as it was written,
/// without memcached's port, and for a Unix socket with a colon behind the path.
pub fn default_name(address: &str) -> Cow<'_, str> {
    if address.starts_with('/') {
        return Cow::Owned(format!("{address}:"));
    }
    match address.rsplit_once(':') {
        Some((host, port)) if port.parse() == Ok(SILENT_PORT) => Cow::Borrowed(host),
        _ => Cow::Borrowed(address),
    }
}

/// The servers of a pool that live, ready to be found. It is made anew when one comes or goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring(Distributed);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Distributed {
    Circle(Circle),
    Modulo(Shares),
    Draw(Shares),
    Jump(Buckets),
}

impl Ring {
    /// A ring of those members that live, by their places in `members`. `None` if nobody does, and
    /// of a Cluster, which has its own way.
    pub fn new(
        distribution: Distribution,
        members: &[Member<'_>],
        is_live: &dyn Fn(usize) -> bool,
    ) -> Option<Self> {
        let usable = |place: usize| members[place].weight > 0 && is_live(place);
        if distribution == Distribution::Jump {
            let weights: Vec<u32> = members.iter().map(|member| member.weight).collect();
            let live = (0..members.len()).map(usable).collect();
            return Buckets::new(&weights, live).map(|buckets| Self(Distributed::Jump(buckets)));
        }
        let mut live: Vec<usize> = (0..members.len()).filter(|place| usable(*place)).collect();
        // twemproxy sorts a pool's servers by name, shorter ones first, when it looks for two with
        // the same, and leaves them so.
        live.sort_by_key(|place| (members[*place].name.len(), members[*place].name));
        let weights = live.iter().map(|place| (*place, members[*place].weight));
        let way = match distribution {
            Distribution::Modula => Distributed::Modulo(Shares::new(weights)?),
            Distribution::Random => Distributed::Draw(Shares::new(weights)?),
            Distribution::Cluster => return None,
            Distribution::Ketama | Distribution::Jump => {
                let entries = weights.map(|(member, weight)| Entry {
                    name: members[member].name,
                    weight,
                    member,
                });
                Distributed::Circle(Circle::new(&entries.collect::<Vec<_>>())?)
            }
        };
        Some(Self(way))
    }

    /// The place of the server that has a hash. For [`Distribution::Random`] the caller gives a
    /// random number instead.
    pub fn server_of(&self, hash: u32) -> usize {
        match &self.0 {
            Distributed::Circle(circle) => circle.at(hash),
            Distributed::Modulo(shares) => shares.at(u64::from(hash) % shares.total()),
            Distributed::Draw(shares) => {
                let place = (u128::from(hash) * u128::from(shares.total())) >> 32;
                shares.at(u64::try_from(place).unwrap_or(u64::MAX))
            }
            Distributed::Jump(buckets) => buckets.at(hash),
        }
    }
}
