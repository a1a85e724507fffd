//! Limits, and what a client hears at each.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rig::beside::EndGuard;
use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::Weir;
use rustix::process::Signal;

use super::operating::cell;
use super::scene::{ADMIN, admin, client, key_on, weir};

/// How many connections were closed for being slow in this way.
fn closed(weir: &Weir, phase: &str) -> f64 {
    weir.metrics().sum("weir_connections_slow_total", &[("listener", "redis"), ("phase", phase)])
}

/// A command of one key whose value has so many bytes.
fn command(name: &str, bytes: usize) -> Vec<u8> {
    let mut out =
        format!("*3\r\n${}\r\n{name}\r\n$1\r\na\r\n${bytes}\r\n", name.len()).into_bytes();
    out.resize(out.len() + bytes, b'v');
    out.extend_from_slice(b"\r\n");
    out
}

#[test]
fn what_is_larger_than_it_may_be_is_told_and_closed() {
    let server = Redis::start();
    let no_value = "-ERR Protocol error: invalid bulk length";
    let no_command = "-ERR weir: the command is larger than max-command";
    for (lines, name, fits, exceeds, wanted) in [
        ("max-value = \"1000B\"", "SET", 1000, 1001, no_value),
        ("max-value = \"1MiB\"", "SET", 1 << 20, (1 << 20) + 1, no_value),
        ("max-command = \"64KiB\"", "MSET", 65_000, 66_000, no_command),
    ] {
        let weir = weir(&[&server], lines, "");
        let [mut ann, mut beside] = [client(&weir), client(&weir)];
        ann.send(&command(name, fits));
        assert_eq!(ann.hear(), "+OK", "{lines}");
        // As much as it takes and no more: what comes behind it would break the connection before
        // the answer is heard.
        let whole = command(name, exceeds);
        let enough = if wanted == no_value { whole.len() - exceeds - 2 } else { 64 << 10 };
        ann.send(&whole[..enough]);
        assert_eq!(ann.hear(), wanted, "{lines}");
        assert!(ann.is_closed(), "{lines}");
        assert_eq!(beside.line("STRLEN a"), format!(":{fits}"), "{lines}");
    }
}

#[test]
fn answers_behind_a_slow_one_are_kept_up_to_max_waiting() {
    let mut servers = [Redis::start(), Redis::start()];
    let lines = "max-waiting = \"64KiB\"\ntimeout = \"60s\"";
    let weir = weir(&servers.each_ref(), lines, "");
    let [slow, fast] = [0, 1].map(|server| key_on(&servers.each_ref(), &weir, server));
    let value = "v".repeat(30_000);
    let [mut ann, mut bob, mut beside] = [client(&weir), client(&weir), client(&weir)];
    assert_eq!(ann.ask(&["SET", &fast, &value]), "+OK");
    servers[0].running().signal(Signal::STOP);
    for (who, answers) in [(&mut ann, 2), (&mut bob, 3)] {
        who.send(format!("GET {slow}\r\n").as_bytes());
        who.send(format!("GET {fast}\r\n").repeat(answers).as_bytes());
    }
    let wanted = "-ERR weir: more answers wait behind a slow one than max-waiting";
    assert_eq!(bob.hear(), wanted);
    assert!(bob.is_closed());
    assert!(beside.ask(&["GET", &fast]).ends_with(&value));
    servers[0].running().signal(Signal::CONT);
    assert_eq!(ann.hear(), "$1 x");
    (0..2).for_each(|_| assert!(ann.hear().ends_with(&value)));
    assert_eq!(ann.line("PING"), "+PONG");
}

