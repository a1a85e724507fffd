//! Servers and pools that come, go and change while clients are connected.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rig::beside::EndGuard;
use rig::places;
use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::{Setup, Weir};

use super::scene::client;

/// What the log says of each reload that was put in force.
const RELOADED: &str = "the configuration was reloaded";

/// How soon a transaction is ended that is to be ended in time.
const IN_TIME: Duration = Duration::from_millis(800);

fn backend(name: &str, url: &str) -> String {
    format!("[[redis.backend]]\nname = {name:?}\nurl = \"{url}\"\n")
}

/// The tables of a gateway with these backends.
fn tables(lines: &str, backends: &[(&str, &Redis)]) -> String {
    let mut text = format!("[redis]\nlisten = \"{{redis}}\"\n{lines}\n");
    backends.iter().for_each(|(name, server)| text += &backend(name, &server.url()));
    text
}

/// With two workers, which are to go over together.
fn setup(tables: &str) -> Setup {
    Setup::new().top("workers = 2").table(tables)
}

fn start(tables: &str) -> Weir {
    setup(tables).start()
}

/// Puts other tables in force.
fn reload(weir: &mut Weir, tables: &str) {
    let before = weir.log().matches(RELOADED).count();
    weir.configure(|_| setup(tables));
    weir.reload();
    wait::until("it is reloaded", wait::LONG, || weir.log().matches(RELOADED).count() > before);
}

/// Has other tables refused; gives what the log says of them.
fn refused(weir: &mut Weir, tables: &str) -> String {
    let words = "the configuration was not reloaded";
    let before = weir.log().matches(words).count();
    weir.configure(|_| setup(tables));
    weir.reload();
    wait::until("it is refused", wait::LONG, || weir.log().matches(words).count() > before);
    weir.log().lines().rfind(|line| line.contains(words)).unwrap().to_owned()
}

/// The names of the servers that there are.
fn servers(weir: &Weir) -> Vec<String> {
    let status = weir.ask_admin("/status").json();
    let all = status["redis"]["backends"].as_array().unwrap();
    all.iter().map(|of| of["name"].as_str().unwrap().to_owned()).collect()
}

fn value(server: &Redis, key: &str) -> u64 {
    let heard = server.client().ask(&["GET", key]);
    heard.split(' ').nth(1).map_or(0, |value| value.parse().unwrap())
}

