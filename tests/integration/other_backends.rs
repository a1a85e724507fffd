//! Backends that are not InfluxDB 1.x.

use std::process::Command;

use rig::fake::{Event, Fake, Mode};
use rig::http::{self, Request};
use rig::process::Process;
use rig::wait;
use rig::weir::Setup;
use rig::{places, status::Account};

use crate::scene::{assert_points, point, points};

#[test]
fn victoria_metrics_receives_the_points() {
    let dir = places::directory();
    let address = places::free_address();
    let mut command = Command::new(places::need("victoria-metrics"));
    command.arg(format!("-storageDataPath={}", dir.path().join("data").display()));
    command.arg(format!("-httpListenAddr={address}"));
    command.arg("-retentionPeriod=100y");
    let mut process = Process::start("victoria-metrics", &mut command, &dir.path().join("log"));
    process.wait_ready(|| {
        http::send(address, &Request::get("/health")).is_ok_and(|answer| answer.status() == 200)
    });
    let weir = Setup::new()
        .backend_with("vm", &format!("http://{address}"), "kind = \"victoria-metrics\"")
        .start();
    let now_ms = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let lines: String =
        (0..100).map(|n| format!("load,host=h v={n} {}\n", (now_ms - n) * 1_000_000)).collect();
    weir.must_write("db", &lines);
    weir.wait_delivered();
    assert!(weir.accounts().iter().all(Account::adds_up));
    wait::until("the points can be read there", wait::LONG, || {
        let _ = http::send(address, &Request::get("/internal/force_flush"));
        let export = http::send(address, &Request::get("/api/v1/export?match[]=load_v")).unwrap();
        let json = export.json();
        json["values"].as_array().is_some_and(|values| values.len() == 100)
    });
}

fn influxdb2() -> (Fake, rig::weir::Weir) {
    let fake = Fake::start("two", &["db/autogen", "db"]);
    let lines = "kind = \"influxdb2\"\norg = \"weir\"\ntoken = \"secret\"";
    let weir = Setup::new().backend_with("two", &fake.url(), lines).start();
    (fake, weir)
}

#[test]
fn influxdb_2_receives_the_points_with_organization_and_token() {
    let (fake, weir) = influxdb2();
    weir.must_write("db", &points(0, 100));
    weir.wait_delivered();
    assert_points(&fake, 0, 100);
    let events = fake.events();
    let Some(Event::Write { target, authorization, .. }) = events.first() else {
        panic!("{events:?}");
    };
    assert!(target.starts_with("/api/v2/write?"), "{target}");
    assert!(target.contains("org=weir") && target.contains("bucket=db"), "{target}");
    assert_eq!(authorization.as_deref(), Some("Token secret"));
}

#[test]
fn influxdb_2_says_partial_write_with_422() {
    let (fake, weir) = influxdb2();
    let body = serde_json::json!({
        "code": "unprocessable entity",
        "message": "failure writing points to database: partial write: points beyond retention \
                    policy dropped=1",
    });
    fake.set(Mode::Answer { status: 422, headers: Vec::new(), body: body.to_string() });
    weir.must_write("db", &point(0));
    weir.wait_delivered();
    assert_eq!(weir.account("two").dead_lettered, 1);
}

#[test]
fn a_missing_mapping_of_influxdb_2_stops_the_backend_and_keeps_the_points() {
    let (fake, weir) = influxdb2();
    let body = r#"{"code":"not found","message":"bucket \"db\" not found"}"#;
    let mode = Mode::Answer { status: 404, headers: Vec::new(), body: body.to_owned() };
    fake.set(mode);
    weir.must_write("db", &point(0));
    wait::until("the status names the bucket", wait::LONG, || {
        weir.account("two").last_error.contains("bucket")
    });
    let account = weir.account("two");
    assert_eq!((account.waiting, account.dead_lettered), (1, 0));
    fake.set(Mode::Accept);
    weir.wait_delivered();
    assert_points(&fake, 0, 1);
}

#[test]
fn influxdb_3_names_the_bad_lines_and_all_others_arrive() {
    let (fake, weir) = influxdb2();
    fake.set(Mode::Numbered("poison".to_owned()));
    // Two in one batch, and one that begins and one that ends its batch.
    for (first, bad) in [(0, vec![7, 50]), (100, vec![0]), (200, vec![100])] {
        let mut lines: Vec<String> = (first..first + 100).map(point).collect();
        for at in bad {
            lines.insert(at, format!("load,host=h v=\"poison {first} {at}\" {at}\n"));
        }
        weir.must_write("db", &lines.concat());
        weir.wait_delivered();
    }
    assert_points(&fake, 0, 300);
    let account = weir.account("two");
    assert_eq!((account.dead_lettered, account.delivered), (4, 300), "{account:?}");
    assert!(account.adds_up(), "{account:?}");
    let shown = weir.must_run(&["dead-letters", "show", "two"]);
    assert_eq!(shown.matches("v=\"poison ").count(), 4, "{shown}");
    assert!(shown.contains("invalid column type for column 'v'"), "in its own words: {shown}");
    // The batch, the lines it named alone, and the rest: no search.
    assert_eq!(fake.sizes(), [102, 2, 100, 101, 1, 100, 101, 1, 100]);
}
