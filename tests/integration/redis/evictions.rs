//! Keys that servers evict for want of memory are shown, whoever asks the servers for them.

use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::Weir;
use serde_json::Value;

use super::scene::{client, weir};

const OFF: &str = "[redis.guard]\nmode = \"off\"\n";

/// What the first server says of its memory, as `/status` has it.
fn memory(weir: &Weir) -> Value {
    weir.ask_admin("/status").json()["redis"]["backends"][0]["memory"].clone()
}

fn cache() -> Redis {
    let server = Redis::start_with(&["--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru"]);
    let (mut client, value) = (server.client(), "x".repeat(10_000));
    (0..500).for_each(|n| assert_eq!(client.ask(&["SET", &format!("k{n}"), &value]), "+OK"));
    server
}

#[test]
fn evicted_keys_are_shown_where_the_guard_is_off() {
    let server = cache();
    for guard in [OFF, ""] {
        let weir = weir(&[&server], "", guard);
        assert_eq!(client(&weir).line("EXISTS none"), ":0");
        wait::until("they are shown", wait::LONG, || memory(&weir)["evicted"].as_u64() > Some(0));
        assert_eq!(memory(&weir)["max_bytes"], 3 << 20);
        let shown = weir.must_run(&["status"]);
        assert_eq!(shown.matches("keys evicted").count(), 1, "{shown}");
    }
}

#[test]
fn a_server_that_refuses_info_is_served_and_nothing_is_said() {
    let server = cache();
    let mut root = server.client();
    assert_eq!(root.line("ACL SETUSER root on >p ~* +@all"), "+OK");
    assert_eq!(root.line("AUTH root p"), "+OK");
    assert_eq!(root.line("ACL SETUSER default -info"), "+OK");
    let weir = weir(&[&server], "", OFF);
    assert_eq!(client(&weir).line("EXISTS none"), ":0");
    wait::until("it has refused to say what memory it has", wait::LONG, || rejected(&mut root) > 2);
    assert_eq!(client(&weir).line("EXISTS none"), ":0");
    assert!(memory(&weir).is_null());
    assert!(!weir.log().contains("NOPERM"), "{}", weir.log());
}

/// How often the server has refused `INFO`. Weir asks for its release, too.
fn rejected(root: &mut RedisClient) -> u64 {
    let about = root.line("INFO commandstats");
    let of_info = about.split("cmdstat_info:").nth(1).unwrap_or_default();
    let rejected = of_info.split("rejected_calls=").nth(1).unwrap_or_default();
    rejected.split(',').next().and_then(|count| count.parse().ok()).unwrap_or_default()
}
