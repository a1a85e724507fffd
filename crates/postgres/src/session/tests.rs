//! How often a round is made and its text looked up, on each of its ways.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};

use flow::endpoint::Endpoint;
use flow::front::Serving;
use flow::limit::Limit;
use flow::progress::Timeouts;
use flow::workers::Workers;
use rig::postgres::{Cluster, MessageClient, SUPERUSER};
use rig::wait;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedSender;
use watch::metrics::{Counter, Registry};
use wire::postgres::frontend::{
    Target, put_bind, put_describe, put_execute, put_flush, put_parse, put_query, put_sync,
};

use super::{CLIENT_BYTES, startup};
use crate::batches::Lines;
use crate::database::tests::LOOKED_UP;
use crate::metrics::Metrics;
use crate::pipeline::round::tests::MADE;
use crate::shared::GatewayContext;
use crate::worker::WorkerContext;

/// What counts the rounds that go one way.
type WayCounter = fn(&Metrics) -> &Counter;

/// A gateway of one worker in front of a server.
struct Gateway {
    address: SocketAddr,
    shared: Arc<GatewayContext>,
    /// Has the worker's thread say what it has counted since it was asked last.
    asks: UnboundedSender<mpsc::Sender<(u32, u32)>>,
    _workers: Workers,
    _runtime: Runtime,
}

impl Gateway {
    fn of(cluster: &Cluster) -> Self {
        let mut building = tokio::runtime::Builder::new_multi_thread();
        let runtime = building.worker_threads(1).enable_all().build().unwrap();
        let settings = toml::from_str(&format!(
            "poll-interval = \"100ms\"\npoll-timeout = \"20s\"\n\
             [lanes]\nslow = \"60s\"\n\
             [[auth]]\naddress = [\"127.0.0.1\"]\nmethod = \"trust\"\n\
             [[backend]]\nname = \"a\"\nurl = \"{}\"",
            cluster.url()
        ));
        let registry = Registry::new();
        let control = runtime.handle().clone();
        let shared = GatewayContext::open(settings.unwrap(), None, &registry, control).unwrap();
        let listeners = flow::tcp::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let address = listeners[0].address();
        let never = units::Duration::from_secs(0);
        let timeouts = Timeouts { header: never, body: never, ..Timeouts::default() };
        let endpoint = Endpoint::new("postgres", Limit::new(100), &timeouts, &registry);
        let (asks, asked) = tokio::sync::mpsc::unbounded_channel::<mpsc::Sender<(u32, u32)>>();
        let given = Arc::new(Mutex::new(Some((listeners, asked))));
        let of_worker = shared.clone();
        let body = move |worker: flow::Worker| async move {
            let Some((listeners, mut asked)) = given.lock().unwrap().take() else { return };
            let lines = Lines::new(WorkerContext::new(of_worker, worker.clone(), CLIENT_BYTES));
            let mut serving = Serving::new(&worker);
            serving.tcp(listeners, &endpoint, move |stream, peer| {
                startup::serve(lines.clone(), stream, Some(peer))
            });
            while let Some(teller) = asked.recv().await {
                let _ = teller.send((MADE.take(), LOOKED_UP.take()));
            }
        };
        let workers = Workers::start(1, &registry, body).unwrap();
        Self { address, shared, asks, _workers: workers, _runtime: runtime }
    }

    fn client(&self) -> MessageClient {
        let parameters = [("user", SUPERUSER), ("database", SUPERUSER)];
        MessageClient::connect(self.address, &parameters).expect("it is let in")
    }

    /// Rounds that were made and texts that were looked up since this was asked last.
    fn counted(&self) -> (u32, u32) {
        let (teller, told) = mpsc::channel();
        self.asks.send(teller).unwrap();
        told.recv().unwrap()
    }

    /// What is counted while a client sends messages and hears the answer to them, which goes the
    /// way that this metric counts.
    #[track_caller]
    fn counts(&self, client: &mut MessageClient, way: WayCounter, messages: &[u8]) -> (u32, u32) {
        self.counted();
        let before = way(&self.shared.metrics).get();
        client.send(messages).unwrap();
        let reply = client.reply().unwrap();
        assert_eq!(reply.error, None);
        let counted = self.counted();
        let text = String::from_utf8_lossy(messages);
        assert_eq!(way(&self.shared.metrics).get(), before + 1, "{text} goes another way");
        counted
    }
}

fn query(sql: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_query(&mut out, sql.as_bytes());
    out
}

/// As drivers send a statement that they do not keep.
fn unnamed(sql: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_parse(&mut out, b"", sql.as_bytes(), &[]);
    put_describe(&mut out, Target::Statement(b""));
    out.extend(named(""));
    out
}

