//! Subscriptions: clients that share a connection hear what each is subscribed to, and no more.

use rig::redis::{Redis, RedisClient};
use rig::wait;
use rustix::process::Signal;

use super::scene::{ADMIN, admin, client, key_on, weir};

/// What a client hears to each of these lines, through Weir as from the server.
fn says_as(server: &mut RedisClient, through: &mut RedisClient, lines: &[(&str, usize)]) {
    for (line, answers) in lines {
        for client in [&mut *server, &mut *through] {
            client.say(&line.split(' ').collect::<Vec<_>>());
        }
        for _ in 0..*answers {
            assert_eq!(through.hear(), server.hear(), "{line}");
        }
    }
}

#[test]
fn subscribed_clients_hear_what_a_server_says() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    for hello in ["HELLO 2", "HELLO 3"] {
        let (mut direct, mut through) = (server.client(), client(&weir));
        direct.line(hello);
        through.line(hello);
        let mut lines = vec![
            ("SUBSCRIBE a b a", 3),
            ("PSUBSCRIBE a* ?", 2),
            ("SSUBSCRIBE s", 1),
            ("PING", 1),
            ("PING x", 1),
            ("SUBSCRIBE", 1),
            ("UNSUBSCRIBE nobody a", 2),
        ];
        if hello == "HELLO 2" {
            lines.extend([("GET a", 1), ("MULTI", 1), ("ECHO x", 1), ("PUBLISH a x", 1)]);
        } else {
            lines.extend([("SET a 1", 1), ("GET a", 1), ("STRLEN a", 1)]);
        }
        says_as(&mut direct, &mut through, &lines);
        let mut other = client(&weir);
        for (kind, channel) in [("PUBLISH", "a"), ("PUBLISH", "b"), ("SPUBLISH", "s")] {
            assert!(other.ask(&[kind, channel, "hello"]).starts_with(':'));
        }
        // `a` by both patterns, which are told in no order; `b` by its name and a pattern; `s`.
        let hear = |client: &mut RedisClient| {
            let mut heard: Vec<String> = (0..5).map(|_| client.hear()).collect();
            heard.sort();
            heard
        };
        assert_eq!(hear(&mut through), hear(&mut direct));
        let end = [
            ("UNSUBSCRIBE", 1),
            ("UNSUBSCRIBE", 1),
            ("PUNSUBSCRIBE a*", 1),
            ("PUNSUBSCRIBE", 1),
            ("SUNSUBSCRIBE", 1),
            ("GET nothing", 1),
            ("SUBSCRIBE a", 1),
            ("RESET", 1),
            ("PING", 1),
            ("SUBSCRIBE a", 1),
            ("QUIT", 1),
        ];
        says_as(&mut direct, &mut through, &end);
        assert!(through.is_closed());
    }
    let unknown = "PUBSUB NOSUCH";
    assert_eq!(client(&weir).line(unknown), server.client().line(unknown));
}

#[test]
fn what_is_published_behind_a_confirmation_is_heard_and_nothing_before() {
    let servers = [Redis::start(), Redis::start()];
    let servers: Vec<&Redis> = servers.iter().collect();
    let weir = weir(&servers, "", "");
    let mut ann = client(&weir);
    let mut others: Vec<_> = (0..8).map(|_| client(&weir)).collect();
    for round in 0..40 {
        let channel = format!("c{}", round % 5);
        // In one go: what comes before is answered before, and reaches nobody here.
        let before = format!("PUBLISH {channel} before\r\nSUBSCRIBE {channel} d{round}\r\n");
        for other in &mut others {
            other.send(before.as_bytes());
            assert!(other.hear().starts_with(':'));
            for _ in 0..2 {
                let heard = other.hear();
                assert!(heard.starts_with("*3 $9 subscribe"), "round {round}: {heard}");
            }
            let heard = format!("*3 $7 message $2 {channel} $4 just");
            ann.ask(&["PUBLISH", &channel, "just"]);
            assert_eq!(other.hear(), heard, "round {round}");
            other.send(format!("UNSUBSCRIBE {channel} d{round}\r\nPING\r\n").as_bytes());
            assert_eq!(other.hear(), format!("*3 $11 unsubscribe $2 {channel} :1"));
            assert!(other.hear().ends_with(":0"));
            assert_eq!(other.hear(), "+PONG");
        }
    }
}

#[test]
fn what_was_published_before_a_client_says_reset_is_heard_before_its_answer() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let [mut hears, mut publishes] = [client(&weir), client(&weir)];
    for turn in 0..300 {
        assert_eq!(hears.line("SUBSCRIBE news"), "*3 $9 subscribe $4 news :1");
        publishes.say(&["PUBLISH", "news", "x"]);
        assert_eq!(publishes.hear(), ":1");
        hears.say(&["RESET"]);
        assert_eq!(hears.hear(), "*3 $7 message $4 news $1 x", "turn {turn}");
        assert_eq!(hears.hear(), "+RESET");
    }
    assert_eq!(publishes.line("PUBSUB NUMSUB news"), "*2 $4 news :0");
}

