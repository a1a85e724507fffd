//! More users than connections.

use std::time::Duration;

use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::Weir;

use super::super::scene::{client, weir};

/// Users; more where the environment says so.
fn count() -> usize {
    std::env::var("WEIR_TEST_USERS").ok().and_then(|text| text.parse().ok()).unwrap_or(500)
}

/// Connections of that user, as the server has them.
fn connections(direct: &mut RedisClient, user: &str) -> usize {
    direct.line("CLIENT LIST").matches(&format!(" user={user} ")).count()
}

/// A server at which any password is right for one user: each is an account of its own.
fn anybody() -> (Redis, Weir) {
    let server = Redis::start();
    assert_eq!(server.client().line("ACL SETUSER any on nopass ~* &* +@all"), "+OK");
    let weir = weir(&[&server], "auth = \"pass\"\nuser-connections = 8", super::ROOT);
    (server, weir)
}

#[test]
fn many_users_keep_no_more_lanes_than_there_may_be() {
    let (server, weir) = anybody();
    let mut stays = client(&weir);
    assert_eq!(stays.line("AUTH any stays"), "+OK");
    assert_eq!(stays.line("SET x 1"), "+OK");
    let (threads, mut direct) = (10, server.client());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let weir = &weir;
            scope.spawn(move || {
                for n in 0..count() / threads {
                    let mut client = client(weir);
                    let login = format!("AUTH any {thread}:{n}");
                    assert_eq!(client.line(&login), "+OK");
                    assert_eq!(client.line("GET x"), "$1 1");
                }
            });
        }
        for _ in 0..20 {
            // Beside lanes, one connection for each login that is under way.
            let there = connections(&mut direct, "any");
            assert!(there <= 8 + threads, "{there}");
        }
    });
    assert_eq!(stays.line("GET x"), "$1 1");
    wait::until("logins are over", wait::LONG, || connections(&mut direct, "any") <= 8);
    let lanes = super::root(&weir).line("WEIR SHOW LANES");
    assert!(lanes.matches("$4 user").count() <= 8, "{lanes}");
}

#[test]
fn users_who_are_there_take_turns_and_none_is_refused() {
    let (server, weir) = anybody();
    server.client().line("SET x 1");
    let mut all: Vec<RedisClient> = (0..20).map(|_| client(&weir)).collect();
    for (n, client) in all.iter_mut().enumerate() {
        assert_eq!(client.line(&format!("AUTH any {n}")), "+OK");
    }
    for _ in 0..2 {
        for client in &mut all {
            client.say(&["GET", "x"]);
        }
        for client in &mut all {
            assert_eq!(client.hear(), "$1 1");
        }
    }
    // Whoever needs a connection for itself has one of those.
    for client in &mut all {
        client.send(b"MULTI\r\nGET x\r\nEXEC\r\n");
        assert_eq!([client.hear(), client.hear(), client.hear()], ["+OK", "+QUEUED", "*1 $1 1"]);
    }
    assert!(connections(&mut server.client(), "any") <= 8);
    // Blocked clients have all there are: the others hear that, and are served when they are gone.
    let (blocked, others) = all.split_at_mut(8);
    let mut direct = server.client();
    for (n, client) in blocked.iter_mut().enumerate() {
        client.say(&["BLPOP", &format!("l{n}"), "0"]);
    }
    wait::until("they wait", Duration::from_secs(20), || {
        direct.line("INFO clients").contains("blocked_clients:8")
    });
    let heard = others[0].line("GET x");
    assert!(heard.starts_with("-ERR weir: not sent: s0 took no command in time"), "{heard}");
    (0..8).for_each(|n| assert_eq!(direct.line(&format!("RPUSH l{n} v")), ":1"));
    blocked.iter_mut().for_each(|client| assert!(client.hear().starts_with("*2")));
    wait::until("it is served", wait::LONG, || others[0].line("GET x") == "$1 1");
}
