//! Reading goes to a backend that has everything, and fails over before the first byte.

use rig::fake::{Fake, Mode};
use rig::http::Request;
use rig::influxd::Influxd;
use rig::wait;
use rig::weir::{Setup, Weir};

use crate::scene::{Scene, points};

fn who(weir: &Weir) -> (u16, String) {
    let answer = weir.query("SELECT v FROM load", &[("db", "db")]);
    let name = answer.json()["results"][0]["series"][0]["values"][0][0].clone();
    (answer.status(), name.as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_backend_that_is_down_is_not_asked() {
    let mut scene = Scene::new();
    scene.a.take_down();
    assert_eq!(who(&scene.weir), (200, "b".to_owned()));
    scene.a.bring_up();
    scene.b.take_down();
    assert_eq!(who(&scene.weir), (200, "a".to_owned()));
    scene.a.take_down();
    let answer = scene.weir.query("SELECT v FROM load", &[("db", "db")]);
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert!(answer.header("retry-after").is_some());
}

#[test]
fn a_backend_that_fails_is_passed_over_before_the_first_byte() {
    for fault in [Mode::Reset, Mode::Garbage, Mode::error(503, "no")] {
        let scene = Scene::new();
        scene.a.set_queries(fault.clone());
        assert_eq!(who(&scene.weir), (200, "b".to_owned()), "{fault:?}");
    }
}

#[test]
fn a_backend_that_lags_is_asked_last_and_the_answer_says_how_far_behind() {
    let mut scene = Scene::new();
    scene.a.set(Mode::error(500, "no"));
    scene.write_one_by_one(0, 20);
    wait::until("the other has everything", wait::LONG, || scene.weir.account("b").waiting == 0);
    // For a moment it is not known to lag; then it is asked no more.
    wait::until("only the other is asked", wait::LONG, || {
        (0..5).all(|_| who(&scene.weir) == (200, "b".to_owned()))
    });
    scene.b.take_down();
    // It must be seen to lag for a moment before it can be said for how long.
    wait::until("the answer names the lag", wait::LONG, || {
        let answer = scene.weir.query("SELECT v FROM load", &[("db", "db")]);
        let behind = answer.header("x-weir-behind").and_then(|text| text.parse::<f64>().ok());
        answer.status() == 200 && behind.is_some_and(|seconds| seconds > 0.0)
    });
}

#[test]
fn large_and_chunked_answers_are_passed_on_byte_for_byte() {
    let server = Influxd::start();
    server.create("db");
    let weir = Setup::new().backend("a", &server.url()).start();
    weir.must_write("db", &points(0, 50_000));
    weir.wait_delivered();
    let q = "SELECT * FROM load";
    let forms: [&[(&str, &str)]; 4] = [
        &[("db", "db")],
        &[("db", "db"), ("chunked", "true"), ("chunk_size", "1000")],
        &[("db", "db"), ("epoch", "ms")],
        &[("db", "db"), ("pretty", "true")],
    ];
    for form in forms {
        let request = Request::query(q, form);
        let (ours, theirs) = (weir.send(&request), server.send(&request));
        assert_eq!(ours.status(), theirs.status());
        assert!(ours.body == theirs.body, "{form:?}: the same {} bytes", theirs.body.len());
        assert_eq!(ours.header("content-type"), theirs.header("content-type"));
    }
    let request = Request::query(q, &[("db", "db")]).header("Accept", "application/csv");
    let (ours, theirs) = (weir.send(&request), server.send(&request));
    assert!(ours.body == theirs.body && ours.text().starts_with("name,tags,time"));
}

#[test]
fn a_slow_query_does_not_hold_up_writes() {
    let mut a = Fake::start("a", &["db"]);
    let weir = Setup::new().backend("a", &a.url()).start();
    a.set_queries(Mode::Slow(wait::LONG));
    let http = weir.http;
    let query = Request::query("SELECT v FROM load", &[("db", "db")]);
    let asked = std::thread::spawn(move || rig::http::send(http, &query).unwrap().status());
    for n in 0..20 {
        weir.must_write("db", &crate::scene::point(n));
    }
    assert!(!asked.is_finished(), "nobody has answered it");
    a.take_down();
    assert_ne!(asked.join().unwrap(), 200);
}
