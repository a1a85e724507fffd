//! `WAIT` and `WAITAOF`: whether replicas have what the client has written.
//!
//! A server counts what the asking connection wrote, and one that wrote nothing hears at once that
//! all replicas have it. A client's writes rode lanes; so the question goes by a connection of the
//! client's own, behind a write there, once all that the client asked is answered: what has that
//! write has all before it. `SPUBLISH` is such a write that changes no key, and on a channel that
//! nobody is subscribed to reaches nobody: no pattern matches it. Redis 7.0 and Valkey 9.1 send it
//! to their replicas and count it; where a server refuses it, so is the question.
//!
//! With a connection to the server that has ended since the client wrote, the server may have been
//! started again without what was written: then the question is refused, once.

use std::rc::Rc;

use flow::service::Request;
use wire::resp::{Command, put_command};

use super::replicas::Wrote;
use super::{Asking, Session, Taken, join};
use crate::commands::Spec;
use crate::servers::Servers;

/// The channel that is published to; of a Cluster's node, one with a number behind it whose slot is
/// there.
const CHANNEL: &str = "weir:wait";
/// So many of those are looked at: of a node with a single slot one in 16,384 is there.
const CHANNELS_MAX: u32 = 1 << 17;

/// The servers to which a client has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Written {
    /// To none.
    #[default]
    Nowhere,
    /// To this one, of which so many connections had broken before.
    On { server: usize, breaks: u64 },
    /// To more than one.
    OnSeveral,
    /// As another user: what became of those connections is not known any more.
    AsAnother,
}

impl Written {
    /// Something is written to a server.
    fn and(self, server: usize, breaks: impl FnOnce() -> u64) -> Self {
        match self {
            Self::Nowhere => Self::On { server, breaks: breaks() },
            Self::On { server: same, .. } if same == server => self,
            Self::On { .. } | Self::OnSeveral => Self::OnSeveral,
            Self::AsAnother => Self::AsAnother,
        }
    }

    /// The client is another user from now on.
    pub(super) fn as_another(self) -> Self {
        if self == Self::Nowhere { self } else { Self::AsAnother }
    }
}

impl Session {
    /// Something of the client is written to a server.
    #[inline]
    pub(super) fn writes(&self, server: usize) {
        let breaks = || self.front.fabric.breaks(self.at(server));
        self.written.set(self.written.get().and(server, breaks));
        self.wrote.set(Wrote::Something);
    }

    pub(super) fn wait(&self, spec: &Spec, command: Command<'_>, client: &Asking) -> Taken {
        let name = spec.name;
        if let Some(only) = self.front.only() {
            self.writes(only);
        }
        let (server, breaks) = match self.written.get() {
            Written::On { server, breaks } => (server, breaks),
            Written::Nowhere => {
                return Err(format!("ERR weir: {name}: this client has written nothing"));
            }
            Written::AsAnother => {
                // What it writes from now on is counted.
                self.written.set(Written::Nowhere);
                return Err(format!("ERR weir: {name}: this client has written as another user"));
            }
            Written::OnSeveral => {
                return Err(format!(
                    "ERR weir: {name}: this client has written to several servers"
                ));
            }
        };
        let place = self.at(server);
        let watched = self.transaction.watched();
        if watched.is_some_and(|watched| watched != place) {
            return Err("ERR weir: a key of another server is watched".to_owned());
        }
        let fabric = Rc::clone(&self.front.fabric);
        let of = fabric.service().name(place);
        if fabric.breaks(place) != breaks {
            // What it writes from now on is counted.
            self.written.set(Written::Nowhere);
            return Err(broken(&of));
        }
        let channel = self.channel(server);
        let channel = channel.ok_or_else(|| format!("ERR weir: {name}: {of} has no slots"))?;
        if watched.is_none() {
            client.take(place);
        }
        let mut write = Vec::new();
        put_command(&mut write, ["SPUBLISH", &channel, ""].iter());
        let own =
            |bytes: &[u8]| Request { own: true, waits: true, ..self.request_at(place, bytes) };
        let joined = move |answers: &[Vec<u8>]| {
            Servers::heed_left(&fabric);
            match fabric.breaks(place) == breaks {
                true => answered(answers, &of),
                false => join::error(&broken(&of)),
            }
        };
        client.ask_parts(vec![own(&write), own(command.bytes())], Rc::new(joined));
        if watched.is_none() {
            self.release(place, client);
        }
        self.front.metrics.leased.inc();
        Ok(())
    }

    /// A channel that belongs to a server.
    fn channel(&self, server: usize) -> Option<String> {
        if !self.front.is_cluster() {
            return Some(CHANNEL.to_owned());
        }
        if !self.front.holders().contains(&server) {
            return None;
        }
        let mut all = (0..CHANNELS_MAX).map(|number| format!("{CHANNEL}:{number}"));
        all.find(|channel| self.front.home(channel.as_bytes()).server == server)
    }
}

/// What a client wrote may be gone with the connection, and nobody can tell.
fn broken(server: &str) -> String {
    format!(
        "ERR weir: a connection to {server} has ended since this client wrote there, or keys have \
         left it"
    )
}

/// The answer to the question, unless the write before it was refused.
fn answered(answers: &[Vec<u8>], server: &str) -> Vec<u8> {
    match answers {
        [write, _] if write.first() != Some(&b':') => {
            let words = String::from_utf8_lossy(write);
            let words = words.trim_start_matches('-').trim_end();
            join::error(&format!("ERR weir: {server} takes no SPUBLISH before WAIT: {words}"))
        }
        _ => answers.last().cloned().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_were_written_to_are_told_apart() {
        let one = Written::default().and(3, || 7);
        let known = || unreachable!("it is asked once");
        assert_eq!(one, Written::On { server: 3, breaks: 7 });
        assert_eq!(one.and(3, known), one);
        assert_eq!(one.and(4, known), Written::OnSeveral);
        assert_eq!(one.and(4, known).and(3, known), Written::OnSeveral);
        assert_eq!(one.as_another().and(3, known), Written::AsAnother);
        assert_eq!(Written::Nowhere.as_another(), Written::Nowhere);
    }

    #[test]
    fn where_the_write_is_refused_nothing_is_counted() {
        let said = |write: &str| answered(&[write.into(), b":5\r\n".to_vec()], "a");
        assert_eq!(said(":0\r\n"), b":5\r\n");
        let refused = b"-ERR weir: a takes no SPUBLISH before WAIT: NOPERM this\r\n";
        assert_eq!(said("-NOPERM this\r\n"), refused);
        assert!(said("").starts_with(b"-ERR weir: a takes no SPUBLISH"));
    }
}
