//! The toy: lines, and keys over two servers, or a third one that is told of.
//!
//! `GET k`, `PUT k n` with n bytes behind it, `SUM k...` (parts from both servers), `HOLD k` and
//! `FREE k` (a connection for itself, whose state is `NAME`), `WATCH k` (pushes), `ID`, `CANCEL id`
//! and `KILL id`, `APART` (which a test answers). `NOTE k` and `STEP k` are a `GET`, the latter by
//! a connection for itself; what the toy hears of them comes as pushes. `ADD k w` puts w behind the
//! value; a server that has handed the key over answers `-elsewhere n`, and it is asked of server
//! n, behind a line `LET`. A reply is a line that begins with `+` or `-`, or `$n` with n bytes
//! behind it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::Duration;

use flow::answers::NotedAnswer;
use flow::dial::{Address, Socket, Target};
use flow::lane::{Protocol, Step, What};
use flow::lanes::ServerRecord;
use flow::pool::Budget;
use flow::service::{
    Affinity, Again, Apart, Client, ClientEvent, Dialogue, Effect, Fabric, Judge, Request, Route,
    Service, Took, Unanswered,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// A `PUT` of more bytes goes by lease, as they come.
pub const LARGE: usize = 64 * 1024;

/// Finds where a reply ends: a line, or a line that gives the length of the bytes behind it.
#[derive(Debug, Default)]
pub struct Replies {
    /// Bytes of the reply that are to come behind its line.
    left: usize,
}

impl Protocol for Replies {
    fn scan(&mut self, bytes: &[u8]) -> Step {
        if self.left > 0 {
            let len = self.left.min(bytes.len());
            self.left -= len;
            return Step { len, what: if self.left == 0 { What::End } else { What::Part } };
        }
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            return Step { len: 0, what: What::Part };
        };
        let len = end + 1;
        match bytes[0] {
            b'+' | b'-' => Step { len, what: What::End },
            b'$' => match number(&bytes[1..end]) {
                Some(0) => Step { len, what: What::End },
                Some(n) => {
                    self.left = n;
                    Step { len, what: What::Part }
                }
                None => Step { len, what: What::Broken("a length that is none") },
            },
            _ => Step { len, what: What::Broken("a reply that is none") },
        }
    }
}