#[test]
fn who_leaves_more_answers_than_max_unread_is_closed_alone() {
    const ANSWERS: usize = 1000;
    let server = Redis::start();
    let weir = weir(&[&server], "max-unread = \"64KiB\"", "");
    let [mut slow, mut beside] = [client(&weir), client(&weir)];
    let value = "v".repeat(30_000);
    assert_eq!(slow.ask(&["SET", "a", &value]), "+OK");
    // More than the sockets between take.
    slow.send("GET a\r\n".repeat(ANSWERS).as_bytes());
    wait::until("it is closed", wait::LONG, || {
        assert!(beside.line("GET a").ends_with(&value));
        closed(&weir, "spill") == 1.0
    });
    let heard = (0..ANSWERS).take_while(|_| slow.try_hear().is_ok()).count();
    assert!(heard < ANSWERS, "it was not closed");
    assert_eq!(beside.line("PING"), "+PONG");
}

/// Has a client read a value slowly while others are active on the only lane: how many bytes came.
fn read_slowly_amid_others(lines: &str, bytes: usize) -> usize {
    const OTHERS: usize = 4;
    const A_SECOND: usize = 10_000_000;
    let server = Redis::start();
    // Weir has not seen it, nor how large it is.
    server.client().send(&command("SET", bytes));
    let weir = weir(&[&server], lines, "");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = EndGuard(&is_over);
        for n in 0..OTHERS {
            let (weir, is_over) = (&weir, &is_over);
            scope.spawn(move || {
                let mut other = client(weir);
                other.patience(wait::LONG);
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(other.ask(&["SET", &format!("o{n}"), "x"]), "+OK");
                }
            });
        }
        let mut slow = TcpStream::connect(weir.redis).unwrap();
        slow.set_read_timeout(Some(wait::LONG)).unwrap();
        let (begun, mut read, mut buffer) = (Instant::now(), 0, vec![0; 100_000]);
        slow.write_all(b"GET a\r\n").unwrap();
        while read < bytes {
            let due = begun + Duration::from_secs_f64(read as f64 / A_SECOND as f64);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            match slow.read(&mut buffer) {
                Ok(n @ 1..) => read += n,
                _ => break,
            }
        }
        drop(end);
        read
    })
}

#[test]
fn a_slow_client_has_the_whole_of_a_large_value_while_others_are_active() {
    let all = 40_000_000;
    for lines in [
        // It is kept for its client; it is not; and half of it would have been.
        "lanes = 1",
        "lanes = 1\nmax-unread = \"1MiB\"",
        "lanes = 1\nmax-unread = \"30MiB\"",
    ] {
        let read = read_slowly_amid_others(lines, all);
        assert!(read >= all, "{lines}: {read} bytes came");
    }
}

#[test]
fn a_value_that_was_seen_to_be_large_is_read_by_a_connection_of_its_own() {
    let server = Redis::start();
    let weir = weir(&[&server], "max-unread = \"1MiB\"", "");
    let mut ann = client(&weir);
    ann.send(&command("SET", 3 << 20));
    assert_eq!(ann.hear(), "+OK");
    let leased = || weir.metrics().sum("weir_redis_commands_total", &[("way", "lease")]);
    // The first reply tells how large it is.
    wait::until("the next reads have a connection of their own", wait::LONG, || {
        let before = leased();
        assert_eq!(ann.line("GET a").len(), (3 << 20) + "$3145728 ".len());
        leased() == before + 1.0
    });
    let before = leased();
    assert_eq!(ann.line("GET b"), "$-1");
    assert_eq!(leased(), before);
}

#[test]
fn values_of_several_servers_that_are_too_large_together_are_told_and_nobody_is_closed() {
    let servers = [Redis::start(), Redis::start()];
    let weir = weir(&servers.each_ref(), "max-waiting = \"64KiB\"", "");
    let keys = [0, 1].map(|server| key_on(&servers.each_ref(), &weir, server));
    let mut ann = client(&weir);
    let value = "v".repeat(40_000);
    for key in &keys {
        assert_eq!(ann.ask(&["SET", key, &value]), "+OK");
    }
    let told = "-ERR weir: what several servers have answered is together larger than max-waiting";
    for _ in 0..3 {
        assert_eq!(ann.ask(&["MGET", &keys[0], &keys[1]]), told);
        assert!(ann.ask(&["MGET", &keys[0], "none"]).contains(&value));
    }
    assert_eq!(ann.line("PING"), "+PONG");
}

