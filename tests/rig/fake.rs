//! A backend that behaves as badly as it is told to, and remembers what it was sent.
//!
//! It speaks as much of InfluxDB 1.x as Weir asks for: `/ping`, `/write`, `/api/v2/write`, and of
//! `/query` the statements about databases and retention policies. Any other query is answered with
//! one row that names the fake.

mod answer;
mod cluster;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::http::Connection;
use crate::{places, tls};
use answer::Reply;
pub use cluster::ClusterDatabase;

/// What a fake does with requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Stores and answers 204.
    Accept,
    /// Reads and never answers.
    Hang,
    /// Stores and answers after a while.
    Slow(Duration),
    /// Reads and resets the connection.
    Reset,
    /// Stores nothing and answers this.
    Answer { status: u16, headers: Vec<(String, String)>, body: String },
    /// Stores all but the lines with these bytes, and answers as InfluxDB to a field type conflict.
    Conflict(String),
    /// The same in the manner of InfluxDB 3, which names the lines by their numbers.
    Numbered(String),
    /// Refuses any batch with these bytes with a 500 that says nothing about the points.
    Chokes(String),
    /// Never answers a batch with these bytes.
    HangsOn(String),
    /// Refuses batches of more lines than this with 413.
    AtMost(usize),
    /// Answers with bytes that are no HTTP.
    Garbage,
    /// Answers a query of `v` with the first of these as a chunk; as soon as another mode is
    /// set, with the second as the last, or with a reset.
    Parts(String, Option<String>),
    /// Answers a query of `v` in `m` with points without an end, as fast as they are read.
    Endless,
}

impl Mode {
    /// Answers with a status and InfluxDB's JSON error.
    pub fn error(status: u16, words: &str) -> Self {
        let body = format!("{}\n", serde_json::json!({ "error": words }));
        Self::Answer { status, headers: Vec::new(), body }
    }

    /// The same with a header field.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        if let Self::Answer { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }
}

/// What a fake was sent, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Lines it has stored.
    Write {
        /// Path and query as sent.
        target: String,
        /// The `Authorization` header as sent.
        authorization: Option<String>,
        /// The body after decompression.
        lines: String,
    },
    /// A statement that is not one of those about databases.
    Statement { text: String, db: String },
}

#[derive(Debug)]
struct FakeState {
    writes: Mode,
    queries: Mode,
    databases: BTreeMap<String, BTreeSet<String>>,
    events: Vec<Event>,
    requests: u64,
    listings: u64,
    sizes: Vec<usize>,
    cluster: ClusterDatabase,
    /// How many more times a cluster's table may be written; no limit by default.
    tables_left: Option<u32>,
    /// How many answers of several parts it has begun and not ended.
    under_way: u64,
    /// Bytes that it has sent of endless answers.
    endless_bytes: u64,
}

/// What the threads of one fake share.
#[derive(Debug)]
struct FakeContext {
    name: String,
    kept: Mutex<FakeState>,
    up: AtomicBool,
    /// How often it was brought up: connections of before are closed.
    times_up: AtomicU64,
}

impl FakeContext {
    fn new(name: &str, databases: &[&str]) -> Self {
        let policies = || BTreeSet::from(["autogen".to_owned()]);
        let kept = FakeState {
            writes: Mode::Accept,
            queries: Mode::Accept,
            databases: databases.iter().map(|db| ((*db).to_owned(), policies())).collect(),
            events: Vec::new(),
            requests: 0,
            listings: 0,
            sizes: Vec::new(),
            cluster: ClusterDatabase::default(),
            tables_left: None,
            under_way: 0,
            endless_bytes: 0,
        };
        let (up, times_up) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { name: name.to_owned(), kept: Mutex::new(kept), up, times_up }
    }

    /// Whether it is up as it was when it had come up so often.
    fn is_up(&self, times_up: u64) -> bool {
        self.up.load(Ordering::SeqCst) && self.times_up.load(Ordering::SeqCst) == times_up
    }

    fn kept(&self) -> MutexGuard<'_, FakeState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fake backend; it ends with the value.
pub struct Fake {
    pub address: SocketAddr,
    shared: Arc<FakeContext>,
    certificate: Option<tls::Certificate>,
    acceptor: Option<thread::JoinHandle<()>>,
}

impl Fake {
    /// A fake that accepts everything for these databases.
    ///
    /// # Panics
    /// When no port can be had.
    pub fn start(name: &str, databases: &[&str]) -> Self {
        Self::start_over(name, databases, None)
    }

