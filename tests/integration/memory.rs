//! What one client may take of memory, turns and a worker's time, so that others have theirs.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use rig::http::{Connection, Request};
use rig::wait;
use rig::weir::{Setup, Weir};
use socket2::{Domain, Socket, Type};

use crate::scene::{Scene, assert_points, point, points};

fn taken(weir: &Weir, of: &str) -> f64 {
    weir.metrics().sum("weir_influx_memory_bytes", &[("of", of)])
}

/// The head of a write whose body is to have so many bytes, and all of it but the last one.
fn unfinished(length: usize) -> Vec<u8> {
    let head = "POST /write?db=db HTTP/1.1\r\nHost: weir\r\n";
    let mut bytes = format!("{head}Content-Length: {length}\r\n\r\n").into_bytes();
    bytes.resize(bytes.len() + length - 1, b'#');
    bytes
}

const LIMITS: &str = "max-body-size = \"4MiB\"\nmax-decompressed-size = \"4MiB\"\n\
    bodies-memory = \"16MiB\"";

#[test]
fn bodies_that_are_never_finished_do_not_take_all_memory() {
    let scene = Scene::with(|setup| setup.default_segments().influx(LIMITS));
    let body = unfinished(4 << 20);
    let mut held: Vec<Connection> = Vec::new();
    let mut refused = 0;
    for _ in 0..10 {
        let mut connection = Connection::open(scene.weir.http).unwrap();
        connection.push(&body).unwrap();
        if held.len() < 4 {
            let expected = ((held.len() + 1) * ((4 << 20) - 1)) as f64;
            wait::until("the body is held", wait::LONG, || {
                taken(&scene.weir, "bodies") == expected
            });
            held.push(connection);
            continue;
        }
        let answer = connection.answer(false).unwrap();
        assert_eq!((answer.status(), answer.header("retry-after")), (503, Some("1")));
        assert!(answer.text().contains("bodies-memory"), "{}", answer.text());
        refused += 1;
    }
    // What is whole when it comes is taken meanwhile.
    scene.write_one_by_one(0, 10);
    let metrics = scene.weir.metrics();
    assert_eq!(metrics.sum("weir_influx_writes_refused_total", &[("reason", "memory")]), 6.0);
    assert_eq!(refused, 6);
    drop(held);
    wait::until("it is given back", wait::LONG, || taken(&scene.weir, "bodies") == 0.0);
    let whole = vec![b'#'; 4 << 20];
    assert_eq!(scene.weir.send(&Request::post("/write?db=db", whole)).status(), 204);
}

#[test]
fn many_small_beginnings_count_together() {
    let scene = Scene::with(|setup| setup.default_segments().influx(LIMITS));
    let mut held: Vec<TcpStream> = Vec::new();
    // More than there is, none more than a short write.
    for _ in 0..400 {
        let mut stream = TcpStream::connect(scene.weir.http).unwrap();
        stream.write_all(&unfinished(50_000)).unwrap();
        held.push(stream);
    }
    wait::until("there is no more", wait::LONG, || {
        let metrics = scene.weir.metrics();
        metrics.sum("weir_influx_writes_refused_total", &[("reason", "memory")]) > 0.0
    });
    let most = taken(&scene.weir, "bodies");
    assert!(most > 15e6 && most <= f64::from(16 << 20), "{most}");
    scene.write_one_by_one(0, 10);
}

#[test]
fn a_body_that_begins_fast_and_then_trickles_is_cut_off() {
    let timeouts = "[influx.timeouts]\nbody = \"2s\"";
    let scene = Scene::with(|setup| setup.default_segments().table(timeouts));
    let body = unfinished(20_000_000);
    let mut stream = TcpStream::connect(scene.weir.http).unwrap();
    stream.write_all(&body[..19_000_000]).unwrap();
    // By what it brought at first it could go on like this for ten hours.
    wait::until("the connection is cut off", wait::LONG, || {
        std::thread::sleep(Duration::from_millis(200));
        stream.write_all(b"#").is_err()
    });
    let slow = scene.weir.metrics().sum("weir_connections_slow_total", &[("phase", "body")]);
    assert_eq!(slow, 1.0);
}

/// Asks for a large answer and reads none of it.
fn ask_and_do_not_read(weir: &Weir) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&weir.http.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    let request = Request::get("/query?db=db&q=SELECT+*+FROM+load");
    stream.write_all(&request.encode()).unwrap();
    stream
}

#[test]
fn answers_that_nobody_reads_take_little_memory() {
    let setup = Setup::new().default_segments().embedded().influx("answers-memory = \"8MiB\"");
    let weir = setup.table("[influx.timeouts]\nwrite = \"3s\"").start();
    weir.send(&Request::query("CREATE DATABASE db", &[]));
    let text = "x".repeat(1_000);
    for part in 0..10 {
        let line = |n: u64| format!("load v=\"{text}\" {}\n", 1_600_000_000 + part * 2_000 + n);
        let lines: String = (0..2_000).map(line).collect();
        let answer = weir.send(&Request::post("/write?db=db&precision=s", lines));
        assert_eq!(answer.status(), 204, "{}", answer.text());
    }
    let unread: Vec<TcpStream> = (0..30).map(|_| ask_and_do_not_read(&weir)).collect();
    wait::until("answers are begun", wait::LONG, || taken(&weir, "answers") > 0.0);
    wait::until("a query is answered", wait::LONG, || {
        let answer = weir.send(&Request::get("/query?db=db&q=SELECT+count(v)+FROM+load"));
        assert!(matches!(answer.status(), 200 | 503), "{}", answer.text());
        assert_eq!(answer.status() == 503, answer.header("retry-after").is_some());
        answer.text().contains("20000")
    });
    assert!(taken(&weir, "answers") <= f64::from(16 << 20), "{}", taken(&weir, "answers"));
    drop(unread);
    wait::until("all is given back", wait::LONG, || taken(&weir, "answers") == 0.0);
    let answer = weir.send(&Request::get("/query?db=db&q=SELECT+*+FROM+load"));
    assert_eq!(answer.text().matches(&text).count(), 20_000);
}

