//! `LISTEN` for clients that have no server connection of their own: one connection a database
//! listens for all of them.
//!
//! It never decides who hears what but by the channel, keeps no notification for a client that is
//! not there, and never blocks on a client that does not read: what waits for one is bounded.
//!
//! The one path: a session joins a channel by its [`Listener`]; the [`Hub`] of the database has the
//! connection (`connection`, on the control runtime) LISTEN there and tells the session when the
//! server has confirmed it; each NotificationResponse goes into the [`Mailbox`] of everyone who
//! listens, and the client's own task sends what is in there between two replies.

mod connection;
mod hub;
mod listener;
mod mailbox;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use watch::metrics::{Counter, Gauge, Registry};

pub use hub::{Confirmed, Hub, TooMany};
pub use listener::{Joined, Listener};
pub use mailbox::{Mailbox, Overflow};

use crate::backends::Backends;

/// What is counted of all databases.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    channels: Gauge,
    listeners: Gauge,
    received: Counter,
    delivered: Counter,
    overflows: Counter,
    gaps: Counter,
}

impl Metrics {
    fn new(registry: &Registry) -> Self {
        let counter = |name, help| registry.counter(name, help, &[]);
        let gauge = |name, help| registry.gauge(name, help, &[]);
        Self {
            channels: gauge(
                "weir_postgres_listen_channels",
                "Channels that Weir listens to for clients, over all databases.",
            ),
            listeners: gauge(
                "weir_postgres_listen_listeners",
                "Channels times the clients that listen to them.",
            ),
            received: counter(
                "weir_postgres_listen_received_total",
                "Notifications that came from servers.",
            ),
            delivered: counter(
                "weir_postgres_listen_delivered_total",
                "Notifications handed to clients, each client counted.",
            ),
            overflows: counter(
                "weir_postgres_listen_overflows_total",
                "Clients closed because too many notifications waited for them.",
            ),
            gaps: counter(
                "weir_postgres_listen_gaps_total",
                "Times that a listening connection was lost while clients listened: what was \
                 notified until there was another one is lost.",
            ),
        }
    }
}

/// Each with the task that listens for it.
type Hubs = HashMap<String, (Arc<Hub>, JoinHandle<()>)>;

/// The hubs of all databases. Dropped, nobody listens any more.
#[derive(Debug)]
pub struct Notifier {
    backends: Arc<Backends>,
    control: Handle,
    metrics: Metrics,
    /// By the database's name on the servers. As many as there are databases with a client that
    /// has ever listened.
    hubs: Mutex<Hubs>,
}

impl Notifier {
    /// Nobody listens yet. Connections are held by tasks on `control`.
    pub fn new(backends: Arc<Backends>, registry: &Registry, control: &Handle) -> Self {
        let metrics = Metrics::new(registry);
        Self { backends, control: control.clone(), metrics, hubs: Mutex::default() }
    }

    /// The one of a database, by its name on the servers.
    pub fn hub(&self, database: &str) -> Arc<Hub> {
        let mut hubs = self.hubs();
        if let Some((hub, _)) = hubs.get(database) {
            return hub.clone();
        }
        let hub = Arc::new(Hub::new(database, self.metrics.clone()));
        let task = self.control.spawn(connection::run(hub.clone(), self.backends.clone()));
        hubs.insert(database.to_owned(), (hub.clone(), task));
        hub
    }

    fn hubs(&self) -> MutexGuard<'_, Hubs> {
        self.hubs.lock()
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.hubs().values().for_each(|(_, task)| task.abort());
    }
}
