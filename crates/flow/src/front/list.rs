//! The fronts of a process as one.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use watch::metrics::Registry;

use super::{Addresses, BindError, Front, PreparedSettings, Reload, Share, Sockets};
use crate::workers::{Worker, Workers};

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A socket could not be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Threads could not be had.
    #[error("{count} workers can't be started: {source}")]
    Start {
        /// How many were wanted.
        count: usize,
        /// As the system says it.
        source: io::Error,
    },
}

/// All fronts of a process whose configuration is an `S`, in the order in which they were opened.
/// Clones are the same fronts.
pub struct Fronts<S>(Vec<Arc<dyn Member<S>>>);

impl<S> Clone for Fronts<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> Default for Fronts<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: 'static> Fronts<S> {
    /// Adds one, which may stand on those before it. `section` finds its part of a configuration,
    /// where that has one that can be put in force.
    pub fn add<F: Front>(&mut self, front: Arc<F>, section: fn(&S) -> Option<F::Settings>) {
        self.0.push(Arc::new(Entry { front, section }));
    }

    /// Binds every socket before the first is served, so that a port which is taken is an error of
    /// the start, and serves them on `count` workers.
    ///
    /// # Errors
    /// A socket or a thread could not be had; then nothing is served.
    pub fn serve(
        &self,
        count: usize,
        registry: &Registry,
    ) -> Result<(Workers, Addresses), ServeError> {
        let mut shares: Vec<Vec<Share>> = (0..count).map(|_| Vec::new()).collect();
        let mut bound = Vec::new();
        for front in &self.0 {
            let mut sockets = Sockets::new(count);
            front.bind(&mut sockets)?;
            bound.push(sockets.addresses);
            shares.iter_mut().zip(sockets.shares).for_each(|(of, share)| of.push(share));
        }
        let workers = self.start(count, shares, registry);
        let workers = workers.map_err(|source| ServeError::Start { count, source })?;
        let announced = self.0.iter().zip(&bound);
        announced.for_each(|(front, addresses)| front.announce(addresses, count));
        let addresses = bound.into_iter().flat_map(|addresses| addresses.0).collect();
        Ok((workers, Addresses(addresses)))
    }

    fn start(
        &self,
        count: usize,
        shares: Vec<Vec<Share>>,
        registry: &Registry,
    ) -> io::Result<Workers> {
        let shares = Arc::new(Mutex::new(shares));
        let fronts = self.clone();
        let body = move |worker: Worker| async move {
            let of_all = fronts.0.into_iter().zip(take(&shares, worker.index));
            all(of_all.map(|(front, share)| front.run(share, worker.clone())).collect()).await;
        };
        Workers::start(count, registry, body)
    }

    /// Puts in force what of a configuration can be: all that may fail comes before the first
    /// takes over. Gives the keys that need a restart.
    ///
    /// # Errors
    /// What the settings of one can't be used for; nothing has changed then.
    pub fn reload(&self, wanted: &S) -> Result<Vec<String>, String> {
        let prepared = self.0.iter().map(|front| front.prepare(wanted));
        let prepared: Vec<Option<PreparedSettings<'_>>> = prepared.collect::<Result<_, _>>()?;
        Ok(prepared.into_iter().flatten().flat_map(PreparedSettings::put_in_force).collect())
    }

    /// What operators ask a front to reload; closed where none takes that.
    pub fn reloads(&self) -> mpsc::Receiver<Reload> {
        let (ask, asked) = mpsc::channel(1);
        self.0.iter().for_each(|front| front.reload_by(ask.clone()));
        asked
    }

    /// Why the process should get no clients now.
    ///
    /// # Errors
    /// In the words of the first that is not ready.
    pub fn ready(&self) -> Result<(), String> {
        self.0.iter().try_for_each(|front| front.ready())
    }

    /// What each is doing, by its name.
    pub fn status(&self) -> Map<String, Value> {
        self.0.iter().map(|front| (front.name().to_owned(), front.status())).collect()
    }

    /// Drains the workers and stops the fronts from the list's end, so that what others stand on
    /// is stopped behind them.
    pub async fn stop(&self, timeout: Duration, workers: Workers) {
        let drained = workers.drain(timeout).await;
        if drained.cut + drained.stuck > 0 {
            let (cut, stuck) = (drained.cut, drained.stuck);
            tracing::warn!(cut, stuck, "not everything was done within drain-timeout");
        }
        for front in self.0.iter().rev() {
            front.stop(timeout).await;
        }
        tracing::info!("stopped");
    }
}

/// A worker's share of all sockets, which it takes once.
fn take(shares: &Mutex<Vec<Vec<Share>>>, worker: usize) -> Vec<Share> {
    let mut shares = shares.lock();
    shares.get_mut(worker).map(std::mem::take).unwrap_or_default()
}

type Run = Pin<Box<dyn Future<Output = ()>>>;

/// Polls all of them in this task, so that a panic of one is the worker's.
async fn all(mut runs: Vec<Run>) {
    poll_fn(|cx| {
        runs.retain_mut(|run| run.as_mut().poll(cx).is_pending());
        if runs.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// A front whose own types are nobody's business.
trait Member<S>: Send + Sync {
    fn name(&self) -> &'static str;
    fn bind(&self, sockets: &mut Sockets) -> Result<(), BindError>;
    fn announce(&self, addresses: &Addresses, workers: usize);
    fn run(&self, share: Share, worker: Worker) -> Run;
    fn prepare(&self, wanted: &S) -> Result<Option<PreparedSettings<'_>>, String>;
    fn reload_by(&self, ask: mpsc::Sender<Reload>);
    fn ready(&self) -> Result<(), String>;
    fn status(&self) -> Value;
    fn stop(&self, within: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

struct Entry<F: Front, S> {
    front: Arc<F>,
    section: fn(&S) -> Option<F::Settings>,
}

impl<F: Front, S> Member<S> for Entry<F, S> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn bind(&self, sockets: &mut Sockets) -> Result<(), BindError> {
        self.front.bind(sockets)
    }

    fn announce(&self, addresses: &Addresses, workers: usize) {
        self.front.announce(addresses, workers);
    }

    fn run(&self, share: Share, worker: Worker) -> Run {
        Box::pin(Arc::clone(&self.front).run(share, worker))
    }

    fn prepare(&self, wanted: &S) -> Result<Option<PreparedSettings<'_>>, String> {
        let section = (self.section)(wanted);
        let prepared = section.map(|wanted| self.front.prepare(wanted));
        prepared.transpose().map_err(|error| format!("[{}]: {error}", F::NAME))
    }

    fn reload_by(&self, ask: mpsc::Sender<Reload>) {
        self.front.reload_by(ask);
    }

    fn ready(&self) -> Result<(), String> {
        self.front.ready()
    }

    fn status(&self) -> Value {
        serde_json::to_value(self.front.status()).unwrap_or_default()
    }

    fn stop(&self, within: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.front.stop(within))
    }
}
