//! `/debug/vars`, as programs that watch InfluxDB read it.

use rig::http::{Message, Request};
use rig::influxd::Influxd;
use rig::weir::{Setup, Weir};
use serde_json::Value;

use crate::scene::points;
use crate::users::user;

const LINES: &str = "cpu,host=a v=1 1\ncpu,host=b v=1 1\nmem,host=a v=1 1\nmem v=1 1\n";

fn vars(weir: &Weir, query: &str) -> Message {
    weir.send(&Request::get(&format!("/debug/vars{query}")))
}

/// The names of an object's members.
fn names(of: &Value) -> Vec<String> {
    of.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn what_watches_influxdb_finds_its_figures_in_weir() {
    let server = Influxd::start();
    let weir = Setup::new().embedded().start();
    let (write, create) =
        (Request::post("/write?db=db", LINES), Request::post("/query?q=CREATE+DATABASE+db", ""));
    for request in [create, write] {
        assert!(weir.send(&request).status() < 300 && server.send(&request).status() < 300);
    }
    assert_eq!(weir.query("SELECT v FROM cpu", &[("db", "db")]).status(), 200);
    assert_eq!(weir.query("SELECT", &[("db", "db")]).status(), 400);

    let answer = vars(&weir, "");
    assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
    let (ours, theirs) = (answer.json(), server.send(&Request::get("/debug/vars")).json());
    assert_eq!(names(&ours["system"]), names(&theirs["system"]));
    assert_eq!(ours["database:db"], theirs["database:db"], "the same measurements and series");
    for name in ["write", "queryExecutor", "runtime"] {
        assert_eq!(names(&ours[name]), names(&theirs[name]), "{name}");
        assert_eq!(ours[name]["tags"], theirs[name]["tags"], "{name}");
        for figure in names(&ours[name]["values"]) {
            assert!(theirs[name]["values"][&figure].is_number(), "InfluxDB has no {name}.{figure}");
        }
    }
    for figure in names(&ours["memstats"]) {
        assert!(theirs["memstats"][&figure].is_number(), "InfluxDB has no memstats.{figure}");
    }
    assert!(ours["memstats"]["Sys"].as_u64().is_some_and(|bytes| bytes > 1_000_000));

    let httpd = |of: &Value, address: &str| of[format!("httpd:{address}")].clone();
    let (our, their) =
        (httpd(&ours, &weir.http.to_string()), httpd(&theirs, &server.address.to_string()));
    for figure in names(&our["values"]) {
        assert!(their["values"][&figure].is_number(), "InfluxDB has no httpd.{figure}");
    }
    assert_eq!(our["tags"]["bind"], weir.http.to_string());
    assert_eq!(our["values"]["pointsWrittenOK"], their["values"]["pointsWrittenOK"]);
    assert_eq!(our["values"]["clientError"], 1);
    assert!(our["values"]["req"].as_u64().is_some_and(|answers| answers >= 4));
}

#[test]
fn figures_tell_nobody_what_is_not_theirs() {
    let users = user("root", "toor-of-root", "admin = true")
        + &user("narrow", "narrow-one", "read = [\"mine\"]\nwrite = []");
    let weir = Setup::new().embedded().table(&users).start();
    let root = "u=root&p=toor-of-root";
    for db in ["mine", "hidden"] {
        let made = Request::post(&format!("/query?q=CREATE+DATABASE+{db}&{root}"), "");
        assert_eq!(weir.send(&made).status(), 200);
    }
    assert_eq!(vars(&weir, "").status(), 401);
    assert_eq!(vars(&weir, "?u=narrow&p=wrong").status(), 401);
    let narrow = vars(&weir, "?u=narrow&p=narrow-one").text();
    assert!(narrow.contains("database:mine") && !narrow.contains("hidden"), "{narrow}");
    let all = vars(&weir, &format!("?{root}")).text();
    assert!(all.contains("database:mine") && all.contains("database:hidden"), "{all}");
    for secret in ["toor-of-root", "narrow-one", "argon2", "weir.toml"] {
        assert!(!all.contains(secret) && !narrow.contains(secret), "{secret} in {all}");
    }
}

#[test]
fn figures_without_a_store_are_those_of_the_front() {
    let server = Influxd::start();
    server.create("db");
    let weir = Setup::new().backend("a", &server.url()).start();
    weir.must_write("db", &points(0, 10));
    let ours = vars(&weir, "").json();
    assert_eq!(ours["write"]["values"]["pointReq"], 10);
    assert!(names(&ours).iter().all(|name| !name.starts_with("database:")), "{ours}");
    let refused = weir.send(&Request::post("/debug/vars", ""));
    assert_eq!((refused.status(), refused.header("allow")), (405, Some("GET")));
}