fn number(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Nothing is known of the toy's servers.
#[derive(Debug)]
pub struct Nothing;

impl ServerRecord for Nothing {
    fn is_current(&self) -> bool {
        true
    }
}

type Watchers = Vec<Weak<Client<Toy>>>;

/// The gateway of one worker.
pub struct Toy {
    servers: Vec<Target>,
    watchers: RefCell<HashMap<Vec<u8>, Watchers>>,
    /// How many reads were answered with one of another client.
    pub shared: Cell<usize>,
    /// How many leases were restored.
    pub restored: Cell<usize>,
    /// What was handed over is asked elsewhere only if nothing was sent behind it.
    pub heals_alone: Cell<bool>,
    /// What was handed over is asked there at once from then on.
    pub learns: Cell<bool>,
    learnt: RefCell<HashMap<Vec<u8>, usize>>,
    placement: Cell<u64>,
    /// What clients do apart.
    pub apart: RefCell<Vec<Apart<Toy>>>,
    /// What connections to all servers count towards together.
    pub budget: RefCell<Option<Budget>>,
    /// The server that no client may ask.
    pub unwanted: Cell<Option<usize>>,
    /// How many requests were noted.
    marks: Cell<u64>,
}

impl Toy {
    pub fn new(servers: &[SocketAddr]) -> Self {
        let target = |at: &SocketAddr| Target {
            address: Address::Tcp { host: at.ip().to_string(), port: at.port() },
            tls: None,
            connect_timeout: Duration::from_secs(2),
        };
        let servers = servers.iter().map(target).collect();
        Self {
            servers,
            watchers: RefCell::default(),
            shared: Cell::new(0),
            restored: Cell::new(0),
            heals_alone: Cell::new(false),
            learns: Cell::new(false),
            learnt: RefCell::default(),
            placement: Cell::new(0),
            apart: RefCell::default(),
            budget: RefCell::default(),
            unwanted: Cell::default(),
            marks: Cell::default(),
        }
    }

    fn server_of(&self, key: &[u8]) -> usize {
        let learnt = self.learnt.borrow().get(key).copied();
        learnt.unwrap_or_else(|| server_of(key, 2))
    }

    /// A key is with this server now.
    pub fn learn(&self, key: &[u8], server: usize) {
        if self.learnt.borrow_mut().insert(key.to_vec(), server) != Some(server) {
            self.placement.set(self.placement.get() + 1);
        }
    }

    /// Whether a client has asked to hear of a key.
    pub fn is_watched(&self, key: &[u8]) -> bool {
        self.watchers.borrow().contains_key(key)
    }
}

/// A number that keys share now and then.
fn number_of(key: &[u8]) -> u32 {
    key.iter().map(|byte| u32::from(*byte)).sum()
}

/// Which of `count` servers a key is on.
pub fn server_of(key: &[u8], count: usize) -> usize {
    key.iter().map(|byte| usize::from(*byte)).sum::<usize>() % count
}

impl Service for Toy {
    type Connection = Socket;
    type Protocol = Replies;
    type Record = Nothing;
    type Error = String;
    type Outcome = ();

    async fn connect(self: Rc<Self>, server: usize) -> Result<Socket, String> {
        let target = &self.servers[server];
        target.in_time(target.connect()).await.map_err(|error| error.to_string())
    }

    fn known(&self, _connection: &Socket) -> (Replies, Nothing) {
        (Replies::default(), Nothing)
    }

    async fn restore(self: Rc<Self>, connection: &mut Socket) -> bool {
        let mut reply = [0; 4];
        let restored = async {
            connection.write_all(b"RESET\n").await?;
            connection.read_exact(&mut reply).await
        };
        let is_restored = restored.await.is_ok() && &reply == b"+ok\n";
        self.restored.set(self.restored.get() + usize::from(is_restored));
        is_restored
    }

    fn again(&self, request: &Request, line: &[u8]) -> Option<Again> {
        let server = number(line.strip_prefix(b"-elsewhere ")?.strip_suffix(b"\n")?)?;
        let bytes = if request.unheard > 0 { &request.bytes[4..] } else { &request.bytes };
        if let (true, Some(key)) = (self.learns.get(), bytes.split(|byte| *byte == b' ').nth(1)) {
            self.learn(key, server);
        }
        let bytes = [b"LET\n", bytes].concat();
        let again = Request { server, replies: 2, unheard: 1, ..request.clone() };
        let request = Request { bytes: bytes.into(), ..again };
        Some(Again { alone: self.heals_alone.get(), ..Again::at_once(request) })
    }

    fn budget(&self, _server: usize) -> Option<Budget> {
        self.budget.borrow().clone()
    }

    fn is_wanted(&self, server: usize) -> bool {
        self.unwanted.get() != Some(server)
    }

    fn answered(&self, _request: &Request, took: Took) {
        self.shared.set(self.shared.get() + usize::from(took.is_shared));
    }

    fn placement(&self) -> u64 {
        self.placement.get()
    }

    fn words(&self, why: &Unanswered<String>) -> Vec<u8> {
        let words = match why {
            Unanswered::Unreachable { .. } => "-not sent: unreachable",
            Unanswered::NotSent { .. } | Unanswered::Late { may_have_run: false, .. } => {
                "-not sent"
            }
            Unanswered::Overtaken { .. } => "-not sent: overtaken",
            Unanswered::MayHaveRun { .. } => "-may have run",
            Unanswered::Late { may_have_run: true, .. } => "-may have run: late",
            Unanswered::NoLease { .. } => "-not sent: no lease",
            Unanswered::Cancelled => "-cancelled",
            Unanswered::Killed => "-killed",
            Unanswered::Draining => "-draining",
            Unanswered::TooMuchWaits => "-too much waits",
            Unanswered::TooLarge | Unanswered::PartsTooLarge => "-too large",
            Unanswered::OutOfMemory => "-out of memory",
            Unanswered::LeaseLost { .. } => "-not sent: lost",
        };
        format!("{words}\n").into_bytes()
    }
}

/// One client's side: cuts its bytes into lines and asks or answers each.
#[derive(Debug)]
pub struct Lines(pub Rc<Fabric<Toy>>);

impl Dialogue<Toy> for Lines {
    fn next(&mut self, bytes: &[u8], client: &Rc<Client<Toy>>) -> Result<usize, Vec<u8>> {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(0) };
        let words: Vec<&[u8]> = bytes[..end].split(|byte| *byte == b' ').collect();
        let len = end + 1;
        let toy = self.0.service();
        match words[..] {
            [b"GET", key] => {
                let effect = if bytes.len() == len { Effect::Shares } else { Effect::Repeats };
                let request = Request::new(toy.server_of(key), &bytes[..len]);
                client.ask(Request { effect, ..request });
            }
            [b"PUT", key, size] => {
                let Some(size) = number(size) else { return Err(b"-bad size\n".to_vec()) };
                return Ok(self.put(key, bytes, len, size, client));
            }
            [b"SUM", ref keys @ ..] => self.sum(keys, client),
            [b"NAME", key, _] | [b"NAMED", key] => {
                client.ask(Request::new(toy.server_of(key), &bytes[..len]));
            }
            [b"TAINT", key] => {
                let request = Request::new(toy.server_of(key), [b"NAMED ", key, b"\n"].concat());
                let route = Route::Own(Affinity::Taint);
                client.ask(Request { route, ..request });
            }
            [b"NOTE", key] => {
                let request = Request::new(toy.server_of(key), [b"GET ", key, b"\n"].concat());
                let mark = toy.marks.replace(toy.marks.get() + 1);
                client.ask_noted(request, mark);
            }
            [b"STEP", key] => {
                let request = Request::new(toy.server_of(key), [b"GET ", key, b"\n"].concat());
                client.ask(Request { route: Route::Own(Affinity::Step), ..request });
            }
            [b"ADD", key, _] => {
                let request = Request::new(toy.server_of(key), &bytes[..len]);
                let judge = Judge::of(Some(number_of(key)));
                client.ask(Request { judge, ..request });
            }
            [b"HOLD", key] => client.hold(toy.server_of(key), b"+held\n".to_vec()),
            [b"FREE", key] => client.free(toy.server_of(key), b"+free\n".to_vec()),
            [b"WATCH", key] => {
                let mut watchers = toy.watchers.borrow_mut();
                watchers.entry(key.to_vec()).or_default().push(Rc::downgrade(client));
                client.answer(b"+ok\n");
            }
            [b"APART"] => {
                let toy = Rc::clone(toy);
                client.apart(move |apart| toy.apart.borrow_mut().push(apart));
            }
            [b"ID"] => client.answer(format!("+{}\n", client.id()).as_bytes()),
            [b"CANCEL", id] | [b"KILL", id] => {
                if let Some(other) = number(id).and_then(|id| self.0.client(id as u64)) {
                    if words[0] == b"KILL" { other.kill() } else { other.cancel() }
                }
                client.answer(b"+ok\n");
            }
            _ => return Err(b"-what?\n".to_vec()),
        }
        Ok(len)
    }

    fn hears(&mut self, event: ClientEvent<Toy>, client: &Rc<Client<Toy>>) -> Result<(), Vec<u8>> {
        let words = match event {
            ClientEvent::StepNotSent => b"!a step was not sent".to_vec(),
            ClientEvent::Answered(NotedAnswer { mark, begins }) => {
                let begins = begins.unwrap_or_else(|| b"nothing".to_vec());
                let line = begins.split(|byte| *byte == b'\n').next().unwrap_or_default();
                [b"!", mark.to_string().as_bytes(), b" ", line].concat()
            }
            ClientEvent::Done(()) => b"!done".to_vec(),
        };
        client.push(&[&words[..], b"\n"].concat());
        Ok(())
    }

    fn lease_lost(&mut self, _server: usize, _client: &Rc<Client<Toy>>) -> Result<(), Vec<u8>> {
        Err(b"-lost\n".to_vec())
    }
}