    /// The same over TLS.
    ///
    /// # Panics
    /// When no port can be had.
    pub fn start_tls(name: &str, databases: &[&str], certificate: &tls::Certificate) -> Self {
        Self::start_over(name, databases, Some(certificate.clone()))
    }

    fn start_over(name: &str, databases: &[&str], certificate: Option<tls::Certificate>) -> Self {
        let shared = Arc::new(FakeContext::new(name, databases));
        let address = places::free_address();
        let mut fake = Self { address, shared, certificate, acceptor: None };
        fake.bring_up();
        fake
    }

    /// As a backend's `url`.
    pub fn url(&self) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Changes what happens to writes.
    pub fn set(&self, mode: Mode) {
        self.shared.kept().writes = mode;
    }

    /// Changes what happens to queries.
    pub fn set_queries(&self, mode: Mode) {
        self.shared.kept().queries = mode;
    }

    /// Closes the port and every connection.
    pub fn take_down(&mut self) {
        self.shared.up.store(false, Ordering::SeqCst);
        if let Some(acceptor) = self.acceptor.take() {
            // Wakes the acceptor, which may be waiting for a connection.
            let _ = TcpStream::connect(self.address);
            let _ = acceptor.join();
        }
    }

    /// Opens the port.
    ///
    /// # Panics
    /// When the port is taken by another program meanwhile.
    pub fn bring_up(&mut self) {
        let listener = places::listen(self.address);
        self.shared.times_up.fetch_add(1, Ordering::SeqCst);
        self.shared.up.store(true, Ordering::SeqCst);
        let (shared, certificate) = (self.shared.clone(), self.certificate.clone());
        let accept = move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if !shared.up.load(Ordering::SeqCst) {
                    return;
                }
                let (shared, certificate) = (shared.clone(), certificate.clone());
                thread::spawn(move || serve(&shared, stream, certificate.as_ref()));
            }
        };
        self.acceptor = Some(thread::spawn(accept));
    }

    /// What it was sent and has stored or run, in order.
    pub fn events(&self) -> Vec<Event> {
        self.shared.kept().events.clone()
    }

    /// Every line it has stored, in order, repetitions included.
    pub fn lines(&self) -> Vec<String> {
        let kept = self.shared.kept();
        let writes = kept.events.iter().filter_map(|event| match event {
            Event::Write { lines, .. } => Some(lines.lines().map(str::to_owned)),
            Event::Statement { .. } => None,
        });
        writes.flatten().collect()
    }

    /// How many different lines it has stored.
    pub fn distinct(&self) -> usize {
        let kept = self.shared.kept();
        let writes = kept.events.iter().filter_map(|event| match event {
            Event::Write { lines, .. } => Some(lines.lines()),
            Event::Statement { .. } => None,
        });
        writes.flatten().collect::<HashSet<_>>().len()
    }

    /// How many requests to write it was sent, whatever became of them.
    pub fn requests(&self) -> u64 {
        self.shared.kept().requests
    }

    /// How often it was asked for its databases.
    pub fn listings(&self) -> u64 {
        self.shared.kept().listings
    }

    /// How many lines each request to write had, whatever became of it.
    pub fn sizes(&self) -> Vec<usize> {
        self.shared.kept().sizes.clone()
    }

    /// The names of its databases.
    pub fn databases(&self) -> Vec<String> {
        self.shared.kept().databases.keys().cloned().collect()
    }

    /// The table of a cluster that stands on it.
    pub fn table(&self) -> Option<String> {
        self.shared.kept().cluster.table.clone()
    }

    /// Puts another table there, or none, as another disk would have it.
    pub fn set_table(&self, table: Option<String>) {
        self.shared.kept().cluster.table = table;
    }

    /// Lets a table be written so many more times.
    pub fn let_tables(&self, left: Option<u32>) {
        self.shared.kept().tables_left = left;
    }

    /// What each gateway of a cluster has noted there, as JSON.
    pub fn notes(&self) -> BTreeMap<String, String> {
        self.shared.kept().cluster.notes.clone()
    }

    /// Puts other notes there, as a disk of before would have them.
    pub fn set_notes(&self, notes: BTreeMap<String, String>) {
        self.shared.kept().cluster.notes = notes;
    }

    /// How many answers of several parts it has begun and not ended.
    pub fn under_way(&self) -> u64 {
        self.shared.kept().under_way
    }

    /// Bytes that it has sent of endless answers.
    pub fn endless_bytes(&self) -> u64 {
        self.shared.kept().endless_bytes
    }

    /// Forgets a database, as if somebody had dropped it behind Weir's back.
    pub fn lose_database(&self, db: &str) {
        self.shared.kept().databases.remove(db);
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.take_down();
    }
}