#[test]
fn an_answer_larger_than_the_memory_of_all_is_read_to_its_end() {
    let weir =
        Setup::new().default_segments().embedded().influx("answers-memory = \"1KiB\"").start();
    weir.send(&Request::query("CREATE DATABASE db", &[]));
    let lines: String = (0..100_000).map(point).collect();
    assert_eq!(weir.send(&Request::post("/write?db=db", lines)).status(), 204);
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let address = weir.http;
            std::thread::spawn(move || {
                let request = Request::get("/query?db=db&q=SELECT+*+FROM+load");
                rig::http::send(address, &request).unwrap().json()
            })
        })
        .collect();
    for reader in readers {
        let answer = reader.join().unwrap();
        let rows = answer["results"][0]["series"][0]["values"].as_array().unwrap().len();
        assert_eq!(rows, 100_000);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_small_body_that_unfolds_to_much_holds_no_worker() {
    let scene = Scene::with(Setup::default_segments);
    let comments = vec![b'#'; 90 << 20];
    let lines = "m v=1 1\n".repeat(1 << 20);
    let bodies = [
        (gzip(&comments), 204),
        (gzip(lines.as_bytes()), 204),
        // Nothing, many times.
        (gzip(b"").repeat(3_000), 204),
        (gzip(b"").repeat(1_000_000), 204),
        (gzip(&[b'x'; 2 << 20]), 400),
        (gzip(&vec![b'#'; 110 << 20]), 413),
    ];
    let address = scene.weir.http;
    let senders = bodies.map(|(body, expected)| {
        std::thread::spawn(move || {
            let request = Request::post("/write?db=db", body).header("Content-Encoding", "gzip");
            let answer = rig::http::send(address, &request).unwrap();
            assert_eq!(answer.status(), expected, "{}", answer.text());
        })
    });
    scene.write_one_by_one(0, 50);
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    assert_eq!(scene.weir.held(), 0.0);
    assert_eq!(taken(&scene.weir, "bodies"), 0.0);
}

#[test]
fn large_writes_and_queries_hold_no_worker() {
    for setup in [Setup::new().default_segments().embedded(), Setup::new().default_segments()] {
        let fake = rig::fake::Fake::start("a", &["db"]);
        let weir = setup.backend("a", &fake.url()).start();
        weir.send(&Request::query("CREATE DATABASE db", &[]));
        let written = points(0, 50_000);
        assert_eq!(weir.send(&Request::post("/write?db=db", written)).status(), 204);
        let bad = format!("{}no line\n", points(50_000, 30_000));
        assert_eq!(weir.send(&Request::post("/write?db=db", bad)).status(), 400);
        let long = format!("SHOW DATABASES -- {}", "x".repeat(2 << 20));
        assert_eq!(weir.send(&Request::query(&long, &[])).status(), 200);
        let many = "SHOW DATABASES;".repeat(20_000);
        assert_eq!(weir.send(&Request::query(&many, &[])).status(), 200);
        let unread = "SELECT (".repeat(100_000);
        // A fake takes it for a query.
        let answer = weir.send(&Request::query(&unread, &[("db", "db")]));
        assert!(matches!(answer.status(), 200 | 400), "{}", answer.text());
        let params = format!("{{\"a\":\"{}\"}}", "y".repeat(2 << 20));
        let answer = weir.send(&Request::query("SHOW DATABASES", &[("params", &params)]));
        assert_eq!(answer.status(), 200);
        assert_eq!(weir.held(), 0.0);
        weir.wait_delivered();
        assert_points(&fake, 0, 80_000);
    }
}

#[test]
fn many_compressed_writes_at_once_have_their_turns() {
    let scene = Scene::with(Setup::default_segments);
    let mut clients: Vec<Connection> =
        (0..60).map(|_| Connection::open(scene.weir.http).unwrap()).collect();
    for round in 0..3 {
        for (number, client) in (0..).zip(&mut clients) {
            let first = (round * 60 + number) * 100;
            let request = Request::post("/write?db=db", gzip(points(first, 100).as_bytes()));
            client.push(&request.header("Content-Encoding", "gzip").encode()).unwrap();
        }
        for client in &mut clients {
            assert_eq!(client.answer(false).unwrap().status(), 204);
        }
    }
    // Some go while what they have sent waits.
    for client in &mut clients {
        let request = Request::post("/write?db=db", gzip(points(0, 100).as_bytes()));
        client.push(&request.header("Content-Encoding", "gzip").encode()).unwrap();
    }
    drop(clients);
    scene.write_one_by_one(18_000, 10);
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 18_010);
}