impl Lines {
    fn put(
        &self,
        key: &[u8],
        bytes: &[u8],
        head: usize,
        size: usize,
        client: &Rc<Client<Toy>>,
    ) -> usize {
        let toy = self.0.service();
        let server = toy.server_of(key);
        if size > LARGE {
            let has_one = client.is_holding();
            if !has_one {
                client.take(server);
            }
            client.stream(Request::new(server, &bytes[..head]), size as u64);
            if !has_one {
                client.release(server);
            }
            return head;
        }
        let Some(bytes) = bytes.get(..head + size) else { return 0 };
        client.ask(Request::new(server, bytes));
        let mut watchers = toy.watchers.borrow_mut();
        for watcher in watchers.get_mut(key).into_iter().flatten() {
            if let Some(watcher) = watcher.upgrade() {
                watcher.push(&[b"!", key, b"\n"].concat());
            }
        }
        bytes.len()
    }

    /// Asks each server for the sum of what it has of the keys.
    fn sum(&self, keys: &[&[u8]], client: &Rc<Client<Toy>>) {
        let toy = self.0.service();
        let of = |server: usize| {
            let own = keys.iter().filter(|key| toy.server_of(key) == server);
            let own: Vec<&[u8]> = own.copied().collect();
            let bytes = [b"SUM ", &*own.join(&b' '), b"\n"].concat();
            let request = Request { effect: Effect::Repeats, ..Request::new(server, bytes) };
            (!own.is_empty()).then_some(request)
        };
        let parts: Vec<Request> = (0..toy.servers.len()).filter_map(of).collect();
        client.ask_parts(parts, Rc::new(total));
    }
}

/// The answer of all from those of the parts.
fn total(parts: &[Vec<u8>]) -> Vec<u8> {
    let one = |part: &Vec<u8>| number(part.strip_prefix(b"+")?.strip_suffix(b"\n")?);
    match parts.iter().map(one).sum::<Option<usize>>() {
        Some(sum) => format!("+{sum}\n").into_bytes(),
        None => b"-a part failed\n".to_vec(),
    }
}
