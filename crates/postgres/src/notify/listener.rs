//! What one session listens to.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Confirmed, Hub, Mailbox, TooMany};

/// Channels that one client may listen to.
pub const CHANNELS_MAX: usize = 1000;

/// What came of joining a channel.
#[derive(Debug)]
pub enum Joined {
    /// The server listens there.
    Now,
    /// It will have confirmed it when this is answered.
    Soon(oneshot::Receiver<Confirmed>),
}

/// One client's channels. Dropped, it has left all of them.
#[derive(Debug)]
pub struct Listener {
    hub: Arc<Hub>,
    client: i32,
    mailbox: Arc<Mailbox>,
    channels: HashSet<Box<str>>,
}

impl Listener {
    /// Listens to nothing yet.
    pub fn new(hub: Arc<Hub>, client: i32, mailbox: Arc<Mailbox>) -> Self {
        Self { hub, client, mailbox, channels: HashSet::new() }
    }

    /// Whether it has joined a channel.
    pub fn has(&self, channel: &str) -> bool {
        self.channels.contains(channel)
    }

    /// All that it has joined.
    pub fn channels(&self) -> Vec<Box<str>> {
        self.channels.iter().cloned().collect()
    }

    /// Joins a channel, or asks again whether the server listens to one that it has joined.
    ///
    /// # Errors
    /// The client, or the database, has as many as it may have.
    pub fn join(&mut self, channel: &str) -> Result<Joined, TooMany> {
        if self.channels.len() >= CHANNELS_MAX && !self.has(channel) {
            return Err(TooMany);
        }
        let answer = self.hub.join(channel, self.client, &self.mailbox)?;
        self.channels.insert(channel.into());
        Ok(answer.map_or(Joined::Now, Joined::Soon))
    }

    pub fn leave(&mut self, channel: &str) {
        if self.channels.remove(channel) {
            self.hub.leave(channel, self.client);
        }
    }

    /// Leaves all of them.
    pub fn leave_all(&mut self) {
        for channel in self.channels.drain() {
            self.hub.leave(&channel, self.client);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.leave_all();
    }
}
