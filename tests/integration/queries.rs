//! Reading goes to a backend that has everything, and fails over before the first byte.

use rig::fake::{Fake, Mode};
use rig::http::{Connection, Message, Request};
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

/// Of an answer that has only begun.
const FIRST: &str = "{\"results\":[{\"statement_id\":0,";

/// A query whose answer begins at `a` and goes on with `rest` when another mode is set.
fn begun(rest: Option<&str>) -> (Scene, Connection, Message) {
    let scene = Scene::new();
    scene.b.set_queries(Mode::error(503, "no"));
    scene.a.set_queries(Mode::Parts(FIRST.to_owned(), rest.map(str::to_owned)));
    let mut connection = Connection::open(scene.weir.http).unwrap();
    let query = Request::query("SELECT v FROM load", &[("db", "db")]);
    connection.push(&query.encode()).unwrap();
    let mut answer = connection.head().unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.header("x-weir-backend"), Some("a"), "{answer:?}");
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"), "{answer:?}");
    while answer.body.len() < FIRST.len() {
        assert!(connection.chunk(&mut answer.body).unwrap(), "no end: {}", answer.text());
    }
    assert_eq!(answer.text(), FIRST);
    (scene, connection, answer)
}

#[test]
fn what_a_backend_has_answered_is_there_before_the_rest() {
    let rest = "\"series\":[]}]}\n";
    let (scene, mut connection, mut answer) = begun(Some(rest));
    scene.a.set_queries(Mode::Accept);
    while connection.chunk(&mut answer.body).unwrap() {}
    assert_eq!(answer.text(), format!("{FIRST}{rest}"));
    assert_eq!(connection.send(&Request::get("/ping")).unwrap().status(), 204, "it ended well");
}

#[test]
fn an_answer_that_a_backend_breaks_off_does_not_end_well() {
    let (scene, mut connection, mut answer) = begun(None);
    scene.a.set_queries(Mode::Accept);
    let end = connection.chunk(&mut answer.body);
    assert!(end.is_err(), "neither more nor a good end: {end:?} {}", answer.text());
    assert!(connection.is_closed());
    assert_eq!(who(&scene.weir), (200, "a".to_owned()), "the next one is answered");
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

#[test]
fn a_read_beside_a_change_is_answered_to_who_takes_gzip_or_csv() {
    let server = Influxd::start();
    server.create("db");
    let weir = Setup::new().backend("a", &server.url()).start();
    weir.must_write("db", &points(0, 5_000));
    weir.wait_delivered();
    let q = "SELECT v FROM load; CREATE DATABASE other; SELECT count(v) FROM load";
    for (name, value) in [("Accept-Encoding", "gzip"), ("Accept", "application/csv")] {
        let asked = Request::query(q, &[("db", "db")]).header(name, value);
        let answer = weir.send(&asked);
        let compressed = answer.header("content-encoding") == Some("gzip");
        assert_eq!(compressed, name == "Accept-Encoding", "{}", answer.text());
        let mut text = answer.text();
        if compressed {
            text.clear();
            let mut unfolding = flate2::read::GzDecoder::new(&answer.body[..]);
            std::io::Read::read_to_string(&mut unfolding, &mut text).unwrap();
        }
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(document["results"][0]["error"].is_null(), "{name}: {}", document["results"][0]);
        let count = &document["results"][2]["series"][0]["values"][0][1];
        assert_eq!(count, 5_000, "{name}: {text}");
    }
}

#[test]
fn a_backend_that_compresses_does_so_only_for_clients_that_take_it() {
    let server = Influxd::start();
    server.create("db");
    let weir = Setup::new().backend("a", &server.url()).start();
    weir.must_write("db", &points(0, 5_000));
    weir.wait_delivered();
    let asked = Request::query("SELECT v FROM load", &[("db", "db")]);
    // InfluxDB looks for the word alone, and compresses for both.
    for (accepts, encoding) in [("gzip;q=0.3", Some("gzip")), ("gzip;q=0", None)] {
        let answer = weir.send(&asked.clone().header("Accept-Encoding", accepts));
        assert_eq!(answer.header("content-encoding"), encoding, "{accepts}");
        assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
    }
}
