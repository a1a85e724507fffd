//! Which databases and policies there are, and what happens when one is not.

use std::time::{Duration, Instant};

use rig::fake::{Event, Fake};
use rig::http::Request;
use rig::influxd::Influxd;
use rig::wait;
use rig::weir::Setup;

use crate::scene::{Scene, assert_points, point};

#[test]
fn an_unknown_database_is_a_404_as_influxdb_says_it() {
    let scene = Scene::new();
    scene.weir.wait_catalogue();
    let answer = scene.weir.write("nowhere", &point(0));
    assert_eq!(answer.text(), "{\"error\":\"database not found: \\\"nowhere\\\"\"}\n");
    let answer = scene.weir.send(&Request::post("/write?db=db&rp=none", point(0)));
    assert_eq!(answer.status(), 500);
    assert_eq!(answer.text(), "{\"error\":\"retention policy not found: none\"}\n");
}

#[test]
fn before_any_backend_was_ever_reached_every_name_is_taken() {
    let mut a = Fake::start("a", &["db"]);
    a.take_down();
    let weir = Setup::new().backend("a", &a.url()).start();
    weir.must_write("db", &point(0));
    a.bring_up();
    weir.wait_delivered();
    assert_points(&a, 0, 1);
}

#[test]
fn a_database_created_behind_weirs_back_is_found_before_the_404() {
    let a = Fake::start("a", &["db"]);
    let weir = Setup::new().backend("a", &a.url()).start();
    weir.wait_catalogue();
    let create = Request::query("CREATE DATABASE \"late\"", &[]);
    assert_eq!(rig::http::send(a.address, &create).unwrap().status(), 200);
    // Asked for at most once a second, and then known.
    wait::until("it is found", wait::LONG, || weir.write("late", &point(0)).status() == 204);
}

#[test]
fn unknown_names_have_the_backends_asked_once_a_second_at_most() {
    let a = Fake::start("a", &["db"]);
    let weir = Setup::new().backend("a", &a.url()).start();
    weir.wait_catalogue();
    let (begun, before) = (Instant::now(), a.listings());
    while begun.elapsed() < Duration::from_millis(1_500) {
        assert_eq!(weir.write("nowhere", &point(0)).status(), 404);
    }
    let (asked, seconds) = (a.listings() - before, begun.elapsed().as_secs());
    // One at once and one each second; beside them one every five seconds without a cause.
    let most = 1 + seconds + 1 + seconds / 5;
    assert!((1..=most).contains(&asked), "asked {asked} times in {seconds} s");
}

#[test]
fn the_catalogue_is_the_union_and_survives_a_restart_without_backends() {
    let (mut a, mut b) = (Fake::start("a", &["one"]), Fake::start("b", &["two"]));
    let mut weir = Setup::new().backend("a", &a.url()).backend("b", &b.url()).start();
    weir.wait_catalogue();
    // A backend that has not answered for a second is not waited for.
    for db in ["one", "two"] {
        wait::until("its backend has answered", wait::LONG, || weir.write(db, "").status() == 204);
    }
    weir.must_write("one", &point(1));
    weir.must_write("two", &point(2));
    weir.wait_delivered();
    for fake in [&a, &b] {
        assert_points(fake, 1, 2);
        assert!(fake.databases().iter().any(|db| db == "one"));
        assert!(fake.databases().iter().any(|db| db == "two"));
    }
    a.take_down();
    b.take_down();
    assert!(weir.terminate().success());
    weir.start_again();
    weir.must_write("one", &point(3));
    assert_eq!(weir.write("three", &point(0)).status(), 404, "the last answer is kept");
}

#[test]
fn a_default_policy_is_named_when_it_is_known() {
    let server = Influxd::start();
    server.create("db");
    let weir = Setup::new().backend("a", &server.url()).start();
    weir.must_write("db", &point(0));
    let policy = "CREATE RETENTION POLICY \"year\" ON \"db\" DURATION 52w REPLICATION 1 DEFAULT";
    let answer = weir.query(policy, &[("db", "db")]);
    assert_eq!(answer.json()["results"][0]["error"], serde_json::Value::Null, "{}", answer.text());
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    weir.must_write("db", &format!("load v=1i {now}\n"));
    weir.wait_delivered();
    let count = |policy: &str| {
        let q = format!("SELECT count(v) FROM \"{policy}\".load");
        server.ask(&q, &[("db", "db")])["results"][0]["series"][0]["values"][0][1].as_u64()
    };
    assert_eq!((count("autogen"), count("year")), (Some(1), Some(1)));
}

#[test]
fn a_policy_that_one_backend_lacks_is_created_there() {
    let (a, b) = (Influxd::start(), Influxd::start());
    a.create("db");
    a.ask("CREATE RETENTION POLICY \"long\" ON \"db\" DURATION 5200w REPLICATION 1", &[]);
    let weir = Setup::new().backend("a", &a.url()).backend("b", &b.url()).start();
    let request = || Request::post("/write?db=db&rp=long", point(0));
    wait::until("the policy is known", wait::LONG, || weir.send(&request()).status() == 204);
    weir.wait_delivered();
    let count = "SELECT count(v) FROM \"long\".load";
    let answer = b.ask(count, &[("db", "db")]);
    assert_eq!(answer["results"][0]["series"][0]["values"][0][1], 1, "{answer}");
    let policies = b.ask("SHOW RETENTION POLICIES ON \"db\"", &[]).to_string();
    assert!(
        policies.contains("long") && policies.contains("873600h"),
        "as on the other: {policies}"
    );
}

#[test]
fn nothing_else_is_sent_to_a_backend_than_was_asked_for() {
    let scene = Scene::new();
    scene.write_one_by_one(0, 10);
    scene.weir.wait_delivered();
    let changes = |event: &Event| matches!(event, Event::Statement { .. });
    assert!(!scene.a.events().iter().any(changes), "{:?}", scene.a.events());
}
