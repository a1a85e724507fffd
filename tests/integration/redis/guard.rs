//! The guard: what is wrong with how servers persist is said, and where it may act, servers rewrite
//! in turns and a followed master's own file is off only while Weir's is durable.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rig::redis::{Redis, RedisClient};
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
    assert_eq!(client.line("EXISTS weir:guard"), ":0");
    assert_eq!(info(&server, "aof_rewrites"), "0");
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
    let mut client = servers[0].client();
    let holder = client.line("GET weir:guard");
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
    assert_ne!(client.line("GET weir:guard"), holder);
    let acts = second.metrics().sum("weir_redis_guard_acts_total", &[("act", "rewrite")]);
    assert!((acts - 2.0).abs() < 0.1, "{acts}");
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
    Setup::new().embedded().with_faults().table(&table).start()
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
    assert_eq!(client.line("SET k w"), "+OK", "Weir is the one replica");
    fs::write(dir.path().join("m/hold-syncs"), "").unwrap();
    assert_eq!(client.line("SET k x"), "+OK");
    wait::until("its own file is on", wait::LONG, || setting(&mut client, "appendonly") == "yes");
    wait::until("a restart finds it so", wait::LONG, || {
        master.has_line("appendonly yes") && setting(&mut client, "min-replicas-to-write") == "0"
    });
    fs::remove_file(dir.path().join("m/hold-syncs")).unwrap();
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
