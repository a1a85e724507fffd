//! `weir redis restore`: a server with what a master had at a time.

use std::fs;
use std::process::Output;

use rig::redis::Redis;
use rig::wait;
use tempfile::TempDir;

use super::scene::{Scene, digest, master, offset, wait_loaded};

fn restore(scene: &Scene, to: &TempDir, more: &[&str]) -> Output {
    let (dir, to) = (scene.dir(), to.path().join("restored"));
    let args = ["redis", "restore", dir.to_str().unwrap(), "--to", to.to_str().unwrap()];
    scene.weir.command(&[&args, more].concat())
}

/// A server started from what was restored.
fn started(scene: &Scene, more: &[&str]) -> (Redis, TempDir) {
    let to = rig::places::directory();
    let output = restore(scene, &to, more);
    assert!(output.status.success(), "{output:?}");
    let dir = to.path().join("restored");
    let args = ["--appendonly", "yes", "--aof-load-truncated", "no", "--dir"];
    let server = master(&[&args[..], &[dir.to_str().unwrap()]].concat());
    wait_loaded(&server);
    (server, to)
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

fn wait_for_the_next_second() -> u64 {
    let before = now();
    wait::until("a second has passed", wait::LONG, || now() > before);
    before
}

fn at(second: u64) -> String {
    let nanos = i64::try_from(second * 1_000_000_000).unwrap();
    wire::influxql::rfc3339_short(nanos)
}

#[test]
fn what_a_master_had_at_a_second_and_at_an_offset_is_restored() {
    let mut master = master(&["--repl-diskless-sync-delay", "0"]);
    let lines = "increment-size = \"1MiB\"\naccept-keys = 0";
    let mut scene = Scene::new(&master.url(), lines, "");
    let mut client = master.client();
    client.line("SELECT 3");
    client.line("SET first 1");
    scene.wait_caught_up(&master);
    let mut had = Vec::new();
    let filler = "f".repeat(400_000);
    for round in 0..3 {
        client.send(b"MULTI\r\nINCR a\r\nINCR b\r\nEXEC\r\n");
        (0..4).for_each(|_| drop(client.hear()));
        for _ in 0..3 {
            client.ask(&["SET", &format!("filler{round}"), &filler]);
        }
        assert_eq!(client.line("WAIT 1 60000"), ":1");
        let offset = offset(&mut client);
        had.push((wait_for_the_next_second(), offset, digest(&master)));
    }
    client.line("INCR a");
    scene.wait_caught_up(&master);
    // A generation later, the one before is still to be had.
    master.kill();
    master.start_again();
    master.client().line("SET after 1");
    scene.wait_link_to(&master);
    // It is pinned where Weir was there before the write: that master came back with nothing.
    let names = ["generation.1.manifest", "pinned.1.manifest"];
    let former = names.into_iter().find(|name| scene.append_dir().join(name).exists());
    let former = former.expect("the generation before is there");
    for (second, offset, digest_then) in &had {
        for more in [at(*second), format!("offset:{offset}")] {
            // Offsets are those of a history.
            let is_offset = more.starts_with("offset");
            let of = ["--at", &more, "--generation", former];
            let (server, _dir) = started(&scene, if is_offset { &of } else { &of[..2] });
            assert_eq!(digest(&server), *digest_then, "{more}");
        }
    }
    // Within a transaction it is cut before that, for any offset.
    let (_, whole, _) = had[0];
    let later = format!("offset:{}", whole + 40);
    let (server, _dir) = started(&scene, &["--at", &later, "--generation", former]);
    assert_eq!(digest(&server), had[0].2, "{later}");
    let (server, _dir) = started(&scene, &["--at", "latest"]);
    assert_eq!(digest(&server), digest(&master));
    // What was being written when all died is left out.
    scene.weir.kill();
    let path = scene.last_increment();
    let mut content = fs::read(&path).unwrap();
    content.extend(b"*3\r\n$3\r\nSET\r\n$4\r\ntorn");
    fs::write(&path, content).unwrap();
    let (server, _dir) = started(&scene, &["--at", "latest"]);
    assert_eq!(digest(&server), digest(&master));
}

#[test]
fn nothing_is_restored_over_something_nor_from_what_is_damaged() {
    let master = master(&["--repl-diskless-sync-delay", "0"]);
    let mut scene = Scene::new(&master.url(), "", "");
    let mut client = master.client();
    scene.wait_caught_up(&master);
    for n in 0..30 {
        client.line(&format!("SET k{n} v{n}"));
        if n % 10 == 0 {
            assert_eq!(client.line("WAIT 1 60000"), ":1");
        }
    }
    scene.wait_caught_up(&master);
    scene.weir.kill();
    let to = rig::places::directory();
    let output = restore(&scene, &to, &["--at", "1999-12-31T23:59:59Z"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no generation begins so early"), "{said}");
    assert_eq!(restore(&scene, &to, &["--at", "noon"]).status.code(), Some(2));
    let output = restore(&scene, &to, &["--at", "latest", "--generation", "other.manifest"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no generation is called other.manifest"), "{said}");
    let path = scene.last_increment();
    let whole = fs::read(&path).unwrap();
    let mut bad = whole.clone();
    let at = bad.windows(3).position(|part| part == b"v15").unwrap();
    bad[at] = b'w';
    fs::write(&path, &bad).unwrap();
    let output = restore(&scene, &to, &["--at", "latest"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("DAMAGED"), "{said}");
    // What it says to do works.
    let (_, sound) = said.split_once("--at ").unwrap();
    let sound = sound.split_whitespace().next().unwrap();
    let (server, _dir) = started(&scene, &["--at", sound]);
    let mut restored = server.client();
    assert_eq!(restored.line("EXISTS k0"), ":1");
    assert_eq!(restored.line("EXISTS k29"), ":0");
    fs::write(&path, &whole).unwrap();
    fs::create_dir_all(to.path().join("restored/other")).unwrap();
    let output = restore(&scene, &to, &["--at", "latest"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("is not empty"), "{said}");
}
