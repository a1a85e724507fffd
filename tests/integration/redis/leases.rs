//! What needs a connection of its own: transactions, watched keys, commands that block.

use std::time::{Duration, Instant};

use rig::redis::Redis;
use rig::wait;

use super::scene::{ADMIN, admin, client, key_on, weir};

#[test]
fn a_transaction_is_run_as_a_whole() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let [mut ann, mut bob] = [client(&weir), client(&weir)];
    for (line, wanted) in [
        ("MULTI", "+OK"),
        ("MULTI", "-ERR MULTI calls can not be nested"),
        ("SET a 1", "+QUEUED"),
        ("INCR a", "+QUEUED"),
        ("PING", "+QUEUED"),
        ("MGET a b", "+QUEUED"),
    ] {
        assert_eq!(ann.line(line), wanted, "{line}");
    }
    assert_eq!(bob.line("GET a"), "$-1");
    assert_eq!(ann.line("EXEC"), "*4 +OK :2 +PONG *2 $1 2 $-1");
    assert_eq!(bob.line("GET a"), "$1 2");
    for (line, wanted) in [
        ("MULTI", "+OK"),
        ("EXEC", "*0"),
        ("MULTI", "+OK"),
        ("DISCARD", "+OK"),
        ("MULTI", "+OK"),
        ("INCR a", "+QUEUED"),
        ("DISCARD", "+OK"),
        ("GET a", "$1 2"),
        ("MULTI", "+OK"),
        ("INCR a", "+QUEUED"),
        ("NOSUCH", "-ERR unknown command 'NOSUCH'"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("MULTI", "+OK"),
        ("INCR", "-ERR wrong number of arguments for 'incr' command"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("MULTI", "+OK"),
        ("SELECT 3", "-ERR weir: SELECT is refused within MULTI"),
        ("INCR a", "+QUEUED"),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("GET a", "$1 2"),
    ] {
        assert_eq!(ann.line(line), wanted, "{line}");
    }
    // What would stay on the connection is refused as outside of MULTI.
    assert_eq!(ann.line("MULTI"), "+OK");
    let said = ann.line("SCRIPT DEBUG YES");
    assert!(said.starts_with("-ERR weir: SCRIPT DEBUG is refused"), "{said}");
    assert!(ann.line("EXEC").starts_with("-EXECABORT"));
    for (line, wanted) in [("MULTI", "+OK"), ("SCRIPT EXISTS x", "+QUEUED"), ("EXEC", "*1 *1 :0")] {
        assert_eq!(ann.line(line), wanted, "{line}");
    }
}

#[test]
fn a_transaction_of_which_a_step_was_not_sent_is_not_run() {
    let server = Redis::start();
    let limits = "max-command = \"1MiB\"\nmax-memory = \"2MiB\"";
    let weir = weir(&[&server], limits, ADMIN);
    let mut root = admin(&weir);
    let value = "v".repeat(600_000);
    let held = || weir.metrics().sum("weir_redis_held_bytes", &[]);
    let [mut later, mut first, mut tracks] = [0; 3].map(|_| admin(&weir));
    assert!(tracks.line("HELLO 3").starts_with('%'));
    assert_eq!(tracks.line("CLIENT TRACKING ON"), "+OK");
    for (of, steps) in [(&mut later, 1), (&mut first, 0), (&mut tracks, 1)] {
        assert_eq!(of.line("MULTI"), "+OK");
        (0..steps).for_each(|_| assert_eq!(of.line("SET a 1"), "+QUEUED"));
    }
    // As much is held as may be: there is no room for another large step.
    assert_eq!(root.line("WEIR PAUSE"), "+OK");
    let mut all = [admin(&weir), admin(&weir)];
    for (at, of) in all.iter_mut().enumerate() {
        of.say(&["MSET", "k", &value]);
        let wanted = (at + 1) as f64 * 600_000.0;
        wait::until("it is held", wait::LONG, || held() >= wanted);
    }
    for of in [&mut later, &mut first, &mut tracks] {
        assert!(of.ask(&["SET", "k", &value]).starts_with("-OOM weir: "));
    }
    assert_eq!(root.line("WEIR RESUME"), "+OK");
    assert_eq!([all[0].hear(), all[1].hear()], ["+OK", "+OK"]);
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    for of in [&mut later, &mut first, &mut tracks] {
        let refused = "-ERR weir: not sent: nor was what came before it within MULTI";
        assert_eq!(of.line("SET a 2"), refused);
        assert_eq!(of.line("EXEC"), aborted);
        for (line, wanted) in [("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "*1 +PONG")] {
            assert_eq!(of.line(line), wanted);
        }
    }
    assert_eq!(root.line("GET a"), "$-1");
}

#[test]
fn a_watched_key_that_changes_undoes_the_transaction() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let [mut ann, mut bob] = [client(&weir), client(&weir)];
    for (changes, wanted) in [(false, "*1 :1"), (true, "*-1")] {
        assert_eq!(ann.line("WATCH k"), "+OK");
        assert_eq!(ann.line("SELECT 1"), "-ERR weir: SELECT is refused while keys are watched");
        assert!(ann.line("GET n").starts_with('$'));
        if changes {
            bob.line("SET k x");
        }
        assert_eq!(ann.line("MULTI"), "+OK");
        assert_eq!(ann.line("WATCH k"), "-ERR WATCH inside MULTI is not allowed");
        assert_eq!(ann.line("INCR n"), "+QUEUED");
        assert_eq!(ann.line("EXEC"), wanted);
    }
    // Watched no more: by UNWATCH, DISCARD, RESET, or the end of who watched.
    for end in ["UNWATCH", "RESET", "QUIT"] {
        let mut carl = client(&weir);
        assert_eq!(carl.line("WATCH k"), "+OK");
        carl.line(end);
    }
    for _ in 0..20 {
        let mut next = client(&weir);
        bob.line("SET k y");
        next.send(b"MULTI\r\nINCR n\r\nEXEC\r\n");
        assert_eq!([next.hear(), next.hear()], ["+OK", "+QUEUED"]);
        assert!(next.hear().starts_with("*1 :"), "somebody else watched");
    }
}

#[test]
fn a_transaction_is_left_at_once_by_reset_and_quit() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    for end in ["RESET", "QUIT"] {
        let mut ann = client(&weir);
        assert_eq!(ann.line("MULTI"), "+OK");
        assert_eq!(ann.line("SET left x"), "+QUEUED");
        match end {
            "RESET" => {
                assert_eq!(ann.line("RESET"), "+RESET");
                assert_eq!(ann.line("EXEC"), "-ERR EXEC without MULTI");
            }
            _ => {
                assert_eq!(ann.line("QUIT"), "+OK");
                assert!(ann.is_closed());
            }
        }
        assert_eq!(client(&weir).line("EXISTS left"), ":0");
    }
    let mut bob = client(&weir);
    assert!(bob.line("SUBSCRIBE a").starts_with("*3"));
    let aborted = "-EXECABORT Transaction discarded because of: Can't execute 'exec': only ";
    assert!(bob.line("EXEC").starts_with(aborted));
}