#[test]
fn commands_beyond_lane_depth_wait_for_their_turn() {
    const CLIENTS: usize = 12;
    let mut server = Redis::start();
    let weir = weir(&[&server], "lane-depth = 4\ntimeout = \"60s\"", ADMIN);
    let mut root = admin(&weir);
    let mut clients: Vec<RedisClient> = (0..CLIENTS).map(|_| admin(&weir)).collect();
    assert_eq!(root.line("INCR n"), ":1");
    server.running().signal(Signal::STOP);
    for one in &mut clients {
        one.send(b"INCR n\r\nINCR n\r\n");
    }
    wait::until("the lane is full", wait::LONG, || {
        cell(&root.line("WEIR SHOW LANES"), "s0", "in-flight") == ":4"
    });
    wait::until("all have come", wait::LONG, || {
        let all = root.line("CLIENT LIST");
        let waits = |line: &&str| line.contains(" cmd=incr ") && !line.contains("pending=0");
        all.split("id=").filter(waits).count() == CLIENTS
    });
    assert_eq!(cell(&root.line("WEIR SHOW LANES"), "s0", "in-flight"), ":4");
    server.running().signal(Signal::CONT);
    let number = |heard: String| heard[1..].parse::<usize>().unwrap();
    let all = clients.iter_mut().flat_map(|one| [number(one.hear()), number(one.hear())]);
    let all: Vec<usize> = all.collect();
    assert!(all.chunks(2).all(|of_one| of_one[0] < of_one[1]), "{all:?}");
    let mut sorted = all;
    sorted.sort_unstable();
    assert_eq!(sorted, (2..2 + 2 * CLIENTS).collect::<Vec<_>>());
}

#[test]
fn a_command_that_does_not_go_on_is_cut_off_and_a_slow_one_is_not() {
    let server = Redis::start();
    let weir = weir(&[&server], "read-timeout = \"1s\"", "");
    let begun = Instant::now();
    let [mut half, mut silent, mut slow] = [client(&weir), client(&weir), client(&weir)];
    half.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$10\r\nhal");
    let value = "v".repeat(2000);
    slow.send(b"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$2000\r\n");
    let mut bytes = value.bytes();
    wait::until("the half one is closed", wait::LONG, || {
        slow.send(&[bytes.next().expect("it is not slower than that")]);
        closed(&weir, "header") == 1.0 && begun.elapsed() > Duration::from_secs(3)
    });
    assert!(half.is_closed());
    slow.send(&bytes.collect::<Vec<_>>());
    slow.send(b"\r\n");
    assert_eq!(slow.hear(), "+OK");
    assert_eq!(silent.line("STRLEN b"), ":2000");
    assert_eq!(silent.line("EXISTS a"), ":0");
}

#[test]
fn who_asks_nothing_is_closed_after_idle_timeout_and_who_waits_is_not() {
    let server = Redis::start();
    let weir = weir(&[&server], "idle-timeout = \"1s\"", "");
    let [mut idle, mut silent, mut busy] = [client(&weir), client(&weir), client(&weir)];
    let [mut waits, mut hears] = [client(&weir), client(&weir)];
    let begun = Instant::now();
    assert_eq!(idle.line("PING"), "+PONG");
    waits.say(&["BLPOP", "list", "0"]);
    assert_eq!(hears.line("SUBSCRIBE news"), "*3 $9 subscribe $4 news :1");
    wait::until("the idle ones are closed", wait::LONG, || {
        assert_eq!(busy.line("PING"), "+PONG");
        closed(&weir, "idle") == 2.0 && begun.elapsed() > Duration::from_secs(3)
    });
    assert!(idle.is_closed() && silent.is_closed());
    assert_eq!(busy.line("LPUSH list x"), ":1");
    assert_eq!(waits.hear(), "*2 $4 list $1 x");
    assert!(busy.line("PUBLISH news y").starts_with(':'));
    assert_eq!(hears.hear(), "*3 $7 message $4 news $1 y");
}
