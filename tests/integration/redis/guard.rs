//! The guard: what is wrong with how servers persist is said, and where it may act, servers rewrite
//! in turns and a followed master's own file is off only while Weir's is durable.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rig::faults::{DiskOrder, HOLD_SYNCS};
use rig::places::directory;
use rig::redis::{Redis, RedisClient, RedisCluster, Sentinels};
use rig::wait;
use rig::weir::{Setup, Weir};
use tempfile::TempDir;

use super::aof::info as aof_info;
use super::scene::table;

/// Often, so that a test need not wait.
const OFTEN: &str = "ask-every = \"100ms\"\n";

fn guarded(servers: &[&Redis], guard: &str) -> Weir {
    let guard = format!("[redis.guard]\n{OFTEN}{guard}\n");
    Setup::new().table(&table(servers, "", &guard)).start()
}

fn finding(weir: &Weir, server: &str, about: &str) -> bool {
    let labels = [("server", server), ("finding", about)];
    weir.metrics().sum("weir_redis_guard_finding", &labels) > 0.0
}

fn info(server: &Redis, field: &str) -> String {
    aof_info(&mut server.client(), "persistence", field)
}

fn setting(client: &mut RedisClient, key: &str) -> String {
    client.ask(&["CONFIG", "GET", key]).rsplit(' ').next().unwrap().to_owned()
}

/// How often the guard has looked: it asks for seven settings each time.
fn looks(server: &Redis) -> u64 {
    let text = server.client().line("INFO commandstats");
    let calls = text.split("cmdstat_config|get:calls=").nth(1);
    calls.and_then(|calls| calls.split(',').next()?.parse().ok()).map_or(0, |calls: u64| calls / 7)
}

#[test]
fn what_is_wrong_is_said_in_words_once_and_goes_when_it_is_mended() {
    let args = ["--appendonly", "yes", "--no-appendfsync-on-rewrite", "yes", "--save", "3600 1"];
    let server = Redis::start_with(&args);
    let weir = guarded(&[&server], "");
    wait::until("it is found", wait::LONG, || finding(&weir, "s0", "no-fsync-on-rewrite"));
    let shown = weir.must_run(&["status"]);
    let words = ["s0: no-fsync-on-rewrite: no-appendfsync-on-rewrite is yes", "save is \"3600 1\""];
    words.iter().for_each(|words| assert!(shown.contains(words), "{words}: {shown}"));
    let mut client = server.client();
    assert_eq!(client.line("CONFIG SET no-appendfsync-on-rewrite no"), "+OK");
    wait::until("it is gone", wait::LONG, || !finding(&weir, "s0", "no-fsync-on-rewrite"));
    assert!(finding(&weir, "s0", "save-points"), "the others stay");
    weir.wait_log("a finding is gone");
    let log = weir.log();
    assert_eq!(log.matches("no-appendfsync-on-rewrite is yes").count(), 1, "{log}");
    // Nothing was changed, and nobody was asked to do anything.
    assert_eq!(client.line("EXISTS weir:guard:localhost"), ":0");
    assert_eq!(info(&server, "aof_rewrites"), "0");
}

#[test]
fn servers_that_come_and_go_with_a_reload_are_watched_and_are_not() {
    let [first, second] = [0; 2].map(|_| Redis::start_with(&["--save", "3600 1"]));
    let guard = format!("[redis.guard]\n{OFTEN}");
    let mut weir = guarded(&[&first], "");
    wait::until("it is found", wait::LONG, || finding(&weir, "s0", "save-points"));
    for servers in [&[&first, &second][..], &[&second]] {
        let tables = table(servers, "", &guard);
        weir.configure(|_| Setup::new().table(&tables));
        weir.reload();
        let before = looks(&second);
        wait::until("it is watched", wait::LONG, || looks(&second) > before + 2);
    }
    wait::until("it is gone", wait::LONG, || !finding(&weir, "s1", "save-points"));
    let [gone, before] = [&first, &second].map(looks);
    wait::until("the other one is watched", wait::LONG, || looks(&second) > before + 5);
    assert_eq!(looks(&first), gone);
}

#[test]
fn a_server_that_is_away_or_shows_nothing_is_said_and_one_that_came_back_empty() {
    let mut server = Redis::start();
    let weir = guarded(&[&server], "");
    let mut client = server.client();
    (0..100).for_each(|n| assert_eq!(client.line(&format!("SET k{n} v")), "+OK"));
    let before = looks(&server);
    wait::until("its keys were seen", wait::LONG, || looks(&server) >= before + 2);
    server.kill();
    wait::until("it is away", wait::LONG, || finding(&weir, "s0", "unasked"));
    server.start_again();
    wait::until("it is empty", wait::LONG, || finding(&weir, "s0", "came-back-empty"));
    assert!(weir.must_run(&["status"]).contains("with 0 of 100 keys"));
    let mut client = server.client();
    assert_eq!(client.line("ACL SETUSER default -config"), "+OK");
    weir.wait_log("grant Weir's user +config|get");
}

