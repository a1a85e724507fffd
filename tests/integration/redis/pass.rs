//! `auth = "pass"`: clients are the servers' own users.

mod changes;
mod many;
mod users;

use rig::redis::{Redis, RedisClient};
use rig::weir::Weir;

use super::scene::{client, weir};

const PASS: &str = "auth = \"pass\"";

const ROOT: &str = "[[redis.user]]\nname = \"root\"\npassword = \"roots own\"\nadmin = true\n";

const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

/// A server with two users who share nothing.
pub(super) fn server() -> Redis {
    server_with(&[])
}

fn server_with(args: &[&str]) -> Redis {
    let server = Redis::start_with(args);
    set_users(&server);
    server
}

fn set_users(server: &Redis) {
    let mut root = server.client();
    for user in ["ann on >anns ~a:* &a.* +@all", "bob on >bobs ~b:* &b.* &weir:wait +@all"] {
        assert_eq!(root.line(&format!("ACL SETUSER {user}")), "+OK");
    }
}

/// Weir before these servers, which knows `root` only.
fn passing(servers: &[&Redis]) -> Weir {
    weir(servers, PASS, ROOT)
}

/// A client who has logged in.
pub(super) fn as_user(weir: &Weir, login: &str) -> RedisClient {
    let mut client = client(weir);
    assert_eq!(client.line(&format!("AUTH {login}")), "+OK");
    client
}

/// An administrator of Weir's own.
fn root(weir: &Weir) -> RedisClient {
    let mut root = client(weir);
    assert_eq!(root.ask(&["AUTH", "root", "roots own"]), "+OK");
    root
}
