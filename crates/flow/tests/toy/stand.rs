//! The toy between two servers, and a client of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::Worker;
use flow::endpoint::Endpoint;
use flow::front::{BindError, Calls, Front, Fronts, PreparedSettings, Serving, Share, Sockets};
use flow::limit::Limit;
use flow::memory::Memory;
use flow::pool::Counts;
use flow::progress::Timeouts;
use flow::service::{Fabric, Figures, Settings};
use flow::workers::{Drained, Workers};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use watch::metrics::Registry;

use crate::gateway::{Lines, Toy};
use crate::server::Server;

pub const LONG: Duration = Duration::from_secs(60);

/// What another thread has a worker do.
type Call = Box<dyn FnOnce(&Rc<Fabric<Toy>>) + Send>;

/// The toy as a process has it.
struct Gate {
    endpoint: Endpoint,
    servers: [SocketAddr; 3],
    settings: Mutex<Settings>,
    calls: Calls<Call>,
}

impl Front for Gate {
    const NAME: &'static str = "toy";
    type Settings = Settings;
    type Error = std::fmt::Error;

    fn bind(&self, sockets: &mut Sockets) -> Result<(), BindError> {
        sockets.tcp("toy", &["127.0.0.1:0".parse().unwrap()])
    }

    async fn run(self: Arc<Self>, share: Share, worker: Worker) {
        let mut calls = self.calls.attend(worker.index);
        let scratch = worker.connections.scratch().clone();
        let settings = self.settings.lock().clone();
        let fabric = Fabric::new(Toy::new(&self.servers), settings, scratch, Counts::default());
        let called = Rc::clone(&fabric);
        tokio::task::spawn_local(async move {
            while let Some(call) = calls.recv().await {
                call(&called);
            }
        });
        let drain = worker.drain.clone();
        let mut serving = Serving::new(&worker);
        serving.tcp(share.tcp, &self.endpoint, move |stream, _| {
            let lines = Lines(Rc::clone(&fabric));
            Rc::clone(&fabric).serve(stream, drain.clone(), lines)
        });
        serving.ended().await;
        self.calls.leave(worker.index);
    }

    fn prepare(
        self: &Arc<Self>,
        wanted: Settings,
    ) -> Result<PreparedSettings<'_>, std::fmt::Error> {
        Ok(PreparedSettings::new(move || {
            *self.settings.lock() = wanted.clone();
            drop(self.calls.asked_all(|done: oneshot::Sender<()>| {
                let wanted = wanted.clone();
                let call: Call = Box::new(move |fabric| {
                    fabric.set_settings(wanted);
                    let _ = done.send(());
                });
                call
            }));
            Vec::new()
        }))
    }

    fn status(&self) -> impl serde::Serialize {
        "a toy"
    }
}

/// The gateway with its servers.
pub struct ToyCluster {
    /// The last one has no key but those that were learnt to be there.
    pub servers: [Server; 3],
    pub address: SocketAddr,
    fronts: Fronts<Settings>,
    gate: Arc<Gate>,
    workers: Workers,
}

/// Settings that a test changes where it must.
pub fn settings() -> Settings {
    let lanes = flow::lanes::Limits {
        count: 2,
        depth: 64,
        head_max: Duration::from_millis(50),
        head_limit: Duration::MAX,
    };
    let patience = Duration::from_millis(500);
    Settings {
        lanes,
        lane: flow::lane::Limits { depth: lanes.depth, patience, ..flow::lane::Limits::default() },
        idle: None,
        leases: 14,
        pool: flow::pool::Settings { size_max: 16, ..flow::pool::Settings::default() },
        timeout: Duration::from_secs(20),
        drain: Duration::from_secs(1),
        waiting: 1024 * 1024,
        spill: 1024 * 1024,
        request: 128 * 1024,
        memory: Memory::new(usize::MAX),
    }
}

