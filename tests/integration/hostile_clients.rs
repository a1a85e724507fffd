//! Clients that are slow, broken, greedy or malicious.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use rand::{RngCore, SeedableRng, rngs::StdRng};
use rig::http::{Connection, Request};
use rig::weir::Setup;
use rig::{places, wait};

use crate::scene::{Scene, assert_points, point, points};

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_slow_loris_is_cut_off_and_others_are_served() {
    let scene = Scene::with(|s| s.table("[influx.timeouts]\nheader = \"3s\"\nbody = \"3s\""));
    let mut in_head: Vec<Connection> = (0..50)
        .map(|_| {
            let mut connection = Connection::open(scene.weir.http).unwrap();
            connection.push(b"POST /write?db=db HTTP/1.1\r\nHo").unwrap();
            connection
        })
        .collect();
    let mut in_body = Connection::open(scene.weir.http).unwrap();
    in_body
        .push(b"POST /write?db=db HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nload v=")
        .unwrap();
    scene.write_one_by_one(0, 20);
    assert!(in_head.iter_mut().all(Connection::is_closed));
    assert!(in_body.is_closed());
    let metrics = scene.weir.metrics();
    let slow = |phase| metrics.sum("weir_connections_slow_total", &[("phase", phase)]);
    assert_eq!((slow("header"), slow("body")), (50.0, 1.0));
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 20);
}

#[test]
fn a_byte_at_a_time_is_still_too_slow() {
    let timeouts = "[influx.timeouts]\nheader = \"1s\"\nbody = \"1s\"\nbody-rate = 100000";
    let scene = Scene::with(|s| s.table(timeouts));
    let head = "POST /write?db=db HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n";
    for begin in ["", head] {
        let mut stream = TcpStream::connect(scene.weir.http).unwrap();
        stream.write_all(begin.as_bytes()).unwrap();
        let begun = Instant::now();
        wait::until("the connection is cut off", wait::LONG, || {
            stream.write_all(b"X").is_err() || stream.write_all(b"y").is_err()
        });
        assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    }
}

#[test]
fn a_gzip_bomb_costs_a_413_and_no_memory() {
    let mut scene = Scene::with(|s| s.influx("max-decompressed-size = \"10MiB\""));
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    let zeros = vec![0; 1 << 20];
    (0..200).for_each(|_| bomb.write_all(&zeros).unwrap());
    let bomb = bomb.finish().unwrap();
    let before = resident_kib(scene.weir.running().id());
    for _ in 0..5 {
        let request = Request::post("/write?db=db", bomb.clone());
        let answer = scene.weir.send(&request.header("Content-Encoding", "gzip"));
        assert_eq!(answer.status(), 413, "{}", answer.text());
    }
    let grown = resident_kib(scene.weir.running().id()).saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB more than before");
}

#[test]
fn half_a_request_leaves_nothing_behind() {
    let scene = Scene::new();
    let request = Request::post("/write?db=db", points(0, 10)).encode();
    for cut in [10, 60, request.len() - 100, request.len() - 1] {
        let mut connection = Connection::open(scene.weir.http).unwrap();
        connection.push(&request[..cut]).unwrap();
    }
    scene.write_one_by_one(100, 1);
    scene.weir.wait_delivered();
    assert_points(&scene.a, 100, 1);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let scene = Scene::new();
    let requests = [
        Request::post("/write?db=db", point(0)),
        Request::post("/write?db=db", "no line protocol"),
        Request::get("/ping?verbose=1"),
        Request::post("/write?db=db", point(1)),
        Request::post("/write", point(2)),
    ];
    let bytes: Vec<u8> = requests.iter().flat_map(Request::encode).collect();
    let mut connection = Connection::open(scene.weir.http).unwrap();
    connection.push(&bytes).unwrap();
    let statuses = requests.map(|_| connection.answer(false).unwrap().status());
    assert_eq!(statuses, [204, 400, 200, 204, 400]);
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 2);
}

