//! Deliveries that begin and end: at the start, and as reloads want it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use journal::{CursorStatus, Journal, Position};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use watch::metrics::Registry;

use crate::backends::{Backend, Backends, DeliveryChange, ReplacedBackend, STOP_GRACE};
use crate::catalogue::Catalogue;
use crate::delivery::{Interrupted, Pace, StartError, Task};

/// How often it is looked whether a backend has all that is still for it.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Begins and ends deliveries, with all that opening one takes.
pub struct DeliveryTasks {
    pub backends: Arc<Backends>,
    pub catalogue: Arc<Catalogue>,
    pub journal: Journal,
    /// Where the dead letters are.
    pub dir: PathBuf,
    pub registry: Registry,
    /// The runtime that deliveries run on.
    pub control: Handle,
    pub pace: Pace,
}

impl DeliveryTasks {
    /// The delivery to a backend. The catalogue asks the backend from now on, if it can be asked.
    ///
    /// # Errors
    /// When the backend's cursor or dead letters cannot be used.
    pub fn open(&self, backend: &Arc<Backend>) -> Result<Task, StartError> {
        match backend.settings().kind.has_catalogue() {
            true => self.catalogue.ask(backend.name(), Arc::clone(backend.queries())),
            false => self.catalogue.remove(backend.name()),
        }
        let Self { backends, catalogue, journal, dir, registry, pace, .. } = self;
        Task::open(backend, backends, catalogue, journal, dir, registry, *pace)
    }

    /// Begins what [`open`](Self::open) has opened.
    pub fn begin(self: &Arc<Self>, backend: &Arc<Backend>, task: Task) {
        let running = Arc::clone(self).deliver(Arc::clone(backend), task);
        self.backends.delivers(backend.name(), self.control.spawn(running));
    }

    /// Delivers to a backend until that ends; from its cursor anew where a cluster has another
    /// table.
    async fn deliver(self: Arc<Self>, backend: Arc<Backend>, mut task: Task) {
        while task.run().await == Interrupted::TableChanged {
            let (this, of) = (Arc::clone(&self), Arc::clone(&backend));
            match tokio::task::spawn_blocking(move || this.open(&of)).await {
                Ok(Ok(opened)) => task = opened,
                Ok(Err(error)) => return self.withdraw(&backend, &error),
                Err(fault) if fault.is_panic() => return self.withdraw(&backend, &fault),
                Err(_) => return,
            }
        }
    }

    /// Carries out what reloads change, one after the other, until the deliveries end.
    pub async fn run(self: Arc<Self>, mut changes: mpsc::Receiver<DeliveryChange>) {
        let drain = self.backends.drain.clone();
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = drain.started() => None,
            };
            let Some(DeliveryChange { added, replaced, removed }) = change else { return };
            // Not behind those that end: what is written meanwhile is for them, too.
            for backend in added {
                self.start(backend).await;
            }
            for ReplacedBackend { before, after } in replaced {
                self.end(&before).await;
                self.start(after).await;
            }
            for backend in removed {
                self.remove(&backend).await;
            }
        }
    }

    async fn start(self: &Arc<Self>, backend: Arc<Backend>) {
        // On another thread: it waits for the disk, and for `weir dead-letters`.
        let (this, of) = (Arc::clone(self), Arc::clone(&backend));
        match tokio::task::spawn_blocking(move || this.open(&of)).await {
            Ok(Ok(task)) => {
                self.begin(&backend, task);
                tracing::info!(backend = backend.name(), "delivery has begun");
            }
            Ok(Err(error)) => self.withdraw(&backend, &error),
            Err(fault) if fault.is_panic() => self.withdraw(&backend, &fault),
            // The runtime is shut down, so that nothing would be delivered.
            Err(_) => {}
        }
    }

    async fn end(&self, backend: &Backend) {
        backend.drain().trigger();
        self.backends.end_delivery(backend.name()).await;
        backend.standing().ended();
        backend.answered();
    }

    /// Ends a delivery for good. Whoever has all that was accepted before leaves no cursor behind;
    /// another one's backlog is kept until somebody decides.
    async fn remove(&self, backend: &Backend) {
        let name = backend.name();
        let has_all = match self.journal.acknowledged_end().await {
            Ok(end) => self.has_come_to(name, end).await,
            Err(_) => false,
        };
        self.end(backend).await;
        // Put back by another reload, which begins where this one has ended.
        if self.backends.has_server(name) {
            return;
        }
        self.catalogue.remove(name);
        self.backends.statements_gone(name);
        if !has_all {
            let waiting = self.cursor(name).map_or(0, |cursor| cursor.waiting.items);
            tracing::warn!(
                "backend {name:?} is gone from the configuration, and {waiting} points wait for \
                 it; the journal keeps them and all that comes behind them: put it back, or stop \
                 Weir and give them up with `weir journal forget {name}`"
            );
            return;
        }
        match self.journal.forget(name) {
            Ok(_) => {
                tracing::info!(
                    "backend {name:?} is gone from the configuration; it had everything"
                );
            }
            Err(error) => tracing::error!(%error, "the cursor of backend {name:?} stays"),
        }
    }

    /// Whether a delivery comes to `end` within the time that one has to end.
    async fn has_come_to(&self, name: &str, end: Position) -> bool {
        let until = Instant::now() + STOP_GRACE;
        while self.cursor(name).is_some_and(|cursor| cursor.position < end) {
            if Instant::now() >= until || self.backends.drain.is_started() {
                return false;
            }
            sleep(LOOK_INTERVAL).await;
        }
        true
    }

    fn cursor(&self, name: &str) -> Option<CursorStatus> {
        self.journal.cursors().into_iter().find(|cursor| cursor.name == name)
    }

    fn withdraw(&self, backend: &Arc<Backend>, error: &dyn std::error::Error) {
        let name = backend.name();
        tracing::error!(%error, "nothing is delivered to backend {name:?}; mend that and reload");
        self.backends.withdraw(backend);
        if !self.backends.has_server(name) {
            self.catalogue.remove(name);
        }
    }
}