/// As drivers run a statement that they have prepared.
fn named(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_bind(&mut out, b"", name.as_bytes(), &[]);
    put_execute(&mut out, b"", 0);
    put_sync(&mut out);
    out
}

fn prepare(name: &str, sql: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_parse(&mut out, name.as_bytes(), sql.as_bytes(), &[]);
    put_sync(&mut out);
    out
}

/// Asks until it goes the way that this metric counts.
fn until(gateway: &Gateway, client: &mut MessageClient, way: WayCounter, messages: &[u8]) {
    wait::until("it goes its way", wait::LONG, || {
        let before = way(&gateway.shared.metrics).get();
        client.send(messages).unwrap();
        assert_eq!(client.reply().unwrap().error, None);
        way(&gateway.shared.metrics).get() > before
    });
}

#[test]
fn a_round_is_cut_once_and_its_text_looked_up_once_on_each_of_its_ways() {
    let cluster = Cluster::start();
    cluster.sql("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)");
    let gateway = Gateway::of(&cluster);
    let mut ann = gateway.client();
    let (read, write) = ("SELECT v FROM t WHERE id = 1", "UPDATE t SET v = 2 WHERE id = 1");
    until(&gateway, &mut ann, |all| &all.ridden, &query(read));
    until(&gateway, &mut ann, |all| &all.batched, &query(write));
    let mut counts = |way: WayCounter, messages: &[u8]| gateway.counts(&mut ann, way, messages);
    let (ridden, batched): (WayCounter, WayCounter) = (|all| &all.ridden, |all| &all.batched);
    let (leased, answered): (WayCounter, WayCounter) = (|all| &all.leased, |all| &all.answered);

    assert_eq!(counts(ridden, &query(read)), (1, 1), "ride");
    assert_eq!(counts(ridden, &unnamed(read)), (1, 1), "ride");
    assert_eq!(counts(batched, &query(write)), (1, 1), "batch");
    assert_eq!(counts(batched, &unnamed(write)), (1, 1), "batch");
    assert_eq!(counts(leased, &query("SELECT txid_current()")), (1, 1), "lease");
    assert_eq!(counts(leased, &unnamed("SELECT txid_current(), 1")), (1, 1), "lease");
    // A steady read that was never seen waits with its like for a server connection.
    assert_eq!(counts(leased, &query("SELECT v, 1, 2 FROM t WHERE id = 1")), (1, 1), "fly");
    assert_eq!(counts(leased, &unnamed("SELECT v, 1, 2, 3 FROM t")), (1, 1), "fly");

    assert_eq!(counts(answered, &query("BEGIN")), (1, 1), "begin");
    assert_eq!(counts(answered, &query("COMMIT")), (1, 1), "end");
    assert_eq!(counts(answered, &unnamed("BEGIN")), (1, 1), "begin");
    // What is asked of it on its way to the server, as whether it is a change, is no look-up.
    assert_eq!(counts(leased, &query(write)), (1, 1), "lease");
    // The server has it as it comes.
    assert_eq!(counts(leased, &query("COMMIT")), (0, 1), "lease");
    assert_eq!(counts(answered, &query("LISTEN c")), (1, 1), "listening");
    assert_eq!(counts(answered, &query("UNLISTEN c")), (1, 1), "listening");
    assert_eq!(counts(ridden, &prepare("s", read)), (1, 1), "ride");
    assert_eq!(counts(ridden, &named("s")), (1, 1), "ride");
    assert_eq!(counts(ridden, &named("s")), (1, 0), "what is prepared is known from then on");
    assert_eq!(counts(answered, &query("DEALLOCATE s")), (1, 1), "forget");
    assert_eq!(counts(answered, &query("SET weir.route = 'primary'")), (1, 1), "route");
}

#[test]
fn a_round_with_a_flush_in_it_is_made_once_and_goes_out_as_it_comes() {
    let cluster = Cluster::start();
    let gateway = Gateway::of(&cluster);
    let mut ann = gateway.client();
    until(&gateway, &mut ann, |all| &all.ridden, &query("SELECT 1"));
    gateway.counted();
    let mut first = Vec::new();
    put_parse(&mut first, b"", b"SELECT txid_current()", &[]);
    put_flush(&mut first);
    ann.send(&first).unwrap();
    assert_eq!(ann.message().unwrap().0, b'1');
    ann.send(&named("")).unwrap();
    assert_eq!(ann.reply().unwrap().error, None);
    assert_eq!(gateway.counted(), (1, 1));
}
