//! What operators see and do, over RESP and in metrics.

use std::time::{Duration, Instant};

use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::Weir;

use super::scene::{ADMIN, admin, client, key_on, weir};

/// A cell of the first row of a table in which some cell has this text.
pub fn cell(shown: &str, row: &str, column: &str) -> String {
    let words: Vec<&str> = shown.split(' ').collect();
    let at = words.iter().position(|word| *word == row).unwrap_or_else(|| panic!("{row}: {shown}"));
    let at = at + words[at..].iter().position(|word| *word == column).expect("a column");
    let value = words[at + 1];
    if value.starts_with('$') { words[at + 2].to_owned() } else { value.to_owned() }
}

/// The number of a client by its name, as an administrator sees it.
fn id_of(root: &mut RedisClient, name: &str) -> String {
    let all = root.line("CLIENT LIST");
    let before = &all[..all.find(&format!("name={name} ")).expect("it is there")];
    let id = before.rsplit("id=").next().expect("a line begins with it");
    id.split(' ').next().expect("a number").to_owned()
}

/// Whether a client of that name waits for an answer.
pub fn waits(root: &mut RedisClient, name: &str) -> bool {
    let all = root.line("CLIENT LIST");
    let line = all.split("id=").find(|line| line.contains(&format!("name={name} ")));
    line.is_some_and(|line| !line.contains("pending=0"))
}

fn strangers_and_admin() -> String {
    format!("{ADMIN}[[redis.user]]\nname = \"ann\"\npassword = \"a\"\n")
}

fn ann(weir: &Weir) -> RedisClient {
    let mut ann = client(weir);
    assert_eq!(ann.line("AUTH ann a"), "+OK");
    ann
}

#[test]
fn time_and_errors_are_counted_by_server_and_command() {
    let servers = [Redis::start(), Redis::start()];
    let servers: Vec<&Redis> = servers.iter().collect();
    let weir = weir(&servers, "", "");
    let mut ann = client(&weir);
    let keys = [key_on(&servers, &weir, 0), key_on(&servers, &weir, 1)];
    for _ in 0..5 {
        assert_eq!(ann.ask(&["GET", &keys[0]]), "$1 x");
    }
    for _ in 0..3 {
        assert!(ann.ask(&["LPUSH", &keys[1], "y"]).starts_with("-WRONGTYPE"));
    }
    assert!(ann.line("EVAL return{err='MADEUP'} 0").starts_with('-'));
    assert!(ann.line("NOSUCH a").starts_with('-'));
    assert!(ann.line("MADE:UP a").starts_with('-'));
    assert_eq!(ann.ask(&["MULTI"]), "+OK");
    assert_eq!(ann.ask(&["GET", &keys[0]]), "+QUEUED");
    assert_eq!(ann.ask(&["EXEC"]), "*1 $1 x");
    let metrics = weir.metrics();
    let of = |name: &str, labels: &[(&str, &str)]| metrics.sum(name, labels);
    let on = |server, command| [("server", server), ("command", command)];
    assert_eq!(of("weir_redis_command_answers_total", &on("s0", "GET")), 6.0);
    assert_eq!(of("weir_redis_command_errors_total", &on("s1", "LPUSH")), 3.0);
    let kind = |kind| [("kind", kind)];
    assert_eq!(of("weir_redis_errors_total", &kind("WRONGTYPE")), 3.0);
    assert!(of("weir_redis_command_server_seconds_total", &on("s0", "GET")) > 0.0);
    for name in
        ["weir_redis_queue_seconds", "weir_redis_server_seconds", "weir_redis_total_seconds"]
    {
        let labels = [("server", "s0"), ("way", "lane")];
        assert!(of(&format!("{name}_count"), &labels) >= 5.0, "{name}");
    }
    assert!(of("weir_redis_total_seconds_count", &[("way", "lease")]) >= 2.0);
    // What clients make up is not a label.
    let made_up = |sample: &rig::metrics::Sample| {
        sample.labels.values().any(|label| label.contains("MADE") || label.contains("NOSUCH"))
    };
    assert!(!metrics.samples.iter().any(made_up));
    let status = weir.must_run(&["status"]);
    assert!(status.contains("at the server"), "{status}");
}

