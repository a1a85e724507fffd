//! Writers that overwrite each other: seen whatever way their points come, and never changed.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use flate2::Compression;
use flate2::write::GzEncoder;
use rig::fake::{Fake, Mode};
use rig::http::{Connection, Request};
use rig::tls::Certificate;
use rig::wait;
use rig::weir::{Setup, Weir};
use serde_json::Value;

use crate::scene::Scene;
use crate::users;

/// Points of one default policy are of one destination once it is known which that is.
fn scene(change: impl FnOnce(Setup) -> Setup) -> Scene {
    let scene = Scene::with(change);
    scene.weir.wait_catalogue();
    scene
}

/// A connection from an address of this machine's own.
fn host(weir: &Weir, number: u8) -> Connection {
    Connection::open_from(IpAddr::from([127, 0, 0, number]), weir.http).unwrap()
}

fn send(connection: &mut Connection, request: &Request) {
    let answer = connection.send(request).unwrap();
    assert_eq!(answer.status(), 204, "{}", answer.text());
}

fn post(lines: &str) -> Request {
    Request::post("/write?db=db", lines)
}

fn collisions(weir: &Weir) -> Value {
    let status = weir.ask_admin("/status").json();
    status["influx"]["collisions"].clone()
}

/// What is counted of the measurement `m`: points that overwrote, and that repeated others, by
/// hosts, connections, and within one.
fn counts(weir: &Weir) -> [[u64; 3]; 2] {
    let all = collisions(weir);
    let of = all["measurements"].as_array().unwrap().iter().find(|of| of["measurement"] == "m");
    let Some(of) = of else { return [[0; 3]; 2] };
    ["overwritten", "equal"].map(|outcome| {
        ["hosts", "connections", "self"].map(|between| of[outcome][between].as_u64().unwrap())
    })
}

#[track_caller]
fn assert_counts(weir: &Weir, expected: [[u64; 3]; 2]) {
    // A point whose bucket another worker holds is looked at a moment later.
    wait::until("they are counted", wait::LONG, || counts(weir) >= expected);
    assert_eq!(counts(weir), expected);
}