#[test]
fn servers_of_a_host_rewrite_in_turns_by_the_weir_that_holds_the_key() {
    let servers = [0, 1].map(|_| {
        let server = Redis::start_with(&["--appendonly", "yes"]);
        server.client().line("SET k v");
        server
    });
    let all = [&servers[0], &servers[1]];
    let act = "mode = \"act\"\nwindow = \"00:00-24:00\"\nkey-expiry = \"2s\"";
    let mut first = guarded(&all, act);
    let rewrites = |server: &Redis| info(server, "aof_rewrites").parse::<u64>().unwrap();
    wait::until("both have rewritten", wait::LONG, || all.iter().all(|of| rewrites(of) == 1));
    // What is written while a server rewrites is not a growth.
    let is_rewriting = |of: &&Redis| info(of, "aof_rewrite_in_progress") == "1";
    wait::until("both are done", wait::LONG, || !all.iter().any(is_rewriting));
    let mut client = servers[0].client();
    let holder = client.line("GET weir:guard:localhost");
    assert!(first.must_run(&["status"]).contains("key of host localhost: held\n"));
    let second = guarded(&all, act);
    wait::until("the other sees whose it is", wait::LONG, || {
        let shown = second.must_run(&["status"]);
        holder.split(' ').nth(1).is_some_and(|holder| shown.contains(&format!("held by {holder}")))
    });
    // Grown again, and once in a window is enough: the first does nothing more, the second may not.
    let value = "x".repeat(10_000);
    all.iter().for_each(|of| drop(of.client().ask(&["SET", "large", &value])));
    first.kill();
    wait::until("the second has taken over", wait::LONG, || all.iter().all(|of| rewrites(of) == 2));
    assert_ne!(client.line("GET weir:guard:localhost"), holder);
    let acts = || second.metrics().sum("weir_redis_guard_acts_total", &[("act", "rewrite")]);
    wait::until("both are counted", wait::LONG, || (acts() - 2.0).abs() < 0.1);
}

#[test]
fn where_the_first_server_is_a_replica_the_key_lies_on_its_master() {
    let master = Redis::start_with(&["--appendonly", "yes", "--repl-diskless-sync-delay", "0"]);
    let port = master.address.port().to_string();
    let replica = Redis::start_with(&["--appendonly", "yes", "--replicaof", "127.0.0.1", &port]);
    wait::until("it follows", wait::LONG, || {
        aof_info(&mut replica.client(), "replication", "master_link_status") == "up"
    });
    let act = "mode = \"act\"\nwindow = \"00:00-24:00\"\nkey-expiry = \"2s\"";
    // Its master is not among those that are watched: nobody is told the password.
    let alone = guarded(&[&replica], act);
    wait::until("it is said", wait::LONG, || {
        alone.must_run(&["status"]).contains("which is not among the servers that are watched")
    });
    drop(alone);
    let weir = guarded(&[&replica, &master], act);
    wait::until("the key is held", wait::LONG, || {
        weir.must_run(&["status"]).contains("key of host localhost: held\n")
    });
    assert!(master.client().line("GET weir:guard:localhost").starts_with('$'));
    // Its file is so small that the key is a growth.
    wait::until("it has rewritten", wait::LONG, || info(&master, "aof_rewrites") == "1");
}

#[test]
fn the_nodes_of_a_cluster_are_found_and_rewrite_in_turns_wherever_the_key_lies() {
    let cluster = RedisCluster::start(3, false, &["--appendonly", "yes"]);
    let guard = format!(
        "[redis.guard]\n{OFTEN}mode = \"act\"\nwindow = \"00:00-24:00\"\nkey-expiry = \"2s\"\n"
    );
    let rewrites = |n: usize| info(&cluster.nodes[n], "aof_rewrites").parse::<u64>().unwrap();
    let before: Vec<u64> = (0..3).map(rewrites).collect();
    let lines = "distribution = \"cluster\"";
    let weir = Setup::new().table(&table(&[&cluster.nodes[1]], lines, &guard)).start();
    wait::until("all nodes are watched", wait::LONG, || {
        let shown = weir.must_run(&["status"]);
        [0, 2].iter().all(|n| shown.contains(&format!("{}: ", cluster.nodes[*n].address)))
            || (0..3).all(|n| shown.contains(&cluster.nodes[n].address.to_string()))
    });
    let value = "x".repeat(10_000);
    for node in &cluster.nodes {
        let mut client = node.client();
        (0..100).for_each(|n| drop(client.ask(&["SET", &format!("k{n}"), &value])));
    }
    wait::until("all have rewritten", wait::LONG, || (0..3).all(|n| rewrites(n) > before[n]));
    assert!(weir.must_run(&["status"]).contains("key of host localhost: held\n"));
}

