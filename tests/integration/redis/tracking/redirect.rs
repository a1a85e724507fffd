//! `CLIENT TRACKING` with `REDIRECT`: another client is told, as a server tells it.

use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::{Setup, Weir};

use super::super::scene::{client, key_on, table, weir};
use super::LOST;

/// What is said, and by whom: `a` tracks, `b` does not, `c` and `d` are told. `?`: it hears
/// something by itself. A name in braces is the number of that client.
const STEPS: [&str; 55] = [
    "c SUBSCRIBE __redis__:invalidate",
    "d HELLO 3",
    "a CLIENT TRACKING ON REDIRECT 0",
    "a CLIENT TRACKING ON REDIRECT 999999",
    "a CLIENT TRACKING ON REDIRECT x",
    "a CLIENT TRACKING ON REDIRECT",
    "a CLIENT TRACKING ON REDIRECT {c} REDIRECT {d}",
    "a CLIENT GETREDIR",
    "a CLIENT TRACKING ON REDIRECT {c}",
    "a CLIENT GETREDIR",
    "a CLIENT TRACKINGINFO",
    "a GET k",
    "b SET k 1",
    "c ?",
    "a MULTI",
    "a MGET k l",
    "a EXEC",
    "b MSET l 1 k 1",
    "c ?",
    "c ?",
    "a GET k",
    "b FLUSHALL",
    "c ?",
    "a CLIENT TRACKING ON REDIRECT 999999",
    "a CLIENT TRACKINGINFO",
    "a CLIENT TRACKING ON REDIRECT {d} OPTIN",
    "a CLIENT CACHING YES",
    "a GET k",
    "b SET k 2",
    "d ?",
    "a CLIENT TRACKING ON BCAST REDIRECT {d}",
    "a CLIENT TRACKING OFF",
    "a CLIENT GETREDIR",
    "a CLIENT TRACKING ON BCAST REDIRECT {d} PREFIX p:",
    "b MSET p:1 x p:2 y q:1 z",
    "d ?",
    "a CLIENT TRACKING ON BCAST REDIRECT {c} PREFIX q:",
    "b SET q:1 z",
    "c ?",
    "a CLIENT TRACKING OFF",
    "a HELLO 3",
    "a CLIENT TRACKING ON REDIRECT {d} NOLOOP",
    "a GET k",
    "a SET k 3",
    "a GET k",
    "b SET k 4",
    "d ?",
    "a CLIENT TRACKING ON REDIRECT {a}",
    "a GET k",
    "b SET k 5",
    "a ?",
    "a CLIENT TRACKING ON REDIRECT {d}",
    "a GET k",
    "a GET l",
    "a CLIENT TRACKINGINFO",
];

/// What is said once `d` is gone.
const BROKEN: [&str; 9] = [
    "b SET k 6",
    "a ?",
    "b SET l 6",
    "a ?",
    "a CLIENT TRACKINGINFO",
    "a CLIENT TRACKING ON REDIRECT {d}",
    "a CLIENT TRACKING ON REDIRECT {c}",
    "a CLIENT TRACKINGINFO",
    "a CLIENT GETREDIR",
];

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Clients of one side, and their numbers there.
struct Side {
    clients: [RedisClient; 4],
    ids: [String; 4],
}

impl Side {
    fn new(mut clients: [RedisClient; 4]) -> Self {
        let ids = clients.each_mut().map(|of| of.line("CLIENT ID")[1..].to_owned());
        Self { clients, ids }
    }

