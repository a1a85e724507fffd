//! The shards of a Cluster, found by asking its nodes: each has a name that stays, whoever of its
//! nodes is the master.
//!
//! A shard is known by its nodes: one whose master is a node that a shard had before, as its master
//! or as a replica of it, is that shard. So a failover changes neither its name nor what is kept of
//! it; a node that goes over to another shard is that one's from then on.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::dial::{Address, Target};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::sleep;

use super::{Server, tls};
use crate::settings::{BackendSettings, is_of_this_machine};
use crate::topology::cluster::{self, Shape};

/// How often it is asked whether a master that is connected has moved.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What was heard so recently is not asked again.
const FRESH: Duration = Duration::from_millis(500);
/// A Cluster has no more masters that anybody has run.
const SHARDS_MAX: usize = 1024;
/// A shard's name ends with so much of the id of the node that was its master at first.
const ID_BYTES: usize = 8;

/// The shards of one Cluster. Clones are the same.
#[derive(Clone)]
pub struct Shards(Arc<ClusterState>);

struct ClusterState {
    name: String,
    /// Where to begin to ask, and how all nodes are logged in to.
    seeds: Vec<Server>,
    ca: Option<PathBuf>,
    known: Mutex<ShardMap>,
}

#[derive(Default)]
struct ShardMap {
    shards: Vec<FoundShard>,
    /// Addresses of all nodes when the shards were found.
    nodes: Vec<(String, u16)>,
    epoch: u64,
    at: Option<Instant>,
}

/// A shard that was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundShard {
    /// The shard's name, which ends with the first digits of a node's id.
    pub name: String,
    /// The ids of all nodes that it has had.
    pub members: BTreeSet<String>,
    /// Where its master is, if it has slots.
    pub master: Option<(String, u16)>,
}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shards").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl Shards {
    /// Of the Cluster that these are nodes of; with what was known of its shards before.
    ///
    /// # Errors
    /// A file that the settings name can't be read.
    pub fn new(
        name: &str,
        seeds: &[BackendSettings],
        before: Vec<FoundShard>,
    ) -> Result<Self, String> {
        let ca = seeds.first().and_then(|seed| seed.ca.clone());
        let seeds = seeds.iter().map(Server::new).collect::<Result<Vec<_>, _>>()?;
        let known = Mutex::new(ShardMap { shards: before, ..ShardMap::default() });
        Ok(Self(Arc::new(ClusterState { name: name.to_owned(), seeds, ca, known })))
    }

    fn known(&self) -> MutexGuard<'_, ShardMap> {
        self.0.known.lock()
    }

    /// Asks how the Cluster is, unless that was heard just now.
    ///
    /// # Errors
    /// No node answers, each for no longer than its share of `limit`.
    pub async fn look(&self, limit: Duration) -> Result<Vec<FoundShard>, String> {
        let nodes = {
            let known = self.known();
            if known.at.is_some_and(|at| at.elapsed() < FRESH) {
                return Ok(known.shards.clone());
            }
            known.nodes.clone()
        };
        let Some(like) = self.0.seeds.first() else { return Err("it has no nodes".to_owned()) };
        let nodes = nodes.iter().filter_map(|(host, port)| like.at(host, *port).ok());
        let all: Vec<Server> = nodes.chain(self.0.seeds.iter().cloned()).collect();
        let limit = limit / u32::try_from(all.len() + 1).unwrap_or(u32::MAX);
        let (mut best, mut why): (Option<(Shape, &Server)>, _) = (None, String::new());
        for server in &all {
            match server.cluster(limit).await {
                Ok(shape) => {
                    let is_newest = shape.epoch >= self.known().epoch;
                    if best.as_ref().is_none_or(|(best, _)| best.epoch < shape.epoch) {
                        best = Some((shape, server));
                    }
                    if is_newest {
                        break;
                    }
                }
                Err(words) => why = format!("{}: {words}", server.name),
            }
        }
        // Where none knows of the newest epoch, the one with the newest is believed.
        let (shape, server) = best.ok_or(why)?;
        let mut known = self.known();
        let host = server.host().unwrap_or_default().to_owned();
        known.take(&self.0.name, &shape, &host);
        Ok(known.shards.clone())
    }

    /// The shard of this name, as it was seen last.
    pub fn found(&self, name: &str) -> Option<FoundShard> {
        self.known().shards.iter().find(|of| of.name == name).cloned()
    }

    /// A server that is the master of a shard, wherever that is.
    ///
    /// # Errors
    /// A file that the settings name can't be read.
    pub fn master_of(&self, name: &str, settings: &BackendSettings) -> Result<Server, String> {
        let like = Server::new(settings)?;
        let shard = Shard { all: self.clone(), name: name.into(), last: Arc::default() };
        Ok(Server { name: name.into(), shard: Some(shard), ..like })
    }
}