#[test]
fn each_way_in_is_seen_and_nothing_is_changed() {
    let scene = scene(|setup| {
        setup
            .top("workers = 2")
            .table("[[influx.udp]]\nlisten = \"{udp}\"\ndatabase = \"db\"\n")
            .influx("max-body-size = \"64MiB\"")
    });
    let weir = &scene.weir;
    let (mut a, mut b) = (host(weir, 2), host(weir, 3));
    send(&mut a, &post("m,t=1,u=2 f=1,g=1i 1\n"));
    // Tags in another order, a time in another unit, a body of the long way, gzip, 2.x, UDP.
    send(&mut b, &post("m,u=2,t=1 f=2 1\n"));
    assert_counts(weir, [[1, 0, 0], [0; 3]]);
    send(&mut a, &Request::post("/write?db=db&precision=s", "m f=1 1\n"));
    send(&mut b, &Request::post("/api/v2/write?bucket=db&precision=ms", "m f=1 1000\n"));
    assert_counts(weir, [[1, 0, 0], [1, 0, 0]]);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(b"m f=3 1000000000\n").unwrap();
    let zipped = Request::post("/write?db=db", gzip.finish().unwrap());
    send(&mut b, &zipped.header("Content-Encoding", "gzip"));
    assert_counts(weir, [[1, 0, 1], [1, 0, 0]]);
    send(&mut host(weir, 3), &post("m f=4 1000000000\n").header("Expect", "100-continue"));
    assert_counts(weir, [[1, 1, 1], [1, 0, 0]]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(weir.udp).unwrap();
    socket.send(b"m f=4 1000000000\nm f=4 1000000000").unwrap();
    assert_counts(weir, [[1, 1, 1], [2, 0, 1]]);
    // What a large body repeats within itself.
    let large: String = (0..40_000).map(|n| format!("n f={n} 1{:09}\n", n / 2)).collect();
    send(&mut a, &post(&large));
    let other = |of: &&Value| of["measurement"] == "n";
    let own = || {
        let all = collisions(weir);
        let of = all["measurements"].as_array().unwrap().iter().find(other).cloned();
        of.map_or(0, |of| of["overwritten"]["self"].as_u64().unwrap())
    };
    wait::until("the large body was looked at", wait::LONG, || own() == 20_000);
    weir.wait_delivered();
    let lines = scene.a.lines();
    assert_eq!(lines[0], "m,t=1,u=2 f=1,g=1i 1", "as it was sent");
    assert_eq!(lines[1], "m,u=2,t=1 f=2 1");
    let metrics = weir.metrics();
    let of = |outcome, between| {
        let labels =
            [("database", "db"), ("measurement", "m"), ("outcome", outcome), ("between", between)];
        metrics.sum("weir_influx_collisions_total", &labels)
    };
    assert_eq!((of("overwritten", "hosts"), of("equal", "hosts")), (1.0, 2.0));
    assert_eq!(metrics.sum("weir_influx_collisions_share", &[]), 1.0);
    let shown = weir.must_run(&["status"]);
    assert!(shown.contains("points overwritten"), "{shown}");
    assert!(shown.contains("stamp = { writer = "), "{shown}");
}

#[test]
fn what_merges_is_old_is_refused_or_is_read_again_is_none() {
    let mut scene =
        scene(|setup| setup.embedded().table("[influx.collisions]\nwindow = \"300ms\"\n"));
    let weir = &scene.weir;
    let (mut a, mut b) = (host(weir, 2), host(weir, 3));
    send(&mut a, &post("m,t=1 f=1 1600000000000000001\n"));
    send(&mut b, &post("m,t=1 g=1 1600000000000000001\n"));
    send(&mut b, &post("m,t=1 f=1 1600000000000000002\nm,t=2 f=1 1600000000000000001\n"));
    assert_counts(weir, [[0; 3]; 2]);
    std::thread::sleep(std::time::Duration::from_millis(400));
    send(&mut b, &post("m,t=1 f=2 1600000000000000001\n"));
    assert_counts(weir, [[0; 3]; 2]);
    // A conflict of types: the point is refused, and no trace of it stays.
    let refused = a.send(&post("m,t=1 f=3i 1600000000000000003\n")).unwrap();
    assert_eq!(refused.status(), 400, "{}", refused.text());
    send(&mut b, &post("m,t=1 f=4 1600000000000000003\n"));
    // Weir itself writes what INTO selects.
    let into = "SELECT * INTO n FROM m GROUP BY *";
    for _ in 0..2 {
        assert_eq!(weir.query(into, &[("db", "db")]).status(), 200);
    }
    assert_eq!(collisions(weir)["measurements"], serde_json::json!([]));
    scene.weir.kill();
    scene.weir.start_again();
    scene.weir.wait_delivered();
    assert_eq!(collisions(&scene.weir)["measurements"], serde_json::json!([]));
}

#[test]
fn a_delivery_that_is_tried_again_is_none_and_a_write_that_is_sent_again_is_one() {
    let scene = scene(|setup| setup);
    scene.a.set(Mode::error(503, "later"));
    let before = scene.a.requests();
    send(&mut host(&scene.weir, 2), &post("m f=1 1\n"));
    wait::until("it was tried again", wait::LONG, || scene.a.requests() > before + 2);
    scene.a.set(Mode::Accept);
    scene.weir.wait_delivered();
    assert_eq!(collisions(&scene.weir)["measurements"], serde_json::json!([]));
    send(&mut host(&scene.weir, 3), &post("m f=1 1\n"));
    assert_counts(&scene.weir, [[0; 3], [1, 0, 0]]);
}

#[test]
fn writers_over_tls_are_told_apart() {
    let (certificate, a) = (Certificate::new(), Fake::start("a", &["db"]));
    let mut weir = Setup::new().backend("a", &a.url()).prepare().with_tls();
    let (pem, key) = certificate.write(&weir.dir());
    let table = format!("[influx.tls]\ncertificate = {pem:?}\nkey = {key:?}");
    weir.configure(|setup| setup.table(&table));
    weir.start_again();
    let [mut one, mut two] = [0; 2].map(|_| certificate.connect(weir.http).unwrap());
    wait::until("the catalogue is known", wait::LONG, || {
        one.send(&Request::post("/write?db=nowhere", "")).is_ok_and(|it| it.status() == 404)
    });
    send(&mut one, &post("m f=1 1\n"));
    send(&mut two, &post("m f=2 1\nm f=2 1\n"));
    assert_counts(&weir, [[0, 1, 0], [0, 0, 1]]);
    let last = &collisions(&weir)["measurements"][0]["last_overwritten"];
    let of = |side: &str| (&last[side]["value"], last[side]["source"]["address"].as_str());
    let ((older, from), (newer, over)) = (of("older"), of("newer"));
    assert_eq!((older, newer), (&"1".into(), &"2".into()));
    assert!(from.is_some() && over.is_some() && from != over, "{last}");
}

#[test]
fn a_stamp_by_address_or_parameter_keeps_writers_apart() {
    for (stamp, tags) in [("peer", ["127.0.0.2", "127.0.0.3"]), ("parameter:injector", ["a", "b"])]
    {
        let mut scene = scene(|setup| setup);
        let write = |scene: &Scene, number: u8, injector: &str| {
            let target = format!("/write?db=db&injector={injector}");
            let request = Request::post(&target, "m f=1 1\n");
            host(&scene.weir, number).send(&request).unwrap().status()
        };
        assert_eq!((write(&scene, 2, "a"), write(&scene, 3, "b")), (204, 204));
        assert_counts(&scene.weir, [[0; 3], [1, 0, 0]]);
        scene.weir.configure(|setup| setup.influx(&format!("stamp = {{ writer = \"{stamp}\" }}")));
        scene.weir.reload();
        scene.weir.wait_log("was reloaded");
        assert_eq!((write(&scene, 2, "a"), write(&scene, 3, "b")), (204, 204));
        assert_counts(&scene.weir, [[0; 3], [1, 0, 0]]);
        scene.weir.wait_delivered();
        let mut expected = vec!["m f=1 1".to_owned(); 2];
        expected.extend(tags.map(|tag| format!("m,writer={tag} f=1 1")));
        assert_eq!(scene.a.lines(), expected);
    }
}

#[test]
fn a_parameter_that_cannot_be_a_tag_is_refused_and_an_empty_one_leaves_it_out() {
    let scene = scene(|setup| setup.influx("stamp = { run = \"parameter:run\" }"));
    let write = |query: &str| {
        let request = Request::post(&format!("/write?db=db{query}"), "m f=1 1\n");
        let answer = scene.weir.send(&request);
        (answer.status(), answer.text())
    };
    let (status, words) = write("&run=a%5Cb");
    assert_eq!(status, 400);
    assert!(words.contains("the stamp of this write cannot be made: the tag"), "{words}");
    assert_eq!(write("&run=").0, 204);
    assert_eq!(write("&run=x%20y").0, 204);
    scene.weir.wait_delivered();
    assert_eq!(scene.a.lines(), ["m f=1 1", "m,run=x\\ y f=1 1"]);
}

#[test]
fn where_there_are_users_values_are_shown_only_when_asked_for() {
    let both =
        users::user("ann", "a", "write = [\"db\"]") + &users::user("bob", "b", "write = [\"db\"]");
    for show in [false, true] {
        let scene = Scene::with(|setup| {
            let tables = format!("{both}[influx.collisions]\nshow-values = {show}\n");
            setup.influx("stamp = { by = \"user\", site = \"x\" }").table(&tables)
        });
        for (user, password, lines) in [
            // By it the database's default policy comes to be known.
            ("ann", "a", "other f=1 1\n"),
            ("ann", "a", "m,by=one f=1 1\nm f=1 1\n"),
            ("bob", "b", "m,by=one f=\"secret\" 1\nm f=2 1\n"),
        ] {
            let request = Request::post(&format!("/write?db=db&u={user}&p={password}"), lines);
            assert_eq!(scene.weir.send(&request).status(), 204);
        }
        assert_counts(&scene.weir, [[0, 1, 0], [0; 3]]);
        let last = &collisions(&scene.weir)["measurements"][0]["last_overwritten"];
        assert_eq!(last["series"], "m,by=one,site=x");
        assert_eq!(
            (&last["older"]["source"]["user"], &last["newer"]["source"]["user"]),
            (&"ann".into(), &"bob".into())
        );
        let (older, newer) = (last["older"]["value"].as_str(), last["newer"]["value"].as_str());
        match show {
            true => assert_eq!((older, newer), (Some("1"), Some("\"secret\""))),
            false => assert_eq!((older, newer), (None, None)),
        }
        scene.weir.wait_delivered();
        let lines = scene.a.lines();
        assert!(lines.contains(&"m,by=bob,site=x f=2 1".to_owned()), "{lines:?}");
        let told = scene.weir.ask_admin("/metrics").text() + &scene.weir.log();
        assert!(!told.contains("secret"), "no value is in the metrics or the log");
    }
}

#[test]
fn a_connection_that_changes_its_user_is_one_source_and_nobodys() {
    let both =
        users::user("ann", "a", "write = [\"db\"]") + &users::user("bob", "b", "write = [\"db\"]");
    let scene = Scene::with(|setup| setup.table(&both));
    let (mut one, mut two) = (host(&scene.weir, 2), host(&scene.weir, 3));
    let write = |connection: &mut Connection, login: &str, lines: &str| {
        send(connection, &Request::post(&format!("/write?db=db&{login}"), lines));
    };
    // By it the database's default policy comes to be known.
    write(&mut two, "u=ann&p=a", "other f=1 1\n");
    write(&mut one, "u=ann&p=a", "m f=1 1\n");
    write(&mut one, "u=bob&p=b", "m f=2 1\n");
    assert_counts(&scene.weir, [[0, 0, 1], [0; 3]]);
    let last = || collisions(&scene.weir)["measurements"][0]["last_overwritten"].clone();
    let user = |side: &str| last()[side]["source"]["user"].clone();
    assert_eq!((user("older"), user("newer")), (Value::Null, Value::Null), "{}", last());
    write(&mut two, "u=ann&p=a", "m f=3 1\n");
    assert_counts(&scene.weir, [[1, 0, 1], [0; 3]]);
    assert_eq!((user("older"), user("newer")), (Value::Null, "ann".into()), "{}", last());
}

#[test]
fn measurements_beyond_200_are_counted_together_and_one_called_other_by_itself() {
    let weir = Setup::new().embedded().start();
    for database in ["db", "other"] {
        let create = format!("CREATE DATABASE {database}");
        assert_eq!(weir.query(&create, &[]).status(), 200);
    }
    let mut connection = host(&weir, 2);
    let of = |database: &str, measurement: &str| {
        let labels = [("database", database), ("measurement", measurement)];
        let labels = [&labels[..], &[("outcome", "overwritten"), ("between", "self")]].concat();
        weir.metrics().sum("weir_influx_collisions_total", &labels)
    };
    let mut value = 0;
    wait::until("the default policy of the database is known", wait::LONG, || {
        value += 1;
        let probe = Request::post("/write?db=other", format!("probe f={value} 1\n"));
        send(&mut connection, &probe);
        of("other", "probe") > 0.0
    });
    for value in [1, 2] {
        let named = (0..198).map(|n| format!("m{n} f={value} 1\n"));
        let lines: String = named.chain([format!("other f={value} 1\n")]).collect();
        send(&mut connection, &Request::post("/write?db=other", lines));
    }
    wait::until("all are counted", wait::LONG, || of("other", "other") == 1.0);
    for value in [1, 2] {
        let lines: String = (0..50).map(|n| format!("late{n} f={value} 1\n")).collect();
        send(&mut connection, &post(&lines));
    }
    wait::until("the rest is counted", wait::LONG, || of("other", "") == 50.0);
    assert_eq!(of("other", "other"), 1.0, "it is a measurement of its own");
    let status = collisions(&weir);
    let measurements = status["measurements"].as_array().unwrap();
    assert_eq!(measurements.len(), 201);
    let shown = weir.must_run(&["status"]);
    assert!(shown.contains("and 191 measurements more"), "{shown}");
}

#[test]
fn detection_may_be_turned_off() {
    let scene = scene(|setup| setup.table("[influx.collisions]\nmemory = \"0\"\n"));
    for _ in 0..2 {
        scene.weir.must_write("db", "m f=1 1\n");
    }
    assert_eq!(collisions(&scene.weir), Value::Null);
    assert!(!scene.weir.metrics().has("weir_influx_collisions_share"));
}

/// Where every thread of `workers` takes connections, with two hosts that each write all points,
/// some of them the same.
#[test]
fn planted_collisions_are_found_each_and_no_other() {
    const POINTS: usize = 60_000;
    const BODY: usize = 200;
    const PLANTED_EACH: usize = 100;
    let scene = scene(|setup| setup.top("workers = 2"));
    let weir = &scene.weir;
    std::thread::scope(|scope| {
        for number in [2, 3] {
            scope.spawn(move || {
                let mut connections: Vec<_> = (0..4).map(|_| host(weir, number)).collect();
                for body in 0..POINTS / BODY {
                    let points = (body * BODY..(body + 1) * BODY).map(|n| {
                        let is_planted = n % PLANTED_EACH == 0;
                        let series =
                            if is_planted { "both".to_owned() } else { format!("h{number}") };
                        format!("m,host={series} f={number},g={n}i {}\n", 1_600_000_000 + n)
                    });
                    let lines: String = points.collect();
                    send(&mut connections[body % 4], &post(&lines));
                }
            });
        }
    });
    assert_counts(weir, [[(POINTS / PLANTED_EACH) as u64, 0, 0], [0; 3]]);
    let last = &collisions(weir)["measurements"][0]["last_overwritten"];
    let address = |side: &str| -> SocketAddr {
        last[side]["source"]["address"].as_str().unwrap().parse().unwrap()
    };
    let mut hosts = [address("older").ip(), address("newer").ip()];
    hosts.sort();
    assert_eq!(hosts, [2, 3].map(|n| IpAddr::from(Ipv4Addr::new(127, 0, 0, n))));
}
