//! UDP over real sockets.
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use flow::udp::{Endpoint, Receive, bind};
use flow::workers::Workers;
use parking_lot::Mutex;
use watch::metrics::Registry;

const LONG: Duration = Duration::from_secs(60);

/// Passes on what was gathered up to each pause.
struct Gather {
    gathered: Vec<Vec<u8>>,
    out: Sender<Vec<Vec<u8>>>,
}

impl Receive for Gather {
    fn datagram(&mut self, bytes: &[u8], _: SocketAddr) {
        self.gathered.push(bytes.to_vec());
    }

    fn pause(&mut self) {
        if !self.gathered.is_empty() {
            // A test that is over does not listen.
            let _ = self.out.send(std::mem::take(&mut self.gathered));
        }
    }
}

#[test]
fn datagrams_arrive_whole_and_a_drain_takes_the_rest() {
    let registry = Registry::new();
    let sockets = bind("127.0.0.1:0".parse().unwrap(), 2, 1 << 18).unwrap();
    let address = sockets[0].address();
    assert_eq!(sockets[1].address(), address);
    assert!(sockets[0].receive_buffer().unwrap() > 0);
    assert!(bind(address, 1, 0).is_err(), "the port is taken");

    let endpoint = Endpoint::new("test", &registry);
    let sockets = Arc::new(Mutex::new(sockets));
    let (out, gathered) = channel();
    let body = move |worker: flow::Worker| async move {
        let socket = sockets.lock().pop().unwrap();
        let mut receive = Gather { gathered: Vec::new(), out };
        endpoint.serve(socket, &worker, &mut receive).await.unwrap();
    };
    let workers = Workers::start(2, &registry, body).unwrap();

    let mut sent = 0;
    for length in [0, 1, 100, 60_000] {
        // Another port each time, so that both workers have some.
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(&vec![b'x'; length], address).unwrap();
        sent += 1;
    }
    let mut lengths = Vec::new();
    while lengths.len() < sent {
        let part = gathered.recv_timeout(LONG).unwrap();
        lengths.extend(part.iter().map(Vec::len));
    }
    lengths.sort_unstable();
    assert_eq!(lengths, [0, 1, 100, 60_000]);

    let text = registry.render();
    assert!(text.contains("weir_udp_datagrams_total{listener=\"test\"} 4"), "{text}");
    assert!(text.contains("weir_udp_dropped_total{listener=\"test\"} 0"), "{text}");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    assert_eq!(runtime.block_on(workers.drain(LONG)).cut, 0);
}

#[test]
fn what_the_kernel_drops_is_counted() {
    let registry = Registry::new();
    let sockets = bind("127.0.0.1:0".parse().unwrap(), 1, 4096).unwrap();
    let address = sockets[0].address();
    let endpoint = Endpoint::new("test", &registry);
    let sockets = Arc::new(Mutex::new(sockets));
    let (out, _gathered) = channel();
    let body = move |worker: flow::Worker| async move {
        let socket = sockets.lock().pop().unwrap();
        // Before anything is received the buffer runs over.
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..100 {
            client.send_to(&[b'x'; 1000], address).unwrap();
        }
        let mut receive = Gather { gathered: Vec::new(), out };
        endpoint.serve(socket, &worker, &mut receive).await.unwrap();
    };
    let workers = Workers::start(1, &registry, body).unwrap();
    let count = |name: &str| {
        let text = registry.render();
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0, |value| value.parse::<u64>().unwrap())
    };
    let all = || {
        count("weir_udp_dropped_total{listener=\"test\"}")
            + count("weir_udp_datagrams_total{listener=\"test\"}")
    };
    let deadline = std::time::Instant::now() + LONG;
    while all() < 100 && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(all(), 100);
    assert!(count("weir_udp_dropped_total{listener=\"test\"}") > 0);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    assert_eq!(runtime.block_on(workers.drain(LONG)).cut, 0);
}