#[test]
fn a_master_that_sentinels_find_is_of_the_host_where_it_is() {
    let master = Redis::start_with(&["--appendonly", "yes", "--repl-diskless-sync-delay", "0"]);
    let sentinels = Sentinels::start(&master, 1, 0);
    let guarded_by = |setting: &str, files: &Path| {
        let table = format!(
            "[redis.guard]\n{OFTEN}mode = \"act\"\nappendonly = false\nkey-expiry = \"2s\"\n\
             window = \"00:00-24:00\"\n[redis.aof]\ndir = \"{}\"\n[[redis.aof.master]]\n\
             name = \"m\"\n{setting}\n",
            files.display()
        );
        Setup::new().table(&table).start()
    };
    let (dir, away) = (rig::places::directory(), rig::places::free_address());
    let unknown = format!("sentinel = {{ urls = \"redis://{away}\", master = \"it\" }}");
    let weir = guarded_by(&unknown, dir.path());
    wait::until("it is said", wait::LONG, || {
        weir.must_run(&["status"]).contains("its Sentinels have not said yet where it is")
    });
    assert!(finding(&weir, "m", "unasked"));
    drop(weir);
    let dir = rig::places::directory();
    let weir = guarded_by(&sentinels.setting(), dir.path());
    wait::until("the key is held", wait::LONG, || {
        weir.must_run(&["status"]).contains("key of host localhost: held\n")
    });
    let mut client = master.client();
    assert!(client.line("GET weir:guard:localhost").starts_with('$'));
    assert_eq!(client.line("EXISTS weir:guard:m"), ":0");
    assert!(!weir.must_run(&["status"]).contains("key of host m:"));
}

#[test]
fn while_a_base_is_taken_on_a_host_nobody_there_is_told_to_rewrite() {
    let args = ["--appendonly", "yes", "--repl-diskless-sync-delay", "0", "--rdbcompression", "no"];
    let (master, dir) = (Redis::start_with(&args), rig::places::directory());
    // So much that the guard's own key is not a growth.
    master.client().ask(&["SET", "large", &"x".repeat(1 << 20)]);
    assert!(master.client().line("BGREWRITEAOF").starts_with('+'));
    wait::until("it has rewritten", wait::LONG, || info(&master, "aof_rewrites") == "1");
    // A replica that takes connections and says nothing: a base from there takes its time.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (url, at, files) = (master.url(), silent.local_addr().unwrap(), dir.path().display());
    let table = format!(
        "[redis.guard]\n{OFTEN}mode = \"act\"\nappendonly = false\nwindow = \"00:00-24:00\"\n\
         [redis.aof]\ndir = \"{files}\"\n[[redis.aof.master]]\nname = \"m\"\nurl = \"{url}\"\n\
         replicas = [\"redis://{at}\"]\nconnect-timeout = \"30s\"\n"
    );
    let weir = Setup::new().table(&table).start();
    let of_master = dir.path().join("m");
    wait::until("a base is in force", wait::LONG, || {
        of_master.join("appendonlydir/appendonly.aof.manifest").exists()
    });
    weir.must_run(&["redis", "rewrite", of_master.to_str().unwrap()]);
    let (held, _) = silent.accept().unwrap();
    let value = "x".repeat(1 << 20);
    master.client().ask(&["SET", "large", &value]);
    let before = looks(&master);
    wait::until("it was looked often", wait::LONG, || looks(&master) > before + 5);
    assert_eq!(info(&master, "aof_rewrites"), "1");
    drop((held, silent));
    wait::until("it has rewritten", wait::LONG, || info(&master, "aof_rewrites") == "2");
    wait::until("the base is in force", wait::LONG, || !of_master.join("weir.rewrite").exists());
}

