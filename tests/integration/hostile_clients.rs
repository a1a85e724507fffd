//! Clients that are slow, broken, greedy or malicious.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use rand::RngCore as _;
use rig::http::{Connection, Request};
use rig::weir::Setup;
use rig::{chance, places, wait};

use crate::scene::{Scene, assert_points, point, points};

/// Memory of a process that belongs to no file.
pub fn resident_kib(pid: u32) -> u64 {
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
    let mut scene =
        Scene::with(|s| s.default_segments().influx("max-decompressed-size = \"10MiB\""));
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
    let scene = Scene::with(Setup::default_segments);
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
    let mut random = chance::draws();
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
fn a_head_without_end_hears_431() {
    let scene = Scene::new();
    let field = format!("X-Long: {}\r\n", "x".repeat(8 << 10));
    for begin in ["GET /ping HTTP/1.1\r\n", "POST /write?db=db HTTP/1.1\r\n"] {
        let mut connection = Connection::open(scene.weir.http).unwrap();
        connection.push(begin.as_bytes()).unwrap();
        for _ in 0..100 {
            connection.push(field.as_bytes()).unwrap();
        }
        assert_eq!(connection.answer(false).unwrap().status(), 431);
        assert!(connection.is_closed());
    }
    assert_eq!(scene.weir.send(&Request::get("/ping")).status(), 204);
}

#[test]
fn a_url_that_is_too_long_hears_431_or_414_and_another_client_nothing() {
    for (lines, length, wanted) in [
        ("", 70_000, 431),
        ("max-header-size = \"128KiB\"", 65_000, 200),
        ("max-header-size = \"128KiB\"", 66_000, 414),
    ] {
        let scene = Scene::with(|setup| setup.influx(lines));
        let query = format!("/query?q=SHOW+DATABASES+--+{}", "x".repeat(length));
        let mut connection = Connection::open(scene.weir.http).unwrap();
        connection.push(&Request::get(&query).encode()).unwrap();
        assert_eq!(connection.answer(false).unwrap().status(), wanted, "{lines:?} {length}");
        assert!(wanted == 200 || connection.is_closed(), "{lines:?} {length}");
        assert_eq!(scene.weir.send(&Request::get("/ping")).status(), 204);
    }
}

#[test]
fn a_malformed_head_hears_400_whatever_is_behind_it() {
    let scene = Scene::new();
    let heads = [
        "GET\r\n\r\n",
        "GET /ping HTTP/9.9\r\n\r\n",
        "GET /ping HTTP/1.1\r\nno colon\r\n\r\n",
        "G\u{1}T /ping HTTP/1.1\r\n\r\n",
        "POST /write?db=db HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "POST /write?db=db HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2} a greeting of TLS",
    ];
    for head in heads {
        for behind in [0, 10, 1 << 20] {
            let mut connection = Connection::open(scene.weir.http).unwrap();
            let bytes = [head.as_bytes(), &vec![b'x'; behind]].concat();
            connection.push(&bytes).unwrap();
            let answer = connection.answer(false);
            let status = answer.as_ref().map(rig::http::Message::status);
            assert!(matches!(status, Ok(400)), "{head:?} and {behind} bytes: {answer:?}");
            assert!(connection.is_closed());
        }
    }
}

#[test]
fn a_refusal_is_heard_though_the_body_was_not_read() {
    let scene = Scene::with(|setup| setup.influx("max-body-size = \"1MiB\""));
    for _ in 0..20 {
        let mut connection = Connection::open(scene.weir.http).unwrap();
        let request = Request::post("/write?db=db", vec![b'#'; 4 << 20]);
        connection.push(&request.encode()).unwrap();
        assert_eq!(connection.answer(false).unwrap().status(), 413);
        assert!(connection.is_closed());
    }
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

#[test]
fn a_web_page_of_another_origin_can_neither_write_nor_query() {
    let scene = Scene::with(|setup| setup.influx("cors = \"https://grafana.example.com\""));
    let own = format!("http://{}", scene.weir.http);
    let from = |request: &Request, origin: &str| {
        let host = scene.weir.http.to_string();
        let request = request.clone().header("Host", &host).header("Origin", origin);
        let answer = scene.weir.send(&request);
        let allowed = answer.header("access-control-allow-origin").map(str::to_owned);
        (answer.status(), allowed)
    };
    // As a form of a page sends it, which a browser asks nobody about.
    let text = |request: Request| request.header("Content-Type", "text/plain");
    let requests = [
        (text(Request::post("/write?db=db", point(0))), 204),
        (text(Request::post("/api/v2/write?bucket=db", point(0))), 204),
        (Request::query("SHOW DATABASES", &[]), 200),
        (Request::get("/query?q=SHOW+DATABASES"), 200),
        (Request::new("OPTIONS", "/write"), 200),
        (Request::new("OPTIONS", "/query"), 200),
    ];
    for (request, good) in &requests {
        let target = &request.target;
        for allowed in [&*own, "https://grafana.example.com"] {
            assert_eq!(from(request, allowed), (*good, Some(allowed.to_owned())), "{target}");
        }
        for foreign in ["http://evil.example.com", "null", "http://127.0.0.1:1"] {
            assert_eq!(from(request, foreign), (403, None), "{target} {foreign}");
        }
    }
    // What changes nothing is answered, and no page can read it.
    for target in ["/ping", "/health", "/ready"] {
        let (status, allowed) = from(&Request::get(target), "http://evil.example.com");
        assert!(status < 300 && allowed.is_none(), "{target}: {status} {allowed:?}");
    }
    let link = Request::get("/query?q=CREATE+DATABASE+x").header("Sec-Fetch-Site", "cross-site");
    assert_eq!(scene.weir.send(&link).status(), 403);
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 1);
}
