//! What other threads ask of a front's workers.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

/// Calls that wait for a worker; each is dealt with at once.
const WAITING_MAX: usize = 1024;

/// The way to each worker that attends to calls.
pub struct Calls<C>(Mutex<BTreeMap<usize, mpsc::Sender<C>>>);

impl<C> Default for Calls<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C> Calls<C> {
    /// What a worker is asked by other threads, until it [leaves](Self::leave).
    pub fn attend(&self, worker: usize) -> mpsc::Receiver<C> {
        let (sender, calls) = mpsc::channel(WAITING_MAX);
        self.0.lock().insert(worker, sender);
        calls
    }

    /// Nobody asks this worker for anything any more; what it attends to ends.
    pub fn leave(&self, worker: usize) {
        self.0.lock().remove(&worker);
    }

    /// Asks a worker for something. One that has so many calls before it is standing still, which
    /// the watchdog reports.
    pub fn ask(&self, worker: usize, call: C) {
        if let Some(calls) = self.0.lock().get(&worker) {
            let _ = calls.try_send(call);
        }
    }

    /// Asks a worker for something. What is given ends with the answer; where nothing was sent, or
    /// the worker ends before it answers, with the sender.
    pub fn asked<T>(
        &self,
        worker: usize,
        call: impl FnOnce(oneshot::Sender<T>) -> C,
    ) -> oneshot::Receiver<T> {
        let (answer, answered) = oneshot::channel();
        self.ask(worker, call(answer));
        answered
    }

    /// Asks all workers that attend to calls.
    pub fn asked_all<T>(
        &self,
        call: impl Fn(oneshot::Sender<T>) -> C,
    ) -> Vec<oneshot::Receiver<T>> {
        let workers: Vec<usize> = self.0.lock().keys().copied().collect();
        workers.into_iter().map(|worker| self.asked(worker, &call)).collect()
    }
}
