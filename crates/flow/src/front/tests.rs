use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};

use parking_lot::Mutex;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use watch::metrics::Registry;

use super::*;
use crate::endpoint::Endpoint;
use crate::limit::Limit;
use crate::progress::Timeouts;

const LONG: Duration = Duration::from_secs(60);

/// What happened to all fronts, in its order.
type Log = Arc<Mutex<Vec<String>>>;

/// What one thread asks of a worker.
struct WhoAreYou(oneshot::Sender<usize>);

/// A front that greets whoever comes, and notes what becomes of it.
struct Greeter {
    address: SocketAddr,
    endpoint: Endpoint,
    greeting: Mutex<String>,
    calls: Calls<WhoAreYou>,
    log: Log,
}

#[derive(Debug, thiserror::Error)]
#[error("nobody says that")]
struct NoGreeting;

impl Greeter {
    fn new(address: &str, log: &Log) -> Arc<Self> {
        let registry = Registry::new();
        let (limit, timeouts) = (Limit::new(10), Timeouts::default());
        Arc::new(Self {
            address: address.parse().unwrap(),
            endpoint: Endpoint::new("greeter", limit, &timeouts, &registry),
            greeting: Mutex::new("hello".to_owned()),
            calls: Calls::default(),
            log: log.clone(),
        })
    }
}

fn note(log: &Log, what: impl Into<String>) {
    log.lock().push(what.into());
}

fn noted(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock())
}

impl Front for Greeter {
    const NAME: &'static str = "greeter";
    type Settings = String;
    type Error = NoGreeting;

    fn bind(&self, sockets: &mut Sockets) -> Result<(), BindError> {
        sockets.tcp("greetings", &[self.address])
    }

    fn announce(&self, addresses: &Addresses, workers: usize) {
        note(&self.log, format!("{} address, {workers} workers", addresses.of("greetings").len()));
    }

    async fn run(self: Arc<Self>, share: Share, worker: Worker) {
        let mut calls = self.calls.attend(worker.index);
        let index = worker.index;
        tokio::task::spawn_local(async move {
            while let Some(WhoAreYou(answer)) = calls.recv().await {
                let _ = answer.send(index);
            }
        });
        let mut serving = Serving::new(&worker);
        let greeter = Arc::clone(&self);
        serving.tcp(share.tcp, &self.endpoint, move |mut stream, _| {
            let greeting = greeter.greeting.lock().clone();
            async move { stream.write_all(greeting.as_bytes()).await.unwrap() }
        });
        serving.ended().await;
        self.calls.leave(worker.index);
    }

    fn prepare(self: &Arc<Self>, wanted: String) -> Result<PreparedSettings<'_>, NoGreeting> {
        if wanted.is_empty() {
            return Err(NoGreeting);
        }
        Ok(PreparedSettings::new(move || {
            *self.greeting.lock() = wanted;
            vec!["greeting-of-old".to_owned()]
        }))
    }

    fn ready(&self) -> Result<(), String> {
        Err("greeter: tired".to_owned())
    }

    fn status(&self) -> impl Serialize {
        json!({ "greets": true })
    }

    async fn stop(&self, _: Duration) {
        note(&self.log, "greeter stopped");
    }
}

/// A front without listeners, which others stand on.
struct Follower(Log);

impl Front for Follower {
    const NAME: &'static str = "follower";
    type Settings = ();
    type Error = NoGreeting;

    async fn run(self: Arc<Self>, share: Share, worker: Worker) {
        assert!(share.tcp.is_empty() && share.unix.is_empty() && share.udp.is_empty());
        worker.drain.started().await;
        note(&self.0, "follower drained");
    }

    fn prepare(self: &Arc<Self>, (): ()) -> Result<PreparedSettings<'_>, NoGreeting> {
        note(&self.0, "follower prepared");
        Ok(PreparedSettings::new(|| {
            note(&self.0, "follower took over");
            Vec::new()
        }))
    }

    fn status(&self) -> impl Serialize {
        "follows"
    }

    async fn stop(&self, _: Duration) {
        note(&self.0, "follower stopped");
    }
}

/// A follower and a greeter, whose greeting is all of the configuration.
fn fronts(log: &Log) -> (Fronts<String>, Arc<Greeter>) {
    let greeter = Greeter::new("127.0.0.1:0", log);
    let mut fronts = Fronts::<String>::default();
    fronts.add(Arc::new(Follower(log.clone())), |_| Some(()));
    fronts.add(Arc::clone(&greeter), |greeting| Some(greeting.clone()));
    (fronts, greeter)
}

fn greeted(address: SocketAddr) -> String {
    let mut said = String::new();
    TcpStream::connect(address).unwrap().read_to_string(&mut said).unwrap();
    said
}

#[tokio::test]
async fn fronts_are_served_reloaded_and_stopped_from_the_lists_end() {
    let log = Log::default();
    let (fronts, greeter) = fronts(&log);
    let (workers, addresses) = fronts.serve(1, &Registry::new()).unwrap();
    assert_eq!(noted(&log), ["1 address, 1 workers"]);
    let address = addresses.of("greetings")[0];
    assert_eq!(json!(addresses), json!({ "greetings": [address] }));
    assert_eq!(greeted(address), "hello");

    assert_eq!(fronts.reload(&"good day".to_owned()), Ok(vec!["greeting-of-old".to_owned()]));
    assert_eq!(noted(&log), ["follower prepared", "follower took over"]);
    assert_eq!(greeted(address), "good day");

    assert_eq!(
        json!(fronts.status()),
        json!({ "follower": "follows", "greeter": { "greets": true } })
    );
    assert_eq!(fronts.ready(), Err("greeter: tired".to_owned()));
    fronts.stop(LONG, workers).await;
    assert_eq!(noted(&log), ["follower drained", "greeter stopped", "follower stopped"]);
    assert!(greeter.calls.asked(0, WhoAreYou).await.is_err(), "the worker is gone");
}

#[test]
fn settings_that_one_front_cannot_use_change_no_other() {
    let log = Log::default();
    let (fronts, greeter) = fronts(&log);
    let refused = fronts.reload(&String::new());
    assert_eq!(refused, Err("[greeter]: nobody says that".to_owned()));
    assert_eq!(noted(&log), ["follower prepared"]);
    assert_eq!(*greeter.greeting.lock(), "hello");
}

#[test]
fn a_port_that_is_taken_is_found_before_anything_is_served() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let log = Log::default();
    let (mut fronts, _) = fronts(&log);
    let second = Greeter::new(&taken.local_addr().unwrap().to_string(), &log);
    fronts.add(second, |greeting| Some(greeting.clone()));
    let refused = fronts.serve(2, &Registry::new());
    assert!(matches!(refused, Err(ServeError::Bind(BindError::Address(_)))));
    assert!(noted(&log).is_empty());
}

#[tokio::test]
async fn other_threads_ask_workers() {
    let (fronts, greeter) = fronts(&Log::default());
    let (workers, _) = fronts.serve(2, &Registry::new()).unwrap();
    let mut answers = Vec::new();
    while answers.len() < 2 {
        // A worker attends once it runs.
        answers.clear();
        for answer in greeter.calls.asked_all(WhoAreYou) {
            answers.extend(answer.await);
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(answers, [0, 1]);
    assert_eq!(greeter.calls.asked(1, WhoAreYou).await, Ok(1));
    assert!(greeter.calls.asked(7, WhoAreYou).await.is_err(), "there is no such worker");
    fronts.stop(LONG, workers).await;
}
