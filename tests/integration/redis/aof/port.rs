//! The port that Weir announces: nobody takes it for a server, and it fills one.

use std::fs;
use std::process::Command;

use rig::process::Process;
use rig::redis::{Redis, RedisClient};
use rig::wait;

use super::scene::{Scene, digest, info, master, offset};

/// A master, Weir with a port, and that port's address.
fn served(lines: &str) -> (Redis, Scene, std::net::SocketAddr) {
    let master = master(&["--repl-diskless-sync-delay", "0"]);
    let address = rig::places::free_address();
    let scene = Scene::new(&master.url(), lines, &format!("listen = \"{address}\""));
    scene.wait_caught_up(&master);
    (master, scene, address)
}

#[test]
fn it_says_what_it_is_and_serves_no_data() {
    let (master, scene, address) = served("");
    let mut client = RedisClient::connect(address);
    assert_eq!(client.line("PING"), "+PONG");
    assert_eq!(info(&mut client, "replication", "role"), "slave");
    assert_eq!(info(&mut client, "replication", "slave_priority"), "0");
    assert_eq!(info(&mut client, "replication", "replica_announced"), "0");
    assert_eq!(info(&mut client, "replication", "master_link_status"), "up");
    let role = client.line("ROLE");
    let port = master.address.port();
    assert!(role.contains(&format!("slave $9 127.0.0.1 :{port} $9 connected")), "{role}");
    for command in ["GET a", "SET a 1", "REPLICAOF NO ONE", "KEYS *", "FLUSHALL", "SUBSCRIBE a"] {
        let said = client.line(command);
        assert!(said.starts_with("-ERR weir: this keeps a master's"), "{command}: {said}");
    }
    // Without a password nobody has the data set.
    assert!(client.line("PSYNC ? -1").starts_with("-NOPERM weir"));
    assert!(client.line("AUTH geheim").starts_with("-ERR AUTH called without"));
    // The master knows the port.
    let replica = info(&mut master.client(), "replication", "slave0");
    assert!(replica.contains(&format!("port={}", address.port())), "{replica}");
    drop(scene);
}

#[test]
fn sentinel_neither_lists_nor_promotes_it() {
    let (master, _scene, address) = served("");
    let dir = rig::places::directory();
    let (file, at) = (dir.path().join("sentinel.conf"), rig::places::free_address());
    let port = master.address.port();
    let lines = format!("port {}\nsentinel monitor m 127.0.0.1 {port} 1\n", at.port());
    fs::write(&file, lines).unwrap();
    let mut command = Command::new(rig::places::need("redis-server"));
    command.arg(&file).arg("--sentinel");
    let mut sentinel = Process::start("sentinel", &mut command, &dir.path().join("log"));
    sentinel.wait_ready(|| RedisClient::try_connect(at).is_ok());
    let mut client = RedisClient::connect(at);
    // It has asked the port once the replica's flags no longer are those of the first look.
    wait::until("it knows of a replica", wait::LONG, || {
        let seen = client.line("SENTINEL MASTER m");
        let (_, behind) = seen.split_once("num-slaves").unwrap();
        behind.split_whitespace().nth(1) == Some("1")
    });
    let log = dir.path().join("log");
    wait::until("it has found its port", wait::LONG, || {
        fs::read_to_string(&log).unwrap().contains(&format!("127.0.0.1 {}", address.port()))
    });
    wait::until("it is not listed", wait::LONG, || client.line("SENTINEL REPLICAS m") == "*0");
    assert!(client.line("SENTINEL FAILOVER m").starts_with("-NOGOODSLAVE"));
}

