//! `backend-user`: clients of a user of Weir's are another user of the servers.

use rig::redis::RedisClient;
use rig::wait;
use rig::weir::Setup;

use super::pass::{as_user, server};
use super::scene::{ADMIN, client, table, weir};

const ALICE: &str = "[[redis.user]]\nname = \"alice\"\npassword = \"alices\"\n\
                     backend-user = \"ann\"\nbackend-password = \"anns\"\n";
const CARL: &str = "[[redis.user]]\nname = \"carl\"\npassword = \"c\"\n";

/// Bert is the servers' bob, whose password is in a file.
fn bert(file: &std::path::Path) -> String {
    format!(
        "[[redis.user]]\nname = \"bert\"\npassword = \"berts\"\nbackend-user = \"bob\"\n\
         backend-password-file = {file:?}\n"
    )
}

#[test]
fn clients_may_do_what_their_user_of_the_servers_may() {
    let (server, dir) = (server(), rig::places::directory());
    let file = dir.path().join("bobs");
    std::fs::write(&file, "bobs\n").unwrap();
    let mut weir = weir(&[&server], "", &format!("{ADMIN}{ALICE}{CARL}{}", bert(&file)));
    let mut through = as_user(&weir, "alice alices");
    let mut direct = server.client();
    assert_eq!(direct.line("AUTH ann anns"), "+OK");
    let lines = [
        "SET a:1 x",
        "GET a:1",
        "GET b:1",
        "SET x 1",
        "MGET a:1 a:2",
        "MGET a:1 b:1",
        "MULTI",
        "SET a:1 y",
        "EXEC",
        "MULTI",
        "SET b:1 y",
        "EXEC",
        "BLPOP a:l 0.01",
        "BLPOP b:l 0.01",
        "PUBLISH a.x 1",
        "PUBLISH b.x 1",
        "EVAL return{ARGV[1]} 0 x",
        "SCAN 0",
        "SELECT 2",
        "SET a:2 x",
        "SUBSCRIBE b.x",
        "SUBSCRIBE a.x",
        "UNSUBSCRIBE a.x",
    ];
    for line in lines {
        assert_eq!(through.line(line), direct.line(line), "{line}");
    }
    let mut bert = as_user(&weir, "bert berts");
    assert_eq!(bert.line("SET b:1 1"), "+OK");
    assert!(bert.line("GET a:1").starts_with("-NOPERM"));
    // Whoever has none is whom the servers know Weir as.
    let mut carl = as_user(&weir, "carl c");
    assert_eq!(carl.line("MGET a:1 b:1"), "*2 $1 y $1 1");
    // One connection after the other is the client's, and each is that user's.
    assert_eq!(carl.ask(&["AUTH", "bert", "berts"]), "+OK");
    assert!(carl.line("MGET a:1 b:1").starts_with("-NOPERM"));
    assert_eq!(carl.line("RESET"), "+RESET");
    assert!(carl.line("GET b:1").starts_with("-NOAUTH"));
    let mut admin = client(&weir);
    assert_eq!(admin.line("AUTH p"), "+OK");
    let lanes = admin.line("WEIR SHOW LANES");
    assert!(lanes.contains("$4 user $3 ann") && lanes.contains("$4 user $3 bob"), "{lanes}");
    let (clients, metrics) = (admin.line("CLIENT LIST"), weir.ask_admin("/metrics").text());
    assert!(clients.contains("user=alice"), "{clients}");
    weir.terminate();
    for secret in ["anns", "bobs", "alices"] {
        assert!(![&lanes, &clients, &metrics, &weir.log()].iter().any(|of| of.contains(secret)));
    }
}

