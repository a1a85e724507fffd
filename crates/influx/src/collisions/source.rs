//! Who has written a point: an address, a connection, a user.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::keys::Keys;

/// Who has written a point, in few bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The connection's number, another one for each of the process.
    pub connection: u32,
    /// A keyed hash of the address.
    pub address: u32,
}

/// How the writers of two points are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Between {
    /// Clients at two addresses.
    Hosts,
    /// Two connections from one address, which behind a proxy all are.
    Connections,
    /// One connection wrote both.
    Own,
}

impl Between {
    /// All of them, in the order that they are shown in.
    pub const ALL: [Self; 3] = [Self::Hosts, Self::Connections, Self::Own];

    /// How two sources are related.
    pub fn of(one: Source, other: Source) -> Self {
        if one.connection == other.connection {
            Self::Own
        } else if one.address == other.address {
            Self::Connections
        } else {
            Self::Hosts
        }
    }

    /// What metrics and the status call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hosts => "hosts",
            Self::Connections => "connections",
            Self::Own => "self",
        }
    }
}

/// What a source is to a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceStatus {
    /// The address and port of the client's side.
    pub address: SocketAddr,
    /// The connection's number within this process.
    pub connection: u32,
    /// The user that writes there, where there are users; nothing where several have written on the
    /// connection: a point is known by its connection, and nobody knows whose it is.
    pub user: Option<String>,
}

/// The sources of the process: numbers for all, and what the latest are to a person.
pub struct Sources {
    next: AtomicU32,
    latest: Mutex<Vec<Option<SourceStatus>>>,
}

/// How many sources are remembered by their addresses, about 1 MiB.
const LATEST_MAX: usize = 8192;

impl Sources {
    /// No connection has written yet.
    pub fn new() -> Self {
        Self { next: AtomicU32::new(0), latest: Mutex::default() }
    }

    /// A connection that has not written before.
    pub fn add(&self, keys: &Keys, peer: SocketAddr, user: Option<&str>) -> Source {
        let connection = self.next.fetch_add(1, Ordering::Relaxed);
        let address = keys.address(peer.ip().to_canonical());
        let status = SourceStatus { address: peer, connection, user: user.map(str::to_owned) };
        // What somebody else holds at this moment is not remembered: no worker waits.
        if let Ok(mut latest) = self.latest.try_lock() {
            let place = connection as usize % LATEST_MAX;
            if latest.len() <= place {
                latest.resize_with(place + 1, || None);
            }
            latest[place] = Some(status);
        }
        Source { connection, address }
    }

    /// Another user writes on the connection from now on: of its points nobody knows the user.
    pub fn set_user(&self, source: Source, user: Option<&str>) {
        let Ok(mut latest) = self.latest.try_lock() else { return };
        let known = latest.get_mut(source.connection as usize % LATEST_MAX);
        let known = known.and_then(Option::as_mut);
        if let Some(known) = known.filter(|known| known.connection == source.connection) {
            // Points of the user before may be overwritten yet, and this user's may overwrite them.
            if known.user.as_deref() != user {
                known.user = None;
            }
        }
    }

    /// Who that was; `None` where too many have come since.
    pub fn status(&self, connection: u32) -> Option<SourceStatus> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let known = latest.get(connection as usize % LATEST_MAX).and_then(Option::as_ref);
        known.filter(|known| known.connection == connection).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    #[test]
    fn sources_are_related_by_connection_and_address() {
        let (keys, sources) = (Keys::new(), Sources::new());
        let a = sources.add(&keys, peer(1), Some("ann"));
        let b = sources.add(&keys, peer(2), None);
        let c = sources.add(&keys, SocketAddr::from(([10, 0, 0, 2], 1)), None);
        let mapped = "[::ffff:10.0.0.1]:3".parse().unwrap();
        let d = sources.add(&keys, mapped, None);
        assert_eq!(Between::of(a, a), Between::Own);
        assert_eq!(Between::of(a, b), Between::Connections);
        assert_eq!(Between::of(a, d), Between::Connections);
        assert_eq!(Between::of(a, c), Between::Hosts);
        sources.set_user(b, Some("bob"));
        let user = |source: Source| sources.status(source.connection).unwrap().user;
        assert_eq!((user(a).as_deref(), user(b)), (Some("ann"), None));
        sources.set_user(a, Some("ann"));
        assert_eq!(user(a).as_deref(), Some("ann"));
        for later in ["bob", "ann"] {
            sources.set_user(a, Some(later));
            assert_eq!(user(a), None, "points of both are known by this connection");
        }
    }

    #[test]
    fn the_oldest_sources_are_forgotten() {
        let (keys, sources) = (Keys::new(), Sources::new());
        let first = sources.add(&keys, peer(1), None);
        for _ in 0..LATEST_MAX {
            sources.add(&keys, peer(2), None);
        }
        assert_eq!(sources.status(first.connection), None);
        sources.set_user(first, Some("ann"));
        let newer = sources.status(LATEST_MAX as u32).unwrap();
        assert_eq!((newer.address.port(), newer.user), (2, None));
    }
}