impl Server {
    /// What it says of its Cluster, for no longer than `limit`.
    ///
    /// # Errors
    /// It does not answer, is not a node of a Cluster, or knows of no slots.
    pub async fn cluster(&self, limit: Duration) -> Result<Shape, String> {
        let asked = async {
            let connection = self.dial_as_set().await;
            let mut connection = connection.map_err(|error| error.to_string())?;
            let replies =
                connection.ask_up_to(&cluster::question(), 2, cluster::ANSWER_BYTES_MAX).await;
            replies.map_err(|error| error.to_string())
        };
        let late = |_| format!("no answer within {limit:?}");
        cluster::answer(&tokio::time::timeout(limit, asked).await.map_err(late)??)
    }
}

impl ShardMap {
    /// Notes what a node on a host has said.
    fn take(&mut self, cluster: &str, shape: &Shape, host: &str) {
        (self.epoch, self.at) = (shape.epoch, Some(Instant::now()));
        let at = |at: &crate::topology::At| {
            (at.host.clone().unwrap_or_else(|| host.to_owned()), at.port)
        };
        self.nodes.clear();
        self.shards.iter_mut().for_each(|shard| shard.master = None);
        for range in &shape.ranges {
            for node in [&range.primary].into_iter().chain(&range.replicas) {
                let node = at(node);
                if !self.nodes.contains(&node) {
                    self.nodes.push(node);
                }
            }
            let Some(id) = range.ids.first() else { continue };
            let known = self.shards.iter().position(|shard| shard.members.contains(id));
            let number = match known {
                Some(number) => number,
                None if self.shards.len() < SHARDS_MAX => {
                    let name = name(cluster, id, &self.shards);
                    self.shards.push(FoundShard { name, ..FoundShard::default() });
                    self.shards.len() - 1
                }
                None => continue,
            };
            for (other, shard) in self.shards.iter_mut().enumerate() {
                if other == number {
                    shard.members.extend(range.ids.iter().cloned());
                    shard.master = Some(at(&range.primary));
                } else {
                    shard.members.retain(|member| !range.ids.contains(member));
                }
            }
        }
    }
}

/// A name that no other shard has.
fn name(cluster: &str, id: &str, others: &[FoundShard]) -> String {
    let short = format!("{cluster}-{}", id.get(..ID_BYTES).unwrap_or(id));
    match others.iter().any(|other| other.name == short) {
        true => format!("{cluster}-{id}"),
        false => short,
    }
}

