//! Everything that can happen to Weir, the master and the files, at random, while clients write.
//!
//! `WEIR_TEST_SECONDS` makes it longer, and `WEIR_TEST_REDIS` names another server's program.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use rig::redis::{Redis, RedisClient};
use rig::wait;
use tempfile::TempDir;

use super::scene::{Relay, Scene, digest, table, wait_loaded};

const SECONDS: u64 = 20;
const WRITERS: usize = 3;
const DATABASES: usize = 3;
/// What the disk holds that the files are on.
const DISK: &str = "2g";
/// A master has no more, and evicts what may expire.
const MEMORY: &str = "96mb";
/// Keys that expire soon have these names.
const GONE: usize = 10;
const FUNCTION: &str = "#!lua name=f\nredis.register_function('f', function(keys, args) \
                        return redis.call('INCRBY', keys[1], args[1]) end)";

/// What the writers share with whoever makes the trouble.
struct World {
    master: Mutex<SocketAddr>,
    /// Held by whoever looks: nobody writes meanwhile.
    quiet: RwLock<()>,
    stop: AtomicBool,
    /// The highest number of each writer that `WAIT` has confirmed.
    confirmed: [Mutex<u64>; WRITERS],
}

fn program() -> std::path::PathBuf {
    let other = std::env::var("WEIR_TEST_REDIS").ok();
    other.map_or_else(|| rig::places::need("redis-server"), Into::into)
}

fn server(args: &[&str]) -> Redis {
    let all = ["--enable-debug-command", "yes", "--repl-backlog-size", "64mb"];
    let all = [&all[..], &["--repl-diskless-sync-delay", "0"], args].concat();
    let server = Redis::start_as(&program(), &all);
    wait_loaded(&server);
    assert_eq!(server.client().line("DEBUG SET-ACTIVE-EXPIRE 0"), "+OK");
    server
}

/// A server started from a copy of the files as they are, which is a master from then on.
fn started_from(scene: &Scene) -> (Redis, TempDir) {
    let copy = scene.copy();
    let server = server(&["--appendonly", "yes", "--dir", copy.path().to_str().unwrap()]);
    (server, copy)
}

/// Does something at random; gives the writer's number after it, or nothing where it is not known.
fn write_something(client: &mut RedisClient, writer: usize) -> Option<u64> {
    let some = rand::random_range(0..14_u32);
    let name = format!("{writer}-{}", rand::random_range(0..20));
    let evicted = format!("evicted{}", rand::random_range(0..100));
    let large = "x".repeat(rand::random_range(1..2 << 20));
    let is_huge = some == 13 && rand::random_bool(0.02);
    let huge = if is_huge { "h".repeat(100 << 20) } else { String::new() };
    let commands: Vec<Vec<&str>> = match some {
        0 => vec![vec!["APPEND", "log", "x"]],
        1 => vec![vec!["LPUSH", "list", &name], vec!["RPOP", "list"]],
        2 => vec![vec!["XADD", "stream", "MAXLEN", "~", "100", "*", "name", &name]],
        3 => vec![vec![
            "EVAL",
            "redis.call('INCR', KEYS[1]) redis.call('SADD', KEYS[2], ARGV[1])",
            "2",
            "e",
            "set",
            &name,
        ]],
        4 => vec![vec!["FCALL", "f", "1", "of-function", "3"]],
        5 => vec![vec!["SET", &name, &large]],
        6 => vec![
            vec!["MULTI"],
            vec!["INCR", "t"],
            vec!["SELECT", "2"],
            vec!["INCR", "t"],
            vec!["SELECT", "0"],
            vec!["EXEC"],
        ],
        7 => vec![vec!["SET", "gone3", "x", "PX", "5"], vec!["GET", "gone3"]],
        8 => vec![vec!["SET", &name, "x", "EX", "10000"], vec!["PERSIST", &name]],
        9 => vec![vec!["SELECT", "1"], vec!["HINCRBY", "hash", &name, "1"], vec!["SELECT", "0"]],
        // Much of it, so that a master without memory evicts some.
        12 => vec![vec!["SET", &evicted, &large, "EX", "10000"]],
        13 if !huge.is_empty() => vec![vec!["SET", "huge", &huge], vec!["DEL", "huge"]],
        13 => vec![vec!["XADD", "stream", "*", "a", "b"], vec!["XTRIM", "stream", "MAXLEN", "50"]],
        10 => vec![vec!["ZADD", "sorted", "1", &name], vec!["ZPOPMIN", "sorted"]],
        _ => vec![vec!["DEL", &name], vec!["SPOP", "set"]],
    };
    for command in &commands {
        client.try_ask(command).ok()?;
    }
    let counted = client.try_ask(&["INCR", &format!("n{writer}")]).ok()?;
    std::str::from_utf8(&counted).ok()?.trim().strip_prefix(':')?.parse().ok()
}

