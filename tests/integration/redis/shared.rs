//! Equal reads that wait together are asked once, and nobody reads anything older for that.
//!
//! All values are counters that only rise. What a client reads is at least what was acknowledged
//! before it asked, whoever wrote that; and it is not yet what the client itself writes behind it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rig::beside::EndGuard;
use rig::redis::{Redis, RedisClient};
use rig::weir::Weir;

use super::scene::{client, weir};

const KEYS: usize = 5;
const CLIENTS: usize = 24;
const TURNS: u64 = 300;

/// What was acknowledged of each key, and of each key with a large value.
#[derive(Default)]
struct Acknowledged {
    small: [AtomicU64; KEYS],
    large: [AtomicU64; KEYS],
}

/// One client, which counts its reads.
struct Racer<'a> {
    client: RedisClient,
    acknowledged: &'a Acknowledged,
    reads: u64,
}

fn number(reply: &str) -> u64 {
    let digits = reply.rsplit([' ', ':']).next().unwrap_or_default();
    digits.parse().unwrap_or_else(|_| panic!("no number in {reply:.80}"))
}

/// The field `n` of a hash as it was answered.
fn field(reply: &str) -> u64 {
    let (_, behind) = reply.split_once("$1 n $").unwrap_or_else(|| panic!("{reply:.80}"));
    behind.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number")
}

impl Racer<'_> {
    /// Reads what is there at least.
    fn reads(&mut self, key: usize) {
        let least = self.acknowledged.small[key].load(Ordering::SeqCst);
        let read = number(&self.client.ask(&["GET", &format!("k{key}")]));
        assert!(read >= least, "{read} of at least {least}");
        self.reads += 1;
    }

    fn writes(&mut self, key: usize) {
        let written = number(&self.client.ask(&["INCR", &format!("k{key}")]));
        self.acknowledged.small[key].fetch_max(written, Ordering::SeqCst);
        let read = number(&self.client.ask(&["GET", &format!("k{key}")]));
        assert!(read >= written, "{read} behind its own {written}");
        self.reads += 1;
    }

    /// Reads, writes and reads without waiting: in one piece, or each by itself.
    fn does_not_wait(&mut self, key: usize, in_pieces: bool) {
        let least = self.acknowledged.small[key].load(Ordering::SeqCst);
        let name = format!("k{key}");
        let all = [["GET", &name], ["INCR", &name], ["GET", &name]];
        let lines = all.map(|[verb, key]| format!("{verb} {key}\r\n"));
        match in_pieces {
            true => lines.iter().for_each(|line| self.client.send(line.as_bytes())),
            false => self.client.send(lines.concat().as_bytes()),
        }
        let [before, written, behind] = [(); 3].map(|()| number(&self.client.hear()));
        assert!(
            least <= before && before < written && written <= behind,
            "{least} {before} {written} {behind}"
        );
        self.acknowledged.small[key].fetch_max(written, Ordering::SeqCst);
        self.reads += 2;
    }

    /// The same of a value that is too long to be shared: those who waited for it ask again, and
    /// what they have sent behind it waits.
    fn reads_long(&mut self, key: usize) {
        let least = self.acknowledged.large[key].load(Ordering::SeqCst);
        let name = format!("h{key}");
        self.client.send(format!("HGETALL {name}\r\n").as_bytes());
        self.client.send(format!("HINCRBY {name} n 1\r\n").as_bytes());
        let before = field(&self.client.hear());
        let written = number(&self.client.hear());
        assert!(least <= before && before < written, "{least} {before} {written}");
        self.acknowledged.large[key].fetch_max(written, Ordering::SeqCst);
    }

    fn races(&mut self, seed: u64) {
        for turn in 0..TURNS {
            // All are at the same few keys at a time.
            let key = (turn / 20 + seed % 2) as usize % KEYS;
            match (turn + seed) % 12 {
                0 => self.writes(key),
                1 => self.does_not_wait(key, false),
                2 => self.does_not_wait(key, true),
                3 if turn % 5 == 0 => self.reads_long(key),
                _ => self.reads(key),
            }
        }
    }
}