#[test]
fn the_console_shows_servers_lanes_clients_and_what_they_take() {
    let servers = [Redis::start(), Redis::start()];
    let servers: Vec<&Redis> = servers.iter().collect();
    let weir = weir(&servers, "slow-command = \"1us\"", &strangers_and_admin());
    let (mut root, mut bob) = (admin(&weir), ann(&weir));
    assert_eq!(bob.line("CLIENT SETNAME bob"), "+OK");
    assert_eq!(bob.line("WEIR SHOW LANES"), "-NOPERM weir: WEIR is for users with admin = true");
    for n in 1..=500 {
        assert_eq!(bob.line("INCR hot"), format!(":{n}"));
    }
    let clients = root.line("WEIR SHOW CLIENTS");
    assert_eq!(cell(&clients, "bob", "user"), "ann");
    assert_eq!(cell(&clients, "bob", "last"), "INCR");
    assert_eq!(bob.ask(&["SET", "big", &"v".repeat(20_000)]), "+OK");
    assert_eq!(bob.ask(&["SET", "larger", &"v".repeat(40_000)]), "+OK");
    let backends = root.line("WEIR SHOW BACKENDS");
    assert_eq!(cell(&backends, "s0", "state"), "ok");
    let answers = ["s0", "s1"].map(|of| cell(&backends, of, "answers"));
    let answers: u64 = answers.iter().map(|of| of[1..].parse::<u64>().unwrap()).sum();
    assert!(answers >= 502, "{backends}");
    let lanes = root.line("WEIR SHOW LANES");
    assert!(lanes.contains("$9 in-flight :0"), "{lanes}");
    let stats = root.line("WEIR SHOW STATS");
    assert_eq!(cell(&stats, "INCR", "answers"), ":500");
    assert!(root.line("WEIR SHOW SLOW").contains("SET big ... (1 more arguments)"));
    assert!(!root.line("WEIR SHOW SLOW").contains("vvvv"));
    wait::until("a key is found to be hot", wait::LONG, || {
        (0..50).for_each(|_| assert!(bob.line("GET hot").starts_with('$')));
        root.line("WEIR SHOW HOT").contains("$3 hot")
    });
    let big = root.line("WEIR SHOW BIG");
    assert!(big.find("larger").expect("it is big") < big.find("$3 big").expect("so is this"));
    assert_eq!(root.line("WEIR SHOW AOF"), "*0");
    assert!(root.line("WEIR HELP").contains("SHOW BACKENDS"));
    assert!(root.line("WEIR SHOW SECRETS").contains("WEIR HELP"));
    assert!(root.line("HELLO 3").starts_with("%7"));
    assert!(root.line("WEIR SHOW LANES").contains("%9 $6 worker"));
    // What was slow is on Redis's own terms, too.
    assert!(root.line("SLOWLOG LEN").starts_with(':'));
    assert!(root.line("SLOWLOG GET 1").starts_with("*1 *6 :"));
    assert!(root.line("LATENCY LATEST").starts_with("*1 *4 $7 command"));
    assert_eq!(root.line("SLOWLOG RESET"), "+OK");
    for line in ["SLOWLOG GET", "LATENCY LATEST", "MONITOR", "CLIENT LIST", "SCRIPT KILL"] {
        assert!(bob.line(line).starts_with("-NOPERM weir: "), "{line}");
    }
}

#[test]
fn clients_are_listed_and_closed_by_numbers_of_the_process() {
    let server = Redis::start();
    let weir = weir(&[&server], "", &strangers_and_admin());
    let (mut root, mut bob, mut eve) = (admin(&weir), ann(&weir), ann(&weir));
    for (client, name) in [(&mut root, "root"), (&mut bob, "bob"), (&mut eve, "eve")] {
        assert_eq!(client.ask(&["CLIENT", "SETNAME", name]), "+OK");
    }
    let ids = [&mut root, &mut bob, &mut eve].map(|client| client.line("CLIENT ID"));
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
    assert_eq!(format!(":{}", id_of(&mut root, "bob")), ids[1]);
    assert!(bob.line("CLIENT INFO").contains("user=ann"));
    // One that waits for others is closed as well.
    bob.say(&["BLPOP", "nothing", "0"]);
    wait::until("it waits", wait::LONG, || root.line("CLIENT LIST").contains("flags=b "));
    let id = id_of(&mut root, "bob");
    assert_eq!(root.ask(&["WEIR", "KILL", &id]), "+OK");
    assert_eq!(bob.hear(), "-ERR weir: closed by an operator");
    assert!(bob.is_closed());
    assert_eq!(root.line("CLIENT KILL USER ann"), ":1");
    assert!(eve.is_closed());
    wait::until("they are gone", wait::LONG, || !root.line("CLIENT LIST").contains("user=ann"));
    assert_eq!(root.ask(&["WEIR", "KILL", &id]), "-ERR No such client ID");
    let to = format!("laddr={} ", weir.redis);
    let all = root.line("CLIENT LIST");
    assert_eq!(all.matches("id=").count(), all.matches(&to).count(), "{all}");
    assert_eq!(root.line("CLIENT KILL LADDR 127.0.0.1:1"), ":0");
    let mut bob = admin(&weir);
    assert_eq!(root.line(&format!("CLIENT KILL LADDR {}", weir.redis)), ":1");
    assert!(bob.is_closed());
    assert_eq!(root.line("CLIENT KILL 127.0.0.1:1"), "-ERR No such client");
    assert_eq!(root.line("CLIENT KILL TYPE normal"), ":0");
    assert_eq!(root.line("CLIENT KILL TYPE normal SKIPME no"), ":1");
    assert!(root.is_closed());
}

