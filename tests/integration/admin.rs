//! The admin port with TLS and logins, as its clients and `weir status` meet it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rig::http::{Message, Request};
use rig::places;
use rig::tls::Certificate;
use rig::wait;
use rig::weir::{Setup, Weir};

use crate::users::hash;

/// A Weir whose admin port speaks TLS and knows ann, an administrator, bob and a token.
fn encrypted() -> (Certificate, Weir) {
    let certificate = Certificate::new();
    let mut weir = Setup::new().embedded().prepare();
    let (file, key) = certificate.write(&weir.dir());
    let hash = hash("secret");
    let user = |name: &str, more: &str| {
        format!("[[admin.user]]\nname = \"{name}\"\npassword = \"{hash}\"\n{more}\n")
    };
    let tls = format!("tls = {{ certificate = {file:?}, key = {key:?} }}");
    let users = user("ann", "admin = true") + &user("bob", "");
    weir.configure(|setup| setup.admin(&format!("token = \"tok\"\n{tls}\n{users}")));
    weir.start_unready();
    wait::until("it is ready", wait::LONG, || weir.command(&["status"]).status.success());
    (certificate, weir)
}

#[test]
fn an_encrypted_admin_port_lets_in_users_a_token_and_weir_status() {
    let (certificate, weir) = encrypted();
    let ask = |path: &str, shown: &str| -> Message {
        let request = Request::get(path);
        let request = match shown {
            "" => request,
            shown => request.header("Authorization", shown),
        };
        certificate.connect(weir.admin).unwrap().send(&request).unwrap()
    };
    let basic = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
    assert_eq!(ask("/health", "").status(), 200);
    assert_eq!(ask("/ready", "").status(), 200);
    for path in ["/", "/metrics", "/status"] {
        assert_eq!(ask(path, "").status(), 401, "{path}");
        assert_eq!(ask(path, &basic("bob:secret")).status(), 200, "{path}");
        assert_eq!(ask(path, "Bearer tok").status(), 200, "{path}");
    }
    let profile = "/debug/pprof/profile?seconds=1";
    assert_eq!(ask(profile, &basic("bob:secret")).status(), 403);
    assert_eq!(ask(profile, &basic("ann:secret")).status(), 200);
    let begun = std::time::Instant::now();
    assert_eq!(ask("/status", &basic("ann:guess")).status(), 401);
    assert!(begun.elapsed().as_millis() >= 250, "a wrong password is told late");
    weir.wait_log("a login failed");
    assert!(!weir.log().contains("guess"), "{}", weir.log());

    let file = |name: &str, text: &str| {
        let path = weir.dir().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let ca = weir.dir().join("certificate.pem").display().to_string();
    let token = file("token", "tok\n");
    let (password, wrong) = (file("password", "secret\n"), file("wrong", "other\n"));
    let admin = format!("https://localhost:{}", weir.admin.port());
    let with = |more: &[&str]| {
        let mut args = vec!["status", "--admin", &admin, "--ca", &ca];
        args.extend(more);
        weir.command(&args)
    };
    assert!(with(&["--token-file", &token]).status.success());
    assert!(with(&["--user", "bob", "--password-file", &password]).status.success());
    let refused = with(&["--token-file", &wrong]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("401") && words.contains("--token-file"), "{words}");
}

#[test]
fn a_reload_renews_the_certificate_and_a_wrong_one_is_refused_and_shown() {
    let (_, mut weir) = encrypted();
    let certificate = weir.dir().join("certificate.pem");
    let before = std::fs::read(&certificate).unwrap();
    std::fs::write(&certificate, "no certificate").unwrap();
    weir.reload();
    weir.wait_log("not reloaded");
    // `weir status` takes the file's certificate alone, and Weir shows another one.
    let elsewhere = places::directory();
    let (strangers, _) = Certificate::new().write(elsewhere.path());
    std::fs::copy(strangers, &certificate).unwrap();
    let refused = weir.command(&["status"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("certificate"), "{words}");
    std::fs::write(&certificate, before).unwrap();
    let shown = weir.must_run(&["status"]);
    assert!(shown.contains("RELOAD REFUSED"), "{shown}");
    weir.reload();
    weir.wait_log("the configuration was reloaded");
    assert!(!weir.must_run(&["status"]).contains("RELOAD REFUSED"));
}

#[test]
fn a_page_by_a_strangers_name_reads_nothing() {
    let weir = Setup::new().embedded().start();
    for path in ["/", "/status", "/metrics"] {
        let asked = |host: &str| {
            let request = Request::get(path).header("Host", host);
            rig::http::send(weir.admin, &request).unwrap().status()
        };
        assert_eq!(asked("rebound.example:8088"), 403, "{path}");
        assert_eq!(asked("localhost:8088"), 200, "{path}");
    }
}

#[test]
fn the_status_shows_which_clients_move_bytes_and_wait_and_how_much_the_store_has() {
    let weir = Setup::new().embedded().influx("auto-create-database = true").start();
    let mut busy = rig::http::Connection::open(weir.http).unwrap();
    let body = crate::scene::point(1).repeat(1000);
    let clients =
        || weir.ask_admin("/status").json()["clients"].as_array().cloned().unwrap_or_default();
    wait::until("its bytes are counted", wait::LONG, || {
        assert_eq!(busy.send(&Request::post("/write?db=db", body.as_str())).unwrap().status(), 204);
        clients().iter().any(|of| of["bytes_per_second"].as_f64() > Some(body.len() as f64 / 2.0))
    });
    let mut waits = rig::http::Connection::open(weir.http).unwrap();
    waits.push(b"POST /write?db=db HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n").unwrap();
    wait::until("it waits", wait::LONG, || {
        clients().iter().any(|of| of["waiting_seconds"].as_f64() > Some(1.0))
    });
    let client = clients().into_iter().next().unwrap_or_default();
    assert_eq!((&client["gateway"], &client["user"]), (&"influx".into(), &serde_json::Value::Null));
    assert!(client["address"].as_str().is_some_and(|of| of.starts_with("127.0.0.1:")), "{client}");
    let store = &weir.ask_admin("/status").json()["influx"]["store"];
    assert!(store["series"] == 1 && store["queries"] == 0, "{store}");
    assert!(store["memory_bytes"].as_u64() > Some(0), "{store}");
}
