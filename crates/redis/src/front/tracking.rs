//! Clients that track keys, and those that are told in their place, on whichever workers.
//!
//! Whoever is told may keep what the client that tracks has read. So where it is not known that
//! all was told, both are closed.

use std::sync::Arc;

use wire::resp::{Version, put_array, put_bulk, put_error, put_push};

use super::Front;
use crate::desk::Target;

/// What a client hears that is closed because nobody would tell it of keys any more.
pub const TRACKING_LOST: &str = "ERR weir: CLIENT TRACKING: its connection has ended, or keys are \
                                 with other servers: what was kept may be out of date";

/// The channel on which a client is told in RESP2, as a server has it.
const CHANNEL: &[u8] = b"__redis__:invalidate";

impl Front {
    /// A client of this worker, by its number in the process.
    pub fn target(&self, id: u64) -> Option<Target> {
        let (client, _) = self.desk.clients().into_iter().find(|(_, card)| card.id == id)?;
        Some(Target { worker: self.worker, client })
    }

    /// Tells a client of this worker which keys are invalid, each time with a value as a server
    /// says it; false where that client is gone. In RESP2 it hears that if it is subscribed to
    /// anything, as of a server.
    pub fn tell_invalid(&self, client: u64, all: &[Vec<u8>]) -> bool {
        let Some((client, card)) = self.fabric.client(client).zip(self.desk.card(client)) else {
            return false;
        };
        let is_subscribed = card.is_subscribed();
        let mut out = Vec::new();
        for keys in all {
            match card.version.get() {
                Version::Three => {
                    put_push(&mut out, 2);
                    put_bulk(&mut out, b"invalidate");
                }
                Version::Two if is_subscribed => {
                    put_array(&mut out, 3);
                    put_bulk(&mut out, b"message");
                    put_bulk(&mut out, CHANNEL);
                }
                Version::Two => return true,
            }
            out.extend_from_slice(keys);
        }
        client.push(&out);
        true
    }

    /// What a client of this worker keeps, or has another one keep, may be out of date: both are
    /// closed.
    pub fn lose_tracking(&self, client: u64) {
        if let Some(card) = self.desk.card(client) {
            self.lose_target(card.tells.get());
        }
        if let Some(client) = self.fabric.client(client) {
            let mut out = Vec::new();
            put_error(&mut out, TRACKING_LOST);
            client.cut_short(out);
        }
    }

    /// Closes a client that was told in another one's place, whichever worker has it.
    pub fn lose_target(&self, target: Option<Target>) {
        let Some(Target { worker, client }) = target else { return };
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_local(async move {
            let close = move |front: &Front| {
                if let Some(client) = front.fabric.client(client) {
                    client.part(Vec::new());
                }
            };
            shared.asked_of(worker, close).await
        });
    }

    /// Nobody tells whoever keeps keys of a server what becomes of these at another one.
    pub(super) fn close_who_tracks(&self) {
        let those = self.desk.clients().into_iter().filter(|(_, card)| card.tracks.get());
        those.for_each(|(client, _)| self.lose_tracking(client));
    }
}
