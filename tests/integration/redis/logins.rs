//! Who may come in, and as what.

use std::time::{Duration, Instant};

use rig::redis::Redis;
use rig::wait;

use super::scene::{ADMIN, admin, client, strangers_send_little, weir};

const USERS: &str = "
    [[redis.user]]
    name = \"default\"
    password = \"secret\"
    [[redis.user]]
    name = \"root\"
    password-sha256 = \"c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2\"
    admin = true
";

#[test]
fn who_does_not_say_who_it_is_is_closed_after_a_while() {
    let server = Redis::start();
    let weir = weir(&[&server], "read-timeout = \"1s\"", ADMIN);
    let (mut stranger, mut fails, mut root) = (client(&weir), client(&weir), admin(&weir));
    assert!(fails.line("AUTH wrong").starts_with("-WRONGPASS "));
    for client in [&mut stranger, &mut fails] {
        client.patience(wait::LONG);
        assert!(client.is_closed());
    }
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(root.line("PING"), "+PONG");
}

#[test]
fn nobody_is_served_before_the_password() {
    let server = Redis::start();
    let weir = weir(&[&server], "", USERS);
    let mut ann = client(&weir);
    for line in ["GET a", "PING", "MULTI", "CLIENT ID", "SELECT 1", "COMMAND", "INFO"] {
        assert_eq!(ann.line(line), "-NOAUTH Authentication required.", "{line}");
    }
    assert!(ann.line("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    for line in ["AUTH wrong", "AUTH nobody secret", "AUTH root secret", "HELLO 3 AUTH root x"] {
        assert_eq!(ann.line(line), wrong, "{line}");
    }
    assert_eq!(ann.line("GET a"), "-NOAUTH Authentication required.");
    assert_eq!(ann.line("AUTH secret"), "+OK");
    assert_eq!(ann.line("GET a"), "$-1");
    assert!(ann.line("FLUSHALL").starts_with("-NOPERM"));
    assert!(ann.line("HELLO 3 AUTH root foobar").starts_with("%7"));
    assert_eq!(ann.line("FLUSHALL"), "+OK");
    assert_eq!(ann.line("RESET"), "+RESET");
    assert_eq!(ann.line("GET a"), "-NOAUTH Authentication required.");
}

#[test]
fn wrong_passwords_are_told_late_and_right_ones_at_once() {
    let server = Redis::start();
    let weir = weir(&[&server], "", USERS);
    let mut friend = client(&weir);
    assert_eq!(friend.line("AUTH secret"), "+OK");
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    let mut eve = client(&weir);
    for n in 0..5 {
        assert_eq!(eve.ask(&["AUTH", "eve", &n.to_string()]), wrong);
    }
    let begun = Instant::now();
    // What she sends behind it is looked at once she has heard that.
    eve.send(b"HELLO 3 AUTH eve 6\r\nPING\r\nAUTH root foobar\r\nHELLO 3\r\n");
    assert_eq!(client(&weir).line("AUTH secret"), "+OK");
    assert_eq!(eve.hear(), wrong);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!([eve.hear(), eve.hear()], ["-NOAUTH Authentication required.", "+OK"]);
    assert!(eve.hear().starts_with("%7"));
    assert_eq!(eve.line("FLUSHALL"), "+OK");
    assert_eq!(weir.metrics().sum("weir_redis_logins_slowed_total", &[]), 1.0);
    // Whoever goes away meanwhile leaves nothing behind.
    for n in 0..20 {
        let mut gone = client(&weir);
        gone.say(&["AUTH", "mallory", &n.to_string()]);
    }
    wait::until("they are gone", wait::LONG, || {
        weir.metrics().sum("weir_connections_open", &[("listener", "redis")]) <= 2.0
    });
}

#[test]
fn strangers_may_send_little() {
    let server = Redis::start();
    let weir = weir(&[&server], "", USERS);
    strangers_send_little(&weir);
}

#[test]
fn weir_logs_in_to_its_servers() {
    let server = Redis::start_with(&["--requirepass", "geheim"]);
    let mut weir = weir(&[&server], "", "");
    let mut ann = client(&weir);
    let heard = ann.line("GET a");
    let wanted = "-ERR weir: not sent: s0 cannot be reached: it refuses Weir: NOAUTH";
    assert!(heard.starts_with(wanted), "{heard}");
    drop(ann);
    weir.configure(|setup| setup.table("password = \"geheim\""));
    weir.terminate();
    weir.start_again();
    let mut ann = client(&weir);
    assert_eq!(ann.line("SET a 1"), "+OK");
    assert_eq!(ann.line("SELECT 2"), "+OK");
    assert_eq!(ann.line("GET a"), "$-1");
    assert!(ann.line("HELLO 3").starts_with("%7"));
    assert_eq!(ann.line("GET a"), "_");
    // A connection that was a client's own is everybody's again, as it was.
    for _ in 0..5 {
        ann.send(b"MULTI\r\nGET a\r\nEXEC\r\n");
        assert_eq!([ann.hear(), ann.hear(), ann.hear()], ["+OK", "+QUEUED", "*1 _"]);
    }
    assert!(!weir.log().contains("geheim"));
}

#[test]
fn users_and_limits_are_reloaded() {
    let server = Redis::start();
    let mut weir = weir(&[&server], "", USERS);
    weir.configure(|setup| setup.table("[[redis.user]]\nname = \"new\"\npassword = \"fresh\""));
    weir.reload();
    weir.wait_log("the configuration was reloaded");
    assert_eq!(client(&weir).line("AUTH new fresh"), "+OK");
    assert_eq!(client(&weir).line("AUTH secret"), "+OK");
}
