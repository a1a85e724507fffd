//! Many clients over one lane, over real sockets: every byte goes to its own client, in order,
//! and a client that does not read disturbs nobody.
use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::endpoint::Endpoint;
use flow::lane::{Driver, Fate, Full, Handle, Limits, Owner, Protocol, Step, What, Why, start};
use flow::limit::Limit;
use flow::outlet::Outlet;
use flow::progress::Timeouts;
use flow::scratch::Scratch;
use flow::stream::Stream;
use flow::tcp::bind;
use flow::workers::{Worker, Workers};
use parking_lot::Mutex;
use rand::Rng as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use watch::metrics::Registry;

const LONG: Duration = Duration::from_secs(60);

/// A request is the length of its reply and a seed for its bytes; a reply is its length and as
/// many bytes.
fn request(len: u32, seed: u8) -> [u8; 5] {
    let mut request = [seed; 5];
    request[..4].copy_from_slice(&len.to_be_bytes());
    request
}

fn reply(request: [u8; 5]) -> Vec<u8> {
    let (len, seed) = (u32::from_be_bytes(request[..4].try_into().unwrap()), request[4]);
    let mut reply = len.to_be_bytes().to_vec();
    reply.extend((0..len).map(|at| seed.wrapping_add((at % 251) as u8)));
    reply
}

/// Lets a reply through as it comes; a length of `u32::MAX` is a fault.
#[derive(Default)]
struct Sized {
    left: usize,
}

impl Protocol for Sized {
    fn scan(&mut self, bytes: &[u8]) -> Step {
        let mut header = 0;
        if self.left == 0 {
            let Some((len, _)) = bytes.split_first_chunk::<4>() else {
                return Step { len: 0, what: What::Part };
            };
            if *len == [255; 4] {
                return Step { len: 4, what: What::Broken("a length beyond all bounds") };
            }
            header = 4;
            self.left = 4 + u32::from_be_bytes(*len) as usize;
        }
        let len = self.left.min(bytes.len()).max(header);
        self.left -= len;
        Step { len, what: if self.left == 0 { What::End } else { What::Part } }
    }
}

/// Replies go to sockets.
struct Outlets;

impl Owner<Outlet> for Outlets {
    fn reply(&mut self, ticket: &mut Outlet, bytes: &[u8], _: Option<Duration>) {
        ticket.send(bytes);
    }

    fn aside(&mut self, _: &[u8]) {}
}

/// Answers each request of each connection, in pieces of any size.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut request = [0; 5];
                while stream.read_exact(&mut request).is_ok() {
                    let reply = reply(request);
                    let cut = rand::rng().random_range(0..=reply.len());
                    if stream.write_all(&reply[..cut]).is_err()
                        || stream.write_all(&reply[cut..]).is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    address
}

async fn client(stream: Stream, lane: Rc<Handle<Sized, Outlet>>) {
    let outlet = Outlet::new(stream, 4 << 20);
    // However long the others' replies take, it is not the client's fault.
    outlet.progress().serving();
    let mut held = Vec::new();
    while outlet.read(&mut held).await.is_ok_and(|n| n > 0) {
        while let Some(request) = held.first_chunk::<5>() {
            let pushed = lane.push(outlet.clone(), 1, Instant::now(), |out| out.extend(request));
            assert!(pushed.is_ok());
            held.drain(..5);
        }
    }
    outlet.close();
}

async fn worker(worker: Worker, listener: flow::tcp::Listener, endpoint: Endpoint) {
    let io = tokio::net::TcpStream::connect(server()).await.unwrap();
    let limits = Limits { depth: 10_000, ..Limits::default() };
    let scratch = worker.connections.scratch().clone();
    let (lane, driver): (Handle<Sized, _>, _) =
        start(io, Sized::default(), limits, scratch, Outlets);
    tokio::task::spawn_local(driver);
    let lane = Rc::new(lane);
    let handle = move |stream, _| client(stream, Rc::clone(&lane));
    endpoint.serve(listener, &worker, handle).await.unwrap();
}