#[test]
fn a_client_that_waits_for_others_is_let_go_and_nobody_has_its_connection_later() {
    let servers = [Redis::start(), Redis::start()];
    let servers: Vec<&Redis> = servers.iter().collect();
    let weir = weir(&servers, "", &strangers_and_admin());
    let (mut root, mut bob) = (admin(&weir), ann(&weir));
    let id = bob.line("CLIENT ID")[1..].to_owned();
    assert_eq!(root.ask(&["CLIENT", "UNBLOCK", &id]), ":0", "it waits for nobody");
    let mut key_of = |server: &Redis| {
        let mut all = (0..1000).map(|n| format!("k{n}"));
        let is_there = |key: &String| {
            root.ask(&["SET", key, "x"]);
            server.client().ask(&["DEL", key]) == ":1"
        };
        all.find(is_there).expect("each server has some of the keys")
    };
    let keys = [key_of(servers[0]), key_of(servers[1])];
    assert_eq!(root.line("FLUSHALL"), "+OK");
    let at_server = |at: usize| servers[at].client().line("CLIENT LIST TYPE normal");
    let is_blocked = |at: usize| at_server(at).contains("flags=b ");
    let error = "-UNBLOCKED client unblocked via CLIENT UNBLOCK";
    for (at, how, hears) in [(0, "TIMEOUT", "*-1"), (1, "error", error), (1, "", "*-1")] {
        let was = at_server(at);
        bob.say(&["BLPOP", &keys[at], "0"]);
        wait::until("it waits", wait::LONG, || is_blocked(at));
        let waits = at_server(at);
        let words = ["CLIENT", "UNBLOCK", &id, how];
        let words = if how.is_empty() { &words[..3] } else { &words[..] };
        assert_eq!(root.ask(words), ":1");
        assert_eq!(bob.hear(), hears);
        let blocked = waits.split("id=").find(|of| of.contains("flags=b ")).expect("it waits");
        let number = format!("id={} ", blocked.split(' ').next().expect("a number"));
        wait::until("its connection is gone", wait::LONG, || !at_server(at).contains(&number));
        assert!(!was.contains(&number), "{was}");
    }
    bob.say(&["XREAD", "BLOCK", "0", "STREAMS", &keys[0], "$"]);
    wait::until("it waits", wait::LONG, || is_blocked(0));
    assert_eq!(root.ask(&["CLIENT", "UNBLOCK", &id]), ":1");
    assert_eq!(bob.hear(), "*-1");
    assert_eq!(root.line("CLIENT UNBLOCK 123456"), ":0");
    assert_eq!(root.line("CLIENT UNBLOCK -1"), ":0");
    for line in ["CLIENT UNBLOCK x", "CLIENT UNBLOCK 1 NOW"] {
        assert_eq!(root.line(line), servers[0].client().line(line));
    }
    assert!(bob.line("CLIENT UNBLOCK 1").starts_with("-NOPERM weir: "));
}

