//! What a user may do is what the server lets it do.

use rig::redis::{Redis, RedisClient, valkey};

use super::super::scene::strangers_send_little;
use super::{ROOT, WRONG, as_user, client, passing, root, server, set_users, weir};

/// Both clients say the same, and hear the same.
#[track_caller]
fn same(direct: &mut RedisClient, through: &mut RedisClient, lines: &[&str]) {
    for line in lines {
        let (wanted, heard) = (direct.line(line), through.line(line));
        // Numbers of clients and versions are Weir's own.
        match line.starts_with("HELLO") && wanted.starts_with(['%', '*']) {
            true => assert_eq!(heard[..2], wanted[..2], "{line}"),
            false => assert_eq!(heard, wanted, "{line}"),
        }
    }
}

#[test]
fn a_client_hears_what_it_would_hear_as_that_user_of_the_server() {
    let server = server();
    let weir = passing(&[&server]);
    let (mut direct, mut through) = (server.client(), client(&weir));
    let is_default = ["SET x 1", "GET x", "AUTH x", "AUTH a b c", "AUTH"];
    let is_ann = ["AUTH ann anns", "SET a:1 x", "GET a:1", "GET b:1", "SET x 2", "MGET a:1 a:2"];
    let stays_ann = ["AUTH bob wrong", "HELLO 3 AUTH bob wrong", "GET a:1", "GET b:1"];
    let denied = ["MGET a:1 b:1", "DEL a:1 b:1", "MULTI", "SET a:1 y", "SET b:1 y", "EXEC"];
    let done = ["MULTI", "SET a:1 z", "EXEC", "WATCH b:1", "WATCH a:1", "UNWATCH", "BLPOP b:l 1"];
    let is_bob = ["HELLO 3 AUTH bob bobs", "GET b:1", "GET a:1", "SELECT 2", "SET b:1 2"];
    let more = ["PUBLISH a.x 1", "PUBLISH b.x 1", "EVAL return{ARGV[1]} 0 x", "SCAN 0 MATCH b:*"];
    let again = ["RESET", "GET x", "GET a:1", "GET b:1", "SET x 3", "HELLO 3", "GET none"];
    for lines in [&is_default[..], &is_ann, &stays_ann, &denied, &done, &is_bob, &more, &again] {
        same(&mut direct, &mut through, lines);
    }
    assert!(!weir.log().contains("anns") && !weir.log().contains("bobs"));
}

