//! What is asked again by what a server answers.

use rig::redis::Redis;

use super::scene::{client, weir};

/// The number of no script here.
const NOBODYS: &str = "2f2e4fbfa0ae1d4d2ae8cc0a4a1c7e2f4ed0e5f5";

#[test]
fn a_script_that_the_server_has_lost_runs_all_the_same() {
    let mut server = Redis::start();
    let weir = weir(&[&server], "", "");
    let [mut ann, mut bob] = [client(&weir), client(&weir)];
    let missing = "-NOSCRIPT No matching script. Please use EVAL.";
    assert_eq!(ann.ask(&["EVALSHA", NOBODYS, "0"]), missing);
    let script = "return redis.call('INCR', KEYS[1])";
    let number = ann.ask(&["SCRIPT", "LOAD", script]);
    let number = number.strip_prefix("$40 ").expect("a number").to_owned();
    for turn in 1..=5 {
        server.client().line("SCRIPT FLUSH");
        assert_eq!(bob.ask(&["EVALSHA", &number, "1", "k"]), format!(":{turn}"));
    }
    // It is learnt from EVAL, too, and is known after the server was started again.
    assert_eq!(ann.ask(&["EVAL", "return {KEYS[1],ARGV[1]}", "1", "k", "v"]), "*2 $1 k $1 v");
    let other = ann.ask(&["SCRIPT", "LOAD", "return {KEYS[1],ARGV[1]}"]);
    server.kill();
    server.start_again();
    rig::wait::until("it is reached", rig::wait::LONG, || bob.line("GET x") == "$-1");
    assert_eq!(bob.ask(&["EVALSHA", &other[4..], "1", "k", "v"]), "*2 $1 k $1 v");
    // What a client has forgotten stays forgotten.
    assert_eq!(ann.line("SCRIPT FLUSH"), "+OK");
    assert_eq!(bob.ask(&["EVALSHA", &number, "1", "k"]), missing);
}

#[test]
fn a_script_with_something_behind_it_is_not_run_late() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut ann = client(&weir);
    let script = "return redis.call('APPEND', KEYS[1], ARGV[1])";
    let number = ann.ask(&["SCRIPT", "LOAD", script])[4..].to_owned();
    for _ in 0..50 {
        server.client().line("SCRIPT FLUSH");
        server.client().line("DEL k");
        let asked = format!("EVALSHA {number} 1 k a\r\nAPPEND k b\r\n");
        ann.send(asked.as_bytes());
        let heard = [ann.hear(), ann.hear()];
        let there = ann.line("GET k");
        // It ran before what was sent behind it, or not at all.
        let whole = heard == [":1", ":2"] && there == "$2 ab";
        let refused = heard[0].starts_with("-NOSCRIPT") && heard[1] == ":1" && there == "$1 b";
        assert!(whole || refused, "{heard:?} {there}");
    }
}

#[test]
fn a_script_that_says_so_itself_runs_once() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut ann = client(&weir);
    let script = "redis.call('INCR', KEYS[1]); return redis.error_reply(ARGV[1])";
    let number = ann.ask(&["SCRIPT", "LOAD", script])[4..].to_owned();
    let words = "NOSCRIPT No matching script. Please use EVAL.";
    assert_eq!(ann.ask(&["EVALSHA", &number, "1", "k", words]), format!("-{words}"));
    assert_eq!(ann.line("GET k"), "$1 1");
}
