//! Several pools in one file.

use std::net::SocketAddr;

use rig::places;
use rig::redis::{Redis, RedisClient};
use rig::weir::Setup;

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
    let mut weir = Setup::new().embedded().table(&tables(&first, &second, other)).start();
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

    weir.configure(|setup| {
        setup.table(
            "[[redis.pool]]\nname = \"three\"\nlisten = \"127.0.0.1:1\"\n\
             [[redis.pool.backend]]\nname = \"a\"\nurl = \"redis://127.0.0.1:1\"\n",
        )
    });
    weir.reload();
    weir.wait_log("redis.pool \\\"three\\\", which is new,");
    assert_eq!([ann.line("GET k"), bob.line("GET k")], ["$1 1", "$1 2"]);
}
