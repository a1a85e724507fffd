//! What the workers of a pool share.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use flow::front::Calls;
use flow::logins::slowing::Slowing;
use flow::memory::Memory;
use tokio::sync::oneshot;
use watch::latencies::Latency;

use super::Front;
use crate::console::rows::{RowKind, WorkerRows};
use crate::desk::PoolDesk;
use crate::fleet::{Fleet, Node};
use crate::metrics::times::Times;
use crate::replica::Follower;
use crate::server::Sentinels;
use crate::server_memory::ServerMemories;
use crate::settings::Settings;
use crate::status;

/// How long a worker may take to give its part of what is shown; one that stands still is left out.
const PART_TIMEOUT: Duration = Duration::from_secs(2);

/// What another thread has a worker do.
pub type Call = Box<dyn FnOnce(&Front) + Send>;

/// What the workers of a pool share.
pub struct PoolState {
    /// The name of the pool.
    pub name: String,
    /// Its settings, as they are in force.
    pub settings: ArcSwap<Settings>,
    pub fleet: Arc<Fleet>,
    /// How long servers take for commands.
    pub times: Times,
    /// What is kept for operators.
    pub desk: Arc<PoolDesk>,
    /// The way to its workers.
    pub calls: Calls<Call>,
    /// Whose logins have failed.
    pub slowing: Arc<Slowing>,
    /// What the clients of all pools may hold.
    pub memory: Memory,
    /// What servers say of their memory.
    pub memories: ServerMemories,
    /// Who keeps append-only files in this process.
    pub follower: Option<Arc<Follower>>,
}

impl PoolState {
    /// Has each worker do something; gives what they answer in time.
    pub async fn asked<T: Send + 'static>(
        &self,
        what: impl Fn(&Front) -> T + Clone + Send + 'static,
    ) -> Vec<T> {
        let parts = self.calls.asked_all(|answer: oneshot::Sender<T>| {
            let what = what.clone();
            let call: Call = Box::new(move |front| {
                // Whoever asked may be gone.
                let _ = answer.send(what(front));
            });
            call
        });
        let until = tokio::time::Instant::now() + PART_TIMEOUT;
        let mut all = Vec::new();
        for part in parts {
            if let Ok(Ok(part)) = tokio::time::timeout_at(until, part).await {
                all.push(part);
            }
        }
        all
    }

    /// What the workers have to show.
    pub async fn parts(&self, kind: RowKind) -> Vec<WorkerRows> {
        self.asked(move |front| front.part(kind)).await
    }

    /// Its servers, as they are.
    pub fn backends(&self) -> Vec<status::Backend> {
        let view = self.fleet.view();
        let backend = |(number, node): (usize, &Node)| {
            let (state, server) = (self.fleet.health().state(number), &node.server);
            let ways = ["lane", "lease"].map(|way| (way, self.times.latencies(&server.name, way)));
            status::Backend {
                answers: ways.iter().map(|(_, of)| of.total.count()).sum(),
                latencies: ways
                    .iter()
                    .filter_map(|(way, of)| Some(Latency::of(way, &of.percentiles()?)))
                    .collect(),
                pool: self.name.clone(),
                name: server.name.to_string(),
                url: server.url(),
                sentinel: server.sentinels().and_then(Sentinels::question),
                replica_of: view.replica_of(number).map(str::to_owned),
                weight: view.weight(number).unwrap_or(1),
                ejected_seconds: state.ejected.map(|of| of.as_secs_f64()),
                ejections: state.ejections,
                memory: self.memories.of(&node.known_as()),
                wrong: state.wrong,
            }
        };
        let there = view.nodes.iter().enumerate().filter(|(number, _)| view.is_there(*number));
        there.map(backend).collect()
    }
}

impl std::fmt::Debug for PoolState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolState").field("name", &self.name).finish_non_exhaustive()
    }
}