#[test]
fn an_empty_server_is_filled_and_can_then_follow_the_master_itself() {
    let (master, scene, address) = served("port = { password = \"geheim\" }");
    let mut client = master.client();
    client.line("SELECT 3");
    (0..50).for_each(|n| drop(client.line(&format!("SET k{n} v"))));
    client.send(b"MULTI\r\nINCR a\r\nINCR b\r\nEXEC\r\n");
    (0..4).for_each(|_| drop(client.hear()));
    scene.wait_caught_up(&master);
    let port = address.port().to_string();
    let empty = super::scene::master(&["--masterauth", "wrong"]);
    let mut filled = empty.client();
    assert_eq!(filled.ask(&["REPLICAOF", "127.0.0.1", &port]), "+OK");
    let mut asking = RedisClient::connect(address);
    assert!(asking.line("INFO").starts_with("-NOAUTH"));
    assert!(asking.line("AUTH wrong").starts_with("-WRONGPASS"));
    assert!(asking.line("AUTH other geheim").starts_with("-WRONGPASS"));
    assert_eq!(asking.line("AUTH geheim"), "+OK");
    assert_eq!(info(&mut asking, "replication", "role"), "slave");
    assert_eq!(filled.line("DBSIZE"), ":0");
    assert_eq!(filled.line("CONFIG SET masterauth geheim"), "+OK");
    let has_all = |filled: &mut RedisClient, client: &mut RedisClient| {
        wait::until("it has all", wait::LONG, || {
            let link = info(filled, "replication", "master_link_status");
            link == "up" && offset(filled) >= offset(client)
        });
    };
    has_all(&mut filled, &mut client);
    assert_eq!(digest(&empty), digest(&master));
    // What comes is handed on, over a new base, too.
    client.line("SET later 1");
    let dir = scene.dir();
    scene.weir.must_run(&["redis", "rewrite", dir.to_str().unwrap()]);
    wait::until("the new base is in force", wait::LONG, || !dir.join("weir.rewrite").exists());
    client.line("APPEND later 2");
    has_all(&mut filled, &mut client);
    assert_eq!(digest(&empty), digest(&master));
    // After a break it goes on where it was.
    let syncs = |filled: &mut RedisClient| info(filled, "replication", "master_replid");
    let id = syncs(&mut filled);
    filled.line("CLIENT KILL TYPE master");
    client.line("SET after-the-break 1");
    has_all(&mut filled, &mut client);
    assert_eq!(syncs(&mut filled), id);
    // It has the master's history and offset, so that the master sends it nothing anew.
    let full = info(&mut client, "stats", "sync_full");
    let of_master = master.address.port().to_string();
    assert_eq!(filled.ask(&["CONFIG", "SET", "masterauth", ""]), "+OK");
    assert_eq!(filled.ask(&["REPLICAOF", "127.0.0.1", &of_master]), "+OK");
    client.line("SET from-the-master 1");
    has_all(&mut filled, &mut client);
    assert_eq!(digest(&empty), digest(&master));
    assert_eq!(info(&mut client, "stats", "sync_full"), full);
}

/// A client that asks for the whole data set and reads it as slowly as it likes.
fn slow_replica(address: std::net::SocketAddr) -> std::io::BufReader<std::net::TcpStream> {
    use std::io::{BufRead as _, Write as _};
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(wait::LONG)).unwrap();
    socket.write_all(b"AUTH geheim\r\nPSYNC ? -1\r\n").unwrap();
    let mut reader = std::io::BufReader::with_capacity(1024, socket);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "+OK\r\n");
    reader
}

#[test]
fn a_server_that_is_filled_goes_on_where_a_new_base_takes_over_meanwhile() {
    use std::io::{BufRead as _, Read as _};
    let (master, scene, address) = served("port = { password = \"geheim\" }");
    let mut client = master.client();
    // More than sockets hold, and nothing that can be made smaller.
    let mut filler = vec![0; 16 << 20];
    rand::fill(&mut filler[..]);
    let filler: String = filler.iter().map(|byte| char::from(b'a' + byte % 26)).collect();
    client.ask(&["SET", "large", &filler]);
    let rewrite = || {
        let dir = scene.dir();
        scene.weir.must_run(&["redis", "rewrite", dir.to_str().unwrap()]);
        wait::until("the new base is in force", wait::LONG, || !dir.join("weir.rewrite").exists());
    };
    scene.wait_caught_up(&master);
    rewrite();
    client.line("SET behind-the-first 1");
    scene.wait_caught_up(&master);
    let mut reader = slow_replica(address);
    let (mut head, mut len) = (String::new(), String::new());
    reader.read_line(&mut head).unwrap();
    reader.read_line(&mut len).unwrap();
    let from: u64 = head.trim().rsplit(' ').next().unwrap().parse().unwrap();
    // It has read next to nothing of the base, and the next one is in force already.
    client.line("SET before-the-second 1");
    scene.wait_caught_up(&master);
    rewrite();
    client.line("SET behind-the-second 1");
    scene.wait_caught_up(&master);
    let to = offset(&mut client);
    let mut base = vec![0; len.trim().trim_start_matches('$').parse().unwrap()];
    reader.read_exact(&mut base).unwrap();
    let mut stream = vec![0; (to - from) as usize];
    reader.read_exact(&mut stream).unwrap();
    let at = |what: &str| {
        let found = stream.windows(what.len()).position(|part| part == what.as_bytes());
        found.unwrap_or_else(|| panic!("{what} is not in what was sent"))
    };
    assert!(at("behind-the-first") < at("before-the-second"));
    assert!(at("before-the-second") < at("behind-the-second"));
}
