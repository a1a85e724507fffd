//! Servers that end, hang and come back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rig::beside::EndGuard;
use rig::redis::Redis;
use rig::wait;
use rustix::process::Signal;

use super::scene::{client, weir};

#[test]
fn a_server_that_hangs_is_told_of_in_time_and_late_answers_reach_nobody() {
    let mut server = Redis::start();
    let weir = weir(&[&server], "timeout = \"500ms\"", "");
    let [mut ann, mut bob] = [client(&weir), client(&weir)];
    ann.line("SET a ann");
    bob.line("SET b bob");
    server.running().signal(Signal::STOP);
    let begun = Instant::now();
    ann.say(&["GET", "a"]);
    bob.say(&["INCR", "n"]);
    let late = "-ERR weir: may have run: s0 did not answer in time";
    assert_eq!([ann.hear(), bob.hear()], [late, late]);
    assert!(begun.elapsed() < Duration::from_secs(5));
    server.running().signal(Signal::CONT);
    // What comes late is nobody's: each hears its own from now on.
    for _ in 0..50 {
        assert_eq!(ann.try_ask(&["GET", "a"]).unwrap(), b"$3\r\nann\r\n");
        assert_eq!(bob.try_ask(&["GET", "b"]).unwrap(), b"$3\r\nbob\r\n");
    }
    assert_eq!(bob.line("GET n"), "$1 1");
}

#[test]
fn a_server_that_is_back_is_asked_by_the_next_command() {
    let _alone = rig::machine::alone();
    let mut server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut ann = client(&weir);
    for round in 0..5 {
        assert_eq!(ann.line("SET a 1"), "+OK", "round {round}");
        server.kill();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let end = EndGuard(&is_over);
            // It was found to be away a moment before.
            scope.spawn(|| {
                let mut bob = client(&weir);
                while !is_over.load(Ordering::Relaxed) {
                    let heard = bob.line("SET b 1");
                    let away = "-ERR weir: not sent: s0 cannot be reached";
                    assert!(heard == "+OK" || heard.starts_with(away), "{heard}");
                }
            });
            server.start_again();
            // Bob may have been refused a moment before that; much sooner than a server is tried
            // again of which nothing was heard.
            let soon = Duration::from_millis(400);
            wait::until(&format!("round {round}"), soon, || ann.line("SET a 1") == "+OK");
            drop(end);
        });
    }
}

#[test]
fn a_write_whose_connection_breaks_is_never_sent_twice() {
    let mut server = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let weir = weir(&[&server], "timeout = \"2s\"", "");
    let mut clients: Vec<_> = (0..20).map(|_| client(&weir)).collect();
    let (mut told, mut unknown) = (0_i64, 0_i64);
    for round in 0..4 {
        let until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            for client in &mut clients {
                client.say(&["INCR", "n"]);
            }
            for client in &mut clients {
                match client.hear() {
                    heard if heard.starts_with(':') => told += 1,
                    heard if heard.starts_with("-ERR weir: may have run") => unknown += 1,
                    heard if heard.starts_with("-ERR weir: not sent") => {}
                    heard => panic!("{heard}"),
                }
            }
        }
        for client in &mut clients {
            client.say(&["INCR", "n"]);
        }
        server.kill();
        for client in &mut clients {
            match client.hear() {
                heard if heard.starts_with(':') => told += 1,
                heard if heard.starts_with("-ERR weir: may have run") => unknown += 1,
                heard => assert!(heard.starts_with("-ERR weir: not sent"), "{heard}"),
            }
        }
        server.start_again();
        wait::until(&format!("round {round} goes on"), wait::LONG, || {
            clients[0].line("GET n").starts_with('$')
        });
    }
    let heard = clients[0].line("GET n");
    let there: i64 = heard.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(told <= there && there <= told + unknown, "{told} <= {there} <= {told} + {unknown}");
}

#[test]
fn a_read_is_asked_once_more_where_its_connection_ends() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut ann = client(&weir);
    ann.line("SET a 1");
    for _ in 0..50 {
        wait::until("a lane is open", wait::LONG, || ann.line("GET a") == "$1 1");
        ann.send(b"GET a\r\nGET a\r\nGET a\r\n");
        server.client().line("CLIENT KILL TYPE normal SKIPME yes");
        assert_eq!([ann.hear(), ann.hear(), ann.hear()], ["$1 1"; 3]);
    }
}

#[test]
fn a_transaction_whose_connection_ends_is_not_half_run() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut ann = client(&weir);
    for line in ["WATCH k", "MULTI", "SET k 1"] {
        ann.line(line);
    }
    server.client().line("CLIENT KILL TYPE normal SKIPME yes");
    wait::until("it hears of it", wait::LONG, || ann.line("SET k 2").starts_with("-ERR weir"));
    let heard = ann.line("EXEC");
    assert!(heard.starts_with("-EXECABORT") || heard.starts_with("-ERR weir"), "{heard}");
    assert_eq!(ann.line("GET k"), "$-1");
    ann.send(b"MULTI\r\nSET k 3\r\nEXEC\r\n");
    assert_eq!([ann.hear(), ann.hear(), ann.hear()], ["+OK", "+QUEUED", "*1 +OK"]);
}
