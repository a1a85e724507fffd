//! A client that knows what it may hear.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rig::redis::RedisClient;
use wire::resp::{Value, value};

/// One client of so many has large values too: unoptimised, they keep both sides busy.
const LARGE_EVERY: usize = 10;
const KEYS: usize = 3;
const MAY_HAVE_RUN: &str = "-ERR weir: may have run: ";
const LATE: &str = "-ERR weir: may have run: SERVER did not answer in time";
const OTHERS: [&str; 4] = [
    "-ERR weir: may have run: the connection to SERVER broke",
    "-ERR weir: not sent: the connection to SERVER broke, and what was before this may have run",
    "-ERR weir: not sent: the connection to SERVER that this client had for itself has ended",
    "-ERR weir: not sent: SERVER took no command in time",
];

/// What `EXEC` hears, and a step, behind one that was not sent.
const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.";
const UNSENT_BEFORE: &str = "-ERR weir: not sent: nor was what came before it within MULTI";

/// What all clients heard.
#[derive(Default)]
pub struct ReplyCounts {
    pub own: AtomicUsize,
    pub late: AtomicUsize,
    pub cut: AtomicUsize,
    /// How often each error was heard.
    pub errors: Mutex<BTreeMap<String, usize>>,
}

impl ReplyCounts {
    /// An error that a client may hear while servers stop; any other is a fault. A transaction
    /// that has failed before is left.
    fn error(&self, text: &str, is_left: bool) {
        *self.errors.lock().unwrap().entry(text.to_owned()).or_default() += 1;
        let of_any =
            ["s0", "s1", "s2"].iter().fold(text.to_owned(), |of, s| of.replace(s, "SERVER"));
        let is_late = of_any == LATE;
        self.late.fetch_add(usize::from(is_late), Ordering::Relaxed);
        let is_known = is_late
            || OTHERS.contains(&&*of_any)
            || of_any.starts_with("-ERR weir: not sent: SERVER cannot be reached: ")
            || (is_left && (of_any == ABORTED || of_any == UNSENT_BEFORE));
        assert!(is_known, "{text}");
    }
}

/// What a client has asked and not heard yet.
enum PendingRequest {
    Set {
        key: usize,
        turn: u64,
    },
    Get {
        key: usize,
    },
    /// Of all keys, and one that is not there.
    Mget,
    /// What the server, or Weir, is to say again.
    Echo {
        word: String,
    },
    /// A simple string, `+OK` or `+QUEUED`.
    Word(&'static str),
    Exec {
        word: String,
    },
}

/// One client, and all that its keys may hold.
pub struct Client<'a> {
    id: usize,
    address: SocketAddr,
    socket: RedisClient,
    draw: StdRng,
    turn: u64,
    /// A step of the transaction has failed.
    is_left: bool,
    /// By key: the last write that was confirmed, and those that may have run.
    last: [u64; KEYS],
    unsure: [HashSet<u64>; KEYS],
    /// What was heard of each write.
    told: HashMap<u64, String>,
    /// How long the value of each write is.
    sizes: HashMap<u64, usize>,
    heard: &'a ReplyCounts,
}

