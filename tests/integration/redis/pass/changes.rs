//! Users whose passwords change while their clients are connected.

use std::time::{Duration, Instant};

use rig::redis::RedisClient;
use rig::wait;

use super::super::scene::weir;
use super::{PASS, WRONG, as_user, client, passing, server};

#[test]
fn a_former_password_opens_nothing_and_who_said_it_in_time_stays() {
    let server = server();
    let weir = passing(&[&server]);
    let mut early = as_user(&weir, "ann anns");
    assert_eq!(early.line("SET a:1 x"), "+OK");
    let mut direct = server.client();
    assert_eq!(direct.line("ACL SETUSER ann resetpass >new"), "+OK");
    // The lane of those who said the former one is there still, and is not for whoever comes now.
    assert_eq!(early.line("GET a:1"), "$1 x");
    let mut late = client(&weir);
    assert_eq!(late.line("AUTH ann anns"), WRONG);
    assert_eq!(late.line("HELLO 3 AUTH ann anns"), WRONG);
    assert_eq!(late.line("AUTH ann new"), "+OK");
    assert_eq!(late.line("GET a:1"), "$1 x");
    assert_eq!(early.line("AUTH ann anns"), WRONG);
    assert_eq!(early.line("GET a:1"), "$1 x", "a login that fails changes nothing");
    // Where a lane has to be opened anew, it is by what its clients have said.
    assert!(direct.line("CLIENT KILL USER ann").starts_with(':'));
    wait::until("the new password is in use again", wait::LONG, || late.line("GET a:1") == "$1 x");
    wait::until("the former one is refused", wait::LONG, || early.line("GET a:1") == WRONG);
    assert_eq!(early.line("MULTI"), "+OK");
    assert_eq!(early.line("SET a:1 y"), WRONG);
    assert!(early.line("EXEC").starts_with("-"));
    assert_eq!(early.line("SUBSCRIBE a.x"), WRONG);
    assert_eq!(late.line("GET a:1"), "$1 x");
    // It is right again, and so are both.
    assert_eq!(direct.line("ACL SETUSER ann >anns"), "+OK");
    assert_eq!(as_user(&weir, "ann anns").line("GET a:1"), "$1 x");
    wait::until("who stayed is let in, too", wait::LONG, || early.line("GET a:1") == "$1 x");
}

#[test]
fn a_user_that_is_gone_is_gone_and_no_other() {
    let server = server();
    let weir = passing(&[&server]);
    let [mut ann, mut bob] = [as_user(&weir, "ann anns"), as_user(&weir, "bob bobs")];
    let mut hears = as_user(&weir, "ann anns");
    assert!(hears.line("SUBSCRIBE a.x").starts_with("*3"));
    let mut waits = as_user(&weir, "ann anns");
    waits.say(&["BLPOP", "a:l", "0"]);
    assert_eq!(ann.line("SET a:1 x"), "+OK");
    assert_eq!(bob.line("SET b:1 x"), "+OK");
    let mut direct = server.client();
    wait::until("it waits", wait::LONG, || {
        direct.line("INFO clients").contains("blocked_clients:1")
    });
    assert_eq!(direct.line("ACL DELUSER ann"), ":1");
    let heard = waits.hear();
    assert!(heard.starts_with("-ERR weir: may have run"), "{heard}");
    assert!(hears.is_closed());
    wait::until("it is refused", wait::LONG, || ann.line("GET a:1") == WRONG);
    assert_eq!(client(&weir).line("AUTH ann anns"), WRONG);
    assert_eq!(bob.line("GET b:1"), "$1 x");
    assert!(bob.line("WAIT 0 10").starts_with(':'), "nothing of what it wrote is in doubt");
    // Another one of the same name is another one.
    assert_eq!(direct.line("ACL SETUSER ann on >other ~* +@all"), "+OK");
    assert_eq!(ann.line("GET a:1"), WRONG);
    assert_eq!(as_user(&weir, "ann other").line("GET a:1"), "$1 x");
}

#[test]
fn a_default_user_that_gets_a_password_lets_in_nobody_new_without() {
    let server = server();
    let weir = passing(&[&server]);
    let mut early = client(&weir);
    assert_eq!(early.line("SET x 1"), "+OK");
    let mut silent = client(&weir);
    server.client().line("CONFIG SET requirepass geheim");
    assert_eq!(early.line("GET x"), "$1 1", "as with a server");
    for client in [&mut silent, &mut client(&weir)] {
        assert_eq!(client.line("GET x"), "-NOAUTH Authentication required.");
    }
    assert_eq!(early.line("RESET"), "+RESET");
    assert_eq!(early.line("GET x"), "-NOAUTH Authentication required.");
    assert_eq!(early.line("AUTH geheim"), "+OK");
    assert_eq!(early.line("GET x"), "$1 1");
}

#[test]
fn wrong_passwords_are_told_late_and_right_ones_at_once() {
    let _alone = rig::machine::alone();
    let server = server();
    let weir = passing(&[&server]);
    let mut eve = client(&weir);
    for n in 0..5 {
        assert_eq!(eve.ask(&["AUTH", "ann", &n.to_string()]), WRONG);
    }
    let begun = Instant::now();
    eve.send(b"AUTH ann 6\r\nGET x\r\n");
    let mut ann = as_user(&weir, "ann anns");
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(ann.line("GET a:1"), "$-1");
    assert_eq!(eve.hear(), WRONG);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!(eve.hear(), "$-1", "it is the default user still");
    assert_eq!(weir.metrics().sum("weir_redis_logins_slowed_total", &[]), 1.0);
    assert_eq!(weir.metrics().sum("weir_redis_logins_refused_total", &[]), 6.0);
}

#[test]
fn a_login_that_no_server_can_check_is_no_login() {
    let mut servers = [server(), server()];
    let weir = weir(&[&servers[0], &servers[1]], PASS, "");
    let mut ann = as_user(&weir, "ann anns");
    servers[0].kill();
    // Another server knows the user, too.
    let mut other = as_user(&weir, "ann anns");
    servers[1].kill();
    let is_told = |client: &mut RedisClient, line: &str| {
        let heard = client.line(line);
        assert!(heard.starts_with("-ERR weir: not sent: "), "{line}: {heard}");
    };
    is_told(&mut client(&weir), "AUTH ann anns");
    let mut nobody = client(&weir);
    is_told(&mut nobody, "GET x");
    is_told(&mut nobody, "HELLO 3");
    servers.iter_mut().for_each(|server| {
        server.start_again();
        super::set_users(server);
    });
    assert_eq!(nobody.line("GET x"), "$-1", "it is asked again for each command");
    for client in [&mut ann, &mut other] {
        wait::until("it is served again", wait::LONG, || client.line("GET a:1") == "$-1");
    }
}
