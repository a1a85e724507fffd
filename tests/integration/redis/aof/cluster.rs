//! The masters of a Cluster, found by asking its nodes.

use std::fs;
use std::path::Path;

use rig::places;
use rig::redis::{Redis, RedisCluster};
use rig::wait;
use rig::weir::{Setup, Weir};
use serde_json::Value;

use super::scene::{copy_all, digest, info, master, offset, wait_loaded};

/// Weir that follows the Cluster, of which it is told two nodes.
fn following(cluster: &RedisCluster, files: &Path) -> Weir {
    let [one, other] = [&cluster.nodes[0], &cluster.nodes[4]].map(Redis::url);
    let table = format!(
        "[redis.aof]\ndir = \"{}\"\n[[redis.aof.master]]\nname = \"c\"\n\
         cluster = [\"{one}\", \"{other}\"]\n",
        files.display()
    );
    Setup::new().table(&table).start()
}

fn all(weir: &Weir) -> Vec<Value> {
    weir.ask_admin("/status").json()["redis.aof"].as_array().unwrap().clone()
}

/// What the status says of the master that is this node.
fn of(weir: &Weir, node: &Redis) -> Option<Value> {
    let url = node.url();
    all(weir).into_iter().find(|of| of["url"] == url.as_str())
}

/// Waits until this node is followed and all that it has sent is durable.
fn wait_caught_up(weir: &Weir, node: &Redis) -> Value {
    let mut client = node.client();
    wait::value("weir has all of a master", wait::LONG, || {
        let of = of(weir, node)?;
        let has_base = of["generations"].as_u64() > Some(0) && of["link"] == "following";
        let is_caught_up = of["durable"].as_u64() >= Some(offset(&mut client));
        (has_base && is_caught_up).then_some(of)
    })
}

/// Writes keys of its slots to a master.
fn write(node: &Redis, what: &str) {
    let mut client = node.client();
    let written = (0..200).filter(|n| client.line(&format!("SET {what}{n} {n}")) == "+OK").count();
    assert!(written > 10, "it has some of the slots");
}

/// A server that is started from a master's files has what the master has.
fn assert_restored(weir: &Weir, node: &Redis) {
    let dir = wait_caught_up(weir, node)["dir"].as_str().unwrap().to_owned();
    let copy = places::directory();
    copy_all(&Path::new(&dir).join("appendonlydir"), &copy.path().join("appendonlydir")).unwrap();
    let server = master(&["--appendonly", "yes", "--dir", copy.path().to_str().unwrap()]);
    wait_loaded(&server);
    assert_eq!(digest(&server), digest(node));
}

fn wait_promoted(node: &Redis) {
    wait::until("the replica is the master", wait::LONG, || {
        let role = node.client().try_ask(&["ROLE"]).unwrap_or_default();
        let can = node.client().line("CLUSTER INFO").contains("cluster_state:ok");
        can && role.windows(6).any(|part| part == b"master")
    });
}

#[test]
fn three_masters_are_followed_at_once_and_over_failovers_in_the_same_files() {
    let args = ["--enable-debug-command", "yes", "--repl-backlog-size", "16mb"];
    let mut cluster = RedisCluster::start(3, true, &args);
    let dir = places::directory();
    let mut weir = following(&cluster, dir.path());
    wait::until("three masters are found", wait::LONG, || all(&weir).len() == 3);
    for node in &cluster.nodes[..3] {
        write(node, "before");
        assert_restored(&weir, node);
    }
    let shard = |weir: &Weir, node: &Redis| of(weir, node).unwrap()["name"].clone();
    let [first, second] = [0, 1].map(|n| shard(&weir, &cluster.nodes[n]));
    // A replica takes over, and knows the history of the one before.
    cluster.nodes[0].kill();
    wait_promoted(&cluster.nodes[3]);
    write(&cluster.nodes[3], "after");
    assert_restored(&weir, &cluster.nodes[3]);
    assert_eq!(shard(&weir, &cluster.nodes[3]), first);
    assert_eq!(info(&mut cluster.nodes[3].client(), "stats", "sync_full"), "0");
    // And while no Weir runs.
    weir.kill();
    cluster.nodes[1].kill();
    wait_promoted(&cluster.nodes[4]);
    write(&cluster.nodes[4], "meanwhile");
    weir.start_again();
    assert_restored(&weir, &cluster.nodes[4]);
    assert_eq!(shard(&weir, &cluster.nodes[4]), second);
    assert_eq!(info(&mut cluster.nodes[4].client(), "stats", "sync_full"), "0");
    assert_restored(&weir, &cluster.nodes[2]);
    let dirs = fs::read_dir(dir.path()).unwrap().flatten().count();
    assert_eq!((all(&weir).len(), dirs), (3, 3), "{:?}", all(&weir));
}

#[test]
fn a_cluster_of_which_no_node_answers_is_said_and_found_once_one_does() {
    let mut cluster = RedisCluster::start(1, false, &["--enable-debug-command", "yes"]);
    write(&cluster.nodes[0], "before");
    cluster.nodes[0].kill();
    let dir = places::directory();
    let table = format!(
        "[redis.aof]\ndir = \"{}\"\n[[redis.aof.master]]\nname = \"c\"\n\
         cluster = \"{}\"\n",
        dir.path().display(),
        cluster.nodes[0].url()
    );
    let weir = Setup::new().table(&table).start();
    wait::until("it is said", wait::LONG, || {
        let said = all(&weir).first().map(|of| of["trouble"].to_string()).unwrap_or_default();
        said.contains("no node says who the masters are")
    });
    assert!(weir.must_run(&["status"]).contains("no node says who the masters are"));
    cluster.nodes[0].start_again();
    assert_restored(&weir, &cluster.nodes[0]);
}
