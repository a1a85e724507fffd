//! Bytes that no client should send.

use rig::places;
use rig::redis::{Redis, RedisClient};
use rig::wait;

use super::scene::{ADMIN, admin, client, weir};
use crate::hostile_clients::resident_kib;

#[test]
fn garbage_is_answered_and_closed_and_nobody_else_is_disturbed() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut ann = client(&weir);
    ann.line("SET a 1");
    let cases: [(&[u8], &str); 9] = [
        (b"*3000000000\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*x\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n$-2\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$-10\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$2000000000\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$99999999999999999999\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\nGET\r\n", "-ERR Protocol error: expected '$', got 'G'"),
        (b"SET a \"b\r\n", "-ERR Protocol error: unbalanced quotes in request"),
    ];
    for (bytes, wanted) in cases {
        let mut stranger = client(&weir);
        stranger.send(bytes);
        assert_eq!(stranger.hear(), wanted);
        assert!(stranger.is_closed());
        assert_eq!(ann.line("GET a"), "$1 1");
    }
    let mut stranger = client(&weir);
    stranger.send(&vec![b'x'; 70 << 10]);
    assert_eq!(stranger.hear(), "-ERR Protocol error: too big inline request");
    // An answer before the fault is heard.
    let mut stranger = client(&weir);
    stranger.send(b"GET a\r\n*x\r\n");
    assert_eq!(stranger.hear(), "$1 1");
    assert_eq!(stranger.hear(), "-ERR Protocol error: invalid multibulk length");
}

#[test]
fn half_commands_and_silence_cost_nobody_else_anything() {
    let server = Redis::start();
    let weir = weir(&[&server], "max-connections = 400", "");
    let mut ann = client(&weir);
    let mut silent: Vec<RedisClient> = (0..300).map(|_| client(&weir)).collect();
    for (n, stranger) in silent.iter_mut().enumerate() {
        let half = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n2\r\n";
        stranger.send(&half[..n % half.len()]);
    }
    for _ in 0..100 {
        assert_eq!(ann.line("GET a"), "$-1");
    }
    let more: Vec<RedisClient> = (0..200).map(|_| client(&weir)).collect();
    let mut refused = more.into_iter().map(|mut one| {
        one.say(&["PING"]);
        one.try_hear().map_or_else(|_| String::new(), |b| String::from_utf8_lossy(&b).into_owned())
    });
    assert!(refused.any(|heard| heard == "-ERR max number of clients reached\r\n"));
    drop(silent);
    wait::until("there is room again", wait::LONG, || {
        let mut next = client(&weir);
        next.try_ask(&["PING"]).is_ok_and(|heard| heard == b"+PONG\r\n")
    });
}

#[test]
fn arrays_in_arrays_and_numbers_past_64_bits_are_refused_and_nobody_else_is_disturbed() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut ann = client(&weir);
    ann.line("SET a 1");
    let [array, bulk] =
        ["multibulk", "bulk"].map(|kind| format!("-ERR Protocol error: invalid {kind} length"));
    let cases: [(&str, &str); 8] = [
        (&"*1\r\n".repeat(10_000), "-ERR Protocol error: expected '$', got '*'"),
        ("*2\r\n$4\r\nECHO\r\n*1\r\n$1\r\nx\r\n", "-ERR Protocol error: expected '$', got '*'"),
        ("*9223372036854775808\r\n$4\r\nPING\r\n", &array),
        ("*18446744073709551617\r\n$4\r\nPING\r\n", &array),
        ("*1\r\n$9223372036854775808\r\nPING\r\n", &bulk),
        ("*1\r\n$18446744073709551620\r\nPING\r\n", &bulk),
        ("*1\r\n$-9223372036854775808\r\nPING\r\n", &bulk),
        ("*1\r\n$-2\r\nPING\r\n", &bulk),
    ];
    for (bytes, wanted) in cases {
        let mut stranger = client(&weir);
        stranger.send(bytes.as_bytes());
        assert_eq!(stranger.hear(), wanted);
        assert!(stranger.is_closed());
        assert_eq!(ann.line("GET a"), "$1 1");
    }
    // As words of a command they are the server's to refuse, or Weir's in its words.
    let (mut through, mut direct) = (client(&weir), server.client());
    for line in [
        "EXPIRE a 9223372036854775808",
        "SET a v EX 18446744073709551616",
        "INCRBY a 9223372036854775808",
        "SETRANGE a 9223372036854775808 x",
        "LRANGE l 0 99999999999999999999",
        "SELECT 18446744073709551616",
        "HELLO 18446744073709551618",
        "EVAL x 18446744073709551617 k",
        "SCAN 18446744073709551616",
        "BLPOP l 1e400",
        "BLPOP l 99999999999999999999",
        "XREAD BLOCK 99999999999999999999 STREAMS s 0",
        "LMPOP 18446744073709551617 l LEFT",
        "WAIT 99999999999999999999 1",
        "$-2",
    ] {
        let heard = through.line(line);
        assert!(heard.starts_with('-'), "{line}: {heard}");
        let (heard, told) = (heard.to_lowercase(), direct.line(line).to_lowercase());
        assert!(told.starts_with(&heard), "{line}: {heard}, not {told}");
        assert_eq!(ann.line("GET a"), "$1 1");
    }
    // A server may well answer with as many arrays as a script can make.
    let deep = "local t = {} for _ = 1, 5000 do t = {t} end return t";
    assert_eq!(through.ask(&["EVAL", deep, "0"]), direct.ask(&["EVAL", deep, "0"]));
    assert_eq!(ann.line("GET a"), "$1 1");
}

