//! What becomes of connections when something on the short way breaks, over real sockets.

use std::future::poll_fn;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow::drain::Drain;
use flow::endpoint::Endpoint;
use flow::limit::Limit;
use flow::poll_set::Ready;
use flow::progress::Timeouts;
use flow::stream::Stream;
use flow::tcp::bind;
use flow::workers::Workers;
use rustix::net::{self, SendFlags};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Builder;
use watch::metrics::Registry;

use super::{Connection, Input, Left, Member, Short, Step, serve};
use crate::front::stamp::{Stamp, StampRules};
use crate::front::writer::ConnectionSource;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// Does what the bytes of a connection say: `s` is answered on the short way, `w` never is, `l` is
/// for the long way, `p` is a fault of that connection; gives whether it is `e`, the end of the
/// short way.
fn act(member: &mut Member) -> bool {
    let mut bytes = [0; 1];
    while member.bare.recv(&mut bytes).is_ok_and(|count| count > 0) {
        match bytes[0] {
            b's' => drop(net::send(&member.bare, b"S", SendFlags::empty())),
            b'w' => member.step = Step::Answering,
            b'l' => {
                member.held = bytes.to_vec();
                member.step = Step::Leaving(Left::Other);
                break;
            }
            b'p' => panic!("asked to"),
            _ => return true,
        }
    }
    false
}

async fn turns(short: Rc<Short>) {
    let mut over = false;
    while !over {
        let mut each = |ready: Ready| {
            short.with(ready.key as usize, |member| over |= act(member));
        };
        poll_fn(|cx| short.set.poll(cx, &mut each)).await;
    }
    short.end();
}

/// A connection, on the short way and then on the long one, where each byte comes back as `L`.
async fn connection(short: Rc<Short>, stream: Stream, peer: SocketAddr, drain: Drain) {
    let connection = Rc::new(Connection {
        stamp: Stamp::of(&StampRules::default(), peer),
        source: ConnectionSource::new(peer),
        progress: stream.progress().clone(),
        peer: peer.ip(),
        tls: false,
        hang_up: std::sync::Arc::default(),
    });
    let draining = std::pin::pin!(drain.started());
    let Some(mut stream) = serve(Some(&short), &connection, stream, draining).await else {
        return;
    };
    while stream.read_u8().await.is_ok() && stream.write_all(b"L").await.is_ok() {}
}

struct Server {
    address: SocketAddr,
    registry: Registry,
    workers: Workers,
}

impl Server {
    fn start() -> Self {
        let registry = Registry::new();
        let listeners = bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let address = listeners[0].address();
        let endpoint = Endpoint::new("test", Limit::new(9), &Timeouts::default(), &registry);
        let listeners = Arc::new(Mutex::new(listeners));
        let body = move |worker: flow::Worker| async move {
            let listener = listeners.lock().unwrap().pop().unwrap();
            let short = Rc::new(Short::new().unwrap());
            tokio::task::spawn_local(turns(short.clone()));
            let drain = worker.drain.clone();
            let handle = move |stream, peer| connection(short.clone(), stream, peer, drain.clone());
            endpoint.serve(listener, &worker, handle).await.unwrap();
        };
        let workers = Workers::start(1, &registry, body).unwrap();
        Self { address, registry, workers }
    }

    fn connect(&self) -> Client {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        Client(client)
    }

    /// Stops it; gives how many connections ended by a panic.
    fn stop(self) -> u64 {
        let runtime = { Builder::new_current_thread() }.enable_all().build().unwrap();
        runtime.block_on(self.workers.drain(LONG));
        let text = self.registry.render();
        let line = "weir_connections_panics_total{listener=\"test\"} ";
        text.lines().find_map(|text| text.strip_prefix(line)).unwrap().parse().unwrap()
    }
}

struct Client(TcpStream);

impl Client {
    /// Sends a byte, and gives the answer; `None` where the connection ends.
    fn ask(&mut self, byte: u8) -> Option<char> {
        self.send(byte);
        self.hear()
    }

    fn send(&mut self, byte: u8) {
        self.0.write_all(&[byte]).unwrap();
    }

    fn hear(&mut self) -> Option<char> {
        let mut answer = [0];
        self.0.read_exact(&mut answer).ok().map(|()| answer[0].into())
    }
}

#[test]
fn a_socket_that_has_ended_is_read_until_that_shows() {
    for before in [Input::Drained, Input::Waiting] {
        assert_eq!(before.announced(false), Input::Waiting);
        assert_eq!(before.announced(true), Input::Ending);
    }
    assert_eq!(Input::Waiting.after_read(true), Input::Waiting);
    assert_eq!(Input::Waiting.after_read(false), Input::Drained);
    // What was said of the end before holds, though less is said later.
    assert_eq!(Input::Ending.announced(false), Input::Ending);
    assert_eq!(Input::Ending.after_read(false), Input::Ending);
}

#[test]
fn a_fault_is_its_connection_s_own() {
    let server = Server::start();
    let [mut one, mut other, mut faulty] = [(); 3].map(|()| server.connect());
    assert_eq!([&mut one, &mut other].map(|client| client.ask(b's')), [Some('S'); 2]);
    assert_eq!(faulty.ask(b'p'), None);
    assert_eq!(one.ask(b's'), Some('S'));
    assert_eq!(other.ask(b'l'), Some('L'));
    assert_eq!(other.ask(b's'), Some('L'));
    drop((one, other));
    assert_eq!(server.stop(), 1);
}

#[test]
fn without_the_short_way_all_go_the_long_one() {
    let server = Server::start();
    let [mut idle, mut waiting, mut last] = [(); 3].map(|()| server.connect());
    assert_eq!(idle.ask(b's'), Some('S'));
    waiting.send(b'w');
    assert_eq!(waiting.ask(b's'), Some('S'));
    last.send(b'e');
    // Its answer may have been under way.
    assert_eq!(waiting.hear(), None);
    assert_eq!(idle.ask(b's'), Some('L'));
    assert_eq!(last.ask(b's'), Some('L'));
    assert_eq!(server.connect().ask(b's'), Some('L'));
    drop((idle, last));
    assert_eq!(server.stop(), 0);
}
