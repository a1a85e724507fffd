//! `CLIENT TRACKING`: what a client keeps is said to be out of date as a server says it.

mod cluster;
mod several;

use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::Weir;
use rustix::process::Signal;

use super::scene::{client, weir};

/// What a client hears that is closed because it would be told of keys no more.
const LOST: &str = "-ERR weir: CLIENT TRACKING: its connection has ended, or keys are with other \
                    servers: what was kept may be out of date";

/// What is said, and by whom: `a` tracks, `b` does not.
const STEPS: [&str; 67] = [
    "a HELLO 3",
    "a CLIENT TRACKINGINFO",
    "a CLIENT GETREDIR",
    "a CLIENT CACHING YES",
    "b SET k 1",
    "a CLIENT TRACKING ON",
    "a CLIENT TRACKINGINFO",
    "a CLIENT GETREDIR",
    "a GET k",
    "b SET k 2",
    "a PING",
    "a GET k",
    "a SET k 3",
    "a PING",
    "a MGET k l",
    "b MSET k 4 l 4",
    "a PING",
    "a MULTI",
    "a GET k",
    "b SET k 5",
    "a EXEC",
    "a MULTI",
    "a GET k",
    "a DISCARD",
    "a GET k",
    "b SET k 6",
    "a PING",
    "a CLIENT TRACKING OFF",
    "a GET k",
    "b SET k 7",
    "a PING",
    "a CLIENT TRACKING ON NOLOOP",
    "a GET k",
    "a SET k 8",
    "b SET k 9",
    "a PING",
    "a CLIENT TRACKING ON BCAST",
    "a CLIENT TRACKING OFF",
    "a CLIENT TRACKING ON BCAST PREFIX p: PREFIX q:",
    "a CLIENT TRACKINGINFO",
    "b MSET p:1 x q:1 y r:1 z",
    "a PING",
    "a CLIENT TRACKING ON PREFIX p:",
    "a CLIENT TRACKING OFF",
    "a CLIENT TRACKING ON OPTIN",
    "a GET k",
    "b SET k 10",
    "a PING",
    "a CLIENT CACHING YES",
    "a GET k",
    "b SET k 11",
    "a PING",
    "a CLIENT CACHING MAYBE",
    "a CLIENT TRACKING OFF",
    "a CLIENT TRACKING ON OPTOUT NOLOOP",
    "a GET k",
    "b FLUSHALL",
    "a PING",
    "a CLIENT TRACKING ON NONSENSE",
    "a RESET",
    "a CLIENT TRACKINGINFO",
    "a CLIENT TRACKING ON",
    "a CLIENT TRACKING OFF",
    "a CLIENT TRACKING ON OPTIN",
    "a CLIENT CACHING YES",
    "a RESET",
    "a CLIENT TRACKINGINFO",
];

/// What one client hears up to the answer of a server to what is asked behind it: an answer, and
/// what comes by itself.
fn said(client: &mut RedisClient, line: &str) -> Vec<String> {
    let mut heard = vec![client.line(line)];
    // It holds for the very next command.
    if line.starts_with("CLIENT CACHING") {
        return heard;
    }
    client.say(&["EVAL", "return 'so far'", "0"]);
    loop {
        match client.hear() {
            end if end == "$6 so far" || end == "+QUEUED" => break,
            more => heard.push(more),
        }
    }
    heard
}

#[test]
fn a_client_that_tracks_hears_what_it_would_hear_of_a_server() {
    let [behind, beside] = [Redis::start(), Redis::start()];
    let weir = weir(&[&behind], "", "");
    let mut through = [client(&weir), client(&weir)];
    let mut direct = [beside.client(), beside.client()];
    for step in STEPS {
        // That is for administrators, so the servers themselves are told.
        if step == "b FLUSHALL" {
            for server in [&behind, &beside] {
                assert_eq!(server.client().line("FLUSHALL"), "+OK");
            }
            continue;
        }
        let (who, line) = step.split_once(' ').unwrap();
        let who = usize::from(who == "b");
        let mut heard = [&mut through, &mut direct].map(|of| said(&mut of[who], line));
        // Its number, and which program it is, are each one's own.
        if line.starts_with("HELLO") {
            heard = heard.map(|all| all.iter().map(|one| one[..2].to_owned()).collect());
        }
        // What a server says by itself comes when it comes: each hears it by the next answer.
        if who == 1 {
            heard = heard.map(|all| all[..1].to_vec());
        }
        assert_eq!(heard[0], heard[1], "{step}");
    }
}

