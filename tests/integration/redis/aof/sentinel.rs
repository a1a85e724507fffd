//! A master that Sentinels know is followed where they say it is.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rig::places;
use rig::redis::Redis;
use rig::wait;
use rig::weir::Setup;
use tempfile::TempDir;

use super::scene::{digest, info, master, wait_loaded};

/// One Sentinel, which decides by itself.
fn sentinel(master: &Redis) -> (Redis, TempDir) {
    let dir = places::directory();
    let (file, program) = (dir.path().join("sentinel.conf"), dir.path().join("program"));
    let port = master.address.port();
    let text = format!(
        "sentinel monitor it 127.0.0.1 {port} 1\nsentinel down-after-milliseconds it 1000\n\
         sentinel failover-timeout it 10000\n"
    );
    fs::write(&file, text).unwrap();
    let real = places::need("redis-server").display().to_string();
    // What a server takes for its files, a Sentinel does not know.
    let script = format!(
        "#!/bin/sh\nexec {real} {} --sentinel --port \"$2\" --bind 127.0.0.1\n",
        file.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (Redis::start_as(&program, &[]), dir)
}

#[test]
fn a_failover_by_sentinel_is_followed_without_a_new_base() {
    let mut first = master(&["--repl-diskless-sync-delay", "0"]);
    let port = first.address.port().to_string();
    let second = master(&["--replicaof", "127.0.0.1", &port]);
    let (sentinel, _dir) = sentinel(&first);
    wait::until("the Sentinel knows the replica", wait::LONG, || {
        let known = sentinel.client().line("SENTINEL REPLICAS it");
        known.contains(&second.address.port().to_string())
    });
    let dir = places::directory();
    let (files, url) = (dir.path().display(), sentinel.url());
    let table = format!(
        "[redis.aof]\ndir = \"{files}\"\n[[redis.aof.master]]\nname = \"m\"\n\
         sentinel = {{ urls = \"{url}\", master = \"it\" }}\n"
    );
    let weir = Setup::new().embedded().table(&table).start();
    let status = || weir.ask_admin("/status").json()["redis.aof"][0].clone();
    let mut client = second.client();
    first.client().line("SET before 1");
    wait::until("it is followed", wait::LONG, || {
        let offset = info(&mut first.client(), "replication", "master_repl_offset");
        status()["durable"].as_u64() >= offset.parse().ok() && status()["link"] == "following"
    });
    wait::until("the replica has it", wait::LONG, || client.line("GET before") == "$1 1");
    first.kill();
    // The Sentinel closes the clients of whom it promotes, in the same transaction.
    wait::until("the replica is the master", wait::LONG, || {
        let role = second.client().try_ask(&["ROLE"]).unwrap_or_default();
        role.windows(6).any(|part| part == b"master")
    });
    let mut client = second.client();
    assert_eq!(client.line("SET after 1"), "+OK");
    wait::until("Weir follows it", wait::LONG, || {
        info(&mut client, "replication", "connected_slaves") == "1"
    });
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    assert_eq!(info(&mut client, "stats", "sync_full"), "0");
    assert_eq!(status()["generations"], 1);
    assert_eq!(status()["url"], "it by Sentinel");
    let copy = places::directory();
    let to = copy.path().join("appendonlydir");
    fs::create_dir(&to).unwrap();
    for file in fs::read_dir(dir.path().join("m/appendonlydir")).unwrap().flatten() {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    let restored = master(&["--appendonly", "yes", "--dir", copy.path().to_str().unwrap()]);
    wait_loaded(&restored);
    assert_eq!(digest(&restored), digest(&second));
}