    /// What is heard of a step, with names for numbers.
    fn heard(&mut self, step: &str) -> String {
        let (who, line) = step.split_once(' ').unwrap();
        let mut line = line.to_owned();
        let who = NAMES.iter().position(|name| *name == who).unwrap();
        for (name, id) in NAMES.iter().zip(&self.ids) {
            line = line.replace(&format!("{{{name}}}"), id);
        }
        let of = &mut self.clients[who];
        let heard = if line == "?" { of.hear() } else { of.line(&line) };
        if line.starts_with("HELLO") {
            return heard[..2].to_owned();
        }
        let named = |word: &str| {
            let id = |id: &&String| word.strip_prefix(':') == Some(id);
            let at = self.ids.iter().position(|of| id(&of));
            at.map_or_else(|| word.to_owned(), |at| format!("{{{}}}", NAMES[at]))
        };
        heard.split(' ').map(named).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn another_client_is_told_what_a_server_would_tell_it() {
    let [behind, beside] = [Redis::start(), Redis::start()];
    let weir = weir(&[&behind], "", "");
    // Numbers that are written as others are would not be told apart.
    let spare: Vec<RedisClient> = (0..20).map(|_| client(&weir)).collect();
    let spare_beside: Vec<RedisClient> = (0..20).map(|_| beside.client()).collect();
    let mut sides =
        [Side::new([(); 4].map(|()| client(&weir))), Side::new([(); 4].map(|()| beside.client()))];
    drop((spare, spare_beside));
    let check = |sides: &mut [Side; 2], step: &str| {
        // That is for administrators, so the servers themselves are told.
        if step == "b FLUSHALL" {
            for server in [&behind, &beside] {
                assert_eq!(server.client().line("FLUSHALL"), "+OK");
            }
            return;
        }
        let heard = sides.each_mut().map(|side| side.heard(step));
        assert_eq!(heard[0], heard[1], "{step}");
    };
    STEPS.iter().for_each(|step| check(&mut sides, step));
    for side in &mut sides {
        assert_eq!(side.clients[3].line("QUIT"), "+OK");
        assert!(side.clients[3].is_closed());
    }
    BROKEN.iter().for_each(|step| check(&mut sides, step));
}

/// A client that is told, in RESP3 or by a subscription, and its number.
fn told(weir: &Weir, resp3: bool) -> (RedisClient, String) {
    let mut of = client(weir);
    let id = of.line("CLIENT ID")[1..].to_owned();
    match resp3 {
        true => assert!(of.line("HELLO 3").starts_with('%')),
        false => assert!(of.line("SUBSCRIBE __redis__:invalidate").starts_with("*3 ")),
    }
    (of, id)
}

/// A client that tracks for another one.
fn tracking(weir: &Weir, how: &str, id: &str) -> RedisClient {
    let mut of = client(weir);
    let line = format!("CLIENT TRACKING ON REDIRECT {id} {how}");
    assert_eq!(of.line(line.trim_end()), "+OK");
    of
}

#[test]
fn whoever_is_told_may_be_on_any_worker() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let table = table(&servers.each_ref(), "", "");
    let weir = Setup::new().top("workers = 2").table(&table).start();
    let keys = [0, 1, 2].map(|n| key_on(&servers.each_ref(), &weir, n));
    let mut writes = client(&weir);
    let mut all: Vec<_> = (0..8)
        .map(|n| {
            let (told, id) = told(&weir, n % 2 == 0);
            (told, tracking(&weir, "", &id))
        })
        .collect();
    for turn in 0..20 {
        for (_, tracks) in &mut all {
            tracks.ask(&["MGET", &keys[0], &keys[1], &keys[2]]);
        }
        for key in &keys {
            assert_eq!(writes.ask(&["SET", key, "y"]), "+OK");
        }
        for (n, (told, _)) in all.iter_mut().enumerate() {
            let head = match n % 2 {
                0 => ">2 $10 invalidate".to_owned(),
                _ => "*3 $7 message $20 __redis__:invalidate".to_owned(),
            };
            let mut heard = [(); 3].map(|()| told.hear());
            let mut wanted = keys.each_ref().map(|key| format!("{head} *1 ${} {key}", key.len()));
            heard.sort();
            wanted.sort();
            assert_eq!(heard, wanted, "{turn}");
        }
    }
    // The connections of those who go are closed.
    drop(all);
    let is_over = |of: &Redis| {
        let clients = of.client().line("CLIENT LIST");
        !clients.contains(" resp=3") && of.client().line("INFO clients").contains("g_clients:0")
    };
    wait::until("all is undone", wait::LONG, || servers.iter().all(is_over));
}

/// The numbers at a server of a connection that is tracked by, and of the one that is told there.
fn at_server(server: &Redis) -> (String, String) {
    let clients = server.client().ask(&["CLIENT", "LIST"]);
    let field = |line: &str, name: &str| {
        let mut words = line.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)).unwrap_or_default().to_owned()
    };
    let all = clients.split("id=").map(|line| format!("id={line}"));
    let mut all = all.map(|line| (field(&line, "id="), field(&line, "redir=")));
    all.find(|(_, redirect)| !["", "-1", "0"].contains(&redirect.as_str())).unwrap()
}

#[test]
fn where_it_is_not_known_what_was_told_both_are_closed() {
    let servers = [Redis::start(), Redis::start()];
    let weir = weir(&servers.each_ref(), "", "");
    for (turn, server) in [0, 1, 0, 1].into_iter().enumerate() {
        let (mut told, id) = told(&weir, turn % 2 == 0);
        let mut tracks = tracking(&weir, "BCAST", &id);
        let (own, heard) = at_server(&servers[server]);
        let killed = if turn < 2 { heard } else { own };
        assert_eq!(servers[server].client().ask(&["CLIENT", "KILL", "ID", &killed]), ":1");
        assert_eq!(tracks.hear(), LOST);
        assert!(tracks.is_closed() && told.is_closed());
    }
    let mut beside = client(&weir);
    assert_eq!(beside.line("PING"), "+PONG");
}

#[test]
fn whoever_is_told_and_does_not_listen_loses_only_itself() {
    let server = Redis::start();
    let weir = weir(&[&server], "max-unread = \"1MiB\"", "");
    let ((slow, slow_id), (mut quick, quick_id)) = (told(&weir, true), told(&weir, false));
    let mut for_slow = client(&weir);
    assert!(for_slow.line("HELLO 3").starts_with('%'));
    let line = format!("CLIENT TRACKING ON BCAST PREFIX s: REDIRECT {slow_id}");
    assert_eq!(for_slow.line(&line), "+OK");
    let mut for_quick = tracking(&weir, "BCAST PREFIX q:", &quick_id);
    let mut writes = client(&weir);
    let long = "x".repeat(50_000);
    for n in 0..1000 {
        assert_eq!(writes.ask(&["SET", &format!("s:{n}:{long}"), "1"]), "+OK");
    }
    assert!(for_slow.hear().starts_with(">2 $21 tracking-redir-broken :"));
    assert_eq!(writes.line("SET q:1 1"), "+OK");
    assert_eq!(quick.hear(), "*3 $7 message $20 __redis__:invalidate *1 $3 q:1");
    assert_eq!(for_quick.line("GET q:1"), "$1 1");
    for_slow.say(&["PING"]);
    wait::until("the client that tracks is answered", wait::LONG, || for_slow.hear() == "+PONG");
    drop(slow);
}
