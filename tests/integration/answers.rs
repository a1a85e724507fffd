//! One table of requests, sent to a real InfluxDB and to Weir in front of another: status, headers
//! that matter and bodies are compared. Where Weir differs on purpose the table says why.

mod table;

use rig::http::{Connection, Message, Request};
use rig::influxd::Influxd;
use rig::weir::Setup;

use table::{Expected, Row};

/// Headers whose value must be the same.
const SAME: [&str; 6] = [
    "content-type",
    "x-influxdb-error",
    "www-authenticate",
    "access-control-allow-origin",
    "access-control-allow-methods",
    "access-control-allow-headers",
];
/// Headers that must be on both or on neither.
const PRESENT: [&str; 4] = ["x-influxdb-version", "x-influxdb-build", "request-id", "x-request-id"];

/// What is compared of an answer.
fn shown(answer: &Message) -> String {
    let mut text = format!("{}\n", answer.status());
    for name in SAME {
        // What an empty body would be if there were one.
        let matters = name != "content-type" || !answer.body.is_empty();
        if let Some(value) = answer.header(name).filter(|_| matters) {
            text.push_str(&format!("{name}: {value}\n"));
        }
    }
    for name in PRESENT {
        text.push_str(&format!("{name} is there: {}\n", answer.header(name).is_some()));
    }
    text.push_str(&answer.text());
    text
}

fn ask(address: std::net::SocketAddr, request: &Request) -> Message {
    Connection::open(address).unwrap().send(request).unwrap_or_default()
}

/// Compares one row; gives what is wrong.
fn compare(row: &Row, theirs: &Message, ours: &Message) -> Option<String> {
    let name = format!("{} {} {:?}", row.request.method, row.request.target, row.request.headers);
    match &row.expected {
        Expected::Same => {
            let (theirs, ours) = (shown(theirs), shown(ours));
            (theirs != ours).then(|| format!("{name}\n-- InfluxDB\n{theirs}\n-- Weir\n{ours}"))
        }
        Expected::SameStatus(reason) => (theirs.status() != ours.status()).then(|| {
            let (theirs, ours) = (theirs.status(), ours.status());
            format!("{name}: {theirs} and {ours}; only the status must agree: {reason}")
        }),
        Expected::Instead { status, contains, reason } => {
            let good = ours.status() == *status && shown(ours).contains(contains);
            (!good).then(|| {
                format!("{name}: not {status} with {contains:?} ({reason})\n{}", shown(ours))
            })
        }
    }
}

#[test]
fn every_request_is_answered_as_influxdb_answers_it() {
    let (reference, backend) = (Influxd::start(), Influxd::start());
    for server in [&reference, &backend] {
        server.create("db");
        let policy = "CREATE RETENTION POLICY \"p\" ON \"db\" DURATION INF REPLICATION 1";
        server.ask(policy, &[]);
    }
    // Its version is part of every answer's headers and of /ping.
    let weir = Setup::new().influx("version = \"1.8.10\"").backend("a", &backend.url()).start();
    weir.wait_catalogue();
    let mut wrong = Vec::new();
    for row in table::rows() {
        let theirs = ask(reference.address, &row.request);
        let ours = ask(weir.http, &row.request);
        wrong.extend(compare(&row, &theirs, &ours));
        // What was written is to be there when it is read.
        weir.wait_delivered();
    }
    let count = wrong.len();
    assert!(wrong.is_empty(), "{count} rows differ\n\n{}", wrong.join("\n\n"));
}

#[test]
fn a_request_id_is_echoed() {
    let scene = crate::scene::Scene::new();
    for name in ["Request-Id", "X-Request-Id"] {
        let request = Request::get("/ping").header(name, "my-own-id");
        let answer = scene.weir.send(&request);
        assert_eq!(answer.header("request-id"), Some("my-own-id"), "{name}");
        assert_eq!(answer.header("x-request-id"), Some("my-own-id"), "{name}");
    }
    let ids: Vec<_> = (0..3)
        .map(|_| scene.weir.send(&Request::get("/ping")).header("request-id").map(str::to_owned))
        .collect();
    assert!(ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
}

/// An answer's bytes but for what is never the same twice.
fn steady(answer: &Message) -> String {
    let mut text = format!("{}\n", answer.start);
    for (name, value) in &answer.headers {
        let changes = name == "date" || name.ends_with("request-id");
        text.push_str(&format!("{name}: {}\n", if changes { "..." } else { value }));
    }
    text + &answer.text()
}

#[test]
fn a_plain_write_is_answered_as_one_that_goes_the_long_way() {
    let scene = crate::scene::Scene::new();
    let writes = [
        ("/write?db=db", "m v=1 1"),
        ("/write?db=db", "m v=1 1\nno line protocol\nm v=2 2"),
        ("/write?db=db", "m,time=x v=1"),
        ("/write?db=db", ""),
        ("/write?db=db&precision=x", "m v=1 1"),
        ("/write?db=db&consistency=x", "m v=1 1"),
        ("/write?db=db&rp=none", "m v=1 1"),
        ("/write?db=none", "m v=1 1"),
        ("/write", "m v=1 1"),
        ("/api/v2/write?bucket=db/autogen&precision=s", "m v=1 1"),
        ("/api/v2/write?bucket=/autogen", "m v=1 1"),
    ];
    for (target, body) in writes {
        let plain = Request::post(target, body);
        // Says nothing that matters here, and is not plain.
        let special = plain.clone().header("TE", "trailers");
        let (plain, special) = (ask(scene.weir.http, &plain), ask(scene.weir.http, &special));
        assert_eq!(steady(&plain), steady(&special), "{target} {body:?}");
        assert_ne!(plain.status(), 0, "{target} {body:?}");
    }
}

#[test]
fn a_connection_goes_on_after_what_is_not_plain() {
    let scene = crate::scene::Scene::new();
    let mut connection = Connection::open(scene.weir.http).unwrap();
    let plain = |n: u64| Request::post("/write?db=db", crate::scene::point(n));
    let mut pieces = plain(1).encode();
    let rest = pieces.split_off(pieces.len() - 5);
    connection.push(&plain(0).encode()).unwrap();
    assert_eq!(connection.answer(false).unwrap().status(), 204);
    // A body that comes in two pieces: meanwhile another client is served.
    connection.push(&pieces).unwrap();
    assert_eq!(scene.weir.send(&Request::get("/ping")).status(), 204);
    connection.push(&rest).unwrap();
    assert_eq!(connection.answer(false).unwrap().status(), 204);
    assert_eq!(connection.send(&Request::get("/ping")).unwrap().status(), 204);
    assert_eq!(connection.send(&plain(2)).unwrap().status(), 204);
    scene.weir.wait_delivered();
    crate::scene::assert_points(&scene.a, 0, 3);
}
