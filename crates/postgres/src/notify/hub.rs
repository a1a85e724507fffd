//! Who listens to what in one database, and what the listening connection is to do about it.
//!
//! Sessions change what is wanted, the connection's task what is there; each change is noted once
//! and worked off in batches. Nothing in here waits.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use super::{Mailbox, Metrics};

/// Channels that Weir listens to in one database.
pub const CHANNELS_MAX: usize = 10_000;

/// More channels than Weir listens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

/// What became of a LISTEN: the server has confirmed it, or Weir can't listen there, and why.
pub type Confirmed = Result<(), Arc<str>>;

/// What a server is to be told of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Listen,
    Unlisten,
}

/// Those who listen in one database.
#[derive(Debug)]
pub struct Hub {
    database: Arc<str>,
    state: Mutex<State>,
    /// Something is to be told to the server.
    work: Notify,
    metrics: Metrics,
}

#[derive(Debug, Default)]
struct State {
    channels: HashMap<Arc<str>, Channel>,
    /// Channels that changed; each is in here once.
    changed: Vec<Arc<str>>,
    /// Since when, and to whom, nothing comes that should.
    gap: Option<Gap>,
}

#[derive(Debug)]
struct Gap {
    since: Instant,
    missed_by: HashMap<i32, Arc<Mailbox>>,
}

#[derive(Debug, Default)]
struct Channel {
    /// By the client's number.
    listeners: HashMap<i32, Arc<Mailbox>>,
    /// Those whose LISTEN is not answered.
    waiting: Vec<oneshot::Sender<Confirmed>>,
    there: There,
    /// It is among those that changed.
    is_changed: bool,
}

/// What the connection's server knows of a channel.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum There {
    /// It is not listened to, or was told to be no more.
    #[default]
    No,
    /// A LISTEN is under way.
    Asked,
    /// It is listened to.
    Yes,
}

/// A gap that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) lasted: Duration,
    pub(super) missed_by: HashMap<i32, Arc<Mailbox>>,
}

impl State {
    fn change(&mut self, name: &str) -> bool {
        let Some((name, channel)) = self.channels.get_key_value(name) else { return false };
        if channel.is_changed {
            return true;
        }
        let name = name.clone();
        if let Some(channel) = self.channels.get_mut(&name) {
            channel.is_changed = true;
        }
        self.changed.push(name);
        true
    }
}

impl Hub {
    pub(super) fn new(database: &str, metrics: Metrics) -> Self {
        Self { database: database.into(), state: Mutex::default(), work: Notify::new(), metrics }
    }

    /// Its name on the servers.
    pub(super) fn database(&self) -> &str {
        &self.database
    }

    /// Has a client hear what is notified on a channel. `None`: the server has confirmed before
    /// that it listens there.
    ///
    /// # Errors
    /// There are as many channels as there may be.
    pub(super) fn join(
        &self,
        name: &str,
        client: i32,
        mailbox: &Arc<Mailbox>,
    ) -> Result<Option<oneshot::Receiver<Confirmed>>, TooMany> {
        let mut state = self.state();
        let is_new = !state.channels.contains_key(name);
        if is_new {
            if state.channels.len() >= CHANNELS_MAX {
                return Err(TooMany);
            }
            state.channels.insert(name.into(), Channel::default());
            self.metrics.channels.inc();
        }
        let Some(channel) = state.channels.get_mut(name) else { return Err(TooMany) };
        if let Entry::Vacant(place) = channel.listeners.entry(client) {
            place.insert(mailbox.clone());
            self.metrics.listeners.inc();
        }
        if channel.there == There::Yes {
            return Ok(None);
        }
        let (answer, answered) = oneshot::channel();
        channel.waiting.retain(|waiting| !waiting.is_closed());
        channel.waiting.push(answer);
        if channel.there == There::No {
            state.change(name);
            self.work.notify_one();
        }
        Ok(Some(answered))
    }

    /// A client no longer listens to a channel.
    pub(super) fn leave(&self, name: &str, client: i32) {
        let mut state = self.state();
        let Some(channel) = state.channels.get_mut(name) else { return };
        if channel.listeners.remove(&client).is_none() {
            return;
        }
        self.metrics.listeners.dec();
        if channel.listeners.is_empty() {
            state.change(name);
            self.work.notify_one();
        }
    }

    /// Whether anybody listens.
    pub(super) fn is_wanted(&self) -> bool {
        !self.state().channels.is_empty()
    }

    /// Waits until something is to be told to the server.
    pub(super) async fn changed(&self) {
        self.work.notified().await;
    }