#[test]
fn servers_come_and_go_under_load_and_nothing_is_lost_nor_run_twice() {
    const KEYS: usize = 40;
    let [a, b, c, d] = [0; 4].map(|_| Redis::start());
    let few = tables("", &[("a", &a), ("b", &b)]);
    let many = tables("hash = \"md5\"", &[("c", &c), ("a", &a), ("b", &d)]);
    let mut weir = start(&few);
    let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let counts: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let write = |mut client: RedisClient, mut n: usize| {
        while !is_over.load(Ordering::Relaxed) {
            let keys: Vec<usize> = (n..n + 16).map(|n| n * 7 % KEYS).collect();
            n += 16;
            keys.iter().for_each(|key| client.say(&["INCR", &format!("k{key}")]));
            for key in keys {
                let heard = client.hear();
                assert!(heard.starts_with(':'), "{heard}");
                counts[key].fetch_add(1, Ordering::Relaxed);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        let end = EndGuard(&is_over);
        for n in 0..6 {
            let client = client(&weir);
            scope.spawn(move || write(client, n * 5));
        }
        for turn in 0..20 {
            let from = done.load(Ordering::Relaxed);
            wait::until("clients write", wait::LONG, || done.load(Ordering::Relaxed) > from + 200);
            reload(&mut weir, if turn % 2 == 0 { &many } else { &few });
            let wanted = if turn % 2 == 0 { "cab" } else { "ab" };
            let mut names = servers(&weir);
            names.sort();
            let mut wanted: Vec<String> = wanted.chars().map(String::from).collect();
            wanted.sort();
            assert_eq!(names, wanted);
        }
        drop(end);
    });
    for (key, count) in counts.iter().enumerate() {
        let name = format!("k{key}");
        let there: u64 = [&a, &b, &c, &d].into_iter().map(|server| value(server, &name)).sum();
        assert_eq!(there, count.load(Ordering::Relaxed), "{name}");
    }
    // All of them were in use, and what has left has no connection.
    assert!([&a, &b, &c, &d].into_iter().all(|of| of.client().line("DBSIZE") != ":0"));
    for gone in [&c, &d] {
        wait::until("its connections are closed", wait::LONG, || {
            gone.client().line("CLIENT LIST").matches("id=").count() == 1
        });
    }
}

#[test]
fn after_a_reload_keys_are_where_a_start_would_have_them() {
    let [a, b, c] = [0; 3].map(|_| Redis::start());
    let first = tables("", &[("a", &a), ("b", &b)]);
    let mut weir = start(&first);
    let weights = |text: String| text.replacen("name = \"c\"\n", "name = \"c\"\nweight = 3\n", 1);
    for then in [
        weights(tables("", &[("a", &a), ("b", &b), ("c", &c)])),
        weights(tables("distribution = \"jump\"", &[("c", &c), ("b", &b)])),
        tables("hash-tag = \"{}\"\ndistribution = \"modula\"", &[("b", &b), ("a", &a)]),
        first.clone(),
    ] {
        reload(&mut weir, &then);
        let started = start(&then);
        let (mut reloaded, mut fresh) = (client(&weir), client(&started));
        for n in 0..200 {
            let key = format!("{{{}}}:{n}", n % 50);
            assert_eq!(reloaded.ask(&["SET", &key, &n.to_string()]), "+OK");
            let value = n.to_string();
            assert_eq!(fresh.ask(&["GET", &key]), format!("${} {value}", value.len()), "{then}");
        }
        [&a, &b, &c].into_iter().for_each(|of| assert_eq!(of.client().line("FLUSHALL"), "+OK"));
    }
}

/// A key that these tables have on a server of that address.
fn key_at(weir: &Weir, server: &Redis) -> String {
    let mut through = client(weir);
    let mut keys = (0..1000).map(|n| format!("at:{n}"));
    let is_there = |key: &String| {
        assert_eq!(through.ask(&["SET", key, "x"]), "+OK");
        server.client().ask(&["EXISTS", key]) == ":1"
    };
    keys.find(is_there).expect("each server has some of the keys")
}

#[test]
fn what_clients_have_for_themselves_at_a_server_that_leaves_is_finished_or_told_of() {
    let [a, b, other] = [0; 3].map(|_| Redis::start());
    let mut weir = start(&tables("", &[("a", &a), ("b", &b)]));
    let (stays, leaves) = (key_at(&weir, &a), key_at(&weir, &b));
    let [mut quick, mut slow, mut blocked, mut elsewhere, mut watching] =
        [0; 5].map(|_| client(&weir));
    for of in [&mut quick, &mut slow] {
        assert_eq!(of.line("MULTI"), "+OK");
        assert_eq!(of.ask(&["INCRBY", &leaves, "0"]), "+QUEUED");
        assert_eq!(of.ask(&["APPEND", &leaves, "y"]), "+QUEUED");
    }
    assert_eq!(elsewhere.line("MULTI"), "+OK");
    assert_eq!(elsewhere.ask(&["APPEND", &stays, "y"]), "+QUEUED");
    assert_eq!(watching.ask(&["WATCH", &leaves]), "+OK");
    let blocks_at_b = (0..1000).map(|n| format!("list:{n}")).find(|key| {
        assert_eq!(client(&weir).ask(&["SET", key, "x"]), "+OK");
        let at = [&a, &b].map(|of| of.client().ask(&["DEL", key]));
        at[1] == ":1"
    });
    blocked.say(&["BLPOP", &blocks_at_b.expect("some are there"), "0"]);
    wait::until("it blocks", wait::LONG, || b.client().line("CLIENT LIST").contains("cmd=blpop"));
    let begun = Instant::now();
    reload(&mut weir, &tables("", &[("a", &a), ("b", &other)]));
    // In time it is run, where it began.
    let ended = quick.line("EXEC");
    let (is_run, is_slow) = (ended.starts_with("*2 -ERR value"), begun.elapsed() > IN_TIME);
    assert!(is_run || (is_slow && ended.starts_with('-')), "{ended}");
    let there = if is_run { "$2 xy" } else { "$1 x" };
    assert_eq!(b.client().ask(&["GET", &leaves]), there);
    let told = "-ERR weir: may have run: the connection to b broke";
    assert_eq!(blocked.hear(), told);
    assert_eq!(blocked.ask(&["GET", &leaves]), "$-1");
    wait::until("their time is over", wait::LONG, || {
        b.client().line("CLIENT LIST").matches("id=").count() == 1
    });
    let lost = "-ERR weir: not sent: the connection to b that this client had for itself has ended";
    assert_eq!(watching.line("UNWATCH"), lost);
    assert_eq!(watching.ask(&["SET", &leaves, "new"]), "+OK");
    assert!(slow.line("EXEC").starts_with('-'));
    assert_eq!(slow.ask(&["GET", &leaves]), "$3 new");
    assert_eq!(b.client().ask(&["GET", &leaves]), there, "it ran once");
    assert_eq!(elsewhere.line("EXEC"), "*1 :2", "no other server's client hears of it");
}

#[test]
fn subscribers_of_what_has_moved_are_closed_and_others_hear_on() {
    let [a, b, other] = [0; 3].map(|_| Redis::start());
    let mut weir = start(&tables("", &[("a", &a), ("b", &b)]));
    let (stays, moves) = (key_at(&weir, &a), key_at(&weir, &b));
    let [mut first, mut second, mut all] = [0; 3].map(|_| client(&weir));
    assert!(first.ask(&["SUBSCRIBE", &stays]).starts_with("*3 $9 subscribe"));
    assert!(second.ask(&["SUBSCRIBE", &moves]).starts_with("*3 $9 subscribe"));
    assert!(all.ask(&["PSUBSCRIBE", "at:*"]).starts_with("*3 $10 psubscribe"));
    reload(&mut weir, &tables("", &[("a", &a), ("b", &other)]));
    assert!(second.is_closed() && all.is_closed());
    let mut again = client(&weir);
    assert!(again.ask(&["SUBSCRIBE", &moves]).starts_with("*3 $9 subscribe"));
    for (key, of) in [(&stays, &mut first), (&moves, &mut again)] {
        client(&weir).ask(&["PUBLISH", key, "hello"]);
        assert!(of.hear().ends_with("$5 hello"));
    }
    assert_eq!(other.client().line("PUBSUB NUMPAT"), ":0");
    assert!(other.client().line("PUBSUB CHANNELS").contains(&moves));
}

fn pool(name: &str, listen: SocketAddr, server: &Redis) -> String {
    let mut text = format!("[[redis.pool]]\nname = {name:?}\nlisten = \"{listen}\"\n");
    let _ = write!(text, "[[redis.pool.backend]]\nname = \"x\"\nurl = \"{}\"\n", server.url());
    text
}

#[test]
fn pools_come_and_go_and_clients_of_others_stay() {
    let [a, b] = [0; 2].map(|_| Redis::start());
    let second = places::free_address();
    let alone = tables("", &[("a", &a)]);
    let both = format!("{alone}{}", pool("two", second, &b));
    let mut weir = start(&alone);
    let mut stays = client(&weir);
    for turn in 1..=20 {
        reload(&mut weir, &both);
        let mut guest = RedisClient::connect(second);
        assert_eq!(guest.line("INCR n"), format!(":{turn}"));
        assert_eq!(stays.line("INCR n"), format!(":{turn}"));
        // What it has for itself has a second to be given back.
        if turn % 10 == 0 {
            assert_eq!(guest.line("WATCH n"), "+OK");
        }
        reload(&mut weir, &alone);
        assert!(guest.is_closed());
        wait::until("it is closed", wait::LONG, || RedisClient::try_connect(second).is_err());
    }
    assert_eq!([value(&a, "n"), value(&b, "n")], [20, 20]);
    wait::until("nothing is left of it", wait::LONG, || {
        b.client().line("CLIENT LIST").matches("id=").count() == 1
    });
    let status = weir.ask_admin("/metrics").text();
    let series = "weir_redis_command_answers_total{command=\"INCR\",pool=\"two\",server=\"x\"}";
    assert_eq!(status.matches(series).count(), 1, "each series is there once");
    assert!(weir.terminate().success());
}

#[test]
fn addresses_of_a_pool_come_and_go_and_its_clients_stay() {
    let a = Redis::start();
    let (other, socket) = (places::free_address(), places::directory());
    let path = socket.path().join("redis.sock");
    let mut weir = start(&tables("", &[("a", &a)]));
    let mut stays = client(&weir);
    let before = weir.redis;
    let moved = format!(
        "[redis]\nlisten = \"{other}\"\nunix-sockets = {path:?}\n{}",
        backend("a", &a.url())
    );
    reload(&mut weir, &moved);
    assert_eq!(stays.line("INCR n"), ":1");
    assert_eq!(RedisClient::connect(other).line("INCR n"), ":2");
    wait::until("it is closed", wait::LONG, || RedisClient::try_connect(before).is_err());
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
    reload(&mut weir, &tables("", &[("a", &a)]));
    assert_eq!(stays.line("INCR n"), ":3");
    assert_eq!(client(&weir).line("INCR n"), ":4");
    wait::until("its file is gone", wait::LONG, || !path.exists());
}

#[test]
fn a_reload_with_an_error_changes_nothing() {
    let [a, b] = [0; 2].map(|_| Redis::start());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_at = taken.local_addr().unwrap();
    let free = places::free_address();
    let alone = tables("", &[("a", &a)]);
    let other = tables("", &[("a", &b)]);
    let mut weir = start(&alone);
    let mut stays = client(&weir);
    assert_eq!(stays.line("SET k a"), "+OK");
    let no_file = "password-file = \"/nowhere/at/all\"";
    let mine = weir.redis;
    for (wrong, words) in [
        (format!("{other}{}", pool("two", taken_at, &b)), "another program listens there"),
        (format!("{other}{}{no_file}", pool("two", free, &b)), "/nowhere/at/all"),
        (format!("{other}{no_file}"), "/nowhere/at/all"),
        (format!("{other}weight = 0"), "weight must be at least 1"),
        (pool("two", mine, &b), "pool \\\"redis\\\" has it"),
        (format!("{other}{}{}", pool("two", free, &b), pool("two", free, &b)), "no other has"),
    ] {
        let said = refused(&mut weir, &wrong);
        assert!(said.contains(words), "{words} in {said}");
        assert_eq!(stays.line("GET k"), "$1 a");
        assert_eq!(client(&weir).line("GET k"), "$1 a");
        assert!(RedisClient::try_connect(free).is_err());
    }
    reload(&mut weir, &other);
    assert_eq!(stays.line("GET k"), "$-1");
    // What needs a restart is named, and the rest is in force.
    let mixed = tables("unix-socket-mode = \"0700\"", &[("a", &a)]);
    reload(&mut weir, &mixed);
    weir.wait_log("redis.unix-socket-mode has changed in the file; that needs a restart");
    assert_eq!(stays.line("GET k"), "$1 a");
    let cluster = tables("distribution = \"cluster\"", &[("a", &b)]);
    reload(&mut weir, &cluster);
    weir.wait_log("redis.distribution, to a Cluster or from one, has changed in the file");
    assert_eq!(stays.line("GET k"), "$1 a");
}

#[test]
fn a_server_that_is_away_is_replaced_and_what_waits_for_it_is_told_of_that() {
    let (mut a, b) = (Redis::start(), Redis::start());
    let mut weir = start(&tables("timeout = \"2s\"", &[("a", &a)]));
    let mut ann = client(&weir);
    assert_eq!(ann.line("SET k a"), "+OK");
    a.kill();
    wait::until("it is away", wait::LONG, || {
        ann.line("GET k").starts_with("-ERR weir: not sent: a cannot be reached")
    });
    reload(&mut weir, &tables("timeout = \"2s\"", &[("a", &b)]));
    assert_eq!(ann.line("SET k b"), "+OK");
    assert_eq!(b.client().line("GET k"), "$1 b");
    let heard = ann.line("WAIT 0 100");
    assert!(
        heard.starts_with("-ERR weir: WAIT: "),
        "what was written before is not there: {heard}"
    );
}

#[test]
fn users_of_the_servers_are_who_they_were_after_a_reload() {
    let [a, b] = [0; 2].map(|_| Redis::start());
    for server in [&a, &b] {
        assert_eq!(server.client().line("ACL SETUSER ann on >anns ~a:* &a.* +@all"), "+OK");
    }
    let pass = "auth = \"pass\"";
    let mut weir = start(&tables(pass, &[("a", &a)]));
    let mut ann = client(&weir);
    assert_eq!(ann.line("AUTH ann anns"), "+OK");
    assert_eq!(ann.line("SET a:first x"), "+OK");
    reload(&mut weir, &tables(pass, &[("a", &a), ("b", &b)]));
    for n in 0..50 {
        assert_eq!(ann.ask(&["SET", &format!("a:{n}"), "x"]), "+OK");
        assert!(ann.ask(&["SET", &format!("b:{n}"), "x"]).starts_with("-NOPERM"));
    }
    for server in [&a, &b] {
        assert_ne!(server.client().line("DBSIZE"), ":0");
        assert!(server.client().line("CLIENT LIST").contains("user=ann"));
    }
    // Who checks passwords changes with a restart only, as without users everybody would be let in.
    reload(&mut weir, &tables("", &[("a", &a), ("b", &b)]));
    assert!(weir.log().contains("redis.auth"));
    let mut late = client(&weir);
    assert_eq!(late.line("AUTH ann anns"), "+OK");
    for n in 0..50 {
        assert_eq!(late.ask(&["GET", &format!("a:{n}")]), "$1 x");
        assert!(late.ask(&["GET", &format!("b:{n}")]).starts_with("-NOPERM"));
    }
}