impl ToyCluster {
    pub fn start(workers: usize, settings: Settings) -> Self {
        let servers = [Server::start(), Server::start(), Server::start()];
        let registry = Registry::new();
        let timeouts = Timeouts::default();
        let gate = Arc::new(Gate {
            endpoint: Endpoint::new("toy", Limit::new(10_000), &timeouts, &registry),
            servers: servers.clone().map(|server| server.address),
            settings: Mutex::new(settings),
            calls: Calls::default(),
        });
        let mut fronts = Fronts::default();
        fronts.add(Arc::clone(&gate), |settings: &Settings| Some(settings.clone()));
        let count = workers;
        let (workers, addresses) = fronts.serve(count, &registry).unwrap();
        let address = addresses.of("toy")[0];
        let stand = Self { servers, address, fronts, gate, workers };
        // A worker that has not begun yet hears of no call.
        while stand.figures().len() < count {
            std::thread::yield_now();
        }
        stand
    }

    pub fn client(&self) -> Client {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        Client(BufReader::new(socket))
    }

    /// Puts other settings in force.
    pub fn reload(&self, settings: &Settings) {
        assert_eq!(self.fronts.reload(settings), Ok(Vec::new()));
    }

    /// Does something on every worker that runs.
    pub fn on_workers<R: Send + 'static>(
        &self,
        what: impl Fn(&Rc<Fabric<Toy>>) -> R + Clone + Send + 'static,
    ) -> Vec<R> {
        let answers = self.gate.calls.asked_all(|answer: oneshot::Sender<R>| {
            let what = what.clone();
            let call: Call = Box::new(move |fabric| drop(answer.send(what(fabric))));
            call
        });
        answers.into_iter().map(|answer| answer.blocking_recv().unwrap()).collect()
    }

    pub fn figures(&self) -> Vec<Figures> {
        self.on_workers(|fabric| fabric.figures())
    }

    /// Waits for what is going to be so.
    pub fn wait_until(&self, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + LONG;
        while !is_so() {
            assert!(Instant::now() < deadline, "it never came to be: {:?}", self.figures());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until so many requests are on lanes.
    pub fn wait_for_in_flight(&self, requests: usize) {
        let in_flight = |figures: &Figures| figures.in_flight;
        self.wait_until(|| self.figures().iter().map(in_flight).sum::<usize>() == requests);
    }

    pub fn drain(self, timeout: Duration) -> Drained {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(self.workers.drain(timeout))
    }
}

/// A key of a server, with a name of its own.
pub fn key_of(server: usize, name: &str) -> String {
    let fits = |key: &String| crate::gateway::server_of(key.as_bytes(), 2) == server;
    (0..2).map(|n| format!("{name}{n}")).find(fits).unwrap()
}

/// A client of the toy.
pub struct Client(pub BufReader<TcpStream>);

impl Client {
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    /// As `send`; false where the connection is gone.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.get_mut().write_all(bytes.as_ref()).is_ok()
    }

    /// The next reply, without its newline; what a `$n` announces is behind a space. `None` at
    /// the end of the connection.
    pub fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(n) if n > 0 && line.ends_with('\n') => {}
            _ => return None,
        }
        line.pop();
        if let Some(n) = line.strip_prefix('$') {
            let mut value = vec![0; n.parse().unwrap()];
            self.0.read_exact(&mut value).ok()?;
            line = format!("{line} {}", String::from_utf8_lossy(&value));
        }
        Some(line)
    }

    /// The next whole reply; `None` where the connection ends before that, or within it.
    pub fn hear_to_end(&mut self) -> Option<String> {
        let heard = self.hear();
        if heard.is_none() {
            let mut rest = Vec::new();
            let _ = self.0.read_to_end(&mut rest);
        }
        heard
    }

    pub fn ask(&mut self, bytes: impl AsRef<[u8]>) -> String {
        self.send(bytes);
        self.hear().unwrap()
    }

    pub fn put(&mut self, key: &str, value: &str) -> String {
        self.ask(format!("PUT {key} {}\n{value}", value.len()))
    }
}

/// Runs a test in a process of its own, since it looks at the memory of the whole process.
pub fn alone(test: &str, body: impl FnOnce()) {
    const ALONE: &str = "WEIR_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let mut this = std::process::Command::new(std::env::current_exe().unwrap());
    let ran = this.args([test, "--exact", "--nocapture"]).env(ALONE, "1").output().unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    let failed = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && told.contains("1 passed"), "{told}{failed}");
}

/// Memory of this process that is its own, in bytes.
pub fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}