#[test]
fn where_the_default_user_has_a_password_nobody_is_served_before_it() {
    let server = server();
    server.client().line("CONFIG SET requirepass geheim");
    let weir = passing(&[&server]);
    let (mut direct, mut through) = (server.client(), client(&weir));
    let strangers = ["GET x", "PING", "MULTI", "INFO", "AUTH wrong", "GET x"];
    same(&mut direct, &mut through, &strangers);
    assert!(through.line("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    same(&mut direct, &mut through, &["AUTH geheim", "SET x 1", "GET x"]);
    same(&mut direct, &mut through, &["RESET", "GET x", "AUTH default geheim", "GET x"]);
    strangers_send_little(&weir);
}

#[test]
fn who_needs_no_password_has_no_small_limits() {
    let server = server();
    let weir = weir(&[&server], &format!("{}\nmax-command = \"64KiB\"", super::PASS), "");
    let large = "x".repeat(300 << 10);
    assert_eq!(client(&weir).ask(&["SET", "large", &large]), "+OK");
    let mut many = vec!["MSET"];
    (0..50).for_each(|_| many.extend(["k", "v"]));
    let mut through = client(&weir);
    // A pipeline behind the first command, which is looked at once that has an answer.
    through.say(&many);
    through.send(b"STRLEN large\r\nGET k\r\n");
    assert_eq!([through.hear(), through.hear(), through.hear()], ["+OK", ":307200", "$1 v"]);
    // More than a command may have, at once, and all of it before anything is known.
    let (mut through, line) = (client(&weir), format!("SET k {}\r\n", "v".repeat(90)));
    through.send(line.repeat(2_000).as_bytes());
    (0..2_000).for_each(|_| assert_eq!(through.hear(), "+OK"));
    // Of a large value, too, it is the server that says who may have it.
    let mut ann = as_user(&weir, "ann anns");
    assert_eq!(ann.ask(&["SET", "a:large", &large]), "+OK");
    assert!(ann.ask(&["SET", "b:large", &large]).starts_with("-NOPERM"));
}

#[test]
fn a_login_waits_for_what_was_asked_before_and_what_is_asked_later_waits_for_it() {
    let server = server();
    let weir = passing(&[&server]);
    let mut through = client(&weir);
    for _ in 0..20 {
        through.send(
            b"RESET\r\nSET x 1\r\nAUTH ann anns\r\nSET x 2\r\nSET a:1 2\r\nAUTH bob bobs\r\n\
              GET a:1\r\nAUTH ann wrong\r\nSET b:1 3\r\nRESET\r\nGET x\r\nGET b:1\r\n",
        );
        let heard: Vec<String> = (0..12).map(|_| through.hear()).collect();
        let denied = |at: usize| assert!(heard[at].starts_with("-NOPERM"), "{heard:?}");
        denied(3);
        denied(6);
        let wanted = [(0, "+RESET"), (1, "+OK"), (2, "+OK"), (4, "+OK"), (5, "+OK"), (8, "+OK")];
        wanted.iter().for_each(|(at, wanted)| assert_eq!(heard[*at], *wanted, "{heard:?}"));
        assert!(heard[7].starts_with("-WRONGPASS"));
        assert_eq!(heard[9..], ["+RESET", "$1 1", "$1 3"]);
        // Its earlier failures do not count for long enough to be slowed here.
        if through.line("AUTH ann anns") != "+OK" {
            break;
        }
    }
}

#[test]
fn channels_are_heard_by_whom_the_server_lets_hear_them() {
    let server = server();
    let weir = passing(&[&server]);
    let [mut ann, mut bob] = [as_user(&weir, "ann anns"), as_user(&weir, "bob bobs")];
    assert_eq!(ann.line("SUBSCRIBE a.x"), "*3 $9 subscribe $3 a.x :1");
    assert!(bob.line("SUBSCRIBE a.x").starts_with("-NOPERM"));
    assert!(bob.line("PSUBSCRIBE a.*").starts_with("-NOPERM"));
    assert!(bob.line("SUBSCRIBE b.x a.x").starts_with("-NOPERM"), "all of it, or nothing");
    assert_eq!(bob.line("SUBSCRIBE b.x"), "*3 $9 subscribe $3 b.x :1");
    let mut publisher = client(&weir);
    assert_eq!(publisher.line("PUBLISH a.x 1"), ":1");
    assert_eq!(publisher.line("PUBLISH b.x 2"), ":1");
    assert_eq!(ann.hear(), "*3 $7 message $3 a.x $1 1");
    assert_eq!(bob.hear(), "*3 $7 message $3 b.x $1 2");
    assert_eq!(publisher.line("PUBSUB NUMSUB a.x b.x"), "*4 $3 a.x :1 $3 b.x :1");
    // Whoever is subscribed stays who it is; after RESET it is somebody else.
    let mut carl = as_user(&weir, "ann anns");
    assert!(carl.line("HELLO 3").starts_with("%7"));
    assert!(carl.line("SUBSCRIBE a.x").starts_with(">3"));
    let refused = "-ERR weir: a login is refused while the client is subscribed";
    assert_eq!(carl.line("AUTH bob bobs"), refused);
    assert_eq!(carl.line("RESET"), "+RESET");
    assert_eq!(carl.line("AUTH bob bobs"), "+OK");
    assert!(carl.line("SUBSCRIBE a.x").starts_with("-NOPERM"));
    assert_eq!(carl.line("SUBSCRIBE b.x"), "*3 $9 subscribe $3 b.x :1");
    // What is revoked ends the connection that hears for that user, and for no other.
    assert_eq!(server.client().line("ACL SETUSER ann resetchannels &b.*"), "+OK");
    assert!(ann.is_closed());
    publisher.line("PUBLISH b.x 3");
    assert_eq!([bob.hear(), carl.hear()], ["*3 $7 message $3 b.x $1 3"; 2]);
}

#[test]
fn weirs_own_administrator_is_known_to_no_server() {
    let server = server();
    server.client().line("CONFIG SET requirepass geheim");
    let mut weir = passing(&[&server]);
    let mut ann = as_user(&weir, "ann anns");
    assert_eq!(ann.line("SET a:1 x"), "+OK");
    for line in ["KEYS *", "FLUSHALL", "CLIENT LIST", "WEIR SHOW LANES", "MONITOR"] {
        let heard = ann.line(line);
        assert!(heard.starts_with("-NOPERM weir: "), "{line}: {heard}");
    }
    let mut other = client(&weir);
    assert_eq!(other.ask(&["AUTH", "root", "wrong"]), WRONG);
    let mut root = root(&weir);
    let lanes = root.line("WEIR SHOW LANES");
    assert!(lanes.contains("$4 user $3 ann"), "{lanes}");
    let clients = root.line("CLIENT LIST");
    assert!(clients.contains("user=ann") && clients.contains("user=root"), "{clients}");
    let metrics = weir.ask_admin("/metrics").text();
    for secret in ["anns", "roots own", "geheim"] {
        assert!(![&lanes, &clients, &metrics, &weir.log()].iter().any(|of| of.contains(secret)));
    }
    // What Weir has no password for it does not do for its administrator either.
    let heard = root.line("GET x");
    assert!(heard.contains("it refuses Weir: NOAUTH"), "{heard}");
    assert!(server.client().line("ACL LOG").starts_with("-NOAUTH"));
    let mut direct = server.client();
    direct.line("AUTH geheim");
    let log = direct.line("ACL LOG");
    assert!(!log.contains("root"), "{log}");
    assert!(weir.terminate().success());
}

#[test]
fn a_connection_that_one_user_had_never_is_anothers() {
    let server = server();
    let mut direct = server.client();
    // It may not say what shows that its connection is as new.
    direct.line("ACL SETUSER carl on >carls ~c:* +get +set +multi +exec +ping");
    let weir = passing(&[&server]);
    let users = [("ann anns", 'a'), ("bob bobs", 'b'), ("carl carls", 'c')];
    std::thread::scope(|scope| {
        for n in 0..12 {
            let ((login, own), weir) = (users[n % 3], &weir);
            scope.spawn(move || {
                let mut client = as_user(weir, login);
                for turn in 0..40 {
                    let other = users[(n + turn + 1) % 3].1;
                    client.send(b"MULTI\r\n");
                    client.line(&format!("SET {own}:{n} {turn}"));
                    assert_eq!(client.hear(), "+QUEUED");
                    assert_eq!(client.line("EXEC"), "*1 +OK");
                    let wanted = format!("${} {turn}", turn.to_string().len());
                    assert_eq!(client.line(&format!("GET {own}:{n}")), wanted);
                    let heard = client.line(&format!("GET {other}:{n}"));
                    assert_eq!(heard.starts_with("-NOPERM"), own != other, "{own} {other} {heard}");
                }
            });
        }
    });
}

#[test]
fn each_server_is_logged_in_to_as_the_client() {
    let servers = [server(), server()];
    servers[1].client().line("ACL SETUSER bob resetpass >others");
    let weir = weir(&[&servers[0], &servers[1]], super::PASS, ROOT);
    let all = [&servers[0], &servers[1]];
    let on = |user: char, wanted: usize| {
        let mut found = (0..1000).map(|n| format!("{user}:{n}"));
        let mut through = client(&weir);
        let is_there = |key: &String| {
            assert_eq!(through.ask(&["SET", key, "x"]), "+OK");
            all[wanted].client().ask(&["EXISTS", key]) == ":1"
        };
        found.find(is_there).expect("each server has some")
    };
    let (first, second) = (on('b', 0), on('b', 1));
    let mut bob = as_user(&weir, "bob bobs");
    assert_eq!(bob.ask(&["GET", &first]), "$1 x");
    assert_eq!(bob.ask(&["GET", &second]), WRONG);
    assert_eq!(bob.ask(&["MGET", &first, &second]), WRONG);
    assert_eq!(bob.ask(&["MULTI"]), "+OK");
    assert_eq!(bob.ask(&["SET", &second, "y"]), WRONG);
    assert!(bob.ask(&["EXEC"]).starts_with('-'));
    assert_eq!(bob.ask(&["PSUBSCRIBE", "b.*"]), WRONG, "patterns are at all servers");
    assert_eq!(bob.ask(&["GET", &first]), "$1 x");
    let mut ann = as_user(&weir, "ann anns");
    let keys = [on('a', 0), on('a', 1)];
    assert_eq!(ann.ask(&["MGET", &keys[0], &keys[1]]), "*2 $1 x $1 x");
    // Nothing is wrong with a server that refuses a user.
    let shown = root(&weir).line("WEIR SHOW BACKENDS");
    assert!(!shown.contains("WRONGPASS") && !shown.contains("failing"), "{shown}");
}

#[test]
fn a_command_that_weir_does_not_know_is_said_as_the_client() {
    let Some(valkey) = valkey() else { return };
    let server = Redis::start_as(&valkey, &[]);
    set_users(&server);
    let weir = passing(&[&server]);
    let mut ann = as_user(&weir, "ann anns");
    let (own, others) = ("HSETEX a:h EX 100 FIELDS 1 f v", "HSETEX b:h EX 100 FIELDS 1 f v");
    assert_eq!(ann.line(own), ":1");
    assert!(ann.line(others).starts_with("-NOPERM"));
    assert!(ann.line("GET b:1").starts_with("-NOPERM"));
    assert_eq!(as_user(&weir, "bob bobs").line(others), ":1");
}

#[test]
fn who_is_told_of_keys_is_told_so_as_one_user() {
    let server = server();
    let weir = passing(&[&server]);
    let mut ann = as_user(&weir, "ann anns");
    assert!(ann.line("HELLO 3").starts_with('%'));
    assert_eq!(ann.line("CLIENT TRACKING ON"), "+OK");
    assert_eq!(ann.line("SET a:1 x"), "+OK");
    let refused = ann.line("AUTH bob bobs");
    assert!(refused.starts_with("-ERR weir: a login is refused"), "{refused}");
    assert_eq!(ann.line("GET a:1"), "$1 x");
    assert_eq!(ann.line("CLIENT TRACKING OFF"), "+OK");
    assert_eq!(ann.line("AUTH bob bobs"), "+OK");
    assert!(ann.line("GET a:1").starts_with("-NOPERM"));
}