#[test]
fn while_a_base_is_taken_from_the_master_itself_only_others_replicas_would_be_emptied_with_it() {
    // It waits for so many seconds before it sends a base, and counts whoever asked for one.
    let (master, dir) = (Redis::start_with(&["--repl-diskless-sync-delay", "5"]), directory());
    let (url, files) = (master.url(), dir.path().display());
    let table = format!(
        "[redis.guard]\n{OFTEN}[redis.aof]\ndir = \"{files}\"\n[[redis.aof.master]]\n\
         name = \"m\"\nurl = \"{url}\"\n"
    );
    let weir = Setup::new().table(&table).start();
    let of_master = dir.path().join("m");
    wait::until("a base is in force", wait::LONG, || {
        of_master.join("appendonlydir/appendonly.aof.manifest").exists()
    });
    let mut client = master.client();
    let mut replicas = || aof_info(&mut client, "replication", "connected_slaves");
    weir.must_run(&["redis", "rewrite", of_master.to_str().unwrap()]);
    wait::until("Weir has two connections there", wait::LONG, || replicas() == "2");
    let before = looks(&master);
    wait::until("it was looked meanwhile", wait::LONG, || looks(&master) > before + 5);
    assert_eq!(replicas(), "2", "the base is still to come");
    wait::until("the base is in force", wait::LONG, || !of_master.join("weir.rewrite").exists());
    let before = looks(&master);
    wait::until("it was looked afterwards", wait::LONG, || looks(&master) > before + 5);
    assert!(!weir.log().contains("empty-restart"), "{}", weir.log());
    let port = master.address.port().to_string();
    let _replica = Redis::start_with(&["--replicaof", "127.0.0.1", &port]);
    wait::until("a replica is another's", wait::LONG, || finding(&weir, "m", "empty-restart"));
    assert!(weir.must_run(&["status"]).contains("1 replica is emptied with it"));
}

/// A server with a file of its settings, which it can write.
struct Configured {
    server: Redis,
    file: PathBuf,
    _dir: TempDir,
}

impl Configured {
    fn start(args: &[&str]) -> Self {
        let dir = rig::places::directory();
        let (file, program) = (dir.path().join("redis.conf"), dir.path().join("program"));
        fs::write(&file, "").unwrap();
        let real = rig::places::need("redis-server");
        let script = format!("#!/bin/sh\nexec {} {} \"$@\"\n", real.display(), file.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { server: Redis::start_as(&program, args), file, _dir: dir }
    }

    fn has_line(&self, line: &str) -> bool {
        fs::read_to_string(&self.file).unwrap().lines().any(|of| of == line)
    }
}

fn following(master: &Redis, files: &Path) -> Weir {
    let (url, files) = (master.url(), files.display());
    let table = format!(
        "[redis.guard]\n{OFTEN}mode = \"act\"\nbehind-max = \"1s\"\nmin-replicas = 1\n\
         [redis.aof]\ndir = \"{files}\"\n[[redis.aof.master]]\nname = \"m\"\nurl = \"{url}\"\n"
    );
    Setup::new().with_faults().table(&table).start()
}

#[test]
fn a_masters_own_file_is_off_while_weirs_is_durable_and_on_again_where_it_is_not() {
    let master = Configured::start(&["--appendonly", "yes", "--repl-diskless-sync-delay", "0"]);
    let (mut client, dir) = (master.server.client(), rig::places::directory());
    client.line("SET k v");
    let weir = following(&master.server, dir.path());
    wait::until("its own file is off", wait::LONG, || setting(&mut client, "appendonly") == "no");
    wait::until("a restart finds it so", wait::LONG, || {
        master.has_line("appendonly no") && master.has_line("min-replicas-to-write 1")
    });
    // All of it at once, so that a restart in between can not find half of it.
    let calls = client.line("INFO commandstats");
    assert!(calls.contains("cmdstat_exec:calls=1,"), "{calls}");
    assert_eq!(client.line("SET k w"), "+OK", "Weir is the one replica");
    let held = DiskOrder::give(&dir.path().join("m"), HOLD_SYNCS);
    assert_eq!(client.line("SET k x"), "+OK");
    wait::until("its own file is on", wait::LONG, || setting(&mut client, "appendonly") == "yes");
    wait::until("a restart finds it so", wait::LONG, || {
        master.has_line("appendonly yes") && setting(&mut client, "min-replicas-to-write") == "0"
    });
    drop(held);
    wait::until("it is shown", wait::LONG, || {
        weir.must_run(&["status"]).contains("m: told last: appendonly-on")
    });
}

#[test]
fn a_master_that_cannot_write_its_settings_keeps_its_own_file() {
    let args = ["--appendonly", "yes", "--repl-diskless-sync-delay", "0"];
    let (master, dir) = (Redis::start_with(&args), rig::places::directory());
    let weir = following(&master, dir.path());
    wait::until("it was tried", wait::LONG, || {
        weir.must_run(&["status"]).contains("appendonly-off, and it did not: CONFIG REWRITE")
    });
    assert_eq!(setting(&mut master.client(), "appendonly"), "yes");
    let failed = [("server", "m"), ("act", "appendonly-off")];
    assert!(weir.metrics().sum("weir_redis_guard_failed_acts_total", &failed) > 0.0);
}
