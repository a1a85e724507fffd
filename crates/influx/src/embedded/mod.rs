//! The store within this process as a backend among the others: fed from the journal at its own
//! pace, asked by `/query`, and bound to what the journal keeps for it.

mod apply;
mod feed;
mod queries;
mod room;
mod settling;
mod turns;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use journal::{CursorStatus, Pin, Position};
use store::Store;
use tokio::sync::Notify;

pub(crate) use self::feed::Feed;
pub use self::queries::Queries;
pub use self::room::Behind;
use self::settling::Settled;
pub use self::settling::Unsettled;
pub use self::turns::{Arrival, Network, Turn, Turns};
use crate::backends::{BackendStatus, DeliveryState, status_of};
use crate::catalogue::{Listing, Policies, Policy};
use crate::settings::DeliverySettings;

/// How long a request waits for the journal's records to reach the store, before it hears 503.
const REACH_WAIT: Duration = Duration::from_secs(30);

/// The embedded store with its delivery.
#[derive(Debug)]
pub struct Embedded {
    settings: DeliverySettings,
    store: Arc<Store>,
    standing: DeliveryState,
    pin: Arc<Pin>,
    /// Bytes of records that may be in the journal and not yet in the store's files.
    ahead_max: u64,
    /// Everything before this place of the journal is in the store.
    reached: tokio::sync::watch::Sender<u64>,
    /// Where the journal ended when it was opened: what comes before is replayed.
    replay_end: u64,
    /// Who waits for `reached`; the delivery takes its time where nobody does.
    waiting: AtomicUsize,
    hurry: Notify,
    settled: Settled,
    queries: Queries,
}

/// The store cannot answer yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store is starting: it reads what was acknowledged before; try again in a moment")]
pub struct Starting;

impl Embedded {
    /// The backend's name in the configuration.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// The store within this process.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The embedded store as an operator sees it.
    pub fn status(&self, cursors: &[CursorStatus]) -> BackendStatus {
        let status = status_of(&self.settings, ("embedded", ""), &self.standing, cursors, || None);
        status.of_store(self.store.trouble(), self.store.missing())
    }

    /// What queries of it share.
    pub fn queries(&self) -> &Queries {
        &self.queries
    }

    /// Whether everything is in the store that was acknowledged before the start.
    ///
    /// # Errors
    /// While that is not so: neither names nor points are all known.
    pub fn started(&self) -> Result<(), Starting> {
        if *self.reached.borrow() >= self.replay_end { Ok(()) } else { Err(Starting) }
    }

    /// Waits until everything before `end` of the journal is in the store.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn reach(&self, end: Position) -> Result<(), Starting> {
        let mut reached = self.reached.subscribe();
        if *reached.borrow_and_update() >= end.0 {
            return Ok(());
        }
        let _waiting = WaiterGuard::new(self);
        let wait = reached.wait_for(|reached| *reached >= end.0);
        match tokio::time::timeout(REACH_WAIT, wait).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Starting),
        }
    }

    /// The store's databases as the other backends list theirs.
    pub fn listing(&self) -> Listing {
        let catalogue = self.store.catalogue();
        let listed = |database: &store::catalogue::Database| {
            let mut policies = Policies { default: String::new(), policies: BTreeMap::new() };
            for policy in &database.policies {
                if policy.default {
                    policies.default.clone_from(&policy.name);
                }
                let described = Policy {
                    duration: go_duration(policy.duration_ns),
                    shard_duration: go_duration(policy.partition_ns),
                    replicas: policy.replication,
                };
                policies.policies.insert(policy.name.clone(), described);
            }
            policies
        };
        let databases = catalogue.databases.iter();
        Listing { databases: databases.map(|(name, db)| (name.clone(), listed(db))).collect() }
    }
}

/// Counts as waiting for as long as it lives.
struct WaiterGuard<'a>(&'a Embedded);

impl<'a> WaiterGuard<'a> {
    fn new(embedded: &'a Embedded) -> Self {
        embedded.waiting.fetch_add(1, Ordering::AcqRel);
        embedded.hurry.notify_one();
        Self(embedded)
    }
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A duration as Go prints it, `168h0m0s`, which is how InfluxDB lists it.
fn go_duration(ns: i64) -> String {
    let seconds = ns / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = String::new();
    if hours > 0 {
        let _ = write!(text, "{hours}h");
    }
    if hours > 0 || minutes > 0 {
        let _ = write!(text, "{minutes}m");
    }
    let _ = write!(text, "{seconds}s");
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn durations_are_as_go_prints_them() {
        for (seconds, text) in [(0, "0s"), (90, "1m30s"), (604_800, "168h0m0s")] {
            assert_eq!(super::go_duration(seconds * 1_000_000_000), text);
        }
    }
}
