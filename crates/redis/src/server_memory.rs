//! What servers say of their memory. Whoever asks a server notes it here, the guard or the pool
//! that serves it, so that each is asked by one of them; the status shows it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::info::field;

/// For how long a note outlasts the moment at which its server is to be asked again. Nodes of a
/// Cluster come and go.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// What a server says of its memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerMemory {
    /// Keys that it has evicted for want of memory since it started.
    pub evicted: u64,
    /// Bytes that it has allocated (`used_memory`).
    pub used_bytes: Option<u64>,
    /// Bytes at which it begins to evict (`maxmemory`); 0 without a limit.
    pub max_bytes: Option<u64>,
}

impl ServerMemory {
    /// Reads the sections `stats` and `memory` of `INFO`; `None` where the first is not among them.
    pub fn read(about: &[u8]) -> Option<Self> {
        let number = |name: &str| field(about, name)?.parse().ok();
        Some(Self {
            evicted: number("evicted_keys")?,
            used_bytes: number("used_memory"),
            max_bytes: number("maxmemory"),
        })
    }
}

/// What all servers of the process have said. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct ServerMemories(Arc<Mutex<HashMap<String, Note>>>);

#[derive(Debug)]
struct Note {
    said: Option<ServerMemory>,
    /// When the server is to be asked again.
    until: Instant,
}

impl ServerMemories {
    /// What a server has said last; `None` where it does not say, or cannot be asked. `server` is
    /// what its settings know it by.
    pub fn of(&self, server: &str) -> Option<ServerMemory> {
        self.notes().get(server)?.said
    }

    /// A server was asked, and is not to be asked by anybody else for this long.
    pub fn note(&self, server: &str, said: Option<ServerMemory>, holds: Duration) {
        let now = Instant::now();
        let mut notes = self.notes();
        notes.retain(|_, note| now < note.until + FORGOTTEN);
        notes.insert(server.to_owned(), Note { said, until: now + holds });
    }

    /// Whether a server is to be asked now.
    pub fn is_due(&self, server: &str) -> bool {
        self.notes().get(server).is_none_or(|note| Instant::now() >= note.until)
    }

    fn notes(&self) -> MutexGuard<'_, HashMap<String, Note>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_how_many_keys_it_has_evicted_and_what_it_may_have() {
        let about =
            b"$80\r\n# Stats\r\nevicted_keys:12\r\n\r\n$60\r\n# Memory\r\nused_memory:900\r\n\
            used_memory_rss:5000\r\nmaxmemory:1024\r\n\r\n";
        let said = ServerMemory { evicted: 12, used_bytes: Some(900), max_bytes: Some(1024) };
        assert_eq!(ServerMemory::read(about), Some(said));
        assert_eq!(ServerMemory::read(b"-NOPERM this user has no permissions\r\n"), None);
    }

    #[test]
    fn a_server_that_the_guard_has_asked_is_not_asked_by_its_pool() {
        let memories = ServerMemories::default();
        assert!(memories.is_due("redis://a:1"));
        let said = Some(ServerMemory { evicted: 3, ..ServerMemory::default() });
        memories.note("redis://a:1", said, Duration::from_secs(20));
        assert!(!memories.is_due("redis://a:1") && memories.is_due("redis://b:1"));
        memories.note("redis://a:1", None, Duration::ZERO);
        assert!(memories.is_due("redis://a:1") && memories.of("redis://a:1").is_none());
    }
}