fn serve(registry: &Registry) -> (SocketAddr, Workers) {
    let listener = bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
    let address = listener.address();
    let endpoint = Endpoint::new("test", Limit::new(1000), &Timeouts::default(), registry);
    let listener = Arc::new(Mutex::new(Some(listener)));
    let body = move |at: Worker| async move {
        let listener = listener.lock().take().unwrap();
        worker(at, listener, endpoint).await;
    };
    (address, Workers::start(1, registry, body).unwrap())
}

/// Sends requests, now and then several at once, and checks every byte that comes back.
fn check(address: SocketAddr, requests: usize) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut rng = rand::rng();
    let mut left = requests;
    while left > 0 {
        let some = rng.random_range(1..=left.min(3));
        left -= some;
        let requests: Vec<[u8; 5]> = (0..some)
            .map(|_| {
                request((1 << rng.random_range(0..20)) | (rng.random::<u32>() & 1), rng.random())
            })
            .collect();
        stream.write_all(&requests.concat()).unwrap();
        for request in requests {
            let expected = reply(request);
            let mut got = vec![0; expected.len()];
            stream.read_exact(&mut got).unwrap();
            assert!(got == expected, "bytes of another reply");
        }
    }
}

#[test]
fn each_of_many_clients_gets_its_own_bytes_and_slow_ones_are_cut_off() {
    let registry = Registry::new();
    let (address, workers) = serve(&registry);
    // They ask for more than the socket and their spill may hold, and read nothing.
    let slow: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            for seed in 0..20 {
                stream.write_all(&request(1 << 20, seed)).unwrap();
            }
            stream
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..200 {
            scope.spawn(|| check(address, 3));
        }
    });
    let cut = "weir_connections_slow_total{listener=\"test\",phase=\"spill\"} 3";
    let deadline = Instant::now() + LONG;
    while !registry.render().contains(cut) {
        assert!(Instant::now() < deadline, "{}", registry.render());
        std::thread::sleep(Duration::from_millis(10));
    }
    check(address, 8);
    drop(slow);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let drained = runtime.block_on(workers.drain(Duration::from_secs(10)));
    assert_eq!((drained.panicked, drained.stuck), (0, 0));
}

/// Keeps what came, by ticket.
#[derive(Clone, Default)]
struct CollectedReplies(Rc<RefCell<Vec<Vec<u8>>>>);

impl Owner<usize> for CollectedReplies {
    fn reply(&mut self, ticket: &mut usize, bytes: &[u8], _: Option<Duration>) {
        self.0.borrow_mut()[*ticket].extend_from_slice(bytes);
    }

    fn aside(&mut self, _: &[u8]) {}
}

type Toy = (
    Handle<Sized, usize>,
    Driver<Sized, usize, DuplexStream, CollectedReplies>,
    DuplexStream,
    CollectedReplies,
);

fn toy(limits: Limits, buffer: usize) -> Toy {
    let (io, server) = tokio::io::duplex(buffer);
    let kept = CollectedReplies::default();
    kept.0.borrow_mut().resize(64, Vec::new());
    let (handle, driver) = start(io, Sized::default(), limits, Scratch::new(), kept.clone());
    (handle, driver, server, kept)
}

fn push(lane: &Handle<Sized, usize>, ticket: usize, len: u32) -> Result<(), Full<usize>> {
    lane.push(ticket, 1, Instant::now(), |out| out.extend(request(len, ticket as u8)))
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build_local(Default::default()).unwrap();
    runtime.block_on(async { tokio::time::timeout(LONG, test).await.unwrap() });
}

#[test]
fn a_server_that_writes_before_it_reads_on_is_no_deadlock() {
    run(async {
        // Both directions hold a few bytes only, and the server answers one request at a time.
        let (lane, driver, mut server, kept) = toy(Limits::default(), 16);
        let driver = tokio::task::spawn_local(driver);
        for ticket in 0..40 {
            push(&lane, ticket, 300).unwrap();
        }
        for _ in 0..40 {
            let mut asked = [0; 5];
            server.read_exact(&mut asked).await.unwrap();
            server.write_all(&reply(asked)).await.unwrap();
        }
        lane.quarantine();
        assert_eq!(push(&lane, 50, 1), Err(Full(50)));
        let ended = driver.await.unwrap();
        assert!(matches!(ended.why, Why::Drained), "{:?}", ended.why);
        for ticket in 0..40 {
            assert_eq!(kept.0.borrow()[ticket], reply(request(300, ticket as u8)));
        }
    });
}

