//! Where pools are served, and how that changes with the settings.
//!
//! A socket belongs to one pool. What the settings want beside what is open is bound before
//! anything changes, so that an address which cannot be had changes nothing.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use flow::front::{BindError, Share};
use flow::{tcp, unix};

use super::OpenError;
use super::serving::Change;
use crate::pool::Pool;
use crate::settings::Settings;

/// How long workers may take to close an address that is wanted again.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);
/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_millis(2);

/// An address that clients connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum At {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// One worker's share of a socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(tcp::Listener),
    Unix(unix::Listener),
}

/// As long as any worker has this, the socket is open.
pub(super) type OpenSocket = Arc<()>;

/// A socket that is bound and not served yet: each worker's share.
struct New {
    pool: String,
    at: At,
    shares: Vec<Socket>,
}

/// The sockets that are bound and not served yet.
pub(super) struct Sockets(Vec<New>);

/// One that is served.
struct ServedSocket {
    pool: Arc<Pool>,
    at: At,
    is_open: Weak<()>,
}

/// The sockets of all pools.
#[derive(Default)]
pub(super) struct PoolListeners {
    /// For each worker what it serves from the start, until it takes that.
    first: Vec<Vec<(Arc<Pool>, At, OpenSocket)>>,
    /// In the order in which they were bound.
    known: Vec<ServedSocket>,
    /// Those that are served no more, which may be open for a moment.
    closing: Vec<(At, Weak<()>)>,
}

impl At {
    fn of(settings: &Settings) -> Vec<Self> {
        let tcp = settings.listen.iter().copied().map(Self::Tcp);
        tcp.chain(settings.unix_sockets.iter().cloned().map(Self::Unix)).collect()
    }

    fn bind(&self, mode: u32, workers: usize) -> Result<Vec<Socket>, BindError> {
        Ok(match self {
            Self::Tcp(at) => tcp::bind(*at, workers)?.into_iter().map(Socket::Tcp).collect(),
            Self::Unix(path) => {
                unix::bind(path, mode, workers)?.into_iter().map(Socket::Unix).collect()
            }
        })
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(at) => at.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl PoolListeners {
    /// The sockets that are open from the start.
    pub(super) fn new(pools: &[Arc<Pool>], workers: usize) -> Self {
        let mut all = Vec::new();
        for pool in pools {
            let at = At::of(&pool.settings()).into_iter();
            all.extend(at.map(|at| (Arc::clone(pool), at, OpenSocket::default())));
        }
        let known = |(pool, at, open): &(Arc<Pool>, At, OpenSocket)| ServedSocket {
            pool: Arc::clone(pool),
            at: at.clone(),
            is_open: Arc::downgrade(open),
        };
        let known = all.iter().map(known).collect();
        Self { first: vec![all; workers], known, closing: Vec::new() }
    }

    /// What a worker serves at the start: its share of the sockets, which come in the order in
    /// which they were bound.
    pub(super) fn first(&mut self, share: Share, worker: usize) -> Vec<Change> {
        let (mut tcp, mut unix) = (share.tcp.into_iter(), share.unix.into_iter());
        let first = self.first.get_mut(worker).map(std::mem::take).unwrap_or_default();
        let opens = first.into_iter().filter_map(|(pool, at, open)| {
            let socket = match &at {
                At::Tcp(_) => tcp.next().map(Socket::Tcp),
                At::Unix(_) => unix.next().map(Socket::Unix),
            };
            Some(Change::Opens { pool, at, socket: socket?, open })
        });
        opens.collect()
    }

    /// Binds what the pools want beside what they have.
    ///
    /// # Errors
    /// An address cannot be had; nothing has changed then.
    pub(super) fn bind(&mut self, wanted: &[(String, Settings)]) -> Result<Sockets, OpenError> {
        let mut new = Vec::new();
        for (pool, settings) in wanted {
            for at in At::of(settings) {
                let of = self.known.iter().find(|known| known.at == at);
                match of.map(|known| &known.pool.shared.name) {
                    Some(other) if other == pool => continue,
                    Some(other) => {
                        let (pool, other) = (pool.clone(), other.clone());
                        return Err(OpenError::Taken { pool, at: at.to_string(), other });
                    }
                    None => {}
                }
                self.wait_closed(&at);
                let shares = at.bind(settings.unix_mode(), self.first.len())?;
                new.push(New { pool: pool.clone(), at, shares });
            }
        }
        Ok(Sockets(new))
    }

    /// Waits until workers have closed an address that they served before.
    fn wait_closed(&mut self, at: &At) {
        let until = Instant::now() + CLOSED_WITHIN;
        let is_closing = |(of, open): &(At, Weak<()>)| of == at && open.strong_count() > 0;
        while self.closing.iter().any(is_closing) && Instant::now() < until {
            // A reload of settings is the only thing that waits here, and no worker does.
            std::thread::sleep(LOOK);
        }
        self.closing.retain(|(_, open)| open.strong_count() > 0);
    }

    /// These pools are served from now on, at their addresses: what each worker has to change.
    pub(super) fn put_in_force(&mut self, pools: &[Arc<Pool>], bound: Sockets) -> Vec<Vec<Change>> {
        let mut changes: Vec<Vec<Change>> = self.first.iter().map(|_| Vec::new()).collect();
        let is_wanted = |known: &ServedSocket| {
            let is_it = |pool: &Arc<Pool>| Arc::ptr_eq(pool, &known.pool);
            pools.iter().any(is_it) && At::of(&known.pool.settings()).contains(&known.at)
        };
        for gone in self.known.extract_if(.., |known| !is_wanted(known)) {
            for changes in &mut changes {
                let (pool, at) = (Arc::clone(&gone.pool), gone.at.clone());
                changes.push(Change::Closes { pool, at });
            }
            self.closing.push((gone.at, gone.is_open));
        }
        for New { pool, at, shares } in bound.0 {
            let Some(pool) = pools.iter().find(|of| of.shared.name == pool) else { continue };
            tracing::info!(pool = pool.shared.name, %at, "Redis clients are taken");
            let open = OpenSocket::default();
            let known = ServedSocket {
                pool: Arc::clone(pool),
                at: at.clone(),
                is_open: Arc::downgrade(&open),
            };
            self.known.push(known);
            for (changes, socket) in changes.iter_mut().zip(shares) {
                let (pool, at, open) = (Arc::clone(pool), at.clone(), Arc::clone(&open));
                changes.push(Change::Opens { pool, at, socket, open });
            }
        }
        changes
    }
}
