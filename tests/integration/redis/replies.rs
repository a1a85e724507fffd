//! `CLIENT REPLY`: what a client hears is what it would hear of a server, byte for byte.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::Weir;
use rustix::process::Signal;

use super::scene::{ADMIN, admin, client, weir};

/// What ends everything that is heard of a client that stays.
const END: &[u8] = b"$3\r\nend\r\n";
/// What has the client hear that.
const ON: &str = "CLIENT REPLY ON|ECHO end|";

/// All that a client hears that says these lines, each of which ends with `|`, up to the answer to
/// `ECHO end` or the end of the connection. Between two parts somebody else says something.
fn heard(address: SocketAddr, parts: &[&str]) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(wait::LONG)).unwrap();
    let mut other = RedisClient::connect(address);
    for (at, part) in parts.iter().enumerate() {
        match at % 2 {
            0 => socket.write_all(part.replace('|', "\r\n").as_bytes()).unwrap(),
            _ => say_until_it_is_heard(&mut other, part),
        }
    }
    let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
    while !heard.ends_with(END) {
        match socket.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => heard.extend_from_slice(&piece[..read]),
            Err(error) => panic!("{parts:?}: {error} behind {heard:?}"),
        }
    }
    String::from_utf8(heard).unwrap()
}

/// What is published before anybody is subscribed is heard by nobody.
fn say_until_it_is_heard(other: &mut RedisClient, line: &str) {
    wait::until("it is heard", wait::LONG, || other.line(line) == ":1");
}

/// Weir before a server, and one beside it.
fn beside() -> ([Redis; 2], Weir) {
    let servers = [Redis::start(), Redis::start()];
    let weir = weir(&[&servers[0]], "", "");
    (servers, weir)
}

