//! Listeners, limits, slow clients and drain over real sockets.
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use crate::echo::{LONG, Server, begin_line, read_to_close, round_trip, send};
use flow::progress::Timeouts;
use flow::workers::{Drained, Workers};
use watch::metrics::Registry;

const ACCEPTED: &str = "weir_connections_accepted_total{listener=\"test\"}";
const OPEN: &str = "weir_connections_open{listener=\"test\"}";
const CLEAN: Drained = Drained { cut: 0, panicked: 0, stuck: 0 };

fn plain(workers: usize) -> Server {
    Server::start(workers, 1000, &Timeouts::default(), |endpoint| endpoint)
}

#[test]
fn all_workers_share_a_port_chosen_by_the_kernel() {
    let server = plain(3);
    let mut clients: Vec<_> = (0..60).map(|_| server.connect()).collect();
    for client in &mut clients {
        round_trip(client, b"hello\n");
    }
    assert_eq!(server.metric(OPEN), 60);
    for worker in 0..3 {
        // 60 connections miss one of three workers once in 10^10 times.
        server.wait_for(&format!("weir_worker_connections{{worker=\"{worker}\"}}"), 1);
    }
    drop(clients);
    assert_eq!(server.drain(LONG), CLEAN);
}

#[test]
fn a_port_that_is_taken_is_an_error_at_the_start() {
    let taken = flow::tcp::bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
    let error = flow::tcp::bind(taken[0].address(), 1).unwrap_err();
    assert!(error.to_string().contains("another program listens"), "{error}");
    let other = flow::tcp::bind("192.0.2.1:0".parse().unwrap(), 1).unwrap_err();
    assert!(other.to_string().contains("no such address"), "{other}");
}

#[test]
fn over_the_limit_clients_are_told_and_room_is_used_again() {
    let server = Server::start(1, 2, &Timeouts::default(), |e| e.with_refusal(b"full\n"));
    let mut first = server.connect();
    let mut second = server.connect();
    round_trip(&mut first, b"a\n");
    round_trip(&mut second, b"x\n");
    let mut third = server.connect();
    send(&mut third, b"a request that nobody reads\n");
    assert_eq!(read_to_close(&mut third), b"full\n");
    assert_eq!(server.metric("weir_connections_refused_total{listener=\"test\"}"), 1);
    drop(first);
    server.wait_until(OPEN, |open| open == 1);
    round_trip(&mut server.connect(), b"c\n");
}

#[test]
fn slow_clients_are_closed_in_each_phase() {
    let short = Duration::from_millis(200).into();
    let timeouts = Timeouts {
        header: short,
        body: short,
        write: short,
        idle: Duration::from_secs(2).into(),
        ..Timeouts::default()
    };
    let server = Server::start(1, 100, &timeouts, |endpoint| endpoint);
    let mut idle = server.connect();
    let mut header = server.connect();
    send(&mut header, b"half a li");
    let mut body = server.connect();
    send(&mut body, b"body\nhalf of");
    let mut write = server.connect();
    send(&mut write, b"w\n");

    for phase in ["idle", "header", "body", "write"] {
        let metric = "weir_connections_slow_total{listener=\"test\",phase=\"";
        server.wait_for(&format!("{metric}{phase}\"}}"), 1);
    }
    assert_eq!(read_to_close(&mut idle), b"");
    assert_eq!(read_to_close(&mut header), b"");
    assert_eq!(read_to_close(&mut body), b"");
    let answer = read_to_close(&mut write);
    assert!(!answer.is_empty() && answer.len() < 64 << 20);
    server.wait_until(OPEN, |open| open == 0);
}

#[test]
fn a_busy_client_is_never_closed_for_being_slow() {
    let short = Duration::from_millis(300).into();
    let timeouts =
        Timeouts { header: short, body: short, write: short, idle: short, ..Timeouts::default() };
    let server = Server::start(1, 100, &timeouts, |endpoint| endpoint);
    // A client that was kept from asking for so long is not a busy one, and proves nothing.
    let pause_max = Duration::from_millis(100);
    let deadline = Instant::now() + LONG;
    while !is_served_while_busy(&server, Duration::from_millis(1500), pause_max) {
        assert!(Instant::now() < deadline, "this machine lets no client be busy");
    }
}

/// Whether a client could ask again and again for so long, and never paused longer.
fn is_served_while_busy(server: &Server, length: Duration, pause_max: Duration) -> bool {
    let mut client = server.connect();
    let end = Instant::now() + length;
    while Instant::now() < end {
        let asked = Instant::now();
        let answered = client.write_all(b"again\n").and_then(|()| client.read_exact(&mut [0; 6]));
        std::thread::sleep(Duration::from_millis(20));
        if asked.elapsed() > pause_max {
            return false;
        }
        answered.unwrap();
    }
    true
}