/// One shard, for whoever connects to its master. Clones are the same.
#[derive(Clone)]
pub(super) struct Shard {
    all: Shards,
    name: Arc<str>,
    /// Where its master was when it was connected to last.
    last: Arc<Mutex<Option<Address>>>,
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Shard {
    async fn ask(&self, limit: Duration) -> Result<(String, u16), String> {
        let found = self.all.look(limit).await?;
        let master = found.into_iter().find(|of| *of.name == *self.name).and_then(|of| of.master);
        master.ok_or_else(|| "its shard has no slots in the Cluster any more".to_owned())
    }

    /// Where the master is now, to be reached as `like` is.
    pub(super) async fn target(&self, like: &Target) -> Result<Target, String> {
        let (host, port) = self.ask(like.connect_timeout).await?;
        let seed = self.all.0.seeds.first();
        let begins_here = seed.and_then(Server::host).is_some_and(is_of_this_machine);
        if like.tls.is_none() && begins_here && !is_of_this_machine(&host) {
            return Err(format!(
                "it is at {host}:{port}, and every key and value would travel in the clear: write \
                 rediss:// in cluster"
            ));
        }
        let tls = like.tls.as_ref().map(|_| tls(self.all.0.ca.as_deref(), &host)).transpose();
        let address = Address::Tcp { host, port };
        *self.last.lock() = Some(address.clone());
        Ok(Target { address, tls: tls.map_err(|error| error.to_string())?, ..like.clone() })
    }

    /// Where the master was when it was connected to last.
    pub(super) fn last(&self) -> Option<Address> {
        self.last.lock().clone()
    }

    /// Ends once the Cluster says that the master is elsewhere than it was connected to last.
    pub(super) async fn moved(&self, limit: Duration) {
        loop {
            sleep(LOOK_EVERY).await;
            let Ok((host, port)) = self.ask(limit).await else { continue };
            let now = Some(Address::Tcp { host, port });
            if *self.last.lock() != now {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FoundShard, ShardMap};
    use crate::topology::At;
    use crate::topology::cluster::{Range, Shape};

    fn range(first: u16, port: u16, ids: &[&str]) -> Range {
        let at = |port| At { host: (port != 1).then(|| "h".to_owned()), port };
        let replicas = (1..ids.len()).map(|n| at(port + 1000 * n as u16)).collect();
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        Range { first, last: first, primary: at(port), replicas, ids }
    }

    fn take(known: &mut ShardMap, epoch: u64, ranges: Vec<Range>) -> Vec<(String, Option<u16>)> {
        known.take("c", &Shape { epoch, ranges }, "asked");
        let of = |shard: &FoundShard| (shard.name.clone(), shard.master.as_ref().map(|of| of.1));
        known.shards.iter().map(of).collect()
    }

    #[test]
    fn a_shard_keeps_its_name_whoever_of_its_nodes_is_the_master() {
        let (a, b) = ("aaaaaaaaaa", "bbbbbbbbbb");
        let mut known = ShardMap::default();
        let before =
            vec![range(0, 1, &[a, "a2"]), range(1, 2, &[b, "b2"]), range(2, 1, &[a, "a2"])];
        let is = |name: &str, port| (format!("c-{name}"), port);
        assert_eq!(take(&mut known, 1, before), [is("aaaaaaaa", Some(1)), is("bbbbbbbb", Some(2))]);
        assert_eq!(known.shards[0].master, Some(("asked".to_owned(), 1)), "it said no host");
        assert_eq!(known.nodes.len(), 4);
        // The replica has taken over, and the old master is gone from what is said.
        let after = vec![range(0, 3, &["a2"]), range(1, 2, &[b, "b2"])];
        let found = take(&mut known, 2, after);
        assert_eq!(found, [is("aaaaaaaa", Some(3)), is("bbbbbbbb", Some(2))]);
        // A replica of one has gone over to the other, and takes over there.
        let after = vec![range(0, 3, &["a2"]), range(1, 2, &[b, a])];
        take(&mut known, 3, after);
        let found = take(&mut known, 4, vec![range(0, 3, &["a2"]), range(1, 1, &[a, b])]);
        assert_eq!(found, [is("aaaaaaaa", Some(3)), is("bbbbbbbb", Some(1))]);
        // One has lost its slots, and another one begins with the same letters.
        let found = take(&mut known, 5, vec![range(1, 1, &[a, b]), range(2, 9, &["bbbbbbbbcc"])]);
        assert_eq!(found[0], is("aaaaaaaa", None));
        assert_eq!(found[2], is("bbbbbbbbcc", Some(9)));
    }
}
