//! Masters of another history: what was confirmed and they lack is kept, and said.

use std::fs;

use rig::redis::Redis;
use rig::wait;

use super::scene::{Relay, Scene, digest, info, master, wait_loaded};

fn fill(server: &Redis, name: &str, keys: u32) {
    let mut client = server.client();
    (0..keys).for_each(|n| assert_eq!(client.line(&format!("SET {name}{n} v")), "+OK"));
}

/// The master lacks what was confirmed: that is pinned, and nothing is confirmed before an operator
/// says so, whatever is restarted meanwhile.
fn assert_lacks(scene: &mut Scene, now: &Redis, confirmed_key: &str) {
    wait::until("it is said", wait::LONG, || {
        let status = scene.status();
        let trouble = status["trouble"].as_str().unwrap_or_default().to_owned();
        status["lacks_confirmed"] == true && trouble.contains("without what was confirmed")
    });
    let mut client = now.client();
    assert_eq!(client.line("SET other 1"), "+OK");
    assert_eq!(client.line("WAIT 1 1500"), ":0");
    scene.weir.kill();
    scene.weir.start_again();
    wait::until("it is said again", wait::LONG, || scene.status()["lacks_confirmed"] == true);
    assert_eq!(client.line("SET other 2"), "+OK");
    assert_eq!(client.line("WAIT 1 1500"), ":0");
    // What was confirmed can be had.
    let to = rig::places::directory();
    let (of_master, to) = (scene.dir(), to.path().join("restored"));
    let (of_master, to) = (of_master.to_str().unwrap(), to.to_str().unwrap());
    let pinned = ["--generation", "pinned.1.manifest", "--to", to];
    let args = ["redis", "restore", of_master, "--at", "latest"];
    scene.weir.must_run(&[&args[..], &pinned].concat());
    let server = Redis::start_with(&["--appendonly", "yes", "--dir", to]);
    wait_loaded(&server);
    assert_eq!(server.client().line(&format!("EXISTS {confirmed_key}")), ":1");
    assert_eq!(client.line(&format!("EXISTS {confirmed_key}")), ":0");
    let said = scene.weir.must_run(&["redis", "accept", of_master]);
    assert!(said.contains("what was confirmed and it lacks"), "{said}");
    assert_eq!(client.line("SET other 3"), "+OK");
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    assert!(scene.append_dir().join("pinned.1.manifest").exists());
    wait::until("all is well", wait::LONG, || {
        let status = scene.status();
        status["trouble"].is_null() && status["lacks_confirmed"] == false
    });
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), digest(now));
}

#[test]
fn a_replica_that_was_promoted_before_what_was_confirmed_is_confirmed_nothing_until_accepted() {
    let first = master(&["--repl-diskless-sync-delay", "0"]);
    let relay = Relay::to(first.address);
    let mut scene = Scene::new(&format!("redis://{}", relay.address), "", "");
    fill(&first, "k", 100);
    scene.wait_caught_up(&first);
    let port = first.address.port().to_string();
    let second = master(&["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"]);
    let mut of_second = second.client();
    wait::until("the replica has all", wait::LONG, || {
        info(&mut of_second, "replication", "master_link_status") == "up"
            && of_second.line("DBSIZE") == ":100"
    });
    assert_eq!(of_second.line("REPLICAOF NO ONE"), "+OK");
    let mut client = first.client();
    assert_eq!(client.line("SET confirmed 1"), "+OK");
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    relay.turn_to(second.address);
    assert_lacks(&mut scene, &second, "confirmed");
}

#[test]
fn a_master_that_was_started_from_an_older_snapshot_is_confirmed_nothing_until_accepted() {
    let mut master = master(&["--repl-diskless-sync-delay", "0"]);
    let mut scene = Scene::new(&master.url(), "", "");
    scene.wait_caught_up(&master);
    fill(&master, "k", 100);
    let mut client = master.client();
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    assert_eq!(client.line("SAVE"), "+OK");
    assert_eq!(client.line("SET confirmed 1"), "+OK");
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    master.kill();
    master.start_again();
    assert_lacks(&mut scene, &master, "confirmed");
}

#[test]
fn the_generation_before_a_master_of_an_unknown_history_is_pinned_and_writes_are_confirmed_again() {
    let (first, second) = (master(&[]), master(&["--repl-diskless-sync-delay", "0"]));
    let relay = Relay::to(first.address);
    let scene = Scene::new(&format!("redis://{}", relay.address), "", "");
    fill(&first, "k", 100);
    fill(&second, "k", 120);
    scene.wait_caught_up(&first);
    let mut client = first.client();
    assert_eq!(client.line("SET confirmed 1"), "+OK");
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    relay.turn_to(second.address);
    scene.wait_link_to(&second);
    let mut client = second.client();
    assert_eq!(client.line("SET more 1"), "+OK");
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    let pinned = fs::read_to_string(scene.append_dir().join("pinned.1.manifest")).unwrap();
    assert!(pinned.contains("appendonly.aof.1.base.rdb"), "{pinned}");
    scene.weir.wait_log("the master has another history");
    assert_eq!(scene.status()["pinned"], 1);
    assert!(scene.weir.must_run(&["status"]).contains("1 of its generations are pinned"));
    let scrape = scene.weir.metrics();
    assert_eq!(scrape.sum("weir_redis_aof_pinned_generations", &[("master", "m")]), 1.0);
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), digest(&second));
}