impl<'a> Client<'a> {
    pub fn new(id: usize, address: SocketAddr, seed: u64, heard: &'a ReplyCounts) -> Self {
        Self {
            id,
            address,
            socket: connect(id, address),
            draw: StdRng::seed_from_u64(seed ^ (id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            turn: 0,
            is_left: false,
            last: [0; KEYS],
            unsure: Default::default(),
            told: HashMap::new(),
            sizes: HashMap::new(),
            heard,
        }
    }

    fn key(&self, key: usize) -> String {
        format!("{}:{key}", self.id)
    }

    /// The value of a write, which says whose it is.
    fn value(&self, key: usize, turn: u64) -> String {
        format!("{}:{key}:{turn}:{}", self.id, "x".repeat(self.sizes[&turn]))
    }

    fn size(&mut self) -> usize {
        match self.draw.random_range(0..100) {
            0..70 => self.draw.random_range(0..100),
            70..98 => self.draw.random_range(0..8_000),
            _ if !self.id.is_multiple_of(LARGE_EVERY) => self.draw.random_range(0..70_000),
            _ => self.draw.random_range(0..2 << 20),
        }
    }

    /// Sends one command, or a transaction.
    fn ask(&mut self) -> Vec<PendingRequest> {
        self.turn += 1;
        let (turn, key) = (self.turn, self.draw.random_range(0..KEYS));
        let (name, word) = (self.key(key), format!("{}:{turn}:own", self.id));
        match self.draw.random_range(0..100) {
            0..30 => {
                let size = self.size();
                self.sizes.insert(turn, size);
                let value = self.value(key, turn);
                self.socket.say(&["SET", &name, &value]);
                vec![PendingRequest::Set { key, turn }]
            }
            30..55 => {
                self.socket.say(&["GET", &name]);
                vec![PendingRequest::Get { key }]
            }
            55..80 => {
                self.socket.say(&["EVAL", "return ARGV[1]", "1", &name, &word]);
                vec![PendingRequest::Echo { word }]
            }
            80..90 => {
                let names = [0, 1, 2].map(|key| self.key(key));
                self.socket.say(&["MGET", &names[0], &names[1], &names[2], "none"]);
                vec![PendingRequest::Mget]
            }
            90..95 => {
                self.socket.say(&["ECHO", &word]);
                vec![PendingRequest::Echo { word }]
            }
            _ => {
                self.socket.send(b"MULTI\r\n");
                self.socket.say(&["EVAL", "return ARGV[1]", "1", &name, &word]);
                self.socket.send(b"EXEC\r\n");
                vec![
                    PendingRequest::Word("+OK"),
                    PendingRequest::Word("+QUEUED"),
                    PendingRequest::Exec { word },
                ]
            }
        }
    }

    /// A pipeline, and what is heard of it.
    pub fn turn(&mut self) {
        let count = self.draw.random_range(1..8);
        let asked: Vec<PendingRequest> = (0..count).flat_map(|_| self.ask()).collect();
        let mut replies = Vec::new();
        for one in &asked {
            let Ok(reply) = self.socket.try_hear() else { break };
            if let PendingRequest::Set { key, turn } = one {
                // A read before it may be asked again behind it, and find it.
                if reply.starts_with(MAY_HAVE_RUN.as_bytes()) {
                    self.unsure[*key].insert(*turn);
                }
                let told = String::from_utf8_lossy(&reply).trim_end().to_owned();
                self.told.insert(*turn, told);
            }
            replies.push(reply);
        }
        for (one, reply) in asked.iter().zip(&replies) {
            self.check(one, reply);
        }
        if replies.len() < asked.len() {
            self.is_cut(&asked[replies.len()..]);
        }
    }

    fn check(&mut self, asked: &PendingRequest, reply: &[u8]) {
        if matches!(asked, PendingRequest::Word("+OK")) {
            self.is_left = false;
        }
        if reply.starts_with(b"-") {
            let text = String::from_utf8_lossy(reply);
            let is_left = self.is_left && matches!(asked, PendingRequest::Exec { .. });
            self.heard.error(text.trim_end(), is_left);
            self.is_left = matches!(asked, PendingRequest::Word(_));
            return;
        }
        self.heard.own.fetch_add(1, Ordering::Relaxed);
        let (reply, _) = value(reply).expect("a whole reply");
        match (asked, &reply) {
            (PendingRequest::Set { key, turn }, Value::Simple(b"OK")) => self.last[*key] = *turn,
            (PendingRequest::Get { key }, found) => self.is_own(*key, found),
            (PendingRequest::Mget, Value::Array(found)) if found.len() == KEYS + 1 => {
                (0..KEYS).for_each(|key| self.is_own(key, &found[key]));
                assert!(matches!(found[KEYS], Value::Null), "{:?}", found[KEYS]);
            }
            (PendingRequest::Echo { word }, Value::Bulk(said)) => {
                assert_eq!(*said, word.as_bytes())
            }
            (PendingRequest::Word(word), Value::Simple(said)) => {
                assert_eq!(*said, &word.as_bytes()[1..])
            }
            (PendingRequest::Exec { word }, Value::Array(said)) => {
                let is_own = matches!(said[..], [Value::Bulk(said)] if said == word.as_bytes());
                assert!(is_own, "{said:?}");
            }
            (_, other) => panic!("client {}: {other:?}", self.id),
        }
    }

    /// A value that this client wrote to this key, and that may be there.
    fn is_own(&self, key: usize, found: &Value<'_>) {
        let found = match found {
            Value::Null => {
                assert_eq!(self.last[key], 0, "client {}: key {key} is gone", self.id);
                return;
            }
            Value::Bulk(found) => *found,
            other => panic!("client {}: key {key}: {other:?}", self.id),
        };
        let head = String::from_utf8_lossy(&found[..found.len().min(40)]).into_owned();
        let turn = head.split(':').nth(2).and_then(|turn| turn.parse().ok());
        let turn: u64 = turn.unwrap_or_else(|| panic!("client {}: {head}", self.id));
        let may_be = turn == self.last[key] || self.unsure[key].contains(&turn);
        let (id, last, told) = (self.id, self.last[key], self.told.get(&turn));
        assert!(may_be, "client {id}: key {key} is {head}, told {told:?}, the last is {last}");
        assert!(found == self.value(key, turn).as_bytes(), "client {}: key {key}: {head}", self.id);
    }

    /// A reply that had begun to come when its server stopped can't be ended but by the end of the
    /// connection. What came of it is the client's own.
    fn is_cut(&mut self, left: &[PendingRequest]) {
        for asked in left {
            if let PendingRequest::Set { key, turn } = asked {
                self.unsure[*key].insert(*turn);
            }
        }
        let begun = self.socket.begun();
        let shown = String::from_utf8_lossy(&begun[..begun.len().min(60)]);
        assert!(!begun.is_empty(), "client {} was closed without a word", self.id);
        let is_own = match &left[0] {
            PendingRequest::Get { key } => self.own_part(*key, begun).is_some(),
            PendingRequest::Mget => {
                let rest = begun.strip_prefix(b"*4\r\n").unwrap_or_default();
                (0..KEYS).try_fold(rest, |rest, key| self.own_part(key, rest)).is_some()
            }
            _ => false,
        };
        assert!(is_own, "client {} was closed at {shown}", self.id);
        self.heard.cut.fetch_add(1, Ordering::Relaxed);
        self.socket = connect(self.id, self.address);
    }

    /// Takes what has come of a value of this key, which gives what is behind it. `None`: it is
    /// nobody's or another one's.
    fn own_part<'b>(&self, key: usize, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let nothing = [&b"$-1\r\n"[..], b"_\r\n"];
        if let Some(rest) = nothing.iter().find_map(|of| bytes.strip_prefix(*of)) {
            return Some(rest);
        }
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Some(&[]) };
        let mut turns = self.unsure[key].iter().chain([&self.last[key]]);
        turns.find_map(|turn| {
            self.sizes.get(turn)?;
            let value = self.value(key, *turn);
            let whole = format!("${}\r\n{value}\r\n", value.len());
            let len = whole.len().min(bytes.len());
            let is_own = len > end && whole.as_bytes()[..len] == bytes[..len];
            is_own.then(|| &bytes[len..])
        })
    }
}

/// Some of the clients speak RESP3.
fn connect(id: usize, address: SocketAddr) -> RedisClient {
    let mut socket = RedisClient::connect(address);
    if id.is_multiple_of(3) {
        assert!(socket.line("HELLO 3").starts_with('%'));
    }
    socket
}