fn write_on(world: &World, writer: usize) {
    while !world.stop.load(Ordering::Relaxed) {
        let address = *world.master.lock().unwrap();
        let Ok(mut client) = RedisClient::try_connect(address) else {
            std::thread::yield_now();
            continue;
        };
        client.patience(wait::LONG);
        while !world.stop.load(Ordering::Relaxed) {
            let _may_write = world.quiet.read().unwrap();
            if *world.master.lock().unwrap() != address {
                break;
            }
            let Some(number) = write_something(&mut client, writer) else { break };
            if number % 5 == 0 {
                match client.try_ask(&["WAIT", "1", "2000"]) {
                    Ok(reply) if reply == b":1\r\n" => {
                        *world.confirmed[writer].lock().unwrap() = number;
                    }
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
    }
}

/// Every write that was confirmed is in what a server has.
fn assert_confirmed(world: &World, server: &Redis, after: &str) {
    let mut client = server.client();
    for (writer, confirmed) in world.confirmed.iter().enumerate() {
        let heard = client.line(&format!("GET n{writer}"));
        let found: u64 = heard.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        let confirmed = *confirmed.lock().unwrap();
        assert!(found >= confirmed, "{found} of {confirmed} confirmed, after {after}");
    }
}

/// Has what is past its time expire, which is a write.
fn expire(master: &Redis) {
    let mut client = master.client();
    wait::until("what was to expire has", wait::LONG, || {
        (0..DATABASES).all(|database| {
            client.line(&format!("SELECT {database}"));
            (0..GONE).all(|n| client.line(&format!("EXISTS gone{n}")) == ":0")
        })
    });
}

/// A server started from the files has what the master has.
fn assert_same(world: &World, scene: &Scene, master: &Redis, after: &str) {
    let _quiet = world.quiet.write().unwrap();
    // Whoever looks must not have anything evicted.
    assert_eq!(master.client().line("CONFIG SET maxmemory 0"), "+OK");
    expire(master);
    scene.wait_caught_up(master);
    let (restored, _dir) = started_from(scene);
    assert_eq!(digest(&restored), digest(master), "after {after}");
    let functions = |server: &Redis| server.client().line("FUNCTION DUMP");
    assert_eq!(functions(&restored), functions(master), "after {after}");
    assert_confirmed(world, &restored, after);
    let (code, said) = scene.verify();
    assert_eq!(code, Some(0), "after {after}: {said}");
    limit_memory(master);
}

fn limit_memory(master: &Redis) {
    let mut client = master.client();
    assert_eq!(client.line("CONFIG SET maxmemory-policy volatile-random"), "+OK");
    assert_eq!(client.line(&format!("CONFIG SET maxmemory {MEMORY}")), "+OK");
}

/// The master is gone: a server that is started from the files takes its place.
fn replace(world: &World, scene: &mut Scene, relay: &Relay, master: &mut (Redis, TempDir)) {
    let is_both = rand::random_bool(0.5);
    if is_both {
        scene.weir.kill();
    }
    master.0.kill();
    let _quiet = world.quiet.write().unwrap();
    let next = started_from(scene);
    assert_confirmed(world, &next.0, "the master's end");
    assert_eq!(next.0.client().line("CONFIG SET appendonly no"), "+OK");
    limit_memory(&next.0);
    *world.master.lock().unwrap() = next.0.address;
    relay.turn_to(next.0.address);
    if is_both {
        scene.weir.start_again();
    }
    *master = next;
    // A master that never had a replica counts no offset before that has its data set.
    scene.wait_link_to(&master.0);
}

fn append(path: &Path, bytes: &[u8]) {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

/// Takes all room on the disk until that is noticed, and gives it back.
fn fill_disk(scene: &Scene) {
    let full = |scene: &Scene| scene.weir.log().matches("the disk is full").count();
    let (before, ballast) = (full(scene), scene.files.join("ballast"));
    let mut file = std::fs::File::create(&ballast).unwrap();
    let mut piece = vec![0; 1 << 20];
    while !piece.is_empty() {
        // To the last byte.
        if std::io::Write::write_all(&mut file, &piece).is_err() {
            piece.truncate(piece.len() / 2);
        }
    }
    wait::until("it is noticed that the disk is full", wait::LONG, || {
        full(scene) > before || scene.status()["trouble"].is_string()
    });
    std::fs::remove_file(&ballast).unwrap();
    wait::until("it goes on", wait::LONG, || scene.status()["link"] == "following");
}

/// Makes some trouble; gives what it was.
fn trouble(
    world: &World,
    scene: &mut Scene,
    relay: &Relay,
    master: &mut (Redis, TempDir),
) -> &'static str {
    match rand::random_range(0..10_u32) {
        0 => {
            relay.cut();
            "a cut of the link"
        }
        1 | 2 => {
            scene.weir.kill();
            scene.weir.start_again();
            "a kill of Weir"
        }
        3 => {
            scene.weir.kill();
            if let Some(path) = scene.last_increment_now() {
                append(&path, b"*3\r\n$3\r\nSET\r\n$4\r\ntorn\r\n$99\r\nab");
            }
            scene.weir.start_again();
            "a torn file"
        }
        4 | 5 => {
            std::fs::write(scene.dir().join("weir.rewrite"), "").unwrap();
            "a new base"
        }
        6 => {
            let switch = scene.dir().join("fail-syncs");
            std::fs::write(&switch, "").unwrap();
            wait::until("a sync has failed", wait::LONG, || scene.status()["link"] == "stopped");
            std::fs::remove_file(&switch).unwrap();
            scene.weir.kill();
            scene.weir.start_again();
            "a failed sync"
        }
        7 => {
            fill_disk(scene);
            "a full disk"
        }
        8 => {
            let switch = scene.dir().join("hold-syncs");
            std::fs::write(&switch, "").unwrap();
            wait::until("the disk stands still", wait::LONG, || {
                scene.status()["not_durable_bytes"].as_u64() > Some(0)
            });
            std::fs::remove_file(&switch).unwrap();
            "a disk that stood still"
        }
        _ => {
            replace(world, scene, relay, master);
            "a kill of the master"
        }
    }
}

#[test]
fn whatever_happens_what_was_confirmed_is_there_and_the_files_are_the_master() {
    let text = std::env::var("WEIR_TEST_SECONDS").ok();
    let seconds = text.and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut master = (server(&[]), rig::places::directory());
    assert!(master.0.client().ask(&["FUNCTION", "LOAD", FUNCTION]).starts_with('$'));
    let relay = Relay::to(master.0.address);
    let lines = "increment-size = \"1MiB\"\naccept-keys = 0\nask-every = \"200ms\"\n\
                 rewrite = { min-size = \"4MiB\" }";
    let url = format!("redis://{}", relay.address);
    let mut scene = Scene::with_faults_on(DISK, &table(&url, lines, ""));
    limit_memory(&master.0);
    scene.wait_caught_up(&master.0);
    let world = World {
        master: Mutex::new(master.0.address),
        quiet: RwLock::default(),
        stop: AtomicBool::new(false),
        confirmed: Default::default(),
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let world = &world;
            scope.spawn(move || write_on(world, writer));
        }
        // Whatever is found wrong ends the writers.
        let _stopping = Stopping(&world.stop);
        let mut last = String::new();
        while Instant::now() < until {
            for _ in 0..rand::random_range(1..4) {
                let durable = scene.status()["durable"].as_u64().unwrap_or(0);
                wait::until("something is written", wait::LONG, || {
                    scene.status()["durable"].as_u64() != Some(durable)
                });
                last = format!("{last}, {}", trouble(&world, &mut scene, &relay, &mut master));
            }
            assert_same(&world, &scene, &master.0, &last);
            last.clear();
        }
    });
    let confirmed: u64 = world.confirmed.iter().map(|of| *of.lock().unwrap()).sum();
    assert!(confirmed > 0, "some were confirmed");
}

/// Stops the writers when it goes, also by a panic.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
