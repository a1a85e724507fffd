//! The guard's key: of several Weirs, the one that holds it acts on the servers of a host.
//!
//! It lies on the host's first server, with an expiry, or where that says that it is to be written:
//! at its master, where it is a replica, or at another node of its Cluster. The host is in its
//! name, so that it is the same wherever that is. It is taken where it is not there, and prolonged
//! by reading it, prolonging it, and reading it once more: one that another has taken in between is
//! not taken for one's own.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::dial::Address;
use parking_lot::Mutex;

use crate::server::{ControlConnection, said};
use crate::topology::At;
use crate::topology::redirect::Redirect;

/// How often it is asked elsewhere.
const HOPS_MAX: usize = 3;

/// Where the servers are that are watched: the password is told to a replica's master only where it
/// is one of these.
#[derive(Debug, Clone, Default)]
pub struct Peers(Arc<Mutex<HashSet<Address>>>);

impl Peers {
    /// Takes these addresses in place of those before.
    pub fn set(&self, all: impl Iterator<Item = Address>) {
        *self.0.lock() = all.collect();
    }

    fn has(&self, host: &str, port: u16) -> bool {
        let address = Address::Tcp { host: host.to_owned(), port };
        self.0.lock().contains(&address)
    }
}

/// What a server says of the key.
enum KeyReply {
    /// Whose it is, or why not even that is known.
    Holder(KeyHolder),
    /// It is to be asked for there.
    Elsewhere(At),
    /// It is a replica, and writes nothing.
    ReadOnly,
}

/// Who holds a host's key, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyHolder {
    /// It is this Weir's.
    Own,
    /// Another has it, of this name.
    Others(String),
    /// It can't be had, for this reason.
    Unknown(String),
}

/// The key of one host, as one Weir sees it.
pub struct Key {
    name: String,
    /// Who this Weir is.
    own: String,
    expiry: Duration,
    peers: Peers,
    /// Where it lies, if not on the host's first server.
    elsewhere: Option<ControlConnection>,
    /// Until when it is this Weir's at least.
    until: Option<Instant>,
}

impl Key {
    /// Not asked for yet.
    pub fn new(name: &str, own: &str, expiry: Duration, peers: Peers) -> Self {
        let (name, own) = (name.to_owned(), own.to_owned());
        Self { name, own, expiry, peers, elsewhere: None, until: None }
    }

    /// Takes it, or keeps it, on this server or where this says.
    pub async fn hold(&mut self, first: &mut ControlConnection) -> KeyHolder {
        // Where it was is not remembered: every Weir must go by what the first server says now.
        (self.until, self.elsewhere) = (None, None);
        let mut elsewhere: Option<ControlConnection> = None;
        for _ in 0..HOPS_MAX {
            let asked = elsewhere.as_mut().unwrap_or(&mut *first);
            let begun = Instant::now();
            let next = match self.hold_on(asked).await {
                KeyReply::Holder(held) => {
                    if held == KeyHolder::Own {
                        self.until = Some(begun + self.expiry);
                        self.elsewhere = elsewhere;
                    }
                    return held;
                }
                KeyReply::Elsewhere(at) => {
                    let host = at.host.as_deref().or(asked.host()).unwrap_or_default().to_owned();
                    asked.at(&host, at.port)
                }
                KeyReply::ReadOnly => match asked.master().await {
                    Err(why) => Err(why),
                    Ok((host, port)) if self.peers.has(&host, port) => asked.at(&host, port),
                    Ok((host, port)) => Err(format!(
                        "the host's first server is a replica of {host}:{port}, which is not among \
                         the servers that are watched, at least not by this address"
                    )),
                },
            };
            match next {
                Ok(next) => elsewhere = Some(next),
                Err(why) => return KeyHolder::Unknown(why),
            }
        }
        KeyHolder::Unknown("it is always said to be elsewhere".to_owned())
    }

    async fn hold_on(&self, asked: &mut ControlConnection) -> KeyReply {
        let expiry = self.expiry.as_millis().to_string();
        let take = ["SET", &self.name, &self.own, "NX", "PX", &expiry];
        match self.read(asked, &take).await {
            KeyReply::Holder(KeyHolder::Own) => {}
            other => return other,
        }
        let prolong = ["PEXPIRE", &self.name, &expiry];
        self.read(asked, &prolong).await
    }

    /// Reads again whose it is, right before something is done: it must be this Weir's for a while
    /// yet.
    pub async fn confirm(&mut self, first: &mut ControlConnection) -> KeyHolder {
        let soon = Instant::now() + self.expiry / 3;
        if self.until.is_none_or(|until| until < soon) {
            return KeyHolder::Unknown("it expires before anything could be done".to_owned());
        }
        let mut elsewhere = self.elsewhere.take();
        let look = ["GET", &self.name];
        let said = self.read(elsewhere.as_mut().unwrap_or(first), &look).await;
        self.elsewhere = elsewhere;
        match said {
            KeyReply::Holder(held) => held,
            KeyReply::Elsewhere(_) | KeyReply::ReadOnly => {
                KeyHolder::Unknown("it is not where it was any more".to_owned())
            }
        }
    }

    /// Sends a command, and then reads whose it is.
    async fn read(&self, asked: &mut ControlConnection, before: &[&str]) -> KeyReply {
        let replies = match asked.ask(&[before, &["GET", &self.name]]).await {
            Ok(replies) => replies,
            Err(why) => return KeyReply::Holder(KeyHolder::Unknown(why)),
        };
        if let Some(reply) = replies.iter().find(|reply| reply.starts_with(b"-")) {
            return match Redirect::read(reply) {
                Some(Redirect::Moved { at, .. }) => KeyReply::Elsewhere(at),
                _ if reply.starts_with(b"-READONLY") => KeyReply::ReadOnly,
                _ => KeyReply::Holder(KeyHolder::Unknown(said(reply.get(1..).unwrap_or_default()))),
            };
        }
        KeyReply::Holder(match replies.last().and_then(|reply| bulk(reply)) {
            Some(who) if who == self.own => KeyHolder::Own,
            Some(who) => KeyHolder::Others(who.to_owned()),
            None => KeyHolder::Unknown("it has expired already".to_owned()),
        })
    }
}

/// A string as `GET` answers it in RESP2.
fn bulk(reply: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(reply).ok()?.strip_prefix('$')?;
    let (len, rest) = text.split_once("\r\n")?;
    rest.get(..len.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::bulk;

    #[test]
    fn the_holders_name_is_read() {
        assert_eq!(bulk(b"$5\r\na\r\nbc\r\n"), Some("a\r\nbc".get(..5).unwrap_or("a\r\nbc")));
        for none in [&b"$-1\r\n"[..], b"", b"+OK\r\n", b"$9\r\nabc\r\n", b"$\xff\r\n", b"$x\r\n"] {
            assert_eq!(bulk(none), None);
        }
    }
}
