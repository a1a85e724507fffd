//! Who listens to what in one database, and what the listening connection is to do about it.
//!
//! Sessions change what is wanted, the connection's task what is there; each change is noted once
//! and worked off in batches. Nothing in here waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
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

/// A client whose LISTEN is not answered. It hears nothing yet: what was notified before that, and
/// is still on its way to Weir, is not for it.
#[derive(Debug)]
struct Joining {
    client: i32,
    mailbox: Arc<Mailbox>,
    answer: oneshot::Sender<Confirmed>,
}

#[derive(Debug, Default)]
struct Channel {
    /// By the client's number.
    listeners: HashMap<i32, Arc<Mailbox>>,
    /// Those that the server has to be asked for, also where it listens already: its answer comes
    /// behind all that was notified before.
    joining: Vec<Joining>,
    /// Those that it was asked for.
    asked: Vec<Joining>,
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
    /// It is listened to.
    Yes,
}

/// A gap that has ended.
#[derive(Debug)]
pub(super) struct EndedGap {
    pub(super) lasted: Duration,
    pub(super) missed_by: HashMap<i32, Arc<Mailbox>>,
}

impl Channel {
    fn is_wanted(&self) -> bool {
        !(self.listeners.is_empty() && self.joining.is_empty() && self.asked.is_empty())
    }

    fn has(&self, client: i32) -> bool {
        let joins = |joining: &Joining| joining.client == client;
        self.listeners.contains_key(&client)
            || self.joining.iter().any(joins)
            || self.asked.iter().any(joins)
    }

    /// Tells those whose LISTEN is not answered that it won't be; how many of them have left
    /// thereby.
    fn refuse(&mut self, why: &Arc<str>) -> usize {
        let before = self.joining.len() + self.asked.len();
        let mut stay = 0;
        for Joining { client, answer, .. } in self.joining.drain(..).chain(self.asked.drain(..)) {
            stay += usize::from(self.listeners.contains_key(&client));
            let _ = answer.send(Err(why.clone()));
        }
        before - stay
    }
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

    /// Has a client hear what is notified on a channel from its answer on. `None`: it does already.
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
        if channel.there == There::Yes && channel.listeners.contains_key(&client) {
            return Ok(None);
        }
        if !channel.has(client) {
            self.metrics.listeners.inc();
        }
        let (answer, answered) = oneshot::channel();
        channel.joining.retain(|joining| joining.client != client);
        channel.joining.push(Joining { client, mailbox: mailbox.clone(), answer });
        state.change(name);
        self.work.notify_one();
        Ok(Some(answered))
    }

    /// A client no longer listens to a channel.
    pub(super) fn leave(&self, name: &str, client: i32) {
        let mut state = self.state();
        let Some(channel) = state.channels.get_mut(name) else { return };
        if !channel.has(client) {
            return;
        }
        channel.listeners.remove(&client);
        channel.joining.retain(|joining| joining.client != client);
        channel.asked.retain(|asked| asked.client != client);
        self.metrics.listeners.dec();
        if !channel.is_wanted() {
            state.change(name);
            self.work.notify_one();
        }
    }

    /// Whether anybody listens to any channel.
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
            match (channel.is_wanted(), channel.there) {
                (true, There::Yes) if channel.joining.is_empty() => {}
                (true, _) => {
                    channel.asked.append(&mut channel.joining);
                    batch.push((name, Verb::Listen));
                }
                (false, There::Yes) => {
                    channel.there = There::No;
                    batch.push((name, Verb::Unlisten));
                }
                (false, There::No) => self.forget(&mut state, &name),
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
                for Joining { client, mailbox, answer } in channel.asked.drain(..) {
                    channel.listeners.insert(client, mailbox);
                    let _ = answer.send(Ok(()));
                }
            }
            if channel.is_wanted() || channel.is_changed {
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
        self.metrics.listeners.add(-(channel.refuse(why) as i64));
        if !channel.is_wanted() {
            state.change(name);
        }
    }

    /// Weir can't log in there: everybody who waits is told why.
    pub(super) fn refuse_all(&self, why: &Arc<str>) {
        let mut state = self.state();
        for channel in state.channels.values_mut() {
            self.metrics.listeners.add(-(channel.refuse(why) as i64));
        }
    }

    /// The connection is gone: all is to be told to another one. Whether anybody misses something.
    pub(super) fn lost(&self) -> bool {
        let mut state = self.state();
        let mut missed_by = HashMap::new();
        let mut changed = Vec::new();
        let before = state.channels.len();
        state.channels.retain(|_, channel| channel.is_wanted());
        self.metrics.channels.add(-((before - state.channels.len()) as i64));
        for (name, channel) in &mut state.channels {
            if channel.there == There::Yes {
                missed_by.extend(channel.listeners.iter().map(|(id, to)| (*id, to.clone())));
            }
            channel.there = There::No;
            channel.joining.append(&mut channel.asked);
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
    pub(super) fn restored(&self) -> Option<EndedGap> {
        let mut state = self.state();
        let gap = state.gap.take();
        let Gap { since, missed_by } = gap.filter(|_| !state.channels.is_empty())?;
        Some(EndedGap { lasted: since.elapsed(), missed_by })
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
        self.state.lock()
    }
}