#[test]
fn patterns_and_what_servers_say_of_their_keys_are_heard_from_all() {
    let args = ["--notify-keyspace-events", "KA"];
    let servers = [Redis::start_with(&args), Redis::start_with(&args)];
    let servers: Vec<&Redis> = servers.iter().collect();
    let weir = weir(&servers, "", "");
    let keys: Vec<String> = (0..2).map(|n| key_on(&servers, &weir, n)).collect();
    let (mut ann, mut bob) = (client(&weir), client(&weir));
    ann.line("PSUBSCRIBE news.* __keyspace@0__:k*");
    ann.hear();
    bob.say(&["SUBSCRIBE", &format!("__keyspace@0__:{}", keys[1])]);
    bob.hear();
    let mut other = client(&weir);
    for n in 0..20 {
        assert!(other.ask(&["PUBLISH", &format!("news.{n}"), "x"]).starts_with(':'));
        assert!(ann.hear().starts_with("*4 $8 pmessage $6 news.* "));
    }
    for key in &keys {
        other.ask(&["SET", key, "y"]);
        assert!(ann.hear().ends_with(&format!("{key} $3 set")));
    }
    assert!(bob.hear().ends_with(&format!("{} $3 set", keys[1])));
    let channels = other.line("PUBSUB CHANNELS");
    assert!(channels.contains("__keyspace@0__:k1"), "{channels}");
}

#[test]
fn after_a_gap_those_who_may_have_missed_something_are_closed() {
    let (stays, mut goes) = (Redis::start(), Redis::start());
    let weir = weir(&[&stays, &goes], "timeout = \"2s\"", "");
    let keys: Vec<String> = (0..2).map(|n| key_on(&[&stays, &goes], &weir, n)).collect();
    let (mut ann, mut bob) = (client(&weir), client(&weir));
    ann.ask(&["SUBSCRIBE", &keys[0]]);
    bob.ask(&["SUBSCRIBE", &keys[1]]);
    goes.kill();
    assert!(bob.is_closed());
    let mut other = client(&weir);
    assert!(other.ask(&["PUBLISH", &keys[0], "x"]).starts_with(':'));
    assert_eq!(ann.hear(), format!("*3 $7 message ${} {} $1 x", keys[0].len(), keys[0]));
    let refused = other.ask(&["SUBSCRIBE", &keys[1]]);
    assert!(refused.starts_with("-ERR weir: not sent: s1 cannot be reached"), "{refused}");
    goes.start_again();
    wait::until("subscriptions are taken", wait::LONG, || {
        client(&weir).ask(&["SUBSCRIBE", &keys[1]]).starts_with("*3 $9 subscribe")
    });
    // A server that hangs is found out.
    let mut carl = client(&weir);
    carl.ask(&["SUBSCRIBE", &keys[1]]);
    goes.running().signal(Signal::STOP);
    assert!(carl.is_closed());
    goes.running().signal(Signal::CONT);
}

#[test]
fn subscriptions_have_limits_and_a_slow_subscriber_loses_only_itself() {
    let server = Redis::start();
    let lines = "max-subscriptions = 3\nmax-unread = \"64KiB\"";
    let weir = weir(&[&server], lines, ADMIN);
    let mut ann = admin(&weir);
    ann.say(&["SUBSCRIBE", "a", "b"]);
    assert_eq!([ann.hear(), ann.hear()], ["*3 $9 subscribe $1 a :1", "*3 $9 subscribe $1 b :2"]);
    let words = "-ERR weir: more subscriptions than max-subscriptions";
    assert_eq!(ann.line("PSUBSCRIBE c d"), words);
    assert_eq!(ann.line("SUBSCRIBE a"), "*3 $9 subscribe $1 a :2");
    let mut slow = admin(&weir);
    assert_eq!(slow.line("SUBSCRIBE a"), "*3 $9 subscribe $1 a :1");
    assert!(client(&weir).line("SUBSCRIBE a").starts_with("-NOAUTH"));
    let (mut other, large) = (admin(&weir), "x".repeat(30_000));
    // More than the sockets between take, which nobody reads.
    let heard = format!("*3 $7 message $1 a $30000 {large}");
    for _ in 0..600 {
        assert!(other.ask(&["PUBLISH", "a", &large]).starts_with(':'));
        assert_eq!(ann.hear(), heard);
    }
    let mut count = 0;
    while slow.try_hear().is_ok() {
        count += 1;
    }
    assert!(count < 600, "it was not closed");
    drop(ann);
    wait::until("nobody is subscribed", wait::LONG, || other.line("PUBLISH a x") == ":0");
}

#[test]
fn a_name_that_is_there_several_times_is_told_to_the_server_once() {
    let server = Redis::start();
    let weir = weir(&[&server], "max-subscriptions = 3", "");
    let mut ann = client(&weir);
    assert_eq!(ann.line("SUBSCRIBE a a a"), "*3 $9 subscribe $1 a :1");
    (0..2).for_each(|_| assert_eq!(ann.hear(), "*3 $9 subscribe $1 a :1"));
    let stats = server.client().line("INFO commandstats");
    assert!(stats.contains("cmdstat_subscribe:calls=1,"), "{stats}");
    let words = "-ERR weir: more subscriptions than max-subscriptions";
    assert_eq!(ann.line("SUBSCRIBE a a a a"), words);
}
