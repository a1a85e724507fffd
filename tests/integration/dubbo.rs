//! `weir load` of Dubbo beside providers that answer badly, and beside real ones.

mod registry;

use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use rig::dubbo::{Answering, Provider};
use rig::process::Process;
use rig::{machine, places};

/// What a script ends with where the jars cannot be had.
const NOT_TRIED: i32 = 77;

/// Calls a method 100 times within a second; what was printed.
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
    // All that is due is sent within the time.
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
        let said = load(&provider, &["--generic"]);
        assert!(said.contains("no errors"), "{answering:?}: {said}");
        assert_eq!(provider.calls(), 100, "{answering:?}: {said}");
        // All share one; one that leaves gets no further call on a connection.
        let is_leaving = answering == Answering::ReadOnly;
        assert_eq!(provider.connections() > 1, is_leaving, "{answering:?}: {said}");
        let is_asked = answering == Answering::AfterHeartbeat;
        assert_eq!(provider.heartbeats(), if is_asked { 100 } else { 0 }, "{answering:?}: {said}");
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

#[test]
fn a_real_provider_of_dubbo_2_7_4_answers() {
    real("2.7.4.1");
}

#[test]
fn a_real_provider_of_dubbo_2_7_23_answers() {
    real("2.7.23");
}

#[test]
fn a_real_provider_of_dubbo_3_answers() {
    real("3.3.5");
}

#[track_caller]
fn real(version: &str) {
    // A virtual machine that starts takes the CPUs from whoever measures.
    let _alone = machine::alone();
    let place = places::directory();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let mut script = rig::clients::script("dubbo");
    script.args(["provide", version, &address.port().to_string(), "N/A"]);
    let mut provider = Process::start("provider", &mut script, &place.path().join("log"));
    let mut ended = None;
    rig::wait::until("a provider or none", std::time::Duration::from_secs(120), || {
        ended = provider.ended();
        ended.is_some() || provider.log().lines().any(|line| line == "ready")
    });
    if let Some(status) = ended {
        assert_eq!(status.code(), Some(NOT_TRIED), "{}", provider.log());
        println!("Dubbo {version}: not tried\n{}", provider.log());
        return;
    }
    let person = "[{\"name\": \"ann\", \"age\": 5, \"tags\": [\"a\"], \"friend\": \
                  {\"class\": \"weir.test.Values$Person\", \"name\": \"bob\"}}]";
    let of = |method: &str, types: &str, arguments: &str, more: &[&str]| {
        let own = ["--types", types, "--arguments", arguments];
        call(address, "weir.test.EchoService", method, &[&own, more].concat())
    };
    for (method, types, arguments) in [
        ("echo", "java.lang.String", "[\"text\"]"),
        ("same", "long", "[{{seq 5}}]"),
        ("told", "weir.test.Values$Person", person),
        ("mapped", "java.util.Map<java.lang.String, java.lang.Object>", "[{\"a\": [1, null]}]"),
        ("numbers", "int[],byte[],double", "[[1, 2], [3], 0.5]"),
        ("later", "java.util.Date", "[60000]"),
        ("nothing", "java.lang.Object", "[null]"),
        ("empty", "", "[]"),
    ] {
        for more in [&[][..], &["--generic"]] {
            let said = of(method, types, arguments, more);
            assert!(said.contains("no errors"), "{version} {method} {more:?}: {said}");
        }
    }
    for more in [&[][..], &["--generic"]] {
        let said = of("fails", "java.lang.String", "[\"own\"]", more);
        let words = "exception weir.test.Values$OwnException: it is not to be";
        assert!(said.contains(words), "{version}: {said}");
    }
    let said = call(address, "weir.test.Nobody", "echo", &[]);
    // Dubbo 3 can't read the arguments of a service that it does not know.
    let words = if version.starts_with('3') { "status 40 BAD_REQUEST" } else { "weir.test.Nobody" };
    assert!(said.contains(words), "{version}: {said}");
}
