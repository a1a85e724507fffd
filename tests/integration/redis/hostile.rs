//! Bytes that no client should send.

use rig::redis::{Redis, RedisClient};
use rig::wait;

use super::scene::{client, weir};

#[test]
fn garbage_is_answered_and_closed_and_nobody_else_is_disturbed() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut ann = client(&weir);
    ann.line("SET a 1");
    let cases: [(&[u8], &str); 9] = [
        (b"*3000000000\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*x\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n$-2\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$-10\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$2000000000\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$99999999999999999999\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\nGET\r\n", "-ERR Protocol error: expected '$', got 'G'"),
        (b"SET a \"b\r\n", "-ERR Protocol error: unbalanced quotes in request"),
    ];
    for (bytes, wanted) in cases {
        let mut stranger = client(&weir);
        stranger.send(bytes);
        assert_eq!(stranger.hear(), wanted);
        assert!(stranger.is_closed());
        assert_eq!(ann.line("GET a"), "$1 1");
    }
    let mut stranger = client(&weir);
    stranger.send(&vec![b'x'; 70 << 10]);
    assert_eq!(stranger.hear(), "-ERR Protocol error: too big inline request");
    // An answer before the fault is heard.
    let mut stranger = client(&weir);
    stranger.send(b"GET a\r\n*x\r\n");
    assert_eq!(stranger.hear(), "$1 1");
    assert_eq!(stranger.hear(), "-ERR Protocol error: invalid multibulk length");
}

#[test]
fn half_commands_and_silence_cost_nobody_else_anything() {
    let server = Redis::start();
    let weir = weir(&[&server], "max-connections = 400", "");
    let mut ann = client(&weir);
    let mut silent: Vec<RedisClient> = (0..300).map(|_| client(&weir)).collect();
    for (n, stranger) in silent.iter_mut().enumerate() {
        let half = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n2\r\n";
        stranger.send(&half[..n % half.len()]);
    }
    for _ in 0..100 {
        assert_eq!(ann.line("GET a"), "$-1");
    }
    let more: Vec<RedisClient> = (0..200).map(|_| client(&weir)).collect();
    let mut refused = more.into_iter().map(|mut one| {
        one.say(&["PING"]);
        one.try_hear().map_or_else(|_| String::new(), |b| String::from_utf8_lossy(&b).into_owned())
    });
    assert!(refused.any(|heard| heard == "-ERR max number of clients reached\r\n"));
    drop(silent);
    wait::until("there is room again", wait::LONG, || {
        let mut next = client(&weir);
        next.try_ask(&["PING"]).is_ok_and(|heard| heard == b"+PONG\r\n")
    });
}
