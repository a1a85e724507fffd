//! A real Redis Cluster.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Redis, RedisClient};
use crate::places;
use crate::wait;

/// How many slots there are.
const SLOTS: usize = 16384;

/// Nodes of a Cluster: first the primaries, then a replica of each.
#[derive(Debug)]
pub struct RedisCluster {
    pub nodes: Vec<Redis>,
}

impl RedisCluster {
    /// So many primaries, which share the slots evenly, each with a replica or without.
    ///
    /// # Panics
    /// When it does not come to be.
    pub fn start(primaries: usize, has_replicas: bool, args: &[&str]) -> Self {
        Self::start_as(&places::need("redis-server"), primaries, has_replicas, args)
    }

    /// The same, of this program.
    ///
    /// # Panics
    /// When it does not come to be.
    pub fn start_as(program: &Path, primaries: usize, has_replicas: bool, args: &[&str]) -> Self {
        let count = if has_replicas { primaries * 2 } else { primaries };
        let start = |_| {
            let bus = places::free_address().port().to_string();
            let own = [
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &bus,
                "--cluster-node-timeout",
                "3000",
                "--cluster-replica-validity-factor",
                "0",
                "--repl-diskless-sync-delay",
                "0",
            ];
            Redis::start_as(program, &[&own, args].concat())
        };
        let cluster = Self { nodes: (0..count).map(start).collect() };
        let mut clients: Vec<_> = cluster.nodes.iter().map(Redis::client).collect();
        for (n, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.line(&format!("CLUSTER SET-CONFIG-EPOCH {}", n + 1)), "+OK");
            if n < primaries {
                let (first, next) = (n * SLOTS / primaries, (n + 1) * SLOTS / primaries);
                let line = format!("CLUSTER ADDSLOTSRANGE {first} {}", next - 1);
                assert_eq!(client.line(&line), "+OK");
            }
        }
        for node in &cluster.nodes[1..] {
            let bus = node.client().line("CONFIG GET cluster-port");
            let bus = bus.rsplit(' ').next().unwrap_or_default().to_owned();
            let line = format!("CLUSTER MEET 127.0.0.1 {} {bus}", node.address.port());
            assert_eq!(clients[0].line(&line), "+OK");
        }
        wait::until("the nodes know each other", wait::LONG, || {
            clients.iter_mut().all(|client| {
                let info = client.line("CLUSTER INFO");
                info.contains(&format!("cluster_known_nodes:{count} "))
                    && info.contains("cluster_state:ok")
            })
        });
        for (primary, replica) in clients[primaries..].iter_mut().enumerate() {
            let line = format!("CLUSTER REPLICATE {}", cluster.id(primary));
            wait::until("it replicates", wait::LONG, || replica.line(&line) == "+OK");
        }
        wait::until("replicas are known and follow", wait::LONG, || {
            clients[primaries..]
                .iter_mut()
                .all(|client| client.line("INFO replication").contains("link_status:up"))
                && clients.iter_mut().all(|client| {
                    client.line("CLUSTER NODES").matches("slave").count() == count - primaries
                })
        });
        cluster
    }

    /// A node's name among the others.
    pub fn id(&self, node: usize) -> String {
        let id = self.nodes[node].client().line("CLUSTER MYID");
        id.rsplit(' ').next().unwrap_or_default().to_owned()
    }

    /// Moves a slot with its keys from one primary to another, as `redis-cli --cluster reshard`
    /// does: not before all nodes agree on who owns what. A slot that goes back and forth faster
    /// than the nodes tell each other may end up with no owner.
    ///
    /// # Panics
    /// When a node refuses a step.
    pub fn migrate(&self, slot: u16, from: usize, to: usize) {
        wait::until("all nodes agree on the slots", wait::LONG, || {
            let mut views = self.nodes.iter().map(owners);
            let first = views.next();
            views.all(|view| Some(view) == first)
        });
        let (mut source, mut target) = (self.nodes[from].client(), self.nodes[to].client());
        let (source_id, target_id) = (self.id(from), self.id(to));
        let must = |client: &mut RedisClient, line: String| {
            let heard = client.line(&line);
            assert!(!heard.starts_with('-'), "{line}: {heard}");
            heard
        };
        must(&mut target, format!("CLUSTER SETSLOT {slot} IMPORTING {source_id}"));
        must(&mut source, format!("CLUSTER SETSLOT {slot} MIGRATING {target_id}"));
        let port = self.nodes[to].address.port();
        loop {
            let keys = must(&mut source, format!("CLUSTER GETKEYSINSLOT {slot} 3"));
            let keys: Vec<&str> = keys.split(' ').skip(2).step_by(2).collect();
            if keys.is_empty() {
                break;
            }
            let line = format!("MIGRATE 127.0.0.1 {port}  0 5000 KEYS {}", keys.join(" "));
            must(&mut source, line);
        }
        must(&mut target, format!("CLUSTER SETSLOT {slot} NODE {target_id}"));
        must(&mut source, format!("CLUSTER SETSLOT {slot} NODE {target_id}"));
    }
}

/// A node's view of the Cluster: of each node its name, its epoch and its slots.
fn owners(node: &Redis) -> BTreeSet<Vec<String>> {
    let nodes = node.client().line("CLUSTER NODES");
    let (_, lines) = nodes.split_once(' ').unwrap_or_default();
    lines
        .lines()
        .map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            let id = words.next();
            let (epoch, slots) =
                (words.nth(5), words.skip(1).filter(|slots| !slots.starts_with('[')));
            id.into_iter().chain(epoch).chain(slots).collect()
        })
        .collect()
}
