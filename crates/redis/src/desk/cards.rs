//! What an operator sees of a client.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use wire::resp::Version;

/// Numbers of clients, in all pools of the process: whoever is told one can mean no other client.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// What a client says of the library that it uses.
#[derive(Debug, Default)]
pub struct Library {
    /// Its name, by `CLIENT SETINFO LIB-NAME`.
    pub name: Vec<u8>,
    /// Its version, by `CLIENT SETINFO LIB-VER`.
    pub version: Vec<u8>,
}

/// A client, as it is shown.
#[derive(Debug)]
pub struct Card {
    /// Its number in the process.
    pub id: u64,
    /// Where it comes from; `None`: over a Unix socket.
    pub from: Option<SocketAddr>,
    /// Where it has come to; `None` over a Unix socket.
    pub to: Option<SocketAddr>,
    /// When the client connected.
    pub since: Instant,
    /// What `CLIENT SETNAME` has set.
    pub name: RefCell<Vec<u8>>,
    /// What `CLIENT SETINFO` has set.
    pub library: RefCell<Library>,
    /// The user it has logged in as.
    pub user: RefCell<Option<Rc<str>>>,
    /// The number of its database (`SELECT`).
    pub database: Cell<u32>,
    /// What it is answered in.
    pub version: Cell<Version>,
    /// Its last command, and when that came by the worker's clock.
    pub last: Cell<(&'static str, Instant)>,
    /// Commands that it has sent.
    pub commands: Cell<u64>,
    /// It is within `MULTI`.
    pub in_multi: Cell<bool>,
    /// It has keys under `WATCH`.
    pub watches: Cell<bool>,
    /// Its subscriptions, by their kinds.
    pub subscriptions: Cell<[usize; 3]>,
    /// It watches all commands.
    pub monitors: Cell<bool>,
    /// It is told of keys that others change.
    pub tracks: Cell<bool>,
}

impl Card {
    /// A client that has just come.
    pub fn new([from, to]: [Option<SocketAddr>; 2], now: Instant) -> Rc<Self> {
        Rc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            from,
            to,
            since: now,
            name: RefCell::default(),
            library: RefCell::default(),
            user: RefCell::default(),
            database: Cell::new(0),
            version: Cell::new(Version::Two),
            last: Cell::new(("NULL", now)),
            commands: Cell::new(0),
            in_multi: Cell::new(false),
            watches: Cell::new(false),
            subscriptions: Cell::default(),
            monitors: Cell::new(false),
            tracks: Cell::new(false),
        })
    }

    /// It has sent a command.
    #[inline]
    pub fn says(&self, name: &'static str, now: Instant) {
        self.last.set((name, now));
        self.commands.set(self.commands.get() + 1);
    }

    /// Whether it is subscribed to anything.
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions.get().iter().any(|count| *count > 0)
    }

    /// Whether it is there to hear what it has not asked for.
    pub fn listens(&self) -> bool {
        self.monitors.get() || self.is_subscribed()
    }

    /// Where it comes from, as a server shows it.
    pub fn address(&self) -> String {
        text_of(self.from)
    }

    /// Where it has come to, as a server shows it.
    pub fn local_address(&self) -> String {
        text_of(self.to)
    }
}

fn text_of(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "/unix:0".to_owned(), |address| address.to_string())
}