#[test]
fn clients_are_not_blamed_for_a_worker_that_stood_still() {
    let timeouts = Timeouts { header: Duration::from_millis(500).into(), ..Timeouts::default() };
    // Clients that were kept from sending the rest for so long are to be blamed themselves.
    let late = Duration::from_millis(400);
    let deadline = Instant::now() + LONG;
    loop {
        let server = Server::start(1, 100, &timeouts, |endpoint| endpoint);
        let mut clients: Vec<_> = (0..50).map(|_| server.connect()).collect();
        server.wait_for(ACCEPTED, 50);
        let begun = Instant::now();
        clients.iter_mut().for_each(|client| send(client, b"half a "));
        std::thread::sleep(Duration::from_millis(50));
        let mut guilty = server.connect();
        send(&mut guilty, b"stand still\n");
        std::thread::sleep(Duration::from_millis(200));
        // Where they are too late their connections may be gone.
        let sent: Vec<_> = clients.iter_mut().map(|client| client.write_all(b"line\n")).collect();
        if begun.elapsed() > late {
            assert!(Instant::now() < deadline, "this machine lets no client be in time");
            continue;
        }
        sent.into_iter().for_each(|sent| sent.unwrap());
        for client in &mut clients {
            let mut line = [0; 12];
            client.read_exact(&mut line).unwrap();
            assert_eq!(&line, b"half a line\n");
        }
        return;
    }
}

#[test]
fn draining_lets_what_is_under_way_finish() {
    let server = plain(2);
    let mut idle = server.connect();
    round_trip(&mut idle, b"a\n");
    let mut busy = server.connect();
    begin_line(&mut busy);
    let address = server.address;
    let draining = std::thread::spawn(move || server.drain(LONG));
    assert_eq!(read_to_close(&mut idle), b"");
    // Each worker closes its listener when it hears of the drain.
    let deadline = Instant::now() + LONG;
    while std::net::TcpStream::connect(address).is_ok() {
        assert!(Instant::now() < deadline, "somebody still listens");
    }
    send(&mut busy, b"line\n");
    assert_eq!(read_to_close(&mut busy), b"half a ?line\n");
    assert_eq!(draining.join().unwrap(), CLEAN);
}

#[test]
fn draining_cuts_off_at_its_deadline() {
    let server = plain(1);
    let mut hangs = server.connect();
    begin_line(&mut hangs);
    let drained = server.drain(Duration::from_millis(300));
    assert_eq!(drained, Drained { cut: 1, ..CLEAN });
    assert_eq!(read_to_close(&mut hangs), b"");
}

#[test]
fn a_fault_ends_its_connection_only() {
    let server = plain(1);
    let mut other = server.connect();
    round_trip(&mut other, b"a\n");
    let mut faulty = server.connect();
    send(&mut faulty, b"panic\n");
    assert_eq!(read_to_close(&mut faulty), b"");
    round_trip(&mut other, b"x\n");
    server.wait_for("weir_connections_panics_total{listener=\"test\"}", 1);
    server.wait_until(OPEN, |open| open == 1);
    drop(other);
    assert_eq!(server.drain(LONG), CLEAN);
}

#[tokio::test]
async fn a_worker_that_ends_is_noticed() {
    let body = |worker: flow::Worker| async move {
        assert_ne!(worker.index, 1, "a fault outside of a connection");
    };
    let mut workers = Workers::start(2, &Registry::new(), body).unwrap();
    let ended = tokio::time::timeout(LONG, workers.ended()).await.unwrap().unwrap();
    assert_eq!((ended.index, ended.panicked), (1, true));
    assert_eq!(workers.drain(LONG).await, Drained { panicked: 1, ..CLEAN });
}

#[tokio::test]
async fn an_idle_worker_beats_and_its_clock_goes() {
    let (report, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let body = move |worker: flow::Worker| async move {
        let before = worker.clock.now();
        tokio::time::sleep(Duration::from_millis(200)).await;
        report.send(worker.clock.now() - before).unwrap();
    };
    let registry = Registry::new();
    let workers = Workers::start(1, &registry, body).unwrap();
    let limit = Duration::from_millis(500);
    let (pulses, stages) = (workers.pulses().to_vec(), flow::workers::STAGES);
    let _watchdog = watch::watchdog::Watchdog::start(limit, &registry, pulses, stages).unwrap();
    assert!(reports.recv().await.unwrap() >= Duration::from_millis(100));
    tokio::time::sleep(Duration::from_millis(800)).await;
    // On a machine that gave it no time for so long it may be found stalled, but not for ever.
    let beats = async {
        while !registry.render().contains("weir_worker_stalled{worker=\"worker-0\"} 0") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, beats).await.unwrap();
    assert_eq!(workers.drain(LONG).await, CLEAN);
}
