//! Weir before servers.

use std::fmt::Write as _;

use rig::redis::{Redis, RedisClient};
use rig::weir::{Setup, Weir};

/// An administrator.
pub const ADMIN: &str = "[[redis.user]]\nname = \"default\"\npassword = \"p\"\nadmin = true\n";

/// Weir before these servers, with more lines in `[redis]` and more tables.
pub fn weir(servers: &[&Redis], lines: &str, tables: &str) -> Weir {
    Setup::new().embedded().table(&table(servers, lines, tables)).start()
}

/// The `[redis]` table for these servers.
pub fn table(servers: &[&Redis], lines: &str, tables: &str) -> String {
    let mut table = format!("[redis]\nlisten = \"{{redis}}\"\n{lines}\n{tables}\n");
    for (n, server) in servers.iter().enumerate() {
        let url = server.url();
        let _ = writeln!(table, "[[redis.backend]]\nname = \"s{n}\"\nurl = \"{url}\"");
    }
    table
}

/// A client through Weir.
pub fn client(weir: &Weir) -> RedisClient {
    RedisClient::connect(weir.redis)
}

/// An administrator through Weir.
pub fn admin(weir: &Weir) -> RedisClient {
    let mut client = client(weir);
    assert_eq!(client.line("AUTH p"), "+OK");
    client
}

/// A key that is on a server, by asking each.
pub fn key_on(servers: &[&Redis], weir: &Weir, wanted: usize) -> String {
    let mut through = client(weir);
    let mut found = (0..1000).map(|n| format!("k{wanted}:{n}"));
    let is_there = |key: &String| {
        assert_eq!(through.ask(&["SET", key, "x"]), "+OK");
        servers[wanted].client().ask(&["EXISTS", key]) == ":1"
    };
    found.find(is_there).expect("each server has some of the keys")
}
