//! A network that drops what the server sends, and resets nothing: what waits there ends within
//! `tcp-user-timeout`, also where `timeout` is longer than that, or there is none.

use std::time::{Duration, Instant};

use rig::network::{Silence, test_apart};
use rig::redis::Redis;
use rig::weir::{Setup, Weir};

use super::scene::{client, table};

/// The limit in these tests, and when what waits must have ended: a busy machine looks late.
const LIMIT: Duration = Duration::from_secs(4);
const ENDED: Duration = Duration::from_secs(30);

fn weir(server: &Redis) -> Weir {
    let top = "workers = 1\ntcp-user-timeout = \"4s\"";
    Setup::new().top(top).table(&table(&[server], "timeout = \"10m\"", "")).start()
}

/// What a client that has said some lines before hears to one that goes into silence.
#[track_caller]
fn hears_in_time(before: &[&str], line: &str) -> String {
    let mut heard = String::new();
    test_apart(None, || {
        let server = Redis::start();
        let weir = weir(&server);
        let mut ann = client(&weir);
        ann.patience(2 * ENDED);
        for line in before {
            ann.line(line);
        }
        let _silence = Silence::of(server.address.port());
        let begun = Instant::now();
        heard = ann.line(line);
        let took = begun.elapsed();
        assert!((LIMIT..ENDED).contains(&took), "{heard:?} after {took:?}");
    });
    heard
}

#[test]
fn a_write_of_a_lane_hears_of_a_silent_network() {
    let heard = hears_in_time(&["SET a 1"], "SET a 2");
    assert!(heard.is_empty() || heard.starts_with("-ERR weir: may have run"), "{heard}");
}

#[test]
fn a_transaction_hears_of_a_silent_network() {
    let heard = hears_in_time(&["WATCH a", "MULTI", "SET a 1"], "EXEC");
    assert!(heard.is_empty() || heard.starts_with("-ERR weir: may have run"), "{heard}");
}

#[test]
fn who_waits_for_a_list_hears_of_a_silent_network() {
    test_apart(None, || {
        let server = Redis::start();
        let weir = weir(&server);
        let mut ann = client(&weir);
        ann.patience(2 * ENDED);
        ann.say(&["BLPOP", "list", "0"]);
        let mut direct = server.client();
        rig::wait::until("the server has it", rig::wait::LONG, || {
            direct.line("INFO clients").contains("blocked_clients:1")
        });
        let _silence = Silence::of(server.address.port());
        let begun = Instant::now();
        let heard = ann.hear();
        assert!(heard.starts_with("-ERR weir: may have run"), "{heard}");
        assert!(begun.elapsed() < 2 * ENDED, "{:?}", begun.elapsed());
    });
}
