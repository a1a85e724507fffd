//! The connections that this process has dialled and that are open: which of them lead to servers
//! that have gone silent, and which to this process itself.
//!
//! Nothing is watched before [`watch`] is called, which a program does that serves; one that
//! measures servers has limits of its own.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use socket2::{SockRef, Socket as RawSocket, TcpKeepalive};
use tokio::net::{TcpStream, UnixStream};
use watch::metrics::{Counter, Registry};

use super::own;
use super::silence::Silence;

/// How often servers' silence is looked for, unless the limit is so short that it would be missed.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_MIN: Duration = Duration::from_millis(50);
/// How long a connection on which nothing is owed may be silent before the kernel asks whether the
/// server is still there, how often it asks then, and how often without an answer until it gives
/// up: a minute in all, where no limit is set.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);

/// Connections that were accepted last and are known. Who dials looks within a moment.
const ACCEPTED_MAX: usize = 1024;

static WATCHED: OnceLock<Watched> = OnceLock::new();

/// Begins to end connections to servers that stay silent for longer than `limit`, of all that are
/// dialled from now on; zero ends none.
///
/// # Errors
/// The thread that looks can't be started.
pub fn watch(limit: Duration, registry: &Registry) -> io::Result<()> {
    let watched = WATCHED.get_or_init(|| Watched::new(registry));
    watched.set_limit(limit);
    if !watched.is_running.swap(true, Ordering::Relaxed) {
        let looking = thread::Builder::new().name("silence".to_owned());
        looking.spawn(move || watched.run())?;
    }
    Ok(())
}

/// Changes the limit, for connections that are open, too.
pub fn set_silence_limit(limit: Duration) {
    if let Some(watched) = WATCHED.get() {
        watched.set_limit(limit);
    }
}

/// Whether the process itself has dialled a connection that it accepts, from `peer` to `local`.
/// Where it has accepted it first, who dials finds that out.
pub(crate) fn is_own(peer: SocketAddr, local: impl FnOnce() -> io::Result<SocketAddr>) -> bool {
    let Some((watched, Ok(local))) = WATCHED.get().map(|watched| (watched, local())) else {
        return false;
    };
    let ends = (End::new(peer), End::new(local));
    let mut open = watched.open();
    if open.accepted.len() >= ACCEPTED_MAX {
        open.accepted.pop_front();
    }
    open.accepted.push_back(ends);
    open.dialled.contains_key(&ends)
}

/// One end of a connection; an IPv4 address is the same in an IPv6 socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct End(IpAddr, u16);

impl End {
    fn new(address: SocketAddr) -> Self {
        Self(address.ip().to_canonical(), address.port())
    }
}

/// Two connections to different servers may come from one port of ours: both ends tell them apart.
type Ends = (End, End);

#[derive(Debug, Default)]
struct OpenConnections {
    /// All that were dialled and are open.
    dialled: HashMap<Ends, Weak<Dialled>>,
    /// The last that were accepted.
    accepted: VecDeque<Ends>,
}

struct Watched {
    /// In milliseconds; 0 is none.
    limit: AtomicU64,
    open: Mutex<OpenConnections>,
    is_running: AtomicBool,
    ended: Counter,
}

/// One connection, seen through a descriptor of its own: whoever has the connection may be in the
/// midst of anything.
#[derive(Debug)]
struct Dialled {
    socket: RawSocket,
    ends: Ends,
    silence: Mutex<Silence>,
    is_silent: AtomicBool,
}

/// A connection's place among those that are watched, given back when this goes.
#[derive(Debug)]
pub(super) struct Registration(Arc<Dialled>);

impl Registration {
    /// Of a connection that was just opened; `None` where nothing is watched.
    ///
    /// # Errors
    /// The process has no descriptor left, the connection is gone again, or leads to the process
    /// itself, which has accepted it.
    pub(super) fn new(stream: &TcpStream) -> io::Result<Option<Self>> {
        let Some(watched) = WATCHED.get() else { return Ok(None) };
        let ends = (End::new(stream.local_addr()?), End::new(stream.peer_addr()?));
        let dialled = Arc::new(Dialled {
            socket: SockRef::from(stream).try_clone()?,
            ends,
            silence: Mutex::default(),
            is_silent: AtomicBool::new(false),
        });
        let mut open = watched.open();
        if open.accepted.contains(&ends) {
            return Err(io::Error::other(own::LeadsHere));
        }
        open.dialled.insert(ends, Arc::downgrade(&dialled));
        Ok(Some(Self(dialled)))
    }