#[test]
fn nobody_becomes_another_amid_what_it_is_at() {
    let server = server();
    let weir = weir(&[&server], "", &format!("{ALICE}{CARL}"));
    let refused = |client: &mut RedisClient| {
        let heard = client.line("AUTH carl c");
        assert!(heard.starts_with("-ERR weir: a login is refused while"), "{heard}");
    };
    let mut alice = as_user(&weir, "alice alices");
    assert_eq!(alice.line("WATCH a:1"), "+OK");
    refused(&mut alice);
    assert_eq!(alice.line("UNWATCH"), "+OK");
    assert_eq!(alice.line("HELLO 3")[..2], *"%7");
    assert_eq!(alice.line("SUBSCRIBE a.x"), ">3 $9 subscribe $3 a.x :1");
    refused(&mut alice);
    alice.line("UNSUBSCRIBE a.x");
    assert_eq!(alice.line("CLIENT TRACKING ON"), "+OK");
    refused(&mut alice);
    assert!(alice.line("GET b:1").starts_with("-NOPERM"), "she is who she was");
    assert_eq!(alice.line("CLIENT TRACKING OFF"), "+OK");
    assert_eq!(alice.line("AUTH carl c"), "+OK");
    assert_eq!(alice.line("GET b:1"), "_");
}

#[test]
fn nor_does_who_has_no_user_any_more() {
    let server = server();
    let mut weir = weir(&[&server], "", &format!("{ALICE}{CARL}"));
    let mut alice = as_user(&weir, "alice alices");
    assert_eq!(alice.line("WATCH a:1"), "+OK");
    weir.configure(|_| Setup::new().table(&table(&[&server], "", CARL)));
    weir.reload();
    weir.wait_log("the configuration was reloaded");
    assert!(alice.line("AUTH carl c").starts_with("-ERR weir: a login is refused while"));
    assert_eq!(alice.line("RESET"), "+RESET");
    assert_eq!(alice.line("AUTH carl c"), "+OK");
    assert_eq!(alice.line("GET b:1"), "$-1");
}

#[test]
fn behind_a_refused_watch_a_large_value_is_taken() {
    let server = server();
    let weir = weir(&[&server], "", ALICE);
    let mut alice = as_user(&weir, "alice alices");
    assert!(alice.line("WATCH b:1").starts_with("-NOPERM"));
    // More than is kept of a command (`max-command`), so it goes on as it comes.
    let value = "x".repeat(17 << 20);
    assert_eq!(alice.ask(&["SET", "a:1", &value]), "+OK");
    assert_eq!(alice.line("STRLEN a:1"), format!(":{}", value.len()));
}

#[test]
fn a_password_that_the_server_refuses_is_told_and_concerns_nobody_else() {
    let server = server();
    let wrong = ALICE.replace("\"anns\"", "\"former\"");
    let weir = weir(&[&server], "", &format!("{wrong}{CARL}"));
    let (mut alice, mut carl) = (as_user(&weir, "alice alices"), as_user(&weir, "carl c"));
    for _ in 0..3 {
        let heard = alice.line("GET a:1");
        assert!(heard.starts_with("-ERR weir: not sent: s0"), "{heard}");
        assert!(heard.contains("it refuses Weir as \"ann\": WRONGPASS"), "{heard}");
        assert_eq!(carl.line("SET a:1 x"), "+OK");
    }
    server.client().line("ACL SETUSER ann resetpass >former");
    wait::until("she is let in", wait::LONG, || alice.line("GET a:1") == "$1 x");
    assert!(!weir.log().contains("former"));
}

#[test]
fn a_reload_makes_clients_another_user_once_they_log_in() {
    let (server, dir) = (server(), rig::places::directory());
    let file = dir.path().join("bobs");
    std::fs::write(&file, "bobs").unwrap();
    let before = "[[redis.user]]\nname = \"bert\"\npassword = \"berts\"\n";
    let mut weir = weir(&[&server], "", before);
    let mut bert = as_user(&weir, "bert berts");
    assert_eq!(bert.line("SET a:1 x"), "+OK");
    weir.configure(|_| Setup::new().table(&table(&[&server], "", &self::bert(&file))));
    weir.reload();
    weir.wait_log("the configuration was reloaded");
    assert_eq!(bert.line("GET a:1"), "$1 x");
    assert_eq!(bert.ask(&["AUTH", "bert", "berts"]), "+OK");
    assert!(bert.line("GET a:1").starts_with("-NOPERM"));
    // Without the password nothing changes.
    std::fs::write(&file, "").unwrap();
    weir.reload();
    weir.wait_log("the configuration was not reloaded");
    assert!(weir.log().contains("backend-password-file has no password"), "{}", weir.log());
    assert_eq!(as_user(&weir, "bert berts").line("SET b:1 x"), "+OK");
}
