//! Following, and starting a server from the files.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::Rng as _;
use rig::beside::EndGuard;
use rig::redis::{Redis, RedisClient};
use rig::tls::Certificate;
use rig::{chance, wait};

use super::scene::{Relay, Scene, digest, info, master};

/// Some of everything that goes through a stream.
fn write_some(client: &mut RedisClient, round: u32) {
    let value = format!("{round}-").repeat(500);
    let commands = [
        format!("SELECT {}", round % 3),
        format!("SET s{round} {value}"),
        "INCR n".to_owned(),
        "APPEND log x".to_owned(),
        format!("LPUSH list {round}"),
        format!("XADD stream * round {round}"),
        format!("SET gone{round} x PX 1"),
        format!("SET later{round} x EX 10000"),
    ];
    for command in &commands {
        let heard = client.line(command);
        assert!(!heard.starts_with('-'), "{command}: {heard}");
    }
    client.send(b"MULTI\r\nINCR t\r\nSELECT 5\r\nINCR t\r\nEXEC\r\n");
    (0..5).for_each(|_| drop(client.hear()));
    client.ask(&["EVAL", "redis.call('INCR','e') redis.call('SADD','set',ARGV[1])", "0", &value]);
}

/// The keys that differ, by database.
fn differing(one: &Redis, other: &Redis) -> Vec<String> {
    let (mut one, mut other) = (one.client(), other.client());
    let mut found = Vec::new();
    for database in 0..6 {
        let select = format!("SELECT {database}");
        let keys = [&mut one, &mut other].map(|client| {
            client.line(&select);
            client.line("KEYS *")
        });
        let keys = keys.iter().flat_map(|keys| keys.split(' ').skip(2).step_by(2));
        let keys: BTreeSet<String> = keys.map(Into::into).collect();
        for key in keys {
            let digests = [&mut one, &mut other]
                .map(|client| client.line(&format!("DEBUG DIGEST-VALUE {key}")));
            if digests[0] != digests[1] {
                found.push(format!("{database}: {key}: {digests:?}"));
            }
        }
        let sizes = [&mut one, &mut other].map(|client| client.line("DBSIZE"));
        if sizes[0] != sizes[1] {
            found.push(format!("{database}: {sizes:?}"));
        }
    }
    found
}

/// The data sets are one, with nothing expiring meanwhile.
fn assert_restored(scene: &Scene, master: &Redis) {
    let mut client = master.client();
    // A key that is past its time is still in the digest until somebody asks for it.
    for database in 0..3 {
        client.line(&format!("SELECT {database}"));
        wait::until("what was to expire has", wait::LONG, || {
            (0..100).all(|round| client.line(&format!("EXISTS gone{round}")) == ":0")
        });
    }
    scene.wait_caught_up(master);
    let wanted = digest(master);
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), wanted, "{:?}", differing(master, &restored));
    let (code, said) = scene.verify();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_server_started_from_the_files_has_what_the_master_had() {
    for diskless in ["yes", "no"] {
        let master = master(&["--repl-diskless-sync", diskless, "--repl-diskless-sync-delay", "0"]);
        let mut client = master.client();
        (0..20).for_each(|round| write_some(&mut client, round));
        let lines = "increment-size = \"1MiB\"";
        let mut scene = Scene::new(&master.url(), lines, "");
        scene.wait_caught_up(&master);
        (20..60).for_each(|round| write_some(&mut client, round));
        let large = "v".repeat(3 << 20);
        assert_eq!(client.ask(&["SET", "large", &large]), "+OK");
        (60..70).for_each(|round| write_some(&mut client, round));
        assert_eq!(client.line("WAIT 1 60000"), ":1");
        assert_restored(&scene, &master);
        let manifest = scene.append_dir().join("appendonly.aof.manifest");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        assert!(manifest.lines().count() > 3, "increments were closed: {manifest}");
        // A stop and a start take no new base.
        assert!(scene.weir.terminate().success());
        client.line("INCR while-away");
        scene.weir.start_again();
        assert_restored(&scene, &master);
        assert_eq!(info(&mut client, "stats", "sync_full"), "1");
    }
}

