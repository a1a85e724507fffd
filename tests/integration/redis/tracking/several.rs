//! Keys of several servers, each of which tells of its own.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rig::beside::EndGuard;
use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::{Setup, Weir};

use super::super::scene::{client, key_on, table, weir};
use super::{LOST, tracking};

/// Three servers behind Weir, and a key of each.
fn three() -> ([Redis; 3], Weir, [String; 3]) {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let weir = weir(&servers.each_ref(), "", "");
    let keys = [0, 1, 2].map(|n| key_on(&servers.each_ref(), &weir, n));
    (servers, weir, keys)
}

/// What a client is told by the answer to `PING`, in any order.
pub(super) fn told(client: &mut RedisClient) -> Vec<String> {
    client.say(&["PING"]);
    let heard = std::iter::from_fn(|| Some(client.hear()).filter(|said| said != "+PONG"));
    let mut told: Vec<String> = heard.collect();
    told.sort();
    told
}

/// How a client is told of keys, each by itself.
fn of_keys(keys: &[&String]) -> Vec<String> {
    let told = |key: &&String| format!(">2 $10 invalidate *1 ${} {key}", key.len());
    let mut all: Vec<String> = keys.iter().map(told).collect();
    all.sort();
    all
}

#[test]
fn before_several_servers_a_client_is_told_of_the_keys_of_each() {
    let (servers, weir, keys) = three();
    let [a, b, c] = &keys;
    let mut writes = client(&weir);
    let mut change = |keys: &[&String]| {
        for key in keys {
            assert_eq!(writes.ask(&["SET", key, "x"]), "+OK");
        }
    };
    let mut of = tracking(&weir, "");
    assert_eq!(of.ask(&["MGET", a, b, c]), "*3 $1 x $1 x $1 x");
    change(&[a, b, c]);
    assert_eq!(told(&mut of), of_keys(&[a, b, c]));
    change(&[a, b, c]);
    assert!(told(&mut of).is_empty(), "it has not read them since");
    assert_eq!(of.ask(&["EXISTS", a, b]), ":2");
    assert_eq!(of.ask(&["SET", b, "own"]), "+OK");
    change(&[a, c]);
    assert_eq!(told(&mut of), of_keys(&[a, b]));
    for line in [&["MULTI"][..], &["GET", a], &["EXEC"]] {
        of.ask(line);
    }
    change(&[a, b]);
    assert_eq!(told(&mut of), of_keys(&[a]));
    assert_eq!(of.line("CLIENT TRACKING OFF"), "+OK");
    assert_eq!(of.ask(&["GET", a]), "$1 x");
    change(&[a]);
    assert!(told(&mut of).is_empty());

    let mut of = tracking(&weir, "BCAST NOLOOP PREFIX k0 PREFIX k1");
    let info = "%3 $5 flags ~3 $2 on $5 bcast $6 noloop $8 redirect :0 $8 prefixes *2 $2 k0 $2 k1";
    assert_eq!(of.line("CLIENT TRACKINGINFO"), info);
    change(&[a, b, c]);
    assert_eq!(told(&mut of), of_keys(&[a, b]));
    assert_eq!(of.ask(&["SET", a, "own"]), "+OK");
    assert!(told(&mut of).is_empty());
    assert!(of.line("CLIENT TRACKING ON BCAST PREFIX k").starts_with("-ERR Prefix 'k' overlaps"));
    drop(of);
    let is_tracked = |of: &Redis| !of.client().line("INFO clients").contains("g_clients:0");
    wait::until("nobody tracks", wait::LONG, || !servers.iter().any(is_tracked));
}

