//! Starts Weir in front of Redis servers.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use rig::places;
use rig::process::Process;
use rig::redis::{Redis, RedisClient};
use rig::weir::{Setup, Weir};

pub const ADMIN: &str = "[[redis.user]]\nname = \"default\"\npassword = \"p\"\nadmin = true\n";

/// Weir before these servers, with more lines in `[redis]` and more tables.
pub fn weir(servers: &[&Redis], lines: &str, tables: &str) -> Weir {
    Setup::new().table(&table(servers, lines, tables)).start()
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

/// Before the login a client is held to the small limits of a server's.
pub fn strangers_send_little(weir: &Weir) {
    for (bytes, wanted) in [
        ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length"),
        ("*2\r\n$4\r\nAUTH\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length"),
    ] {
        let mut ann = client(weir);
        ann.send(bytes.as_bytes());
        assert_eq!(ann.hear(), wanted);
        assert!(ann.is_closed());
    }
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

/// twemproxy with this `nutcracker.yml`, which listens at `address` among others.
pub fn nutcracker(dir: &Path, text: &str, address: SocketAddr) -> Process {
    let (file, stats) = (dir.join("nutcracker.yml"), places::free_address());
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(places::need("nutcracker"));
    command.args(["-a", "127.0.0.1", "-s", &stats.port().to_string(), "-c"]).arg(&file);
    let mut process = Process::start("nutcracker", &mut command, &dir.join("nutcracker.log"));
    process.wait_ready(|| RedisClient::try_connect(address).is_ok());
    process
}
