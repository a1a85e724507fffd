//! The guard's key: of several Weirs, the one that holds it acts on the servers of a host.
//!
//! It lies on the host's first server, with an expiry. It is taken where it is not there, and
//! prolonged by reading it, prolonging it, and reading it once more: one that another has taken in
//! between is not taken for one's own.

use std::time::{Duration, Instant};

use super::asked::{Asked, said};

/// What is known of a host's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// It is this Weir's.
    Own,
    /// Another has it, of this name.
    Others(String),
    /// It can't be had, for this reason.
    Unknown(String),
}

/// The key of one host, as one Weir sees it.
#[derive(Debug)]
pub struct Key {
    name: String,
    /// Who this Weir is.
    own: String,
    expiry: Duration,
    /// Until when it is this Weir's at least.
    until: Option<Instant>,
}

impl Key {
    /// Not asked for yet.
    pub fn new(name: &str, own: &str, expiry: Duration) -> Self {
        Self { name: name.to_owned(), own: own.to_owned(), expiry, until: None }
    }

    /// Takes it, or keeps it, on this server.
    pub async fn hold(&mut self, first: &mut Asked) -> Held {
        let (asked_at, expiry) = (Instant::now(), self.expiry.as_millis().to_string());
        self.until = None;
        let take = ["SET", &self.name, &self.own, "NX", "PX", &expiry];
        match self.read(first, &take).await {
            Held::Own => {}
            other => return other,
        }
        let prolong = ["PEXPIRE", &self.name, &expiry];
        let held = self.read(first, &prolong).await;
        self.until = (held == Held::Own).then(|| asked_at + self.expiry);
        held
    }

    /// Reads it again right before something is done: it must be this Weir's for a while yet.
    pub async fn is_still_own(&mut self, first: &mut Asked) -> bool {
        let soon = Instant::now() + self.expiry / 3;
        if self.until.is_none_or(|until| until < soon) {
            return false;
        }
        let ping: [&str; 1] = ["PING"];
        self.read(first, &ping).await == Held::Own
    }

    /// Sends a command, and then reads whose it is.
    async fn read(&self, first: &mut Asked, before: &[&str]) -> Held {
        let replies = match first.ask(&[before, &["GET", &self.name]]).await {
            Ok(replies) => replies,
            Err(why) => return Held::Unknown(why),
        };
        if let Some(error) = replies.iter().find_map(|reply| reply.strip_prefix(b"-")) {
            return Held::Unknown(said(error));
        }
        match replies.last().and_then(|reply| bulk(reply)) {
            Some(who) if who == self.own => Held::Own,
            Some(who) => Held::Others(who.to_owned()),
            None => Held::Unknown("it has expired already".to_owned()),
        }
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