#[test]
fn who_waits_for_a_list_holds_up_nobody() {
    let server = Redis::start();
    let weir = weir(&[&server], "timeout = \"1s\"", "");
    let mut ann = client(&weir);
    let mut waiting: Vec<_> = (0..20).map(|_| client(&weir)).collect();
    for client in &mut waiting {
        client.say(&["BLPOP", "jobs", "0"]);
    }
    let mut stream = client(&weir);
    stream.say(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]);
    wait::until("they wait", wait::LONG, || {
        server.client().line("INFO clients").contains("blocked_clients:21")
    });
    let begun = Instant::now();
    assert_eq!(ann.line("INCR n"), ":1");
    // Longer than any answer may take: they wait for others, not for the server.
    while begun.elapsed() < Duration::from_millis(1500) {
        assert!(ann.line("INCR n").starts_with(':'));
    }
    for n in 0..20 {
        ann.line(&format!("RPUSH jobs j{n}"));
    }
    let mut heard: Vec<String> = waiting.iter_mut().map(|client| client.hear()).collect();
    heard.sort();
    let mut wanted: Vec<String> =
        (0..20).map(|n| format!("*2 $4 jobs ${} j{n}", 1 + n.to_string().len())).collect();
    wanted.sort();
    assert_eq!(heard, wanted);
    ann.line("XADD s 1-1 f v");
    assert_eq!(stream.hear(), "*1 *2 $1 s *1 *2 $3 1-1 *2 $1 f $1 v");
    assert_eq!(ann.line("BLPOP jobs 0.1"), "*-1");
    // What comes behind is answered behind.
    ann.send(b"RPUSH l a\r\nBLPOP l 0\r\nGET n\r\nBRPOP l 0.05\r\nPING\r\n");
    assert_eq!([ann.hear(), ann.hear()], [":1", "*2 $1 l $1 a"]);
    ann.hear();
    assert_eq!([ann.hear(), ann.hear()], ["*-1", "+PONG"]);
}

