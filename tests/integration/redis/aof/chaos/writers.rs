//! Clients that write all kinds of things, and remember what `WAIT` has confirmed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use rig::redis::{Redis, RedisClient};
use rig::wait;

/// How many there are.
pub const WRITERS: usize = 3;
/// The databases that they write to.
pub const DATABASES: usize = 3;
/// Keys that expire soon have these names.
pub const GONE: usize = 10;
/// A master has no more, and evicts what may expire.
const MEMORY: &str = "96mb";
/// What a value has that is much longer than all buffers, and than what the master may hold.
const HUGE: usize = 100 << 20;
/// How many kinds of writes there are, the one of huge values last.
const KINDS: usize = 15;
/// One in so many huge values that could be is.
const HUGE_ONE_IN: u32 = 12;

/// A library whose function the writers call.
pub const FUNCTION: &str = "#!lua name=f\nredis.register_function('f', function(keys, args) \
                            return redis.call('INCRBY', keys[1], args[1]) end)";

/// What the writers share with whoever makes the trouble.
pub struct World {
    /// Where the master is now.
    pub master: Mutex<SocketAddr>,
    /// Held by whoever looks: nobody writes meanwhile.
    pub quiet: RwLock<()>,
    pub stop: AtomicBool,
    /// The highest number of each writer that `WAIT` has confirmed.
    pub confirmed: [Mutex<u64>; WRITERS],
    /// How many of each kind a master has done.
    pub done: [AtomicU64; KINDS],
}

impl World {
    /// Nothing is written yet.
    pub fn new(master: SocketAddr) -> Self {
        Self {
            master: Mutex::new(master),
            quiet: RwLock::default(),
            stop: AtomicBool::new(false),
            confirmed: Default::default(),
            done: Default::default(),
        }
    }

    /// How many of each kind a master has done.
    pub fn done(&self) -> [u64; KINDS] {
        std::array::from_fn(|kind| self.done[kind].load(Ordering::Relaxed))
    }
}

/// Has a server evict what may expire.
pub fn limit_memory(server: &Redis) {
    let mut client = server.client();
    assert_eq!(client.line("CONFIG SET maxmemory-policy volatile-random"), "+OK");
    assert_eq!(client.line(&format!("CONFIG SET maxmemory {MEMORY}")), "+OK");
}

/// What is written of a kind. One comes at a time that the master would have no memory for.
fn commands(kind: usize, writer: usize, chance: &mut StdRng) -> Vec<Vec<String>> {
    let lines = |lines: &[&str]| -> Vec<Vec<String>> {
        lines.iter().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    };
    let name = format!("{writer}-{}", chance.random_range(0..20));
    let gone = format!("gone{}", chance.random_range(0..GONE));
    let evicted = format!("evicted{}", chance.random_range(0..100));
    let mut large = || "x".repeat(chance.random_range(1..2 << 20));
    match kind {
        0 => lines(&["APPEND log x"]),
        1 => lines(&[&format!("LPUSH list {name}"), "RPOP list"]),
        2 => lines(&[&format!("XADD stream MAXLEN ~ 100 * name {name}")]),
        3 => {
            let script = "redis.call('INCR', KEYS[1]) redis.call('SADD', KEYS[2], ARGV[1])";
            vec![["EVAL", script, "2", "e", "set", &name].map(str::to_owned).to_vec()]
        }
        4 => lines(&["FCALL f 1 of-function 3"]),
        5 => lines(&[&format!("SET {name} {}", large())]),
        6 => lines(&["MULTI", "INCR t", "SELECT 2", "INCR t", "SELECT 0", "EXEC"]),
        7 => lines(&[&format!("SET {gone} x PX 5"), &format!("GET {gone}")]),
        8 => lines(&[&format!("SET {name} x EX 10000"), &format!("PERSIST {name}")]),
        9 => lines(&["SELECT 1", &format!("HINCRBY hash {name} 1"), "SELECT 0"]),
        10 => lines(&[&format!("ZADD sorted 1 {name}"), "ZPOPMIN sorted"]),
        11 => lines(&[&format!("DEL {name}"), "SPOP set"]),
        // Much of it, so that a master without memory evicts some.
        12 => lines(&[&format!("SET {evicted} {} EX 10000", large())]),
        13 => lines(&["XADD stream * a b", "XTRIM stream MAXLEN 50"]),
        // With the limit, it would be refused.
        _ => lines(&[
            "CONFIG SET maxmemory 0",
            &format!("SET huge {}", "h".repeat(HUGE)),
            "DEL huge",
            &format!("CONFIG SET maxmemory {MEMORY}"),
        ]),
    }
}

/// Does something at random; gives the writer's number after it, or nothing where it is not known.
fn write_something(
    world: &World,
    client: &mut RedisClient,
    writer: usize,
    chance: &mut StdRng,
) -> Option<u64> {
    let kind = chance.random_range(0..KINDS);
    let mut is_done = kind < KINDS - 1 || chance.random_ratio(1, HUGE_ONE_IN);
    if is_done {
        for command in commands(kind, writer, chance) {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            is_done &= !client.try_ask(&words).ok()?.starts_with(b"-");
        }
    }
    world.done[kind].fetch_add(u64::from(is_done), Ordering::Relaxed);
    let counted = client.try_ask(&["INCR", &format!("n{writer}")]).ok()?;
    std::str::from_utf8(&counted).ok()?.trim().strip_prefix(':')?.parse().ok()
}

/// Writes until the world stops, to whoever is the master.
pub fn write_on(world: &World, writer: usize, seed: u64) {
    let mut chance = StdRng::seed_from_u64(seed);
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
            let written = write_something(world, &mut client, writer, &mut chance);
            let Some(number) = written else { break };
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