#[test]
fn what_clients_ask_is_held_back_while_there_is_a_pause() {
    let server = Redis::start();
    let weir = weir(&[&server], "timeout = \"2s\"", &strangers_and_admin());
    let (mut root, mut bob) = (admin(&weir), ann(&weir));
    assert_eq!(bob.line("CLIENT SETNAME bob"), "+OK");
    assert_eq!(bob.line("SET k 1"), "+OK");
    assert_eq!(root.line("WEIR PAUSE"), "+OK");
    bob.say(&["INCR", "k"]);
    bob.say(&["GET", "k"]);
    // Longer than an answer may take: the time of what waits begins when the pause ends.
    wait::until("it waits", wait::LONG, || waits(&mut root, "bob"));
    let begun = Instant::now();
    let has_passed = || begun.elapsed() > Duration::from_millis(2500);
    wait::until("it would be late", wait::LONG, has_passed);
    assert_eq!(server.client().line("GET k"), "$1 1");
    assert_eq!(root.line("WEIR RESUME"), "+OK");
    assert_eq!([bob.hear(), bob.hear()], [":2", "$1 2"]);
    // Only writes, and only for a while.
    assert_eq!(root.line("CLIENT PAUSE 600000 WRITE"), "+OK");
    assert_eq!(bob.line("GET k"), "$1 2");
    bob.say(&["INCR", "k"]);
    wait::until("it waits", wait::LONG, || waits(&mut root, "bob"));
    assert_eq!(root.line("CLIENT UNPAUSE"), "+OK");
    assert_eq!(bob.hear(), ":3");
    assert_eq!(root.line("CLIENT PAUSE 100"), "+OK");
    assert_eq!(bob.line("GET k"), "$1 3");
}

#[test]
fn all_clients_together_hold_no_more_than_they_may() {
    let server = Redis::start();
    let limits = "max-command = \"1MiB\"\nmax-memory = \"2MiB\"";
    let weir = weir(&[&server], limits, &strangers_and_admin());
    let mut root = admin(&weir);
    assert_eq!(root.line("WEIR PAUSE"), "+OK");
    let value = "v".repeat(600_000);
    let held = || weir.metrics().sum("weir_redis_held_bytes", &[]);
    let mut all = [ann(&weir), ann(&weir), ann(&weir)];
    for (at, of) in all.iter_mut().take(2).enumerate() {
        of.say(&["MSET", "k", &value]);
        let wanted = (at + 1) as f64 * 600_000.0;
        wait::until("it is held", wait::LONG, || (wanted..wanted + 40_000.0).contains(&held()));
    }
    let oom = "-OOM weir: commands and answers of all clients together are at max-memory";
    assert_eq!(all[2].ask(&["MSET", "k", &value]), oom);
    assert_eq!(all[2].line("PING"), "+PONG");
    assert_eq!(root.line("WEIR RESUME"), "+OK");
    assert_eq!([all[0].hear(), all[1].hear()], ["+OK", "+OK"]);
    wait::until("nothing is held", wait::LONG, || held() == 0.0);
    assert_eq!(all[2].ask(&["MSET", "k", &value]), "+OK");
}

#[test]
fn an_administrator_sees_all_commands_as_they_pass() {
    let server = Redis::start();
    let weir = weir(&[&server], "", &strangers_and_admin());
    let (mut root, mut bob) = (admin(&weir), ann(&weir));
    assert_eq!(root.line("MONITOR"), "+OK");
    assert_eq!(bob.line("SET k value"), "+OK");
    assert_eq!(bob.line("AUTH ann a"), "+OK");
    assert_eq!(bob.line("GET k"), "$5 value");
    assert!(root.hear().ends_with("] \"SET\" \"k\" \"value\""));
    // No password is shown.
    assert!(root.hear().ends_with("] \"GET\" \"k\""));
    assert_eq!(root.line("RESET"), "+RESET");
    assert_eq!(bob.line("GET k"), "$5 value");
    assert_eq!(root.line("AUTH p"), "+OK");
    assert_eq!(root.line("GET k"), "$5 value");
}

