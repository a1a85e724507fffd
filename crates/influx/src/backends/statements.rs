//! Clients that wait for their statement to run on the backends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::client::answer::error_in;

/// What came of a statement on one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ran {
    /// It was executed, or refused while executing: the JSON of the backend's answer.
    Answered(Bytes),
    /// The backend never executed it, in these words; it will not be tried again.
    Failed(String),
    /// The backend is of a kind that knows no such statements.
    Skipped,
}

/// A backend's name, and what came of the statement there.
type BackendOutcome = (String, Ran);

/// Who waits for which statement.
#[derive(Debug, Default)]
pub(super) struct StatementWaiters {
    tickets: Mutex<HashMap<u64, mpsc::Sender<BackendOutcome>>>,
}

impl StatementWaiters {
    pub(super) fn tell(&self, id: u64, backend: &str, ran: &Ran) {
        let tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ticket) = tickets.get(&id) {
            // Whoever waited may have gone away just now.
            let _ = ticket.try_send((backend.to_owned(), ran.clone()));
        }
    }

    /// Tells all who wait that a backend will not run their statement.
    pub(super) fn gone(&self, backend: &str) {
        let tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        for ticket in tickets.values() {
            let words = "nothing is delivered to the backend any more".to_owned();
            let _ = ticket.try_send((backend.to_owned(), Ran::Failed(words)));
        }
    }
}

/// What a client hears about its statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementReport {
    /// The backends that are done with it, in the order in which they were.
    pub ran: Vec<(String, Ran)>,
    /// The backends that follow later.
    pub following: Vec<String>,
}

impl StatementReport {
    /// The answer for the client: of a backend that refused the statement, if any did; `None`
    /// while no backend has answered.
    pub fn document(&self) -> Option<Bytes> {
        let answers = || {
            self.ran.iter().filter_map(|(_, ran)| match ran {
                Ran::Answered(body) => Some(body),
                Ran::Failed(_) | Ran::Skipped => None,
            })
        };
        answer_of(answers()).cloned()
    }
}

/// The answer to a statement that several backends have answered: of one that refused it, if any
/// did.
pub(super) fn answer_of<'a>(mut answers: impl Iterator<Item = &'a Bytes>) -> Option<&'a Bytes> {
    let first = answers.next()?;
    let refused = std::iter::once(first).chain(answers).find(|body| error_in(body).is_some());
    refused.or(Some(first))
}

/// The wait for one statement; dropping it ends the wait, not the statement.
#[derive(Debug)]
pub struct StatementTicket {
    id: u64,
    waiting: Arc<StatementWaiters>,
    told: mpsc::Receiver<BackendOutcome>,
    backends: Vec<String>,
}

impl StatementTicket {
    pub(super) fn new(waiting: &Arc<StatementWaiters>, backends: Vec<String>) -> Self {
        // Each backend runs a statement once between two starts, and may go afterwards.
        let (tell, told) = mpsc::channel(2 * backends.len().max(1));
        let mut tickets = waiting.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        // Ids of earlier runs are still in the journal, so they are drawn and not counted.
        let mut id = rand::random();
        while tickets.contains_key(&id) {
            id = rand::random();
        }
        tickets.insert(id, tell);
        drop(tickets);
        Self { id, waiting: Arc::clone(waiting), told, backends }
    }

    /// What the journal's record carries.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Waits until every backend is done with the statement, or `limit` is over.
    pub async fn wait(self, limit: Duration) -> StatementReport {
        self.wait_for(None, limit, limit).await
    }

    /// As [`wait`](Self::wait); for the backend `patient` the limit is another.
    pub async fn wait_for(
        mut self,
        patient: Option<&str>,
        patience: Duration,
        limit: Duration,
    ) -> StatementReport {
        let begun = Instant::now();
        let mut following = std::mem::take(&mut self.backends);
        let mut ran: Vec<BackendOutcome> = Vec::with_capacity(following.len());
        while !following.is_empty() {
            let patiently = patient.is_some_and(|name| following.iter().any(|f| f == name));
            let end = begun + if patiently { patience } else { limit };
            let Ok(Some(told)) = timeout_at(end, self.told.recv()).await else { break };
            if let Some(at) = following.iter().position(|name| *name == told.0) {
                following.remove(at);
                ran.push(told);
            }
        }
        StatementReport { ran, following }
    }
}

impl Drop for StatementTicket {
    fn drop(&mut self) {
        self.waiting.tickets.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