/// How often a server ran a command.
fn calls(server: &Redis, command: &str) -> u64 {
    let all = server.client().line("INFO commandstats");
    let (_, behind) = all.split_once(&format!("cmdstat_{command}:calls=")).expect("it was called");
    behind.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number")
}

fn shared(weir: &Weir) -> u64 {
    weir.metrics().sum("weir_redis_shared_total", &[]) as u64
}

/// Has many clients race; gives how many reads they asked.
fn race(server: &Redis, weir: &Weir) -> u64 {
    let mut first = server.client();
    assert_eq!(first.line("FLUSHALL"), "+OK");
    for key in 0..KEYS {
        assert_eq!(first.ask(&["SET", &format!("k{key}"), "0"]), "+OK");
        let long = "x".repeat(70_000);
        assert_eq!(first.ask(&["HSET", &format!("h{key}"), "n", "0", "long", &long]), ":2");
    }
    let acknowledged = Acknowledged::default();
    thread::scope(|scope| {
        let racers: Vec<_> = (0..CLIENTS as u64)
            .map(|seed| {
                let client = client(weir);
                let mut racer = Racer { client, acknowledged: &acknowledged, reads: 0 };
                scope.spawn(move || {
                    racer.races(seed);
                    racer.reads
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().expect("it reads right")).sum()
    })
}

#[test]
fn a_shared_read_is_no_older_than_what_was_acknowledged_before_it() {
    let server = Redis::start();
    let weir = weir(&[&server], "share-reads = true", "");
    let reads = race(&server, &weir);
    let by_server = calls(&server, "get");
    let of_get = weir.metrics().sum("weir_redis_shared_total", &[("command", "GET")]) as u64;
    assert!(of_get > 0, "nobody waited together");
    assert_eq!(by_server + of_get, reads, "each read is asked, or is another's");
    println!("{reads} reads, {of_get} of them shared, {} in all", shared(&weir));
}

#[test]
fn each_read_is_asked_where_reads_are_not_shared() {
    let server = Redis::start();
    let mut weir = weir(&[&server], "share-reads = false", "");
    let reads = race(&server, &weir);
    assert_eq!((calls(&server, "get"), shared(&weir)), (reads, 0));
    // It is in force from a reload on.
    let config = std::fs::read_to_string(weir.config()).expect("it is there");
    let config = config.replace("share-reads = false", "share-reads = true");
    std::fs::write(weir.config(), config).expect("it is written");
    weir.reload();
    race(&server, &weir);
    assert!(shared(&weir) > 0);
    let told = weir.must_run(&["status"]);
    assert!(told.contains("reads shared"), "{told}");
}

#[test]
fn a_read_that_belongs_to_its_own_connection_is_not_shared() {
    let server = Redis::start();
    let weir = weir(&[&server], "share-reads = true", "");
    assert_eq!(server.client().line("SET k 1"), "+OK");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let end = EndGuard(&is_over);
        // Others ask for the same all the time.
        for _ in 0..8 {
            let mut other = client(&weir);
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    assert!(other.line("GET k").starts_with("$1"));
                }
            });
        }
        let mut own = client(&weir);
        for _ in 0..50 {
            // What it has read is told to the server as its own: the transaction fails for that.
            assert_eq!(own.line("WATCH k"), "+OK");
            assert_eq!(own.line("GET k"), "$1 1");
            assert_eq!(own.line("MULTI"), "+OK");
            assert_eq!(own.line("GET k"), "+QUEUED");
            assert_eq!(own.line("EXEC"), "*1 $1 1");
        }
        let mut keeps = client(&weir);
        assert!(keeps.line("HELLO 3").starts_with('%'));
        assert_eq!(keeps.line("CLIENT TRACKING ON"), "+OK");
        for value in ["2", "3"] {
            keeps.line("GET k");
            assert_eq!(server.client().line(&format!("SET k {value}")), "+OK");
            assert!(keeps.hear().contains("invalidate"), "the server knows that it was read");
            assert_eq!(keeps.line("GET k"), format!("$1 {value}"));
            keeps.line("GET none");
        }
        drop(end);
    });
}
