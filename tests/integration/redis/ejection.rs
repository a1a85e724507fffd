//! Servers whose keys go to others while they are away.

use std::fmt::Write as _;

use rig::places;
use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::{Setup, Weir};
use rustix::process::Signal;

use super::scene::{client, key_on, nutcracker, table, weir};

/// The state of a server, as `/status` has it: whether it is ejected, and what was wrong last.
fn state(weir: &Weir, server: usize) -> (bool, String) {
    let status = weir.ask_admin("/status").json();
    let backend = &status["redis"]["backends"][server];
    let wrong = backend["wrong"].as_str().unwrap_or_default();
    (backend["ejected_seconds"].is_number(), wrong.to_owned())
}

#[test]
fn keys_of_a_dead_server_go_where_nutcracker_sends_them_and_come_back() {
    let mut servers = [Redis::start(), Redis::start(), Redis::start()];
    let lines = "eject = { failures = 2, retry = \"3s\" }";
    let weir = weir(&servers.each_ref(), lines, "");
    let mut ann = client(&weir);
    let own = key_on(&servers.each_ref(), &weir, 1);
    let (dir, address) = (places::directory(), places::free_address());
    let mut text = format!(
        "pool:\n  listen: {address}\n  redis: true\n  auto_eject_hosts: true\n  \
         server_retry_timeout: 600000\n  servers:\n"
    );
    for (n, server) in servers.iter().enumerate() {
        let _ = writeln!(text, "   - {}:1 s{n}", server.address);
    }
    let _nutcracker = nutcracker(dir.path(), &text, address);
    servers[1].kill();

    let mut beside = RedisClient::connect(address);
    wait::until("nutcracker has ejected it", wait::LONG, || {
        beside = RedisClient::connect(address);
        beside.ask(&["SET", &own, "elsewhere"]) == "+OK"
    });
    let keys: Vec<String> = (0..300).map(|n| format!("key:{n}")).collect();
    for key in &keys {
        assert_eq!(beside.ask(&["SET", key, key]), "+OK");
    }
    // What is away longer than the retry is tried again and again: all keys within one ejection.
    wait::until("all keys are found where nutcracker had put them", wait::LONG, || {
        keys.iter().all(|key| ann.ask(&["GET", key]) == format!("${} {key}", key.len()))
    });
    let ejections = weir.metrics().sum("weir_redis_server_ejections_total", &[("server", "s1")]);
    assert!(ejections >= 1.0, "{ejections}");
    weir.wait_log("a Redis server is ejected");
    let found = wait::value("it is shown as ejected", wait::LONG, || {
        ann.ask(&["GET", &own]);
        Some(state(&weir, 1)).filter(|(is_ejected, _)| *is_ejected)
    });
    assert!(found.1.contains("refused"), "{found:?}");
    let told = weir.must_run(&["status"]);
    assert!(told.contains("ejected for") && told.contains("refused"), "{told}");

    servers[1].start_again();
    servers[1].client().ask(&["SET", &own, "own"]);
    wait::until("its keys are its own again", wait::LONG, || ann.ask(&["GET", &own]) == "$3 own");
    assert_eq!(state(&weir, 1), (false, String::new()));
    assert_eq!(weir.metrics().sum("weir_redis_server_ejected", &[]), 0.0);
}

#[test]
fn a_server_that_hangs_is_ejected_and_has_its_keys_again_once_it_goes_on() {
    let mut servers = [Redis::start(), Redis::start()];
    let lines = "eject = { failures = 2, retry = \"2s\" }\ntimeout = \"300ms\"";
    let table = table(&servers.each_ref(), lines, "") + "connect-timeout = \"300ms\"\n";
    let weir = Setup::new().table(&table).start();
    let own = key_on(&servers.each_ref(), &weir, 1);
    servers[1].running().signal(Signal::STOP);
    let mut ann = client(&weir);
    wait::until("others have its keys", wait::LONG, || ann.ask(&["SET", &own, "y"]) == "+OK");
    assert_eq!(servers[0].client().ask(&["GET", &own]), "$1 y");
    servers[1].running().signal(Signal::CONT);
    wait::until("its keys are its own again", wait::LONG, || {
        ann.ask(&["SET", &own, "z"]) == "+OK" && servers[1].client().ask(&["GET", &own]) == "$1 z"
    });
}

#[test]
fn a_server_that_refuses_or_is_slow_is_not_away() {
    let slow = Redis::start_with(&["--enable-debug-command", "yes", "--maxmemory", "1"]);
    let other = Redis::start();
    let lines = "eject = { failures = 1, retry = \"10m\" }\ntimeout = \"300ms\"";
    let weir = weir(&[&slow, &other], lines, "");
    let mut ann = client(&weir);
    let own = (0..1000).map(|n| format!("k{n}"));
    // Those of the other one are taken.
    let mut own = own.filter(|key| ann.ask(&["SET", key, "x"]).starts_with("-OOM"));
    let key = own.next().expect("the server without memory has some of the keys");
    for _ in 0..20 {
        assert!(ann.ask(&["SET", &key, "x"]).starts_with("-OOM"));
    }
    assert_eq!(state(&weir, 0), (false, String::new()));

    // For longer than a lane is waited for, and shorter than a connection is.
    let mut direct = slow.client();
    direct.say(&["DEBUG", "SLEEP", "2"]);
    wait::until("an answer is late", wait::LONG, || {
        ann.ask(&["GET", &key]) == "-ERR weir: may have run: s0 did not answer in time"
    });
    assert_eq!(direct.hear(), "+OK");
    wait::until("it answers again", wait::LONG, || ann.ask(&["GET", &key]) == "$-1");
    assert_eq!(weir.metrics().sum("weir_redis_server_ejections_total", &[]), 0.0);
}

#[test]
fn without_being_asked_nothing_is_ejected_and_the_status_says_what_is_wrong() {
    let mut servers = [Redis::start(), Redis::start()];
    let weir = weir(&servers.each_ref(), "", "");
    let own = key_on(&servers.each_ref(), &weir, 0);
    servers[0].kill();
    let mut ann = client(&weir);
    wait::until("it has failed often", wait::LONG, || {
        let heard = ann.ask(&["GET", &own]);
        assert!(heard.starts_with("-ERR weir: not sent: s0 cannot be reached"), "{heard}");
        weir.metrics().sum("weir_redis_server_failures_total", &[("server", "s0")]) >= 3.0
    });
    let (is_ejected, wrong) = state(&weir, 0);
    assert!(!is_ejected && wrong.contains("refused"), "{wrong}");
    assert!(weir.must_run(&["status"]).contains("failing"));
    servers[0].start_again();
    wait::until("it is served again", wait::LONG, || ann.ask(&["GET", &own]).starts_with('$'));
    assert_eq!(state(&weir, 0), (false, String::new()));
}
