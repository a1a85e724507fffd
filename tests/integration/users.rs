//! Who may write and query.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rig::http::{Connection, Request};
use rig::places;
use rig::weir::Setup;

use crate::hostile_clients::resident_kib;
use crate::scene::{Scene, assert_points, point};

/// What goes into the file for a password, by the command an operator uses.
pub fn hash(password: &str) -> String {
    let mut child = Command::new(places::weir())
        .arg("hash-password")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(password.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub fn user(name: &str, password: &str, rights: &str) -> String {
    format!("[[influx.user]]\nname = \"{name}\"\npassword = \"{}\"\n{rights}\n", hash(password))
}

fn scene() -> Scene {
    let users = user("root", "toor", "admin = true")
        + &user("writer", "w", "read = []\nwrite = [\"db\"]")
        + &user("reader", "r", "read = [\"db\"]\nwrite = []");
    Scene::with(|setup| setup.table(&users))
}

#[test]
fn credentials_are_taken_in_all_of_influxdbs_ways() {
    let scene = scene();
    let write = |query: &str| Request::post(&format!("/write?db=db{query}"), point(0));
    let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
    let table = [
        (write(""), 401, "unable to parse authentication credentials"),
        (write("&u=writer&p=w"), 204, ""),
        (write("&u=writer&p=wrong"), 401, "authorization failed"),
        (write("&u=nobody&p=w"), 401, "authorization failed"),
        (write("").header("Authorization", &basic("writer:w")), 204, ""),
        (write("").header("Authorization", &basic("writer:x")), 401, "authorization failed"),
        (write("").header("Authorization", "Token writer:w"), 204, ""),
        (write("").header("Authorization", "Token writer:x"), 401, "authorization failed"),
        (write("").header("Authorization", "Token writer"), 401, ""),
        (write("").header("Authorization", "Bearer abc"), 401, ""),
        (write("&u=writer&p=w").header("Authorization", &basic("writer:x")), 204, ""),
    ];
    for (request, status, words) in table {
        let answer = scene.weir.send(&request);
        let (target, headers) = (&request.target, &request.headers);
        assert_eq!(answer.status(), status, "{target} {headers:?}: {}", answer.text());
        assert!(answer.text().contains(words), "{target} {headers:?}: {}", answer.text());
        if status == 401 {
            assert_eq!(answer.header("www-authenticate"), Some("Basic realm=\"InfluxDB\""));
        }
    }
    assert_eq!(scene.weir.send(&Request::get("/ping")).status(), 204, "a ping needs none");
}

#[test]
fn what_tells_of_the_whole_server_is_for_administrators() {
    let users =
        user("root", "toor", "admin = true") + &user("ann", "a", "read = [\"mine\"]\nwrite = []");
    let weir = Setup::new().embedded().table(&users).start();
    let ask = |q: &str, who: &str| {
        let mut request = Request::query(q, &[("db", "mine")]);
        request.target = format!("/query?{who}");
        weir.send(&request)
    };
    let (root, ann) = ("u=root&p=toor", "u=ann&p=a");
    for db in ["mine", "theirs"] {
        assert_eq!(ask(&format!("CREATE DATABASE {db}"), root).status(), 200);
    }
    for what in [
        "SHARDS",
        "SHARD GROUPS",
        "STATS",
        "DIAGNOSTICS",
        "USERS",
        "GRANTS FOR root",
        "SUBSCRIPTIONS",
    ] {
        let q = format!("SHOW {what}");
        let refused = ask(&q, ann);
        let why = format!(
            "error authorizing query: ann not authorized: statement '{q}', requires admin privilege"
        );
        assert_eq!((refused.status(), refused.json()["error"].as_str()), (403, Some(&*why)));
        assert_eq!(ask(&q, root).status(), 200, "{q}");
        let behind = ask(&format!("SHOW MEASUREMENTS; {q}"), ann);
        assert_eq!(behind.status(), 403, "{q} behind another statement");
    }
    for q in ["SHOW DATABASES", "SHOW CONTINUOUS QUERIES"] {
        let (anns, roots) = (ask(q, ann), ask(q, root));
        assert!(anns.text().contains("mine") && !anns.text().contains("theirs"), "{q}");
        assert!(roots.text().contains("theirs"), "{q}");
    }
}

#[test]
fn rights_are_those_of_the_file() {
    let scene = scene();
    let write = |user: &str| Request::post(&format!("/write?db=db&{user}"), point(0));
    let query = |q: &str, user: &str| {
        let mut request = Request::query(q, &[("db", "db")]);
        request.target = format!("/query?{user}");
        request
    };
    let (root, writer, reader) = ("u=root&p=toor", "u=writer&p=w", "u=reader&p=r");
    let select = "SELECT v FROM load";
    for (request, status) in [
        (write(root), 204),
        (write(writer), 204),
        (write(reader), 403),
        (query(select, root), 200),
        (query(select, reader), 200),
        (query(select, writer), 403),
        (query("DELETE FROM load", reader), 403),
        (query("SELECT v INTO other FROM load", reader), 403),
        (query("CREATE DATABASE other", writer), 403),
        (query("CREATE DATABASE other", root), 200),
        (query("SELECT v FROM other..load", reader), 403),
        (query(select, "u=reader&p=wrong"), 401),
    ] {
        let answer = scene.weir.send(&request);
        let what = format!("{} {}", request.target, String::from_utf8_lossy(&request.body));
        assert_eq!(answer.status(), status, "{what}: {}", answer.text());
    }
}

#[test]
fn a_first_log_in_does_not_wait_behind_strangers() {
    const STRANGERS: usize = 150;
    let mut scene = scene();
    let address = scene.weir.http;
    let before = resident_kib(scene.weir.running().id());
    let told = Arc::new(AtomicUsize::new(0));
    let strangers: Vec<_> = (0..STRANGERS)
        .map(|number| {
            let told = Arc::clone(&told);
            // Some of them guess at a user's password.
            let name = if number % 5 == 0 { "reader" } else { "nobody" };
            let target = format!("/write?db=db&u={name}&p=guess{number}");
            let mut connection = Connection::open(address).unwrap();
            connection.push(&Request::post(&target, point(1)).encode()).unwrap();
            std::thread::spawn(move || {
                assert_eq!(connection.answer(false).unwrap().status(), 401);
                told.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    let first = Request::post("/write?db=db&u=writer&p=w", point(0));
    assert_eq!(scene.weir.send(&first).status(), 204);
    let told_before = told.load(Ordering::SeqCst);
    assert!(told_before < STRANGERS / 2, "{told_before} strangers were told before");
    strangers.into_iter().for_each(|stranger| stranger.join().unwrap());
    let grown = resident_kib(scene.weir.running().id()).saturating_sub(before);
    assert!(grown < 100 << 10, "{grown} KiB more than before");
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 1);
}

#[test]
fn no_password_of_a_client_is_kept_or_passed_on() {
    let scene = scene();
    let request = Request::post("/write?db=db&u=root&p=toor", point(0));
    assert_eq!(scene.weir.send(&request).status(), 204);
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 1);
    for entry in std::fs::read_dir(scene.weir.journal_dir()).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        assert!(!bytes.windows(4).any(|window| window == b"toor"), "{:?}", entry.path());
    }
    assert!(!scene.weir.log().contains("toor"));
    assert!(!format!("{:?}", scene.a.events()).contains("toor"));
}