#[test]
fn those_who_wait_for_others_leave_a_connection_for_everybody_else() {
    let server = Redis::start();
    let weir = weir(&[&server], "timeout = \"1s\"\npool-size = 4", "");
    // Nothing was asked of the server before, so there is no lane yet.
    let mut waiting: Vec<_> = (0..3).map(|_| client(&weir)).collect();
    waiting.iter_mut().for_each(|client| client.say(&["BLPOP", "jobs", "0"]));
    wait::until("they wait", wait::LONG, || {
        server.client().line("INFO clients").contains("blocked_clients:3")
    });
    let words = "-ERR weir: not sent: other clients have all connections to s0 that they may have \
                 for themselves";
    assert_eq!(client(&weir).line("BLPOP jobs 0"), words);
    let mut ann = client(&weir);
    assert_eq!(ann.line("RPUSH jobs a b c d"), ":4");
    waiting.iter_mut().for_each(|client| assert!(client.hear().starts_with("*2 $4 jobs ")));
    assert_eq!(ann.line("BLPOP jobs 0"), "*2 $4 jobs $1 d");
}

#[test]
fn keys_can_be_watched_again_once_their_server_is_back() {
    let mut server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut ann = client(&weir);
    server.kill();
    assert!(ann.line("WATCH k").starts_with("-ERR weir: not sent: s0 "));
    server.start_again();
    wait::until("it is reached", wait::LONG, || ann.line("GET k") == "$-1");
    assert_eq!(ann.line("SELECT 1"), "+OK");
    let words = ["WATCH k", "MULTI", "SET k 1", "EXEC"];
    assert_eq!(words.map(|line| ann.line(line)), ["+OK", "+OK", "+QUEUED", "*1 +OK"]);
}

#[test]
fn a_large_value_is_seen_and_refused_as_any_other() {
    let server = Redis::start();
    let weir = weir(&[&server], "slow-command = \"1us\"", ADMIN);
    let (mut root, mut ann) = (admin(&weir), admin(&weir));
    let large = "v".repeat(400 << 10);
    assert_eq!(root.line("MONITOR"), "+OK");
    assert_eq!(ann.ask(&["SET", "large", &large]), "+OK");
    assert!(root.hear().ends_with("\"SET\" \"large\""));
    assert_eq!(root.line("RESET"), "+RESET");
    assert_eq!(root.line("AUTH p"), "+OK");
    let big = root.line("WEIR SHOW BIG");
    assert!(big.contains("$5 large") && big.contains(":4096"), "{big}");
    assert!(root.line("WEIR SHOW SLOW").contains("SET large"));
    assert!(ann.line("CLIENT INFO").contains("cmd=client"));
    // One that does not end with its value has a connection for itself as well.
    let leased = || weir.metrics().sum("weir_redis_commands_total", &[("way", "lease")]);
    let before = leased();
    assert_eq!(ann.ask(&["SET", "large", &large, "EX", "10"]), "+OK");
    assert!(leased() > before);
    ann.line("SUBSCRIBE news");
    assert!(ann.ask(&["SET", "large", &large]).starts_with("-ERR Can't execute 'set': only "));
}

#[test]
fn a_client_that_leaves_while_it_waits_takes_nothing_along() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    for _ in 0..10 {
        client(&weir).say(&["BLPOP", "jobs", "0"]);
    }
    wait::until("nobody waits", wait::LONG, || {
        server.client().line("INFO clients").contains("blocked_clients:0")
    });
    let mut ann = client(&weir);
    assert_eq!(ann.line("RPUSH jobs a"), ":1");
    assert_eq!(ann.line("LLEN jobs"), ":1");
}

#[test]
fn a_transaction_is_on_one_server() {
    let servers = [Redis::start(), Redis::start()];
    let servers: Vec<&Redis> = servers.iter().collect();
    let weir = weir(&servers, "", "");
    let keys: Vec<String> = (0..2).map(|n| key_on(&servers, &weir, n)).collect();
    let mut ann = client(&weir);
    for key in &keys {
        assert_eq!(ann.line("MULTI"), "+OK");
        assert_eq!(ann.line("PING"), "+QUEUED");
        assert_eq!(ann.ask(&["GET", key]), "+QUEUED");
        assert_eq!(ann.line("EXEC"), "*2 +PONG $1 x");
    }
    assert_eq!(ann.line("MULTI"), "+OK");
    assert_eq!(ann.ask(&["SET", &keys[0], "y"]), "+QUEUED");
    let crossed = "-CROSSSLOT weir: the keys of a transaction are on several servers";
    assert_eq!(ann.ask(&["SET", &keys[1], "y"]), crossed);
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    assert_eq!(ann.line("EXEC"), aborted);
    assert_eq!(ann.ask(&["GET", &keys[0]]), "$1 x");
    assert_eq!(ann.ask(&["WATCH", &keys[0]]), "+OK");
    assert_eq!(
        ann.ask(&["WATCH", &keys[1]]),
        "-CROSSSLOT weir: a key of another server is watched"
    );
    assert_eq!(ann.line("UNWATCH"), "+OK");
}