#[test]
fn what_the_server_said_before_is_heard_before_the_answer_to_ping() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let (mut tracks, mut writes) = (client(&weir), client(&weir));
    assert!(tracks.line("HELLO 3").starts_with('%'));
    assert_eq!(tracks.line("CLIENT TRACKING ON"), "+OK");
    for turn in 0..2000 {
        tracks.line("GET k");
        assert_eq!(writes.line(&format!("SET k {turn}")), "+OK");
        assert_eq!(tracks.line("PING"), ">2 $10 invalidate *1 $1 k");
        assert_eq!(tracks.hear(), "+PONG");
    }
}

#[test]
fn a_client_that_says_reset_hears_no_more_of_keys_behind_the_answer() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    for before in [&[][..], &["SUBSCRIBE news"], &["MULTI", "GET k"]] {
        for turn in 0..200 {
            let mut tracks = client(&weir);
            assert!(tracks.line("HELLO 3").starts_with('%'));
            assert_eq!(tracks.line("CLIENT TRACKING ON"), "+OK");
            tracks.line("GET k");
            // In one piece: the server tells of the key behind its answer to SET.
            let set = format!("SET k {turn}");
            let lines = [&[&*set], before, &["RESET", "PING"]].concat();
            tracks.send(format!("{}\r\n", lines.join("\r\n")).as_bytes());
            let heard: Vec<String> = (0..lines.len() + 1).map(|_| tracks.hear()).collect();
            let told = ">2 $10 invalidate *1 $1 k";
            let at = |wanted: &str| heard.iter().position(|one| one == wanted);
            assert!(at(told) < at("+RESET"), "{before:?}: {heard:?}");
            assert_eq!(heard[lines.len() - 1..], ["+RESET", "+PONG"], "{before:?}");
        }
    }
}

#[test]
fn invalidations_never_come_amid_an_answer() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let (mut tracks, mut writes) = (client(&weir), client(&weir));
    assert_eq!(writes.ask(&["SET", "large", &"v".repeat(3 << 20)]), "+OK");
    assert!(tracks.line("HELLO 3").starts_with('%'));
    assert_eq!(tracks.line("CLIENT TRACKING ON"), "+OK");
    let (mut pushes, mut answers) = (0, 0);
    for turn in 0..50 {
        for n in 0..20 {
            tracks.say(&["GET", &format!("k{n}")]);
        }
        tracks.say(&["STRLEN", "large"]);
        tracks.say(&["GET", "large"]);
        for n in 0..20 {
            writes.say(&["SET", &format!("k{n}"), &turn.to_string()]);
        }
        (0..20).for_each(|_| assert_eq!(writes.hear(), "+OK"));
        let mut left = 22;
        while left > 0 {
            let heard = tracks.hear();
            if heard.starts_with(">2 $10 invalidate") {
                pushes += 1;
                continue;
            }
            left -= 1;
            answers += 1;
            assert!(heard.starts_with('$') || heard.starts_with(':') || heard == "_", "{heard}");
        }
    }
    assert_eq!(answers, 50 * 22);
    assert!(pushes > 50, "{pushes}");
}

