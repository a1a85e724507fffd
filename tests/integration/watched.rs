//! What an operator sees: metrics, readiness, profiles and the log.

use std::process::Command;
use std::time::{Duration, Instant};

use rig::fake::Mode;
use rig::wait;
use rig::weir::Setup;
use rig::{http, places};

use crate::scene::{Scene, points};

#[test]
fn every_metric_has_its_help_and_its_name_follows_the_rule() {
    let scene = Scene::new();
    scene.write_one_by_one(0, 10);
    scene.weir.wait_delivered();
    let scrape = scene.weir.metrics();
    assert!(scrape.samples.len() > 20);
    for sample in &scrape.samples {
        let name = &sample.name;
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let helped = |name: &str| scrape.helped.iter().any(|helped| helped == name);
        assert!(helped(name) || family.is_some_and(helped), "{name} has no help");
        assert!(name.starts_with("weir_") || name.starts_with("process_"), "{name}");
    }
    assert_eq!(scrape.sum("weir_influx_points_accepted_total", &[]), 10.0);
    let stages = ["parse", "journal", "all"];
    for stage in stages {
        let count = scrape.sum("weir_influx_write_seconds_count", &[("stage", stage)]);
        assert_eq!(count, 10.0, "{stage}");
    }
}

#[test]
fn points_are_accepted_once_whichever_way_they_came_in() {
    let udp = "[[influx.udp]]\nlisten = \"{udp}\"\ndatabase = \"db\"";
    let weir = Setup::new().default_segments().embedded().table(udp).start();
    assert_eq!(weir.query("CREATE DATABASE db", &[]).status(), 200);
    let accepted = || weir.metrics().sum("weir_influx_points_accepted_total", &[]);
    let write =
        |body: &str| weir.send(&http::Request::post("/write?db=db", body.as_bytes())).status();
    assert_eq!((write(&points(0, 10)), accepted()), (204, 10.0));
    // More than a worker reads by itself.
    assert_eq!((write(&points(0, 50_000)), accepted()), (204, 50_010.0));
    // One of two is of another type than its field.
    assert_eq!((write("t v=1 1"), write("t v=2i 2\nt v=3 3")), (204, 400));
    assert_eq!((write("no line"), accepted()), (400, 50_012.0));
    assert_eq!(weir.query("SELECT v INTO copied FROM t", &[("db", "db")]).status(), 200);
    assert_eq!(accepted(), 50_014.0);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(points(0, 3).as_bytes(), weir.udp).unwrap();
    wait::until("the datagram is taken", wait::LONG, || accepted() == 50_017.0);
}

#[test]
fn each_batch_is_in_the_latencies_of_its_backend() {
    let scene = Scene::new();
    scene.b.set(Mode::Slow(Duration::from_millis(200)));
    scene.weir.must_write("db", &points(0, 10));
    scene.weir.wait_delivered();
    let scrape = scene.weir.metrics();
    let batches = |name: &str, backend: &str, what: &str| {
        let name = format!("weir_influx_delivery_{name}_seconds_{what}");
        scrape.sum(&name, &[("backend", backend)])
    };
    for backend in ["a", "b"] {
        assert_eq!(batches("queue_age", backend, "count"), 1.0);
        assert_eq!(batches("request", backend, "count"), 1.0);
        assert!(batches("queue_age", backend, "sum") > 0.0);
    }
    assert!(batches("request", "b", "sum") >= 0.2, "its answer took so long");
}

#[test]
fn the_admin_port_answers_health_and_readiness() {
    let scene = Scene::new();
    for (target, status) in [("/health", 200), ("/ready", 200), ("/", 200), ("/nothing", 404)] {
        assert_eq!(scene.weir.ask_admin(target).status(), status, "{target}");
    }
    let post = http::Request::post("/metrics", "x");
    assert_eq!(http::send(scene.weir.admin, &post).unwrap().status(), 405);
}

/// A profile of two seconds in which it takes writes.
pub fn profile_under_load(scene: &Scene) -> http::Message {
    let admin = scene.weir.admin;
    let profile = std::thread::spawn(move || {
        let request = http::Request::get("/debug/pprof/profile?seconds=2");
        http::send(admin, &request).unwrap()
    });
    while !profile.is_finished() {
        scene.write_one_by_one(0, 50);
    }
    let profile = profile.join().unwrap();
    assert_eq!(profile.status(), 200, "{}", profile.text());
    profile
}

#[test]
fn a_profile_can_be_read_by_go_tool_pprof() {
    let scene = Scene::new();
    let profile = profile_under_load(&scene);
    assert_eq!(profile.body[..2], [0x1f, 0x8b], "gzip, as pprof has it");
    let Some(go) = places::find("go") else {
        println!("go is absent: the profile was not read by go tool pprof");
        return;
    };
    let dir = places::directory();
    let file = dir.path().join("profile.pb.gz");
    std::fs::write(&file, &profile.body).unwrap();
    let output = Command::new(go).args(["tool", "pprof", "-top"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("flat%"), "{said}");
}

#[test]
fn an_error_that_repeats_is_logged_once_and_then_counted() {
    let scene = Scene::new();
    let begun = Instant::now();
    scene.b.set(Mode::error(500, "engine is closed"));
    scene.write_one_by_one(0, 10);
    wait::until("it was tried often", wait::LONG, || scene.b.requests() > 6);
    scene.weir.wait_log("engine is closed");
    let mut log = scene.weir.log();
    // The last line may be half written.
    log.truncate(log.rfind('\n').map_or(0, |end| end + 1));
    let lines = log.lines().filter(|line| line.contains("engine is closed")).count();
    // Each ten seconds one more says how often it came again.
    let most = 3 + begun.elapsed().as_secs() as usize / 10;
    assert!((1..=most).contains(&lines), "{lines} lines:\n{log}");
    for line in log.lines() {
        let json: Result<serde_json::Value, _> = serde_json::from_str(line);
        assert!(json.is_ok(), "a line is a document: {line}");
    }
}
