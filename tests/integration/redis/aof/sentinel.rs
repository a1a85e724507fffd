//! A master that Sentinels know is followed where they say it is.

use std::fs;

use rig::places;
use rig::redis::{RedisClient, Sentinels};
use rig::wait;
use rig::weir::Setup;

use super::scene::{Scene, digest, info, master, wait_loaded};

#[test]
fn a_failover_by_sentinel_is_followed_without_a_new_base() {
    let mut first = master(&["--repl-diskless-sync-delay", "0"]);
    let port = first.address.port().to_string();
    let second = master(&["--replicaof", "127.0.0.1", &port]);
    let sentinels = Sentinels::start(&first, 1, 1);
    let (dir, port) = (places::directory(), places::free_address());
    let (files, sentinel) = (dir.path().display(), sentinels.setting());
    let table = format!(
        "[redis.aof]\ndir = \"{files}\"\n[[redis.aof.master]]\nname = \"m\"\n\
         listen = \"{port}\"\n{sentinel}\n"
    );
    let weir = Setup::new().table(&table).start();
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
    // Whoever asks the port hears who is followed now, and Sentinel's words for it are taken.
    let mut asking = RedisClient::connect(port);
    let of = second.address.port().to_string();
    assert_eq!(info(&mut asking, "replication", "master_port"), of);
    let before = first.address.port();
    assert_eq!(asking.line("MULTI"), "+OK");
    for line in
        [&format!("SLAVEOF 127.0.0.1 {before}"), "CONFIG REWRITE", "CLIENT KILL TYPE normal"]
    {
        assert_eq!(asking.line(line), "+QUEUED");
    }
    assert_eq!(asking.line("EXEC"), "*3 +OK +OK +OK");
    assert!(asking.line("EXEC").starts_with("-ERR EXEC without"));
    assert_eq!(asking.line("MULTI"), "+OK");
    assert!(asking.line("SET a 1").starts_with("-ERR weir: that is not served within MULTI"));
    assert!(asking.line("REPLICAOF NO ONE").starts_with("-ERR weir"));
    // It is only the Sentinels who are believed.
    assert_eq!(info(&mut asking, "replication", "master_port"), of);
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

#[test]
fn a_replica_that_sentinels_have_as_the_master_is_said_to_be_theirs_to_mend() {
    let first = master(&[]);
    let port = first.address.port().to_string();
    let replica = master(&["--replicaof", "127.0.0.1", &port]);
    let sentinels = Sentinels::start(&replica, 1, 0);
    let (dir, sentinel) = (places::directory(), sentinels.setting());
    let files = dir.path().display();
    let table =
        format!("[redis.aof]\ndir = \"{files}\"\n[[redis.aof.master]]\nname = \"m\"\n{sentinel}\n");
    let weir = Setup::new().table(&table).start();
    weir.wait_log("its Sentinels have it as the master, and it says that it is itself a replica");
    assert!(!weir.log().contains("name its master"), "{}", weir.log());
    // Of one with a `url` it is the operator who can.
    let of_url = Scene::new(&replica.url(), "", "");
    of_url.weir.wait_log("it is itself a replica: name its master in redis.aof");
}