#[test]
fn the_connection_of_a_client_that_tracks_is_undone_before_anybody_else_has_it() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut writes = client(&weir);
    for turn in 0..30 {
        let mut tracks = client(&weir);
        assert!(tracks.line("HELLO 3").starts_with('%'));
        assert_eq!(tracks.line("CLIENT TRACKING ON BCAST"), "+OK");
        assert!(tracks.line("CLIENT INFO").contains("flags=t "));
        if turn % 2 == 0 {
            assert_eq!(tracks.line("CLIENT TRACKING OFF"), "+OK");
            assert_eq!(tracks.line("GET k"), if turn == 0 { "_" } else { "$1 x" });
        }
        if turn % 3 == 0 {
            tracks.say(&["GET", "k"]);
        }
        drop(tracks);
        // Whoever is next, by a lane, a transaction, or the same way, hears its own only.
        let mut next = client(&weir);
        assert!(next.line("HELLO 3").starts_with('%'));
        assert_eq!(next.line("WATCH k"), "+OK");
        assert_eq!(writes.line("SET k x"), "+OK");
        assert_eq!(next.line("MULTI"), "+OK");
        assert_eq!(next.line("GET k"), "+QUEUED");
        assert_eq!(next.line("EXEC"), "_");
        assert_eq!(next.line("CLIENT TRACKING ON OPTIN"), "+OK");
        assert_eq!(next.line("GET k"), "$1 x");
        assert_eq!(writes.line("SET k x"), "+OK");
        assert_eq!(next.line("PING"), "+PONG");
    }
    let is_tracked = || server.client().line("INFO clients").contains("tracking_clients:0");
    wait::until("nobody tracks", wait::LONG, is_tracked);
}

#[test]
fn a_client_that_would_not_be_told_any_more_is_closed() {
    let (mut server, second) = (Redis::start(), Redis::start());
    let alone = super::scene::table(&[&server], "", "");
    let both = super::scene::table(&[&server, &second], "", "");
    let mut weir = weir(&[&server], "", "");
    let mut first = tracking(&weir, "");
    server.kill();
    assert_eq!(first.hear(), LOST);
    assert!(first.is_closed());
    server.start_again();
    wait::until("it is back", wait::LONG, || client(&weir).line("GET k") == "$-1");
    let mut first = tracking(&weir, "");
    weir.configure(|_| rig::weir::Setup::new().table(&both));
    weir.reload();
    assert_eq!(first.hear(), LOST);
    assert!(first.is_closed());
    let mut of_two = tracking(&weir, "");
    weir.configure(|_| rig::weir::Setup::new().table(&alone));
    weir.reload();
    assert_eq!(of_two.hear(), LOST);
    assert!(of_two.is_closed());
    let mut of_one = client(&weir);
    assert_eq!(of_one.line("CLIENT TRACKING ON"), "+OK");
    for (line, words) in [
        ("SELECT 1", "SELECT of another database is refused while CLIENT TRACKING is on"),
        ("HELLO 3", "HELLO with another protocol is refused while CLIENT TRACKING is on"),
    ] {
        let heard = of_one.line(line);
        assert!(heard.starts_with("-ERR weir: ") && heard.contains(words), "{heard}");
    }
    assert_eq!(of_one.line("SELECT 0"), "+OK");
    assert_eq!(of_one.line("WATCH k"), "+OK");
    assert!(of_one.line("CLIENT TRACKING OFF").starts_with("-ERR weir: "));
    assert_eq!(of_one.line("UNWATCH"), "+OK");
    assert_eq!(of_one.line("BLPOP none 0.01"), "*-1");
    assert_eq!(of_one.line("CLIENT TRACKING OFF"), "+OK");
}

#[test]
fn nobody_is_told_of_keys_that_another_client_has_read() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut writes = client(&weir);
    for turn in 0..20 {
        let mut before = tracking(&weir, "");
        assert_eq!(before.line("GET read:before"), "_");
        // It leaves: half of them say so.
        if turn % 2 == 0 {
            assert_eq!(before.line("CLIENT TRACKING OFF"), "+OK");
        }
        drop(before);
        let mut next = tracking(&weir, "");
        assert_eq!(writes.line("SET read:before x"), "+OK");
        assert_eq!(next.line("PING"), "+PONG", "{turn}");
        assert_eq!(writes.line("DEL read:before"), ":1");
    }
}

