//! Clients that track keys: where it is not known that all was told, they are closed.

use wire::resp::put_error;

use super::Front;

/// What a client hears that is closed because nobody would tell it of keys any more.
const TRACKING_LOST: &str = "ERR weir: CLIENT TRACKING: its connection has ended, or keys are \
                                 with other servers: what was kept may be out of date";

impl Front {
    /// What a client of this worker keeps may be out of date: it is closed.
    pub fn lose_tracking(&self, client: u64) {
        if let Some(client) = self.fabric.client(client) {
            let mut out = Vec::new();
            put_error(&mut out, TRACKING_LOST);
            client.cut_short(out);
        }
    }

    /// Nobody tells whoever keeps keys of a server what becomes of these at another one.
    pub(super) fn close_who_tracks(&self) {
        let those = self.desk.clients().into_iter().filter(|(_, card)| card.tracks.get());
        those.for_each(|(client, _)| self.lose_tracking(client));
    }
}
