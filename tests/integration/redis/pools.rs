//! Several pools in one file, and the way to them from twemproxy.

use std::net::SocketAddr;
use std::process::Command;

use rig::places;
use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::Setup;

use super::scene::nutcracker;

/// Two pools that are alike but for their servers, users and hashes.
fn tables(first: &Redis, second: &Redis, other: SocketAddr) -> String {
    format!(
        "[redis]\ntimeout = \"2s\"\n\
         [[redis.pool]]\nname = \"one\"\nlisten = \"{{redis}}\"\n\
         [[redis.pool.backend]]\nname = \"a\"\nurl = \"{}\"\n\
         [[redis.pool]]\nname = \"two\"\nlisten = \"{other}\"\nhash = \"crc16\"\ndatabase = 3\n\
         [[redis.pool.user]]\nname = \"default\"\npassword = \"p\"\n\
         [[redis.pool.backend]]\nname = \"a\"\nurl = \"{}\"\n",
        first.url(),
        second.url(),
    )
}

#[test]
fn each_pool_has_its_own_servers_users_and_database() {
    let (first, second, other) = (Redis::start(), Redis::start(), places::free_address());
    let weir = Setup::new().table(&tables(&first, &second, other)).start();
    let (mut ann, mut bob) = (RedisClient::connect(weir.redis), RedisClient::connect(other));
    assert_eq!(ann.line("SET k 1"), "+OK");
    assert_eq!(bob.line("GET k"), "-NOAUTH Authentication required.");
    assert_eq!(bob.line("AUTH p"), "+OK");
    assert_eq!(bob.line("SET k 2"), "+OK");
    assert_eq!([ann.line("GET k"), bob.line("GET k")], ["$1 1", "$1 2"]);
    assert_eq!(first.client().line("GET k"), "$1 1");
    let mut direct = second.client();
    assert_eq!(direct.line("GET k"), "$-1");
    assert_eq!(direct.line("SELECT 3"), "+OK");
    assert_eq!(direct.line("GET k"), "$1 2");
    // A client that begins anew begins where its pool does.
    for line in ["SELECT 0", "RESET", "AUTH p"] {
        assert!(bob.line(line).starts_with('+'), "{line}");
    }
    assert_eq!(bob.line("GET k"), "$1 2");

    let commands = |pool: &str| {
        let labels = [("pool", pool), ("way", "lane")];
        weir.metrics().sum("weir_redis_commands_total", &labels)
    };
    assert_eq!(commands("one"), 2.0);
    assert_eq!(commands("two"), 3.0);
    let status = weir.ask_admin("/status").json()["redis"].clone();
    let pools: Vec<_> =
        status["backends"].as_array().unwrap().iter().map(|of| &of["pool"]).collect();
    assert_eq!(pools, ["one", "two"]);
}

#[test]
fn what_nutcracker_had_written_is_found_with_the_configuration_that_was_made_of_its_own() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let [one, two, three] = servers.each_ref().map(|server| server.address);
    let [first, second] = [places::free_address(), places::free_address()];
    let dir = places::directory();
    let text = format!(
        "cache:\n  listen: {first}\n  redis: true\n  timeout: 900\n  auto_eject_hosts: true\n  \
         servers:\n   - {one}:1 a\n   - {two}:2\n\
         sessions:\n  listen: {second}\n  redis: true\n  redis_db: 1\n  hash: md5\n  \
         distribution: modula\n  servers:\n   - {three}:1\n"
    );
    let pools = [(first, "cache"), (second, "sessions")];
    let keys: Vec<String> = (0..200).map(|n| format!("key:{n}")).collect();
    let mut before = nutcracker(dir.path(), &text, first);
    for (address, name) in pools {
        let mut client = RedisClient::connect(address);
        for key in &keys {
            assert_eq!(client.ask(&["SET", key, name]), "+OK");
        }
    }
    before.terminate(wait::LONG);

    let mut command = Command::new(places::weir());
    command.arg("check").arg("--from").arg(dir.path().join("nutcracker.yml"));
    let output = command.output().unwrap();
    let toml = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{toml}");
    let weir = Setup::new().table(&toml).start();
    for (address, name) in pools {
        let mut client = RedisClient::connect(address);
        for key in &keys {
            assert_eq!(client.ask(&["GET", key]), format!("${} {name}", name.len()), "{key}");
        }
    }
    let said = weir.must_run(&["check"]);
    for words in ["in the pool    cache", "in the pool    sessions", "2 times elsewhere for 30s"] {
        assert!(said.contains(words), "{words} in\n{said}");
    }
}