#[test]
fn it_joins_as_a_user_over_tls_and_says_what_is_wrong_until_it_may() {
    let certificate = Certificate::new();
    let dir = rig::places::directory();
    let (pem, key) = certificate.write(dir.path());
    let [pem, key] = [pem, key].map(|path| path.to_str().unwrap().to_owned());
    let port = rig::places::free_address().port().to_string();
    let args = [
        "--tls-port",
        &port,
        "--tls-cert-file",
        &pem,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &pem,
        "--tls-auth-clients",
        "no",
    ];
    let master = master(&args);
    let mut client = master.client();
    client.line("SET a 1");
    let url = format!("rediss://127.0.0.1:{port}");
    let user = format!("user = \"weir\"\npassword = \"geheim\"\nca = {pem:?}");
    let scene = Scene::new(&url, "", &user);
    wait::until("it says why not", wait::LONG, || {
        let trouble = scene.status()["trouble"].clone();
        trouble.as_str().is_some_and(|words| words.contains("WRONGPASS"))
    });
    client.line("ACL SETUSER weir on >geheim +psync +replconf +role");
    assert_restored(&scene, &master);
    // A base may be whole a moment before the link says that it follows.
    wait::until("nothing is wrong", wait::LONG, || scene.status()["trouble"].is_null());
    assert!(!scene.weir.log().contains("geheim"));
    assert_eq!(info(&mut client, "replication", "connected_slaves"), "1");
    assert!(scene.weir.must_run(&["status"]).contains("following"));
    let plan = scene.weir.must_run(&["check"]);
    assert!(plan.contains("its append-only file in"), "{plan}");
    let scrape = scene.weir.metrics();
    assert_eq!(scrape.sum("weir_redis_aof_following", &[("master", "m")]), 1.0);
}

#[test]
fn a_link_that_is_cut_again_and_again_loses_nothing_and_takes_no_new_base() {
    let master = master(&["--repl-backlog-size", "64mb"]);
    let relay = Relay::to(master.address);
    let scene = Scene::new(&format!("redis://{}", relay.address), "", "");
    scene.wait_caught_up(&master);
    let mut client = master.client();
    for round in 0..30 {
        write_some(&mut client, round);
        if round % 3 == 0 {
            relay.cut();
        }
    }
    assert_restored(&scene, &master);
    assert_eq!(info(&mut client, "stats", "sync_full"), "1");
}

#[test]
fn a_master_that_comes_back_empty_leaves_the_generation_before() {
    let mut master = master(&[]);
    let mut scene = Scene::new(&master.url(), "", "");
    let mut client = master.client();
    client.line("SET precious 1");
    client.ask(&["SET", "large", &"x".repeat(100_000)]);
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    // More often than generations are kept.
    for generations in 2..5 {
        master.kill();
        master.start_again();
        let seen = generations.min(3);
        wait::until("a new base", wait::LONG, || {
            let status = scene.status();
            status["generations"] == seen && status["received"] == status["durable"]
        });
        scene.wait_caught_up(&master);
        assert_eq!(master.client().line("SET after 1"), "+OK");
        scene.wait_caught_up(&master);
    }
    scene.weir.kill();
    let dir = scene.append_dir();
    // As the manual has it: the older generation's manifest in the place of the current one.
    let current = dir.join("appendonly.aof.manifest");
    std::fs::rename(dir.join("pinned.1.manifest"), current).unwrap();
    let (restored, _dir) = scene.restored();
    assert_eq!(restored.client().line("GET precious"), "$1 1");
}

/// How many rounds of kills; `WEIR_TEST_KILLS` sets more.
fn kills() -> u32 {
    std::env::var("WEIR_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

/// Increments and has each confirmed; gives the last number that was.
fn confirmed(master: &Redis, stop: &AtomicBool) -> u64 {
    let (mut client, mut last) = (master.client(), 0);
    let filler = "f".repeat(20_000);
    while !stop.load(Ordering::Relaxed) {
        let number: u64 = client.line("INCR n")[1..].parse().unwrap();
        client.ask(&["SET", &format!("k{}", number % 100), &filler]);
        if client.line("WAIT 1 200") == ":1" {
            last = number;
        }
    }
    last
}

#[test]
fn weir_is_killed_again_and_again_and_every_confirmed_write_is_there() {
    let mut master = master(&["--repl-backlog-size", "256mb"]);
    let mut scene = Scene::new(&master.url(), "increment-size = \"1MiB\"", "");
    scene.wait_caught_up(&master);
    let stop = Arc::new(AtomicBool::new(false));
    let last = std::thread::scope(|scope| {
        let end = EndGuard(&stop);
        let writing = scope.spawn(|| confirmed(&master, &stop));
        let mut draws = chance::draws();
        for _ in 0..kills() {
            scene.wait_more_durable(&master, draws.random_range(1_000..400_000));
            scene.weir.kill();
            // A server starts from what is there now, whatever it is.
            let (restored, _dir) = scene.restored();
            assert!(restored.client().line("GET n").starts_with('$'));
            drop(restored);
            scene.weir.start_again();
        }
        drop(end);
        writing.join().unwrap()
    });
    assert!(last > 0, "some were confirmed");
    assert_eq!(info(&mut master.client(), "stats", "sync_full"), "1", "{}", scene.weir.log());
    assert_restored(&scene, &master);
    // Both at once: what was confirmed is on the disk.
    master.kill();
    scene.weir.kill();
    let (restored, _dir) = scene.restored();
    let mut client = restored.client();
    client.patience(Duration::from_secs(60));
    let heard = client.line("GET n");
    let found: u64 = heard.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(found >= last, "{found} of {last} confirmed");
}
