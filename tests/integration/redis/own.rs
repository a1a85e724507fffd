//! What Weir answers itself.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rig::redis::{Redis, valkeys};
use rig::wait;

use super::scene::{ADMIN, admin, client, weir};

#[test]
fn sub_commands_that_there_are_not_are_told_as_a_server_tells_it() {
    let server = Redis::start();
    let weir = weir(&[&server], "", ADMIN);
    let (mut root, mut direct) = (admin(&weir), server.client());
    for line in [
        "CLIENT",
        "CLIENT FOO",
        "CLIENT KILL",
        "CLIENT GETNAME x",
        "CLIENT REPLY",
        "CLIENT CACHING",
        "CONFIG FOO",
        "CONFIG GET",
        "FUNCTION FOO",
        "SCRIPT FOO x",
        "SCRIPT KILL x",
        "SLOWLOG foo",
        "SLOWLOG LEN x",
        "LATENCY Foo",
        "LATENCY LATEST x",
        "PUBSUB FOO",
    ] {
        assert_eq!(root.line(line), direct.line(line), "{line}");
    }
    for line in ["CLIENT NO-EVICT ON", "CONFIG SET save x", "SCRIPT DEBUG YES", "LATENCY DOCTOR"] {
        let heard = root.line(line);
        assert!(heard.starts_with("-ERR weir: ") && heard.contains("is refused"), "{heard}");
    }
    assert_eq!(root.line("MULTI"), "+OK");
    assert_eq!(root.line("SCRIPT FOO"), "-ERR unknown subcommand 'FOO'. Try SCRIPT HELP.");
    assert!(root.line("EXEC").starts_with("-EXECABORT"));
}

#[test]
fn info_has_the_sections_that_are_asked_for_and_counts_clients() {
    let server = Redis::start();
    let weir = weir(&[&server], "", ADMIN);
    let (mut root, mut waits, mut hears) = (admin(&weir), admin(&weir), admin(&weir));
    let mut field = |section: &str, name: &str| {
        let all = root.line(format!("INFO {section}").trim_end());
        let of = all.split(&format!("{name}:")).nth(1).map(|of| of.split(' ').next().unwrap());
        of.unwrap_or_default().to_owned()
    };
    assert_eq!(field("clients", "connected_clients"), "3");
    assert_eq!(field("CLIENTS server", "redis_version").split('.').count(), 3);
    assert_eq!(field("clients", "redis_version"), "");
    assert_eq!(field("", "cluster_enabled"), "0");
    assert_eq!(field("everything", "role"), "master");
    assert!(field("stats", "total_commands_processed").parse::<u64>().unwrap() > 5);
    waits.say(&["BLPOP", "nothing", "0"]);
    hears.line("SUBSCRIBE news");
    wait::until("it waits", wait::LONG, || field("clients", "blocked_clients") == "1");
    assert_eq!(field("clients", "pubsub_clients"), "1");
    assert_eq!(client(&weir).line("INFO"), "-NOAUTH Authentication required.");
    assert_eq!(root.line("INFO nosuch"), server.client().line("INFO nosuch"));
    // Whoever is held back by a pause waits, too.
    assert_eq!(root.line("LPUSH nothing x"), ":1");
    assert_eq!(waits.hear(), "*2 $7 nothing $1 x");
    assert_eq!(root.line("CLIENT PAUSE 600000 WRITE"), "+OK");
    waits.say(&["INCR", "n"]);
    let blocked = |all: String| all.contains("blocked_clients:1");
    wait::until("it waits", wait::LONG, || blocked(root.line("INFO clients")));
    assert_eq!(root.line("CLIENT UNPAUSE"), "+OK");
    assert_eq!(waits.hear(), ":1");
}

