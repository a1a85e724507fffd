//! `weir load` of Dubbo beside providers that answer badly, and beside real ones.

mod direct;
mod real;
mod registry;

use std::net::SocketAddr;
use std::process::Command;

use rig::dubbo::{Answering, Provider};
use rig::{machine, places};

/// What a script ends with where the jars cannot be had.
const NOT_TRIED: i32 = 77;

/// Calls a method for a second, 100 times where nothing else is said; what was printed.
fn call(address: SocketAddr, interface: &str, method: &str, more: &[&str]) -> String {
    let place = places::directory();
    let url = format!("dubbo://{address}/{interface}");
    let mut command = Command::new(places::weir());
    command.current_dir(place.path()).args(["load", &url, "--method", method]).args(more);
    command.args(["--duration", "1s", "--warmup", "0s", "--connections", "4"]);
    let output = command.output().expect("weir can be started");
    rig::clients::said(&output)
}

fn load(provider: &Provider, more: &[&str]) -> String {
    let text = ["--types", "java.lang.String", "--arguments", "[\"text\"]"];
    call(provider.address, "com.acme.Echo?version=1.0", "echo", &[&text, more].concat())
}

#[test]
fn calls_are_answered_whole_in_pieces_twice_and_behind_a_heartbeat() {
    // All that is due is sent within the time: the last call has 50 ms left of it.
    let _alone = machine::alone();
    for answering in [
        Answering::Well,
        Answering::InPieces,
        Answering::Twice,
        Answering::Swapped,
        Answering::AfterHeartbeat,
        Answering::ReadOnly,
    ] {
        let provider = Provider::start(answering);
        let said = load(&provider, &["--generic", "--rate", "20"]);
        assert!(said.contains("no errors"), "{answering:?}: {said}");
        assert_eq!(provider.calls(), 20, "{answering:?}: {said}");
        // All share one; one that leaves gets no further call on a connection.
        let is_leaving = answering == Answering::ReadOnly;
        assert_eq!(provider.connections() > 1, is_leaving, "{answering:?}: {said}");
        let is_asked = answering == Answering::AfterHeartbeat;
        assert_eq!(provider.heartbeats(), if is_asked { 20 } else { 0 }, "{answering:?}: {said}");
    }
}

#[test]
fn calls_share_as_many_connections_as_there_are_channels() {
    // All that is due is sent within the time.
    let _alone = machine::alone();
    let provider = Provider::start(Answering::Well);
    let said = load(&provider, &["--channels", "3"]);
    assert!(said.contains("no errors"), "{said}");
    assert_eq!((provider.connections(), provider.calls()), (3, 100), "{said}");
}

#[test]
fn an_answer_that_comes_too_late_is_nobody_elses_and_leaves_the_connection() {
    // All that is due is sent within the time.
    let _alone = machine::alone();
    let provider = Provider::start(Answering::Late);
    let said = load(&provider, &["--rate", "10", "--timeout", "30ms"]);
    assert!(said.contains("no answer in time"), "{said}");
    assert_eq!((provider.connections(), provider.calls()), (1, 10), "{said}");
}

#[test]
fn a_connection_that_is_closed_is_opened_anew_and_its_calls_fail_at_once() {
    let provider = Provider::start(Answering::Closes);
    let said = load(&provider, &[]);
    assert!(said.contains("x network: "), "{said}");
    assert!(provider.connections() > 5 && !said.contains("no answer in time"), "{said}");
}

#[test]
fn what_fails_is_told_in_words_of_its_own() {
    for (answering, words) in [
        (Answering::Never, "no answer in time"),
        (Answering::Garbage, "what came is not a frame of Dubbo"),
        (Answering::TooLong, "the answer is longer than 8 MiB"),
        (Answering::PoolFull, "status 100 SERVER_THREADPOOL_EXHAUSTED_ERROR: the pool is full"),
    ] {
        let provider = Provider::start(answering);
        let said = load(&provider, &["--timeout", "200ms"]);
        assert!(said.contains(words), "{answering:?}: {said}");
    }
}