#[test]
fn ten_thousand_idle_connections_disturb_nobody() {
    const IDLE: usize = 10_000;
    let allowed = places::raise_open_files();
    assert!(
        allowed > IDLE as u64 + 500,
        "only {allowed} open files are allowed: ulimit -Hn must be above 10,500 for this test"
    );
    let mut scene = Scene::new();
    let idle: Vec<TcpStream> =
        (0..IDLE).map(|_| TcpStream::connect(scene.weir.http).unwrap()).collect();
    scene.write_one_by_one(0, 100);
    let per_connection = resident_kib(scene.weir.running().id()) / IDLE as u64;
    assert!(per_connection < 32, "{per_connection} KiB for each idle connection");
    for mut stream in idle.into_iter().step_by(1_000) {
        stream.write_all(&Request::get("/ping").encode()).unwrap();
        assert_eq!(Connection::over(stream).answer(false).unwrap().status(), 204);
    }
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 100);
}

#[test]
fn one_connection_too_many_is_refused_in_words() {
    let scene = Scene::with(|setup| setup.influx("max-connections = 20"));
    let mut held: Vec<Connection> = (0..20)
        .map(|_| {
            let mut connection = Connection::open(scene.weir.http).unwrap();
            assert_eq!(connection.send(&Request::get("/ping")).unwrap().status(), 204);
            connection
        })
        .collect();
    let answer = Connection::open(scene.weir.http).unwrap().answer(false).unwrap();
    assert_eq!(answer.status(), 503, "{}", answer.start);
    held.pop();
    wait::until("there is room again", wait::LONG, || {
        rig::http::send(scene.weir.http, &Request::get("/ping")).is_ok_and(|a| a.status() == 204)
    });
}

#[test]
fn a_body_of_25_megabytes_is_taken_and_one_byte_more_is_not() {
    const MOST: usize = 25_000_000;
    let scene = Scene::new();
    let mut body = String::with_capacity(MOST);
    let mut count = 0;
    while body.len() + 200 < MOST {
        body.push_str(&point(count));
        count += 1;
    }
    body.push_str(&"#".repeat(MOST - body.len()));
    let answer = scene.weir.write("db", &body);
    assert_eq!(answer.status(), 204, "{}", answer.text());
    body.push('#');
    let answer = scene.weir.write("db", &body);
    assert_eq!((answer.status(), answer.text().as_str()), (413, TOO_LARGE));
    scene.weir.wait_delivered();
    assert_eq!(scene.a.distinct() as u64, count);
}

const TOO_LARGE: &str = "{\"error\":\"Request Entity Too Large\"}\n";

#[test]
fn random_bytes_are_refused_and_nothing_breaks() {
    let scene = Scene::new();
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut noise = vec![0; 64 << 10];
    for round in 0..200 {
        random.fill_bytes(&mut noise);
        let length = 1 + random.next_u32() as usize % noise.len();
        if round % 2 == 0 {
            let mut connection = Connection::open(scene.weir.http).unwrap();
            let _ = connection.push(&noise[..length]);
        } else {
            // Some noise is comments and blank lines only, which is a good write of nothing.
            let answer = scene.weir.send(&Request::post("/write?db=db", &noise[..length]));
            assert!(matches!(answer.status(), 204 | 400), "{}", answer.start);
        }
    }
    scene.write_one_by_one(0, 10);
    scene.weir.wait_delivered();
    let lines = scene.a.lines();
    assert!((0..10).all(|n| lines.iter().any(|line| line == point(n).trim_end())));
}

#[test]
fn a_head_without_end_is_refused() {
    let scene = Scene::new();
    let mut connection = Connection::open(scene.weir.http).unwrap();
    let field = format!("X-Long: {}\r\n", "x".repeat(8 << 10));
    let mut pushed = connection.push(b"GET /ping HTTP/1.1\r\n");
    for _ in 0..1_000 {
        pushed = pushed.and_then(|()| connection.push(field.as_bytes()));
    }
    if pushed.is_ok() {
        assert!(matches!(connection.answer(false).map(|a| a.status()), Ok(431) | Err(_)));
    }
    assert_eq!(scene.weir.send(&Request::get("/ping")).status(), 204);
}

#[test]
fn a_client_that_lets_its_line_swallow_the_next_harms_only_itself() {
    let (a, b) = (rig::fake::Fake::start("a", &["db"]), rig::fake::Fake::start("b", &["db"]));
    let weir = Setup::new().backend("a", &a.url()).backend("b", &b.url()).start();
    for bad in ["load v=\"open", "load,host=a\\", "load v=1 1\\"] {
        let answer = weir.write("db", bad);
        assert_eq!(answer.status(), 400, "{bad}: {}", answer.text());
        weir.must_write("db", &point(1));
    }
    weir.wait_delivered();
    assert_points(&a, 1, 1);
}
