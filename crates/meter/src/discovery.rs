//! Servers that share the requests of a load, where a registry says which there are, and says it
//! anew while the load runs.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use flow::dial::Address;
use tokio::sync::watch;

/// One of several servers that share requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub address: Address,
    /// Its share of the requests, beside those of the others; never 0.
    pub weight: u32,
}

/// What a registry has at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Servers {
    /// Those that share the requests.
    pub used: Vec<Server>,
    /// Servers that get no requests, by address, with the reason in words.
    pub left_out: Vec<(String, String)>,
}

/// Finds the servers of a load when that begins.
pub trait Discovery: fmt::Debug + Send + Sync {
    /// Finds those that there are, and begins to watch them.
    ///
    /// # Errors
    /// There are none, or the registry can't be asked.
    fn begin(&self) -> Result<ServerList, DiscoveryError>;
}

/// The servers of a load can't be found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DiscoveryError(pub String);

/// The servers that there are, at any moment. Who watches them does so until the last list is gone.
#[derive(Clone)]
pub struct ServerList {
    servers: watch::Receiver<Arc<Servers>>,
    _watcher: Arc<dyn Any + Send + Sync>,
}

impl ServerList {
    /// A list that is watched by whoever ends with `watcher`.
    pub fn new(servers: watch::Receiver<Arc<Servers>>, watcher: impl Any + Send + Sync) -> Self {
        Self { servers, _watcher: Arc::new(watcher) }
    }

    /// The servers that there are now.
    pub fn servers(&mut self) -> Arc<Servers> {
        Arc::clone(&self.servers.borrow_and_update())
    }

    /// Waits until there are others; for ever where nobody watches them any more.
    pub async fn changed(&mut self) {
        if self.servers.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl fmt::Debug for ServerList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerList").field(&*self.servers.borrow()).finish()
    }
}
