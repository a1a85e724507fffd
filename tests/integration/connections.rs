//! What a client may do with its connection between and during its writes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rig::http::{Connection, Request};
use rig::wait;
use socket2::{Domain, Socket, Type};

use crate::scene::{Scene, assert_points, point};

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