/// What a fake that accepts everything for these databases answers: for a server that only wants
/// to count what it is sent.
pub fn accepted(databases: &[&str], request: &crate::http::Message) -> Vec<u8> {
    let shared = FakeContext::new("sink", databases);
    match answer::decide(&shared, request) {
        Reply::Bytes(bytes) | Reply::Later(bytes, _) => bytes,
        Reply::Never | Reply::Reset | Reply::Parts(..) | Reply::Endless(..) => Vec::new(),
    }
}

fn serve(shared: &FakeContext, stream: TcpStream, certificate: Option<&tls::Certificate>) {
    let Ok(control) = stream.try_clone() else { return };
    // A close is then a reset, whatever is still unread or unsent.
    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    let _ = stream.set_nodelay(true);
    let times_up = shared.times_up.load(Ordering::SeqCst);
    let mut connection = match certificate {
        None => Connection::over(stream),
        Some(certificate) => Connection::over(certificate.accept(stream)),
    };
    while let Ok(request) = connection.request() {
        if !shared.is_up(times_up) {
            return;
        }
        match answer::decide(shared, &request) {
            Reply::Bytes(bytes) => {
                if connection.push(&bytes).is_err() {
                    return;
                }
            }
            Reply::Later(bytes, pause) => {
                if !stay(shared, &control, pause) || connection.push(&bytes).is_err() {
                    return;
                }
            }
            Reply::Never => {
                stay(shared, &control, Duration::MAX);
                return;
            }
            Reply::Parts(first, rest) => {
                shared.kept().under_way += 1;
                let goes_on = connection.push(&first).is_ok() && await_other_mode(shared);
                shared.kept().under_way -= 1;
                if !goes_on {
                    return;
                }
                let Some(rest) = rest else { return };
                if connection.push(&rest).is_err() {
                    return;
                }
            }
            Reply::Endless(head, statement) => {
                shared.kept().under_way += 1;
                let is_up = || shared.is_up(times_up);
                if connection.push(&head).is_ok() {
                    push_points(shared, &mut connection, statement, is_up);
                }
                shared.kept().under_way -= 1;
                return;
            }
            Reply::Reset => return,
        }
    }
}

/// Sends points until nobody reads them any more.
fn push_points(
    shared: &FakeContext,
    connection: &mut Connection,
    statement: usize,
    is_up: impl Fn() -> bool,
) {
    for first in (0_u64..).step_by(1000) {
        let points = answer::chunk_of_points(first, statement);
        if !is_up() || connection.push(&points).is_err() {
            return;
        }
        shared.kept().endless_bytes += points.len() as u64;
    }
}

/// Waits until the rest of an answer is due; false when the fake has gone meanwhile.
fn await_other_mode(shared: &FakeContext) -> bool {
    while matches!(shared.kept().queries, Mode::Parts(..)) {
        if !shared.up.load(Ordering::SeqCst) {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// So short a pause is slept: the timeouts of a socket are too coarse for it.
const SLEPT: Duration = Duration::from_millis(100);

/// Waits out a pause; false when the client or the fake has gone meanwhile.
fn stay(shared: &FakeContext, control: &TcpStream, pause: Duration) -> bool {
    if pause <= SLEPT {
        thread::sleep(pause);
        return shared.up.load(Ordering::SeqCst);
    }
    let begun = Instant::now();
    while begun.elapsed() < pause {
        let tick = pause.saturating_sub(begun.elapsed()).min(Duration::from_millis(20));
        let _ = control.set_read_timeout(Some(tick.max(Duration::from_millis(1))));
        let gone = matches!(control.peek(&mut [0]), Ok(0));
        if gone || !shared.up.load(Ordering::SeqCst) {
            return false;
        }
    }
    let _ = control.set_read_timeout(None);
    true
}