#[test]
fn caching_is_for_the_next_command_on_whichever_servers_that_is() {
    let (_servers, weir, keys) = three();
    let [a, b, c] = &keys;
    let mut writes = client(&weir);
    let mut change_all = || {
        for key in &keys {
            assert_eq!(writes.ask(&["SET", key, "x"]), "+OK");
        }
    };
    let mut of = tracking(&weir, "OPTIN");
    for line in [&["MGET", a, b, c][..], &["CLIENT", "CACHING", "YES"], &["GET", b], &["GET", c]] {
        of.ask(line);
    }
    change_all();
    assert_eq!(told(&mut of), of_keys(&[b]));
    // Of several servers each is told, and only for this.
    for line in [&["CLIENT", "CACHING", "YES"][..], &["MGET", a, c], &["MGET", a, b, c]] {
        of.ask(line);
    }
    change_all();
    assert_eq!(told(&mut of), of_keys(&[a, c]));
    // It is for a whole transaction, and its answer is what it would be.
    of.ask(&["CLIENT", "CACHING", "YES"]);
    assert!(of.line("CLIENT TRACKINGINFO").contains("$11 caching-yes"));
    for line in [&["MULTI"][..], &["GET", c]] {
        of.ask(line);
    }
    assert_eq!(of.line("EXEC"), "*1 $1 x");
    of.ask(&["GET", b]);
    change_all();
    assert_eq!(told(&mut of), of_keys(&[c]));
    // What is answered here is a command as well.
    for line in [&["CLIENT", "CACHING", "YES"][..], &["SELECT", "0"], &["GET", a]] {
        of.ask(line);
    }
    change_all();
    assert!(told(&mut of).is_empty());

    let mut of = tracking(&weir, "OPTOUT");
    for line in [&["CLIENT", "CACHING", "NO"][..], &["GET", a], &["GET", b]] {
        of.ask(line);
    }
    change_all();
    assert_eq!(told(&mut of), of_keys(&[b]));
    let large = "v".repeat(300 << 10);
    for line in [&["CLIENT", "CACHING", "NO"][..], &["SET", c, &large], &["GET", a]] {
        of.ask(line);
    }
    change_all();
    assert_eq!(told(&mut of), of_keys(&[a]));
}

#[test]
fn an_invalidation_waits_for_the_answer_that_it_is_about() {
    let (servers, weir, keys) = three();
    let [slow, quick, _] = &keys;
    let mut of = tracking(&weir, "");
    let mut before = "$1 x".to_owned();
    for turn in 0..10 {
        // What the second server answers waits for the first one, which answers nothing for now.
        assert_eq!(servers[0].client().line("CLIENT PAUSE 200"), "+OK");
        of.say(&["GET", slow]);
        let is_split = turn % 2 == 0;
        match is_split {
            true => of.say(&["MGET", slow, quick]),
            false => of.say(&["GET", quick]),
        }
        let tracked = || servers[1].client().line("INFO stats").contains("tracking_total_keys:1");
        wait::until("the second server has answered", wait::LONG, tracked);
        assert_eq!(servers[1].client().ask(&["SET", quick, &format!("{turn:02}")]), "+OK");
        assert_eq!(of.hear(), "$1 x");
        let answer = if is_split { format!("*2 $1 x {before}") } else { before };
        assert_eq!(of.hear(), answer, "{turn}");
        assert_eq!(of_keys(&[quick]), [of.hear()], "{turn}");
        assert!(told(&mut of).is_empty());
        before = format!("$2 {turn:02}");
    }
}

#[test]
fn a_client_that_tracks_before_several_servers_is_closed_where_any_of_them_is_lost() {
    let (mut servers, weir, keys) = three();
    let mut of = tracking(&weir, "");
    assert_eq!(of.ask(&["MGET", &keys[0], &keys[1]]), "*2 $1 x $1 x");
    assert!(servers[2].client().line("CLIENT KILL TYPE normal").starts_with(':'));
    assert_eq!(of.hear(), LOST);
    assert!(of.is_closed());
    let mut of = tracking(&weir, "BCAST");
    servers[1].kill();
    assert_eq!(of.hear(), LOST);
    assert!(of.is_closed());
    let mut of = client(&weir);
    let refused = of.line("CLIENT TRACKING ON");
    assert!(refused.starts_with("-ERR weir: not sent: s1 "), "{refused}");
    assert_eq!(of.ask(&["GET", &keys[0]]), "$1 x", "it tracks nothing");
    assert!(of.line("CLIENT TRACKINGINFO").contains("$3 off"));
}

#[test]
fn a_client_that_tracks_and_waits_at_one_server_is_closed_where_another_one_is_lost() {
    let (servers, weir, keys) = three();
    let mut of = tracking(&weir, "");
    assert_eq!(of.ask(&["DEL", &keys[0]]), ":1");
    of.say(&["BLPOP", &keys[0], "0"]);
    let waits = || servers[0].client().line("INFO clients").contains("blocked_clients:1");
    wait::until("it waits", wait::LONG, waits);
    assert!(servers[2].client().line("CLIENT KILL TYPE normal").starts_with(':'));
    let given_up = of.hear();
    assert!(given_up.starts_with("-ERR weir: "), "{given_up}");
    assert_eq!(of.hear(), LOST);
    assert!(of.is_closed());
}