#[test]
fn orphans_are_told_how_far_they_got() {
    run(async {
        let (lane, driver, mut server, kept) = toy(Limits::default(), 12);
        let driver = tokio::task::spawn_local(driver);
        for ticket in 0..5 {
            push(&lane, ticket, 10).unwrap();
        }
        let mut asked = [0; 5];
        server.read_exact(&mut asked).await.unwrap();
        server.write_all(&reply(asked)[..7]).await.unwrap();
        while kept.0.borrow()[0].len() < 7 {
            tokio::task::yield_now().await;
        }
        drop(server);
        let ended = driver.await.unwrap();
        let fates: Vec<_> = ended.orphans.iter().map(|orphan| orphan.fate).collect();
        assert_eq!(fates, [Fate::Answered, Fate::Sent, Fate::Sent, Fate::Sent, Fate::Unsent]);
        assert_eq!(push(&lane, 6, 1), Err(Full(6)));
        assert_eq!(lane.depth(), 0);
    });
}

#[test]
fn faults_and_the_last_handle_end_a_lane() {
    run(async {
        let (lane, driver, mut server, _) = toy(Limits::default(), 100);
        let driver = tokio::task::spawn_local(driver);
        push(&lane, 0, 1).unwrap();
        server.write_all(&[255; 4]).await.unwrap();
        let ended = driver.await.unwrap();
        assert!(matches!(ended.why, Why::Broken(_)));
        assert_eq!(ended.orphans.len(), 1);

        let (lane, driver, mut server, kept) = toy(Limits::default(), 100);
        let driver = tokio::task::spawn_local(driver);
        push(&lane, 0, 1).unwrap();
        drop(lane);
        let mut asked = [0; 5];
        server.read_exact(&mut asked).await.unwrap();
        server.write_all(&reply(asked)).await.unwrap();
        assert!(matches!(driver.await.unwrap().why, Why::Drained));
        assert_eq!(kept.0.borrow()[0].len(), 5);

        let (lane, driver, _server, _) = toy(Limits::default(), 100);
        let driver = tokio::task::spawn_local(driver);
        push(&lane, 0, 1).unwrap();
        lane.close();
        assert!(matches!(driver.await.unwrap().why, Why::Closed));
    });
}

#[test]
fn a_message_that_must_be_seen_whole_is_put_together_up_to_the_limit() {
    /// Wants a reply as a whole.
    struct Whole;
    impl Protocol for Whole {
        fn scan(&mut self, bytes: &[u8]) -> Step {
            let len =
                bytes.first_chunk().map_or(usize::MAX, |len| u32::from_be_bytes(*len) as usize);
            let all = len.saturating_add(4);
            Step { len: if all <= bytes.len() { all } else { 0 }, what: What::End }
        }
    }
    run(async {
        let limits = Limits { unread: 300_000, ..Limits::default() };
        let (io, mut server) = tokio::io::duplex(5000);
        let kept = CollectedReplies::default();
        kept.0.borrow_mut().resize(4, Vec::new());
        let (lane, driver) = start(io, Whole, limits, Scratch::new(), kept.clone());
        let driver = tokio::task::spawn_local(driver);
        for ticket in 0..4 {
            lane.push(ticket, 1, Instant::now(), |out| out.push(0)).unwrap();
        }
        // The last is never read to its end.
        let writing = tokio::task::spawn_local(async move {
            for len in [10, 60_000, 250_000, 400_000] {
                let _ = server.write_all(&reply(request(len, 7))).await;
            }
        });
        assert!(matches!(driver.await.unwrap().why, Why::Broken(_)));
        writing.abort();
        for (ticket, len) in [10, 60_000, 250_000].into_iter().enumerate() {
            assert!(kept.0.borrow()[ticket] == reply(request(len, 7)), "{len}");
        }
    });
}