/// A client in RESP3 that tracks keys so.
fn tracking(weir: &Weir, how: &str) -> RedisClient {
    let mut of = client(weir);
    assert!(of.line("HELLO 3").starts_with('%'));
    assert_eq!(of.line(format!("CLIENT TRACKING ON {how}").trim_end()), "+OK");
    of
}

#[test]
fn a_client_whose_server_says_nothing_or_refuses_is_closed_and_nobody_else_is_disturbed() {
    let mut server = Redis::start();
    let weir = weir(&[&server], "timeout = \"300ms\"", "");
    let mut of = tracking(&weir, "");
    server.running().signal(Signal::STOP);
    // Whether the server has heard of it is not known, and what was kept may be told of or not.
    let late = "-ERR weir: may have run: s0 did not answer in time";
    assert_eq!(of.line("CLIENT TRACKING ON"), late);
    assert_eq!(of.hear(), LOST);
    assert!(of.is_closed());
    // What takes too long is given up still.
    assert!(client(&weir).line("GET k").ends_with(" in time"));
    server.running().signal(Signal::CONT);
    let mut beside = client(&weir);
    wait::until("it answers again", wait::LONG, || beside.line("SET k 1") == "+OK");

    assert_eq!(server.client().line("ACL SETUSER default -client|caching"), "+OK");
    let mut of = tracking(&weir, "OPTIN");
    assert_eq!(of.line("CLIENT CACHING YES"), "+OK");
    of.say(&["GET", "k"]);
    let heard = [of.hear(), of.hear()];
    assert!(heard.iter().any(|said| said.starts_with("-NOPERM ")), "{heard:?}");
    assert!(of.is_closed());
    assert_eq!(beside.line("GET k"), "$1 1");
}

#[test]
fn who_says_reset_hears_one_answer_although_the_server_hangs() {
    let mut server = Redis::start();
    let weir = weir(&[&server], "timeout = \"300ms\"", "");
    for before in ["", "SUBSCRIBE news", "MULTI", "WATCH k"] {
        let mut of = tracking(&weir, "");
        if !before.is_empty() {
            of.line(before);
        }
        if before == "MULTI" {
            assert_eq!(of.line("GET k"), "+QUEUED");
        }
        server.running().signal(Signal::STOP);
        of.say(&["RESET"]);
        of.say(&["ECHO", "behind"]);
        // What came later is given up, and so is what RESET has asked of the server.
        assert!(client(&weir).line("GET k").ends_with(" in time"));
        server.running().signal(Signal::CONT);
        assert_eq!([of.hear(), of.hear()], ["+RESET", "$6 behind"], "{before}");
    }
}

#[test]
fn a_transaction_that_is_given_up_leaves_nothing_with_a_client_that_tracks() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let (mut of, mut writes) = (tracking(&weir, ""), client(&weir));
    let heard = ["MULTI", "SET a 1", "EXEC x", "GET b"].map(|line| of.line(line));
    assert!(heard[2].starts_with("-EXECABORT "), "{heard:?}");
    assert_eq!(heard[3], "_");
    let heard = ["MULTI", "GET c", "EXEC"].map(|line| of.line(line));
    assert_eq!(heard, ["+OK", "+QUEUED", "*1 _"]);
    assert_eq!(of.line("GET a"), "_", "it was not run");
    let heard = ["WATCH w", "EXEC x", "UNWATCH"].map(|line| of.line(line));
    assert!(heard[1].starts_with("-EXECABORT "), "{heard:?}");
    assert_eq!(writes.line("SET w 1"), "+OK");
    let heard = ["MULTI", "GET c", "EXEC"].map(|line| of.line(line));
    assert!(heard[2].ends_with("*1 _"), "{heard:?}");
}

#[test]
fn nobody_is_told_in_the_place_of_another() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut ann = client(&weir);
    let refused = "-ERR weir: CLIENT TRACKING with REDIRECT is refused: HELLO 3, and the \
                   connection that reads is told of its keys itself";
    assert_eq!(ann.line("CLIENT TRACKING ON REDIRECT 7"), refused);
    assert_eq!(ann.line("CLIENT GETREDIR"), ":-1");
}
