//! Many clients at once: each reply is its own client's.

use std::thread;
use std::time::{Duration, Instant};

use rig::redis::{Redis, RedisClient};

use super::scene::weir;

/// How long, by hand with `WEIR_TEST_SECONDS`.
fn seconds() -> u64 {
    std::env::var("WEIR_TEST_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

#[test]
fn each_reply_is_its_own() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let servers: Vec<&Redis> = servers.iter().collect();
    let weir = weir(&servers, "", "");
    let address = weir.redis;
    let until = Instant::now() + Duration::from_secs(seconds());
    let client = |id: usize| {
        let mut client = RedisClient::connect(address);
        if id.is_multiple_of(3) {
            client.line("HELLO 3");
        }
        let mut count = 0_u64;
        for turn in 0_usize.. {
            if Instant::now() >= until {
                break;
            }
            // Of all sizes, some of them large, several at once.
            let size = [1, 7, 100, 5000, 70_000][turn % 5 * usize::from(turn.is_multiple_of(17))];
            let value = format!("{id}:{turn}:{}", "x".repeat(size));
            let keys = [format!("{id}:a"), format!("{id}:b")];
            for key in &keys {
                client.say(&["SET", key, &value]);
            }
            client.say(&["MGET", &keys[0], &keys[1], "none"]);
            client.say(&["ECHO", &value]);
            if turn.is_multiple_of(10) {
                client.send(b"MULTI\r\n");
                client.say(&["APPEND", &keys[0], "!"]);
                client.send(b"EXEC\r\n");
            }
            assert_eq!([client.hear(), client.hear()], ["+OK", "+OK"]);
            let null = if id.is_multiple_of(3) { "_" } else { "$-1" };
            let len = value.len();
            assert_eq!(client.hear(), format!("*3 ${len} {value} ${len} {value} {null}"));
            assert_eq!(client.hear(), format!("${len} {value}"));
            if turn.is_multiple_of(10) {
                assert_eq!([client.hear(), client.hear()], ["+OK", "+QUEUED"]);
                assert_eq!(client.hear(), format!("*1 :{}", len + 1));
            }
            count += 4;
        }
        count
    };
    let count: u64 = thread::scope(|scope| {
        let clients: Vec<_> = (0..120).map(|id| scope.spawn(move || client(id))).collect();
        clients.into_iter().map(|client| client.join().expect("its replies are its own")).sum()
    });
    assert!(count > 0);
    println!("{count} replies, each its own");
}