#[test]
fn a_client_that_tracks_is_closed_where_keys_go_to_other_servers() {
    let mut servers = [Redis::start(), Redis::start()];
    let weir = weir(&servers.each_ref(), "eject = { failures = 1, retry = \"1s\" }", "");
    let key = key_on(&servers.each_ref(), &weir, 1);
    servers[1].kill();
    let mut beside = client(&weir);
    wait::until("it is ejected", wait::LONG, || beside.ask(&["SET", &key, "y"]) == "+OK");
    let mut of = client(&weir);
    let tracks = || of.line("CLIENT TRACKING ON") == "+OK";
    wait::until("it tracks by the other one", wait::LONG, tracks);
    servers[1].start_again();
    of.patience(wait::LONG);
    assert_eq!(of.hear(), LOST);
    assert!(of.is_closed());
}

const INVALIDATE: &str = ">2 $10 invalidate *";

/// The numbers of the keys that a client is told of at once.
fn keys_told(told: &str) -> impl Iterator<Item = &str> {
    let (_, keys) = told.split_once(INVALIDATE).expect("nothing else is told");
    keys.split(' ').filter_map(|word| word.strip_prefix('k'))
}

/// What is known to be written, by the keys' numbers.
pub(super) type WriteCounters = [AtomicU64; 50];

/// Reads keys and keeps what it reads, for as long as `written` grows: whatever was written before
/// a `PING` is kept behind its answer, or nothing is.
pub(super) fn keep(mut client: RedisClient, written: &WriteCounters, is_over: &AtomicBool) {
    let (mut kept, mut turn) = (HashMap::new(), 0);
    while !is_over.load(Ordering::Relaxed) {
        turn += 1;
        let mut asked: VecDeque<usize> = (0..20).map(|n| (turn + n * 7) % written.len()).collect();
        asked.iter().for_each(|key| client.say(&["GET", &format!("k{key}")]));
        let before = loop {
            if asked.is_empty() {
                break written.each_ref().map(|of| of.load(Ordering::Acquire));
            }
            let heard = client.hear();
            match heard.starts_with(INVALIDATE) {
                true => kept.retain(|key, _| keys_told(&heard).all(|told| told != key)),
                false => {
                    let value = heard.rsplit(' ').next().unwrap().parse().unwrap_or(0);
                    kept.insert(asked.pop_front().unwrap().to_string(), value);
                }
            }
        };
        for told in told(&mut client) {
            kept.retain(|key, _| keys_told(&told).all(|told| told != key));
        }
        for (key, value) in &kept {
            let wanted = before[key.parse::<usize>().unwrap()];
            assert!(*value >= wanted, "k{key}: {value} is kept, and {wanted} was written");
        }
    }
}

/// Writes the number of a turn to ten of the keys.
pub(super) fn write_some(writer: &mut RedisClient, turn: u64, written: &WriteCounters) {
    let keys: Vec<usize> = (0..10).map(|n| (turn as usize * 11 + n * 3) % written.len()).collect();
    for key in &keys {
        writer.say(&["SET", &format!("k{key}"), &turn.to_string()]);
    }
    for key in &keys {
        assert_eq!(writer.hear(), "+OK");
        written[*key].store(turn, Ordering::Release);
    }
}

#[test]
fn nothing_is_kept_that_was_overwritten_however_busy_servers_are() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let table = table(&servers.each_ref(), "", "");
    let weir = Setup::new().top("workers = 2").table(&table).start();
    let (written, is_over) = ([const { AtomicU64::new(0) }; 50], AtomicBool::new(false));
    std::thread::scope(|scope| {
        let end = EndGuard(&is_over);
        for of in (0..4).map(|_| tracking(&weir, "")) {
            scope.spawn(|| keep(of, &written, &is_over));
        }
        let mut writer = client(&weir);
        let mut first = servers[0].client();
        for turn in 1..=60_u64 {
            // What others answer waits for this one.
            assert_eq!(first.line("CLIENT PAUSE 5"), "+OK");
            write_some(&mut writer, turn, &written);
        }
        drop(end);
    });
}
