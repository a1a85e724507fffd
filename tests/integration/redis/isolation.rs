//! Many clients at once, and servers that stop now and then: each reply is its own client's.

mod client;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rig::redis::Redis;
use rig::wait;
use rustix::process::Signal;

use super::scene::{client, key_on, weir};
use client::{Client, ReplyCounts};

const CLIENTS: usize = 200;
/// Servers are stopped for longer than this.
const TIMEOUT: &str = "300ms";

/// A number out of the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// How long, by hand with `WEIR_TEST_SECONDS`.
fn seconds() -> u64 {
    number("WEIR_TEST_SECONDS").unwrap_or(5)
}

/// What the clients draw from, by hand with `WEIR_TEST_SEED`; a test that fails shows it.
fn seed() -> u64 {
    let seed = number("WEIR_TEST_SEED").unwrap_or_else(rand::random);
    println!("WEIR_TEST_SEED={seed}");
    seed
}

/// Runs the clients while something else goes on, which gets the same numbers.
fn run(address: SocketAddr, until: Instant, mut beside: impl FnMut(&ReplyCounts, &mut StdRng)) {
    let (seed, heard) = (seed(), ReplyCounts::default());
    thread::scope(|scope| {
        let client = |id| {
            let mut client = Client::new(id, address, seed, &heard);
            while Instant::now() < until {
                client.turn();
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|id| scope.spawn(move || client(id))).collect();
        let mut draw = StdRng::seed_from_u64(!seed);
        while Instant::now() < until {
            beside(&heard, &mut draw);
        }
        clients.into_iter().for_each(|client| client.join().expect("its replies are its own"));
    });
    let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    let (own, late, cut) = (of(&heard.own), of(&heard.late), of(&heard.cut));
    println!("{own} are their clients' own, {late} were late, {cut} were cut");
    println!("{:#?}", heard.errors.lock().unwrap());
    assert!(own > CLIENTS && late > 0, "no server was stopped");
}

#[test]
fn each_reply_is_its_own_and_late_ones_reach_nobody() {
    let mut servers = [Redis::start(), Redis::start(), Redis::start()];
    let lines = format!("timeout = {TIMEOUT:?}");
    let weir = weir(&servers.each_ref(), &lines, "");
    let until = Instant::now() + Duration::from_secs(seconds());
    let keys = [0, 1, 2].map(|server| key_on(&servers.each_ref(), &weir, server));
    let mut probe = client(&weir);
    run(weir.redis, until, |heard, draw| {
        let is_over = || Instant::now() >= until;
        let before = heard.own.load(Ordering::Relaxed);
        wait::until("clients are served", wait::LONG, || {
            is_over() || heard.own.load(Ordering::Relaxed) >= before + CLIENTS
        });
        let at = draw.random_range(0..3);
        let before = heard.late.load(Ordering::Relaxed);
        servers[at].running().signal(Signal::STOP);
        wait::until("answers are late", wait::LONG, || {
            is_over() || heard.late.load(Ordering::Relaxed) > before
        });
        // Or for so long that its connections are given up, which takes twice `timeout`.
        thread::sleep(Duration::from_millis(draw.random_range(0..1200)));
        servers[at].running().signal(Signal::CONT);
        wait::until("it is served again", wait::LONG, || {
            is_over() || probe.ask(&["GET", &keys[at]]) == "$1 x"
        });
    });
    assert!(!weir.log().contains("panic"), "{}", weir.log());
}
