//! `CLIENT TRACKING`: a client is told of keys that others change, so that it may keep them itself.
//!
//! A server tells that to the connection that has read the keys, so the client has one for itself
//! to each server for as long as it tracks: all that it asks goes by these, and what a server says
//! by itself reaches it behind the answer before it. Where keys go to other servers, or one of the
//! connections ends, the client is closed: what it keeps may be out of date, and nobody would tell
//! it. What is decided of all this is in [`dedicated`](super::dedicated).

use wire::resp::{Command, put_integer};

use super::dedicated::options;
use super::dispatch::Change;
use super::transaction::AtHand;
use super::{Asking, CommandResult, Session};
use crate::commands;
use crate::server::ConnectionProfile;

impl Session {
    /// `CLIENT TRACKING`.
    pub(super) fn track(&mut self, command: &Command<'_>, client: &Asking) -> CommandResult {
        let (wanted, standing) = (options::read(command)?, self.standing());
        if wanted.is_some() || standing.tracks {
            standing.allows(Change::Tracking)?;
        }
        let (places, mark) = (self.places_to_track(), self.mark());
        self.drive(AtHand::Nothing, client, |machine, out| match wanted {
            Some(wanted) => machine.track(&wanted, (places, standing.pool.is_cluster), mark, out),
            None => {
                machine.untrack(out);
                Ok(())
            }
        })
    }

    /// Where the servers are that have keys now, for a client that tracks.
    fn places_to_track(&self) -> Vec<usize> {
        let number = |server: usize| {
            let place = ConnectionProfile { tracks: true, ..self.place(server) };
            self.front.fabric.service().number(&self.account, place)
        };
        self.front.live().into_iter().map(number).collect()
    }

    /// Has `CLIENT CACHING` told at a place where it is for the command that is under way.
    pub(super) fn tell_caching(&mut self, place: usize, client: &Asking) {
        let mark = self.mark();
        if let Some(of) = self.dedicated.tell_caching(place, mark) {
            self.ask_own(of, &mut AtHand::Nothing, client);
        }
    }

    /// All servers that keys are tracked at answer the command: what any of them said before, the
    /// client hears before the answer.
    pub(super) fn ask_all_tracked(
        &mut self,
        command: Command<'_>,
        client: &Asking,
    ) -> CommandResult {
        self.drive(AtHand::command(command.bytes()), client, |machine, out| {
            machine.ask_all(out);
            Ok::<(), String>(())
        })
    }

    /// `CLIENT CACHING`.
    pub(super) fn cache(&mut self, word: &[u8], client: &Asking) -> CommandResult {
        self.drive(AtHand::Nothing, client, |machine, out| machine.cache(word, out))
    }

    /// `CLIENT GETREDIR`.
    pub(super) fn put_redirect(&self, out: &mut Vec<u8>) {
        put_integer(out, if self.dedicated.tracks() { 0 } else { -1 });
    }

    /// `CLIENT TRACKINGINFO`.
    pub(super) fn put_tracking(&self, out: &mut Vec<u8>) {
        match self.dedicated.tracking() {
            Some(of) => of.put_info(self.version, out),
            None => options::put_off(self.version, out),
        }
    }
}

/// What `CLIENT` is counted by.
pub(super) fn tag_of_client() -> u32 {
    let found = commands::find_numbered(b"CLIENT");
    found.and_then(|(_, number)| u32::try_from(number).ok()).unwrap_or(u32::MAX)
}

/// The first answer that is an error, or else the first of all.
pub(super) fn agreed(answers: &[Vec<u8>]) -> Vec<u8> {
    let error = answers.iter().find(|answer| answer.first() == Some(&b'-'));
    error.or_else(|| answers.first()).cloned().unwrap_or_default()
}