#[test]
fn halves_of_large_values_and_silence_cost_nobody_else_anything() {
    let server = Redis::start();
    let weir = weir(&[&server], "timeout = \"1s\"\nread-timeout = \"1s\"", "");
    let mut ann = client(&weir);
    let half = format!("*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$1000000\r\n{}", "v".repeat(500_000));
    let mut silent: Vec<RedisClient> = (0..20).map(|_| client(&weir)).collect();
    for stranger in &mut silent {
        stranger.send(half.as_bytes());
    }
    let gone = (0..20).map(|_| client(&weir)).map(|mut one| one.send(half.as_bytes())).count();
    assert_eq!(gone, 20);
    for n in 1..=200 {
        assert_eq!(ann.line("INCR n"), format!(":{n}"));
        ann.send(b"MULTI\r\nGET n\r\nEXEC\r\n");
        assert_eq!([ann.hear(), ann.hear()], ["+OK", "+QUEUED"]);
        assert!(ann.hear().starts_with("*1 $"));
    }
    for stranger in &mut silent {
        while stranger.try_hear().is_ok() {}
    }
    assert_eq!(ann.line("EXISTS half"), ":0");
    let one = "weir_connections_open";
    wait::until("they are gone", wait::LONG, || {
        weir.metrics().sum(one, &[("listener", "redis")]) == 1.0
    });
    assert_eq!(ann.line("GET n"), "$3 200");
}

#[test]
fn a_thousand_strangers_who_never_log_in_cost_little_and_nobody_waits_for_them() {
    const STRANGERS: usize = 1000;
    places::raise_open_files();
    let server = Redis::start();
    let mut weir = weir(&[&server], "", ADMIN);
    let pid = weir.running().id();
    let mut ann = admin(&weir);
    assert_eq!(ann.line("INCR n"), ":1");
    let before = resident_kib(pid);
    let some = format!("*10\r\n$16384\r\n{}", "x".repeat(8 << 10));
    let mut strangers: Vec<RedisClient> = (0..STRANGERS).map(|_| client(&weir)).collect();
    for (n, stranger) in strangers.iter_mut().enumerate() {
        match n % 4 {
            0 => {}
            1 => stranger.send(b"*2\r\n$4\r\nAUTH\r\n$1"),
            2 => stranger.send(some.as_bytes()),
            _ => assert_eq!(stranger.line("GET n"), "-NOAUTH Authentication required."),
        }
    }
    let open = || weir.metrics().sum("weir_connections_open", &[("listener", "redis")]);
    wait::until("all are there", wait::LONG, || open() == (STRANGERS + 1) as f64);
    for n in 2..=300 {
        assert_eq!(ann.line("INCR n"), format!(":{n}"));
        assert_eq!(admin(&weir).line("GET n"), format!("${} {n}", n.to_string().len()));
    }
    let grown = resident_kib(pid).saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB more");
    assert_eq!(strangers[3].line("GET n"), "-NOAUTH Authentication required.");
}

#[test]
fn what_half_sent_commands_took_goes_back_to_the_system() {
    const CLIENTS: usize = 40;
    let server = Redis::start();
    let mut weir = weir(&[&server], "max-memory = \"512MiB\"", ADMIN);
    let pid = weir.running().id();
    let mut ann = admin(&weir);
    assert_eq!(ann.line("INCR n"), ":1");
    let before = resident_kib(pid);
    let mut clients: Vec<RedisClient> = (0..CLIENTS).map(|_| admin(&weir)).collect();
    clients.iter_mut().for_each(|client| client.send(b"*801\r\n$4\r\nMSET\r\n"));
    let piece = format!("$16384\r\n{}\r\n", "x".repeat(16 << 10)).repeat(64);
    // In turns, so that what is held lies mixed in memory.
    for _ in 0..7 {
        clients.iter_mut().for_each(|client| client.send(piece.as_bytes()));
    }
    wait::until("all of it is held", wait::LONG, || {
        weir.metrics().sum("weir_redis_held_bytes", &[]) >= (CLIENTS * (7 << 20)) as f64
    });
    drop(clients);
    wait::until("it goes back", wait::LONG, || {
        resident_kib(pid).saturating_sub(before) < 100 << 10
    });
    assert_eq!(ann.line("INCR n"), ":2");
}

#[test]
fn strangers_who_send_all_that_they_may_are_held_to_max_memory() {
    let server = Redis::start();
    let mut weir = weir(&[&server], "max-memory = \"16MiB\"", ADMIN);
    let pid = weir.running().id();
    let mut ann = admin(&weir);
    assert_eq!(ann.line("INCR n"), ":1");
    let before = resident_kib(pid);
    let whole = format!("$16384\r\n{}\r\n", "x".repeat(16 << 10)).repeat(9);
    let some = format!("*10\r\n{whole}$16384\r\n{}", "x".repeat(16_000));
    let oom = "-OOM weir: commands and answers of all clients together are at max-memory";
    let mut strangers: Vec<RedisClient> = (0..400).map(|_| client(&weir)).collect();
    strangers.iter_mut().for_each(|stranger| stranger.send(some.as_bytes()));
    // Of 64 MiB as much is held as may be, and who came later was closed.
    let last = strangers.last_mut().expect("there are some");
    assert_eq!(last.hear(), oom);
    assert!(last.is_closed());
    let grown = resident_kib(pid).saturating_sub(before);
    assert!((8 << 10..32 << 10).contains(&grown), "{grown} KiB more");
    for n in 2..=100 {
        assert_eq!(ann.line("INCR n"), format!(":{n}"));
        assert_eq!(admin(&weir).line("GET n"), format!("${} {n}", n.to_string().len()));
    }
}
