//! What a client may do with its connection between and during its writes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rig::http::{Connection, Request};
use rig::wait;
use socket2::{Domain, Socket, Type};

use crate::scene::{Scene, assert_points, point, points};

fn write(n: u64) -> Request {
    Request::post("/write?db=db", point(n))
}

#[test]
fn a_client_that_ends_its_side_still_hears_the_answer() {
    let scene = Scene::new();
    for n in 0..50 {
        let mut stream = TcpStream::connect(scene.weir.http).unwrap();
        stream.write_all(&write(n).encode()).unwrap();
        if n % 2 == 0 {
            // Seen apart from the request, or together with it.
            std::thread::sleep(Duration::from_millis(n % 4));
        }
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 204 "), "{n}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    }
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 50);
    let metrics = || scene.weir.metrics().sum("weir_connections_open", &[("listener", "influx")]);
    wait::until("no connection is left open", wait::LONG, || metrics() == 0.0);
}

#[test]
fn what_comes_while_a_write_waits_is_served_after_it() {
    let scene = Scene::new();
    let mut connection = Connection::open(scene.weir.http).unwrap();
    for round in 0..100 {
        // In pieces of their own, which come before the first is acknowledged, or after.
        let second = write(2 * round + 1).encode();
        let (begin, rest) = second.split_at(second.len() * round as usize / 100);
        connection.push(&write(2 * round).encode()).unwrap();
        connection.push(begin).unwrap();
        if round % 3 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        connection.push(rest).unwrap();
        for _ in 0..2 {
            assert_eq!(connection.answer(false).unwrap().status(), 204);
        }
        if round % 10 == 9 {
            connection = Connection::open(scene.weir.http).unwrap();
        }
    }
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 200);
}

#[test]
fn a_client_that_reads_late_gets_every_answer() {
    const WRITES: u64 = 600;
    let scene = Scene::new();
    // Both ends hold little: what is not read soon waits in Weir.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(2048).unwrap();
    socket.set_tcp_mss(536).unwrap();
    socket.set_tcp_nodelay(true).unwrap();
    socket.connect(&scene.weir.http.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    let mut reader = stream.try_clone().unwrap();
    let pushing = std::thread::spawn(move || {
        for n in 0..WRITES {
            stream.write_all(&write(n).encode()).unwrap();
            // One after the other, as by a client that waits but does not read.
            std::thread::sleep(Duration::from_millis(2));
        }
        stream.shutdown(Shutdown::Write).unwrap();
    });
    std::thread::sleep(Duration::from_millis(2) * WRITES as u32);
    let mut answers = String::new();
    reader.read_to_string(&mut answers).unwrap();
    pushing.join().unwrap();
    assert_eq!(answers.matches("HTTP/1.1 204 No Content\r\n").count(), WRITES as usize);
    assert_eq!(answers.matches("\r\n\r\n").count(), WRITES as usize);
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, WRITES);
}

#[test]
fn other_requests_between_writes_change_nothing() {
    let scene = Scene::new();
    let mut connections: Vec<_> =
        (0..20).map(|_| Connection::open(scene.weir.http).unwrap()).collect();
    let mut next = 0;
    for (n, connection) in connections.iter_mut().enumerate() {
        for step in 0..20 {
            let (request, expected) = match step == n {
                true => (Request::get("/ping?verbose=1"), 200),
                false => (write(next), 204),
            };
            next += u64::from(step != n);
            assert_eq!(connection.send(&request).unwrap().status(), expected);
        }
        // The next client finds a place that was left.
        *connection = Connection::open(scene.weir.http).unwrap();
    }
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, next);
}

/// What a client may send behind a request before it has the answer.
fn begun() -> Vec<Vec<u8>> {
    let next = Request::get("/ping").encode();
    let mut begun: Vec<Vec<u8>> =
        [&b"\r\n"[..], b"\n", b"\r\n\r\n"].iter().map(|lines| lines.to_vec()).collect();
    begun.extend([1, 10, next.len() - 1].map(|len| next[..len].to_vec()));
    begun.push([b"\r\n", &next[..10]].concat());
    begun
}

#[test]
fn an_answer_does_not_wait_for_the_rest_of_what_is_behind_the_request() {
    let scene = Scene::new();
    let large = points(1_000, 2_000);
    let mut points_sent = 0;
    for behind in begun() {
        let requests = [
            (write(points_sent), 204),
            (Request::post("/write?db=db", large.as_str()), 204),
            (Request::post("/write?db=db", "no line protocol"), 400),
            (Request::query("SHOW DATABASES", &[]), 200),
            (Request::get("/ping?verbose=1"), 200),
        ];
        points_sent += 1;
        for (request, expected) in requests {
            let mut connection = Connection::open(scene.weir.http).unwrap();
            connection.push(&[&request.encode()[..], &behind].concat()).unwrap();
            let answer = connection.answer(false).unwrap();
            let behind = String::from_utf8_lossy(&behind);
            assert_eq!(answer.status(), expected, "{} and {behind:?}", request.target);
        }
    }
    scene.weir.wait_delivered();
    let lines = scene.a.lines();
    assert!((0..points_sent).all(|n| lines.iter().any(|line| line == point(n).trim_end())));
}

#[test]
fn a_device_that_ends_each_body_with_an_empty_line_keeps_its_connection() {
    let scene = Scene::with(|setup| setup.table("[influx.timeouts]\nheader = \"1s\""));
    // The second leaves the short way with its first request.
    let firsts = [write(0), Request::get("/ping")];
    let mut devices = firsts.map(|first| {
        let mut device = Connection::open(scene.weir.http).unwrap();
        device.push(&[&first.encode()[..], b"\r\n"].concat()).unwrap();
        assert_eq!(device.answer(false).unwrap().status(), 204);
        // Behind the answer, in a piece of its own.
        device.push(b"\r\n").unwrap();
        device
    });
    // Longer than a head may take, and a second and a half for the sweep.
    std::thread::sleep(Duration::from_secs(3));
    for (n, device) in devices.iter_mut().enumerate() {
        device.push(&[&write(n as u64).encode()[..], b"\r\n"].concat()).unwrap();
        assert_eq!(device.answer(false).unwrap().status(), 204, "device {n}");
    }
    let metrics = scene.weir.metrics();
    assert_eq!(metrics.sum("weir_connections_slow_total", &[]), 0.0);
}