#[test]
fn who_watches_no_more_hears_nothing_behind_that() {
    let server = Redis::start();
    let weir = weir(&[&server], "", ADMIN);
    let (mut root, mut bob) = (admin(&weir), admin(&weir));
    for _ in 0..50 {
        assert_eq!(root.line("MONITOR"), "+OK");
        (0..20).for_each(|_| bob.say(&["INCR", "k"]));
        root.send(b"RESET\r\nAUTH p\r\nMONITOR\r\nRESET\r\nAUTH p\r\nPING\r\n");
        let mut heard = std::iter::from_fn(|| Some(root.hear()));
        let rest: Vec<String> =
            heard.by_ref().skip_while(|said| said != "+RESET").take(3).collect();
        assert_eq!(rest, ["+RESET", "+OK", "+OK"]);
        let rest: Vec<String> =
            heard.by_ref().skip_while(|said| said != "+RESET").take(3).collect();
        assert_eq!(rest, ["+RESET", "+OK", "+PONG"]);
        (0..20).for_each(|_| assert!(bob.hear().starts_with(':')));
    }
    // What would change a server may have a secret.
    assert_eq!(root.line("MONITOR"), "+OK");
    assert!(bob.line("ACL SETUSER eve >secret").starts_with("-ERR weir: "));
    assert!(bob.line("CONFIG SET requirepass secret").starts_with("-ERR weir: "));
    assert_eq!(bob.line("SET k 1"), "+OK");
    assert!(root.hear().ends_with("\"SET\" \"k\" \"1\""));
}

#[test]
fn a_browser_that_is_made_to_send_commands_is_closed() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    for head in ["POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n", "GET / HTTP/1.1\r\nhost: x\r\n"] {
        let mut page = client(&weir);
        page.send(format!("{head}SET from page\r\n").as_bytes());
        let heard = std::iter::from_fn(|| page.try_hear().ok());
        assert!(heard.count() < 2, "nothing behind the head is answered");
    }
    assert_eq!(client(&weir).line("EXISTS from"), ":0");
}

#[test]
fn a_pause_holds_back_what_is_not_known_as_well() {
    let server = Redis::start_with(&["--rename-command", "INCR", "MY.INCR"]);
    let weir = weir(&[&server], "", ADMIN);
    let (mut root, mut bob) = (admin(&weir), admin(&weir));
    assert_eq!(bob.line("MY.INCR k"), ":1");
    assert_eq!(root.line("WEIR PAUSE"), "+OK");
    bob.say(&["MY.INCR", "k"]);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.client().line("GET k"), "$1 1");
    assert_eq!(root.line("WEIR RESUME"), "+OK");
    assert_eq!(bob.hear(), ":2");
}

#[test]
fn subscribers_are_counted_that_are_clients_of_weir() {
    let servers = [Redis::start(), Redis::start()];
    let servers: Vec<&Redis> = servers.iter().collect();
    let weir = weir(&servers, "", "");
    let mut all: Vec<RedisClient> = (0..6).map(|_| client(&weir)).collect();
    for of in &mut all {
        assert!(of.line("SUBSCRIBE news").starts_with("*3 $9 subscribe"));
    }
    assert!(all[0].line("PSUBSCRIBE n*").starts_with("*3 $10 psubscribe"));
    assert!(all[1].line("PSUBSCRIBE n*").starts_with("*3 $10 psubscribe"));
    let mut ann = client(&weir);
    assert_eq!(ann.line("PUBSUB NUMSUB news nobody"), "*4 $4 news :6 $6 nobody :0");
    assert_eq!(ann.line("PUBSUB NUMPAT"), ":1");
    assert_eq!(ann.line("PUBSUB SHARDNUMSUB news"), "*2 $4 news :0");
    let gauge = |kind| weir.metrics().sum("weir_redis_subscriptions", &[("kind", kind)]);
    assert_eq!([gauge("channel"), gauge("pattern"), gauge("shard")], [6.0, 2.0, 0.0]);
    ann.line("PUBLISH news x");
    for of in &mut all {
        assert!(of.hear().contains("message"));
    }
    wait::until("they are counted", wait::LONG, || {
        weir.metrics().sum("weir_redis_messages_total", &[]) >= 6.0
    });
    drop(all);
    wait::until("they are gone", wait::LONG, || gauge("channel") == 0.0 && gauge("pattern") == 0.0);
}

#[test]
fn a_script_that_does_not_end_is_killed_by_a_connection_of_its_own() {
    let server = Redis::start_with(&["--lua-time-limit", "10"]);
    let weir = weir(&[&server], "timeout = \"30s\"", ADMIN);
    let (mut root, mut other) = (admin(&weir), admin(&weir));
    assert!(root.line("SCRIPT KILL").starts_with("-NOTBUSY"));
    other.say(&["EVAL", "while true do end", "0"]);
    let mut killed = || root.line("SCRIPT KILL") == "+OK";
    wait::until("it is killed", wait::LONG, &mut killed);
    let heard = other.hear();
    assert!(heard.starts_with('-') && heard.contains("killed"), "{heard}");
    assert_eq!(other.line("PING"), "+PONG");
}
