//! What a process serves: each front end is bound, run on every worker, reloaded and stopped in
//! the same way, whatever its protocol.
//!
//! A gateway implements [`Front`] and knows of no other. The program puts them into one list,
//! [`Fronts`], in the order in which they were opened. All sockets are bound before any is served,
//! all make ready for new settings before any puts them in force, and they are stopped from the
//! list's end: what others stand on comes first in it. On a worker, [`Serving`] serves a front's
//! [`Share`] of the sockets, and [`Calls`] brings it what other threads ask.

mod calls;
mod list;
mod serving;
mod sockets;
#[cfg(test)]
mod tests;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use crate::workers::Worker;
pub use calls::Calls;
pub use list::{Fronts, ServeError};
pub use serving::Serving;
pub use sockets::{Addresses, BindError, Share, Sockets};

/// A front end of the process. What it leaves out has nothing to do there: one without listeners,
/// which follows a server's stream, binds nothing and runs all the same.
pub trait Front: Send + Sync + Sized + 'static {
    /// What its section of the configuration and its part of the status are called.
    const NAME: &'static str;
    /// Its section of the configuration.
    type Settings;
    /// Why settings cannot be used.
    type Error: std::error::Error;

    /// Opens its sockets.
    ///
    /// # Errors
    /// The first address that cannot be had.
    fn bind(&self, sockets: &mut Sockets) -> Result<(), BindError> {
        let _ = sockets;
        Ok(())
    }

    /// Says where clients are taken, once they are.
    fn announce(&self, addresses: &Addresses, workers: usize) {
        let _ = (addresses, workers);
    }

    /// Serves one worker's share of the sockets until the worker drains.
    fn run(self: Arc<Self>, share: Share, worker: Worker) -> impl Future<Output = ()> + 'static {
        let _ = (share, worker);
        ready(())
    }

    /// Makes ready to put new settings in force, as far as they can change while it serves.
    ///
    /// # Errors
    /// The new settings cannot be used.
    fn prepare(
        self: &Arc<Self>,
        wanted: Self::Settings,
    ) -> Result<PreparedSettings<'_>, Self::Error>;

    /// Has an operator's RELOAD, where it takes one, ask there.
    fn reload_by(&self, ask: mpsc::Sender<Reload>) {
        let _ = ask;
    }

    /// Why the process should get no clients now.
    ///
    /// # Errors
    /// In words.
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    /// What it is doing.
    fn status(&self) -> impl Serialize;

    /// Ends what is under way beside the workers, which have ended by now. How long it may take
    /// is for itself to keep to.
    fn stop(&self, within: Duration) -> impl Future<Output = ()> + Send {
        let _ = within;
        ready(())
    }
}

/// A reload of all of the process's configuration. Whoever owns that answers with whether the new
/// one is in force.
pub type Reload = oneshot::Sender<bool>;

/// Settings that can be used and are not in force yet.
#[must_use = "the former settings stay in force"]
pub struct PreparedSettings<'a>(Box<dyn FnOnce() -> Vec<String> + 'a>);

impl<'a> PreparedSettings<'a> {
    /// What puts them in force; it can't fail, and gives the keys that differ and need a restart.
    pub fn new(put_in_force: impl FnOnce() -> Vec<String> + 'a) -> Self {
        Self(Box::new(put_in_force))
    }

    /// Puts them in force; gives the keys that differ and need a restart.
    pub fn put_in_force(self) -> Vec<String> {
        (self.0)()
    }
}