#[test]
fn a_client_that_wants_no_answers_hears_what_it_would_hear_of_a_server() {
    let (servers, weir) = beside();
    for lines in [
        // Off and on.
        "CLIENT REPLY OFF|SET a 1|GET a|INCR a|NOSUCH|GET|LPUSH a x|CLIENT REPLY ON|GET a|",
        "CLIENT REPLY OFF|CLIENT REPLY OFF|GET a|CLIENT REPLY ON|CLIENT REPLY ON|GET a|",
        "CLIENT REPLY OFF|CLIENT REPLY SKIP|CLIENT REPLY ON|GET a|",
        "CLIENT REPLY ON|client reply Off|GET a|",
        "CLIENT REPLY|CLIENT REPLY x|CLIENT REPLY ON x|CLIENT REPLY OFF|CLIENT REPLY x|",
        // The next one's.
        "CLIENT REPLY SKIP|GET a|GET a|CLIENT REPLY SKIP|NOSUCH|CLIENT REPLY SKIP|GET|GET a|",
        "CLIENT REPLY SKIP|CLIENT REPLY SKIP|GET a|GET a|",
        "CLIENT REPLY SKIP|CLIENT REPLY ON|GET a|",
        "CLIENT REPLY SKIP|CLIENT REPLY OFF|GET a|",
        "CLIENT REPLY SKIP|CLIENT REPLY x|GET a|",
        "CLIENT REPLY SKIP||GET a|GET a|",
        "CLIENT REPLY SKIP|*0|GET a|GET a|",
        "CLIENT REPLY SKIP|EVAL return{1,2,3} 0|MGET a b|",
        // What holds for the client holds.
        "CLIENT REPLY OFF|SELECT 3|SET a 3|CLIENT REPLY ON|GET a|SELECT 0|GET a|",
        "CLIENT REPLY OFF|HELLO 3|CLIENT REPLY ON|HGETALL h|HELLO 9|",
        "CLIENT REPLY OFF|AUTH x|AUTH a b c d|CLIENT SETNAME me|CLIENT REPLY ON|CLIENT GETNAME|",
        "CLIENT REPLY OFF|GET a|RESET|GET a|",
        "CLIENT REPLY SKIP|RESET|GET a|",
        "CLIENT REPLY SKIP|PING|PING|CLIENT REPLY SKIP|ECHO a|ECHO b|",
        // Transactions.
        "CLIENT REPLY OFF|MULTI|INCR a|GET a|EXEC|CLIENT REPLY ON|GET a|",
        "CLIENT REPLY OFF|MULTI|INCR a|NOSUCH|EXEC|EXEC|DISCARD|CLIENT REPLY ON|GET a|",
        "CLIENT REPLY OFF|WATCH a|MULTI|INCR a|DISCARD|UNWATCH|CLIENT REPLY ON|GET a|",
        "CLIENT REPLY SKIP|MULTI|INCR a|EXEC|GET a|",
        "MULTI|INCR a|RESET|CLIENT REPLY SKIP|MULTI|EXEC|",
        // What waits for others.
        "CLIENT REPLY OFF|BLPOP none 0.01|XREAD BLOCK 10 STREAMS none $|CLIENT REPLY ON|",
        "CLIENT REPLY SKIP|BLPOP none 0.01|GET a|",
        "CLIENT REPLY SKIP|WAIT 0 10|GET a|",
        // Subscriptions are heard of, errors of theirs are not.
        "CLIENT REPLY OFF|SUBSCRIBE|SUBSCRIBE a b|PING|UNSUBSCRIBE a b|PUNSUBSCRIBE|",
        "CLIENT REPLY OFF|SSUBSCRIBE a|PSUBSCRIBE a*|CLIENT REPLY ON|RESET|",
        "CLIENT REPLY SKIP|SUBSCRIBE a|PING|UNSUBSCRIBE|",
        "HELLO 9|CLIENT REPLY OFF|HELLO 3|SUBSCRIBE a|PING|GET a|CLIENT REPLY ON|RESET|",
    ] {
        let lines = format!("{lines}{ON}");
        let [through, direct] = [weir.redis, servers[1].address].map(|at| heard(at, &[&lines]));
        assert_eq!(through, direct, "{lines}");
    }
    for lines in ["CLIENT REPLY SKIP|PING|QUIT|", "CLIENT REPLY OFF|CLIENT REPLY ON|*x|"] {
        let [through, direct] = [weir.redis, servers[1].address].map(|at| heard(at, &[lines]));
        assert_eq!(through, direct, "{lines}");
    }
    // Who goes, or says what is none, hears nothing and is closed; a server leaves it connected.
    for left_out in ["OFF|", "SKIP|", "OFF|PING|", "SKIP|PING|CLIENT REPLY SKIP|"] {
        for last in ["QUIT|", "*x|"] {
            let lines = format!("CLIENT REPLY {left_out}{last}");
            assert_eq!(heard(weir.redis, &[&lines]), "", "{lines}");
        }
    }
}

#[test]
fn what_others_bring_comes_to_a_client_that_wants_no_answers() {
    let (servers, weir) = beside();
    for (lines, brought, more) in [
        ("CLIENT REPLY OFF|SUBSCRIBE news|", "PUBLISH news x", "UNSUBSCRIBE|"),
        ("CLIENT REPLY OFF|HELLO 3|PSUBSCRIBE n*|", "PUBLISH news x", "PING|PUNSUBSCRIBE|"),
        ("CLIENT REPLY SKIP|SSUBSCRIBE news|", "SPUBLISH news x", "SUNSUBSCRIBE|RESET|"),
        // What was waited for is an answer.
        ("CLIENT REPLY OFF|BLPOP l 0|SET l x|", "RPUSH l x", "GET l|"),
        ("CLIENT REPLY SKIP|BLPOP q 0|", "RPUSH q x", "LLEN q|"),
    ] {
        let parts = [lines, brought, &format!("{more}{ON}")];
        let [through, direct] = [weir.redis, servers[1].address].map(|at| heard(at, &parts));
        assert_eq!(through, direct, "{parts:?}");
    }
    let invalidated = [client(&weir), servers[1].client()].map(|mut keeps| {
        let lines = "HELLO 3|CLIENT TRACKING ON BCAST|GET k|CLIENT REPLY ON|CLIENT REPLY OFF|";
        keeps.send(format!("CLIENT REPLY OFF|{lines}").replace('|', "\r\n").as_bytes());
        assert_eq!(keeps.hear(), "+OK");
        keeps.send(b"SET k x\r\n");
        keeps.hear()
    });
    assert_eq!(invalidated, [">2 $10 invalidate *1 $1 k"; 2]);
}