    /// What befell a connection in truth that was ended for its server's silence: all that its
    /// owner hears is that there is nothing more to read.
    pub(super) fn silence(&self) -> Option<io::Error> {
        self.0.is_silent.load(Ordering::Relaxed).then(|| {
            let what = "the server has acknowledged nothing for tcp-user-timeout";
            io::Error::new(io::ErrorKind::TimedOut, what)
        })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let Some(watched) = WATCHED.get() else { return };
        let mut open = watched.open();
        let known = open.dialled.get(&self.0.ends);
        if known.is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(&self.0))) {
            open.dialled.remove(&self.0.ends);
        }
    }
}

/// Sets what a connection to a server is to have, and refuses one to this process.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let watched = WATCHED.get();
    if watched.is_some() {
        own::refuse_own(stream)?;
    }
    let limit = watched.map_or(Duration::ZERO, Watched::limit);
    SockRef::from(stream).set_tcp_keepalive(&keepalive(limit))
}

/// Refuses a connection to this process.
pub(super) fn refuse_own_unix(stream: &UnixStream) -> io::Result<()> {
    if WATCHED.get().is_some() { own::refuse_own_unix(stream) } else { Ok(()) }
}

/// Questions on an idle connection that end it within `limit`, to the second (tcp(7)).
fn keepalive(limit: Duration) -> TcpKeepalive {
    let (time, every, retries) = match limit.is_zero() {
        true => KEEPALIVE,
        false => {
            let every = Duration::from_secs((limit.as_secs() / 6).clamp(1, 30));
            let asking = every * KEEPALIVE.2;
            (limit.saturating_sub(asking).max(Duration::from_secs(1)), every, KEEPALIVE.2)
        }
    };
    TcpKeepalive::new().with_time(time).with_interval(every).with_retries(retries)
}

impl Watched {
    fn new(registry: &Registry) -> Self {
        Self {
            limit: AtomicU64::new(0),
            open: Mutex::default(),
            is_running: AtomicBool::new(false),
            ended: registry.counter(
                "weir_server_connections_silent_total",
                "Connections to servers ended because nothing was acknowledged for \
                 tcp-user-timeout.",
                &[],
            ),
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock()
    }

    fn limit(&self) -> Duration {
        Duration::from_millis(self.limit.load(Ordering::Relaxed))
    }

    fn set_limit(&self, limit: Duration) {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.limit.store(millis, Ordering::Relaxed);
    }

    fn run(&self) -> ! {
        loop {
            let limit = self.limit();
            let every = if limit.is_zero() { LOOK } else { (limit / 10).clamp(LOOK_MIN, LOOK) };
            // The thread has nothing else to do.
            thread::sleep(every);
            if !limit.is_zero() {
                self.look(limit);
            }
        }
    }

    fn look(&self, limit: Duration) {
        // Not looked at under the lock, which who dials waits for.
        let all: Vec<_> = self.open().dialled.values().map(Weak::clone).collect();
        for dialled in all.iter().filter_map(Weak::upgrade) {
            if let Some(silent) = dialled.look(limit) {
                self.ended.inc();
                let server = SocketAddr::new(dialled.ends.1.0, dialled.ends.1.1);
                tracing::warn!(
                    %server,
                    ?silent,
                    "a server has acknowledged nothing for tcp-user-timeout; the connection ends"
                );
            }
        }
    }
}

impl Dialled {
    /// Ends the connection where its server is silent for too long, and says for how long it was.
    fn look(&self, limit: Duration) -> Option<Duration> {
        if self.is_silent.load(Ordering::Relaxed) {
            return None;
        }
        let owed = sched::tcp::owed(self.socket.as_fd())?;
        let mut silence = self.silence.lock();
        let silent = silence.look(owed, Instant::now());
        if silent < limit {
            return None;
        }
        self.is_silent.store(true, Ordering::Relaxed);
        // Whoever waits to read or to write is woken; where the connection is gone, it was.
        let _ = self.socket.shutdown(Shutdown::Both);
        Some(silent)
    }
}
