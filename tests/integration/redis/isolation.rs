//! Many clients at once, and servers that stop now and then: each reply is its own client's.

mod client;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rig::chance::{self, Length};
use rig::redis::Redis;
use rig::wait;
use rustix::process::Signal;

use super::scene::{client, key_on, weir};
use client::{Client, ReplyCounts};

const CLIENTS: usize = 200;
/// Replies that all of them are to get.
const REPLIES: u64 = 110_000;
/// Servers are stopped for longer than this.
const TIMEOUT: &str = "300ms";

/// Runs the clients while something else goes on, which gets the same numbers.
fn run(address: SocketAddr, length: Length, mut beside: impl FnMut(&ReplyCounts, &mut StdRng)) {
    let (seed, heard) = (chance::seed(), ReplyCounts::default());
    let goes_on = || length.goes_on(heard.own.load(Ordering::Relaxed) as u64);
    thread::scope(|scope| {
        let client = |id| {
            let mut client = Client::new(id, address, seed, &heard);
            while goes_on() {
                client.turn();
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|id| scope.spawn(move || client(id))).collect();
        let mut draw = StdRng::seed_from_u64(!seed);
        while goes_on() {
            beside(&heard, &mut draw);
        }
        clients.into_iter().for_each(|client| client.join().expect("its replies are its own"));
    });
    let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    let (own, late, cut) = (of(&heard.own), of(&heard.late), of(&heard.cut));
    println!("{own} are their clients' own, {late} were late, {cut} were cut");
    println!("{:#?}", heard.errors.lock().unwrap());
    assert!(own < REPLIES as usize || late > 0, "no server was stopped");
}

#[test]
fn each_reply_is_its_own_and_late_ones_reach_nobody() {
    let mut servers = [Redis::start(), Redis::start(), Redis::start()];
    let lines = format!("timeout = {TIMEOUT:?}");
    let weir = weir(&servers.each_ref(), &lines, "");
    let length = Length::of(REPLIES);
    let keys = [0, 1, 2].map(|server| key_on(&servers.each_ref(), &weir, server));
    let mut probe = client(&weir);
    run(weir.redis, length, |heard, draw| {
        let is_over = || !length.goes_on(heard.own.load(Ordering::Relaxed) as u64);
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