#[test]
fn who_watches_all_commands_sees_none_while_it_wants_no_answers() {
    let server = Redis::start();
    let weir = weir(&[&server], "", ADMIN);
    let [mut watches, mut other] = [admin(&weir), admin(&weir)];
    watches.send(b"CLIENT REPLY OFF\r\nMONITOR\r\nSET k 1\r\nCLIENT SETNAME quiet\r\n");
    wait::until("it watches", wait::LONG, || other.line("CLIENT LIST").contains("name=quiet"));
    assert_eq!(other.line("SET k 2"), "+OK");
    watches.send(b"CLIENT REPLY ON\r\nCLIENT SETNAME loud\r\n");
    wait::until("it hears again", wait::LONG, || other.line("CLIENT LIST").contains("name=loud"));
    assert_eq!(other.line("SET k 3"), "+OK");
    let mut seen = String::new();
    while !seen.contains("\"SET\" \"k\" \"3\"") {
        seen += &watches.hear();
    }
    assert!(!seen.contains("\"SET\" \"k\" \"1\""), "{seen}");
    assert!(!seen.contains("\"SET\" \"k\" \"2\""), "{seen}");
}

#[test]
fn what_went_wrong_is_not_heard_either() {
    let mut server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut client = client(&weir);
    assert_eq!(client.line("SET a 1"), "+OK");
    server.kill();
    client.send(b"CLIENT REPLY OFF\r\nGET a\r\nINCR a\r\nMGET a b\r\nCLIENT REPLY ON\r\n");
    assert_eq!(client.hear(), "+OK");
    assert!(client.line("INCR a").starts_with("-ERR weir: not sent"));
    server.start_again();
    wait::until("it is served again", wait::LONG, || client.line("GET a") == "$-1");
}

#[test]
fn answers_that_nobody_hears_wait_nowhere() {
    let server = Redis::start();
    let weir = weir(&[&server], "max-unread = \"1MiB\"\nmax-waiting = \"1MiB\"", "");
    let mut client = client(&weir);
    assert_eq!(client.ask(&["SET", "large", &"x".repeat(900 << 10)]), "+OK");
    // Each waits behind the one before it.
    let get = "BLPOP none 0.01\r\nGET large\r\nGET large\r\nMGET large large\r\n".repeat(20);
    client.send(format!("CLIENT REPLY OFF\r\n{get}CLIENT REPLY ON\r\n").as_bytes());
    assert_eq!(client.hear(), "+OK");
}

#[test]
fn whoever_wants_no_answers_is_held_back_as_others_are() {
    const COMMANDS: usize = 4_000;
    let mut server = Redis::start();
    let weir = weir(&[&server], "timeout = \"60s\"", "");
    let mut socket = TcpStream::connect(weir.redis).unwrap();
    socket.write_all(b"CLIENT REPLY OFF\r\nINCR n\r\n").unwrap();
    let mut direct = server.client();
    wait::until("it is served", wait::LONG, || direct.line("GET n") == "$1 1");
    server.running().signal(Signal::STOP);
    let command = format!("SET k {}\r\nINCR n\r\n", "x".repeat(16 << 10));
    let all = command.repeat(COMMANDS);
    socket.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut taken = 0;
    // The operating system keeps some, and Weir no more than it does of others.
    while let Ok(some) = socket.write(&all.as_bytes()[taken..]) {
        taken += some;
        assert!(taken < all.len(), "all was taken while its server was stopped");
    }
    server.running().signal(Signal::CONT);
    socket.set_write_timeout(None).unwrap();
    socket.write_all(&all.as_bytes()[taken..]).unwrap();
    socket.write_all(b"CLIENT REPLY ON\r\n").unwrap();
    let mut heard = [0; 5];
    socket.read_exact(&mut heard).unwrap();
    assert_eq!(heard, *b"+OK\r\n");
    assert_eq!(direct.line("GET n"), format!("$4 {}", COMMANDS + 1));
}