    /// What the server is to be told, of at most `max` channels.
    pub(super) fn batch(&self, max: usize) -> Vec<(Arc<str>, Verb)> {
        let mut state = self.state();
        let mut batch = Vec::new();
        while batch.len() < max {
            let Some(name) = state.changed.pop() else { break };
            let Some(channel) = state.channels.get_mut(&name) else { continue };
            channel.is_changed = false;
            match (channel.listeners.is_empty(), channel.there) {
                (false, There::No) => {
                    channel.there = There::Asked;
                    batch.push((name, Verb::Listen));
                }
                (true, There::Yes) => {
                    channel.there = There::No;
                    batch.push((name, Verb::Unlisten));
                }
                (true, There::No) => self.forget(&mut state, &name),
                // Looked at again when the server has answered; or all is as it should be.
                (true | false, There::Asked) | (false, There::Yes) => {}
            }
        }
        batch
    }

    /// The server has done what it was told.
    pub(super) fn confirm(&self, batch: &[(Arc<str>, Verb)]) {
        let mut state = self.state();
        for (name, verb) in batch {
            let Some(channel) = state.channels.get_mut(name) else { continue };
            if *verb == Verb::Listen {
                channel.there = There::Yes;
                for waiting in channel.waiting.drain(..) {
                    let _ = waiting.send(Ok(()));
                }
            }
            if !channel.listeners.is_empty() || channel.is_changed {
                continue;
            }
            match verb {
                Verb::Listen => {
                    state.change(name);
                }
                Verb::Unlisten => self.forget(&mut state, name),
            }
        }
    }

    /// The server refuses to listen to a channel; those who wait are told why. Those who listened
    /// to it already stay, for another connection to try.
    pub(super) fn refuse(&self, name: &str, why: &Arc<str>) {
        let mut state = self.state();
        let Some(channel) = state.channels.get_mut(name) else { return };
        channel.there = There::No;
        for waiting in channel.waiting.drain(..) {
            let _ = waiting.send(Err(why.clone()));
        }
    }

    /// Weir can't log in there: everybody who waits is told why.
    pub(super) fn refuse_all(&self, why: &Arc<str>) {
        let mut state = self.state();
        for channel in state.channels.values_mut() {
            for waiting in channel.waiting.drain(..) {
                let _ = waiting.send(Err(why.clone()));
            }
        }
    }

    /// The connection is gone: all is to be told to another one. Whether anybody misses something.
    pub(super) fn lost(&self) -> bool {
        let mut state = self.state();
        let mut missed_by = HashMap::new();
        let mut changed = Vec::new();
        let before = state.channels.len();
        state.channels.retain(|_, channel| !channel.listeners.is_empty());
        self.metrics.channels.add(-((before - state.channels.len()) as i64));
        for (name, channel) in &mut state.channels {
            if channel.there == There::Yes {
                missed_by.extend(channel.listeners.iter().map(|(id, to)| (*id, to.clone())));
            }
            channel.there = There::No;
            channel.is_changed = true;
            changed.push(name.clone());
        }
        state.changed = changed;
        if missed_by.is_empty() {
            return false;
        }
        let gap = state
            .gap
            .get_or_insert_with(|| Gap { since: Instant::now(), missed_by: HashMap::new() });
        gap.missed_by.extend(missed_by);
        self.metrics.gaps.inc();
        true
    }

    /// All channels are listened to again; the gap that has ended thereby.
    pub(super) fn restored(&self) -> Option<Ended> {
        let mut state = self.state();
        let gap = state.gap.take();
        let Gap { since, missed_by } = gap.filter(|_| !state.channels.is_empty())?;
        Some(Ended { lasted: since.elapsed(), missed_by })
    }

    /// Hands a message to everybody who listens to its channel.
    pub(super) fn deliver(&self, name: &str, message: &Arc<[u8]>) {
        self.metrics.received.inc();
        let state = self.state();
        let Some(channel) = state.channels.get(name) else { return };
        for mailbox in channel.listeners.values() {
            self.put(mailbox, message);
        }
        self.metrics.delivered.add(channel.listeners.len() as u64);
    }

    /// Puts a message into a mailbox, and counts where that is too much.
    pub(super) fn put(&self, mailbox: &Mailbox, message: &Arc<[u8]>) {
        if mailbox.put(message) {
            self.metrics.overflows.inc();
        }
    }

    fn forget(&self, state: &mut State, name: &str) {
        if state.channels.remove(name).is_some() {
            self.metrics.channels.dec();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a poisoned lock guards here is always whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