#[test]
fn a_client_tells_which_library_it_uses() {
    let server = Redis::start();
    let weir = weir(&[&server], "", ADMIN);
    let mut root = admin(&weir);
    assert!(root.line("CLIENT INFO").contains("lib-name= lib-ver="));
    assert_eq!(root.line("CLIENT SETINFO LIB-NAME redis-py"), "+OK");
    assert_eq!(root.line("CLIENT SETINFO lib-ver 5.0.1"), "+OK");
    assert!(root.line("CLIENT LIST").contains("lib-name=redis-py lib-ver=5.0.1"));
    assert_eq!(root.line("CLIENT SETINFO lib-os x"), "-ERR Unrecognized option 'lib-os'");
    let spaced = root.ask(&["CLIENT", "SETINFO", "lib-name", "a b"]);
    assert!(spaced.starts_with("-ERR lib-name cannot contain spaces"), "{spaced}");
    assert_eq!(root.ask(&["CLIENT", "SETINFO", "lib-name", ""]), "+OK");
    assert!(root.line("CLIENT INFO").contains("lib-name= lib-ver=5.0.1"));
}

#[test]
fn a_pause_of_writes_lets_reads_by_and_a_shorter_one_ends_no_longer_one() {
    let server = Redis::start();
    let weir = weir(&[&server], "", ADMIN);
    let (mut root, mut reads, mut writes) = (admin(&weir), admin(&weir), admin(&weir));
    assert_eq!(root.line("SET k 1"), "+OK");
    assert_eq!(root.line("CLIENT PAUSE 600000 WRITE"), "+OK");
    assert_eq!(root.line("CLIENT PAUSE 1 WRITE"), "+OK");
    for line in ["WATCH k", "MULTI", "GET k", "EXEC", "WATCH k", "UNWATCH", "MULTI", "DISCARD"] {
        let heard = reads.line(line);
        assert!(!heard.starts_with('-'), "{line}: {heard}");
    }
    writes.say(&["MULTI"]);
    writes.say(&["INCR", "k"]);
    writes.say(&["EXEC"]);
    wait::until("it waits", wait::LONG, || root.line("INFO clients").contains("blocked_clients:1"));
    assert_eq!(server.client().line("GET k"), "$1 1");
    assert_eq!(root.line("CLIENT UNPAUSE"), "+OK");
    assert_eq!([writes.hear(), writes.hear(), writes.hear()], ["+OK", "+QUEUED", "*1 :2"]);
}

#[test]
fn a_script_may_answer_with_arrays_within_arrays_until_its_stack_ends() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut beside = client(&weir);
    assert_eq!(beside.line("SET k 1"), "+OK");
    let script = "EVAL 'local a={} local b={a} a[1]=b return a' 0\r\nGET k\r\n";
    let heard = [weir.redis, server.address].map(|address| {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(wait::LONG)).unwrap();
        socket.write_all(script.as_bytes()).unwrap();
        let (mut all, mut some) = (Vec::new(), [0; 64 << 10]);
        while !all.ends_with(b"$1\r\n1\r\n") {
            let len = socket.read(&mut some).unwrap();
            assert!(len > 0, "it was closed behind {} bytes", all.len());
            all.extend_from_slice(&some[..len]);
        }
        all
    });
    assert!(heard[0].len() > 30_000 && heard[0] == heard[1]);
    assert_eq!(beside.line("GET k"), "$1 1");
}

#[test]
fn what_newer_servers_have_is_as_they_have_it() {
    for program in valkeys() {
        let server = Redis::start_as(&program, &[]);
        let weir = weir(&[&server], "", "");
        let (mut ann, mut direct) = (client(&weir), server.client());
        assert_eq!(direct.line("ZADD z 1 a 2 b"), ":2");
        for line in [
            "ZRANK z b WITHSCORE",
            "ZREVRANK z b WITHSCORE",
            "ZRANK z none WITHSCORE",
            "MULTI",
            "SET k x",
            "MULTI",
            "EXEC",
            "EXISTS k",
        ] {
            assert_eq!(ann.line(line), direct.line(line), "{line}");
        }
        assert_eq!(ann.line("CONFIG|GET save"), "-ERR unknown command 'CONFIG|GET'");
    }
}
