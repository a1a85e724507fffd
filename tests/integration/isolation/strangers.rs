//! Nothing of one client ever reaches another: beside a server.
//!
//! Clients of several users and tenants, with few server connections, do by chance all that can
//! leave a trace; what that is comes from the server's own catalogues (`found`). Each has a twin
//! that asks the same directly of a second server with the same contents (`contents.sql`). What
//! they hear has to be the same, but for what `said::excuse` lists and what `step::Marks` say.
//!
//! `WEIR_TEST_SEED` begins another run, `WEIR_TEST_STEPS` makes it longer, `WEIR_TEST_WRONGS` looks
//! for more than the first fault. `make strangers` is a million steps.

mod found;
mod invent;
mod ledger;
mod race;
mod said;
mod stage;
mod step;
mod trail;
mod turn;
mod twins;
mod world;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rig::beside::EndGuard;
use rig::chance::{self, Length};
use rig::postgres::Cluster;
use rig::wait;

use stage::Stage;
use world::World;

/// Steps of the clients that take turns, of those that go at once, and transfers.
const TURNS: u64 = 3_000;
const STEPS_AT_ONCE: u64 = 12_000;
const TRANSFERS: u64 = 45_000;
/// Clients, one step after another.
const CLIENTS: usize = 9;
const RACERS: usize = 12;
/// Clients that move sums.
const TELLERS: u64 = 16;
/// Each transfer takes less, in the mean.
const TRANSFER_MAX: Duration = Duration::from_millis(20);

/// Every other run is without lanes: with few connections one that nobody uses is kept for a while,
/// so there are fewer steps. With lanes equal reads are shared: while they wait for one, or, where
/// none is quick enough for that, for a connection.
fn lanes(seed: u64) -> &'static str {
    match seed % 4 {
        0 => "share-reads = true\nlanes.slow = \"60s\"",
        2 => "share-reads = true\nlanes.slow = \"1us\"",
        _ => "lanes.on = false",
    }
}

#[test]
fn a_client_hears_what_it_would_hear_without_all_the_others() {
    let seed = chance::seed();
    let pool = 1 + seed as usize % 3;
    let stage = Stage::new(pool, CLIENTS, lanes(seed));
    eprintln!("seed {seed}, pool of {pool}: {:?}", stage.found.counted());
    let mut world = World::new(&stage, CLIENTS, seed);
    let length = Length::of(TURNS);
    while length.goes_on(world.steps) {
        if let Err(wrong) = world.step() {
            world.wrongs.push(wrong);
            break;
        }
    }
    if let Err(wrong) = world.close() {
        world.wrongs.push(wrong);
    }
    let wrongs = &world.wrongs;
    eprintln!("{} steps; let pass: {:?}; wrong: {:#?}", world.steps, world.excused, world.kinds);
    assert!(wrongs.is_empty(), "WEIR_TEST_SEED={seed}, pool of {pool}: {}", wrongs.join("\n"));
    for trouble in ["panicked", "nobody asked for"] {
        assert!(!stage.weir.log().contains(trouble), "{trouble}");
    }
}

#[test]
fn a_client_hears_what_it_would_hear_alone_when_all_go_at_once() {
    let seed = chance::seed();
    let pool = 1 + seed as usize % 3;
    let stage = Stage::new(pool, RACERS, lanes(seed));
    let (steps, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let length = Length::of(STEPS_AT_ONCE);
    let wrong: Vec<String> = thread::scope(|scope| {
        let (stage, steps, stop) = (&stage, &steps, &stop);
        let racers: Vec<_> = (0..RACERS)
            .map(|number| scope.spawn(move || race::run(stage, number, seed, length, steps, stop)))
            .collect();
        let ended = racers.into_iter().map(|racer| racer.join().expect("no panic"));
        ended.filter_map(Result::err).collect()
    });
    let steps = steps.load(Ordering::Relaxed);
    let many = wrong.len();
    assert!(wrong.is_empty(), "WEIR_TEST_SEED={seed}, pool of {pool}: {many}: {}", wrong[0]);
    eprintln!("{steps} steps of {RACERS} clients at once");
}

#[test]
fn what_was_told_as_committed_is_there_and_what_was_told_as_failed_is_not() {
    let seed = chance::seed();
    let mut cluster = Cluster::start();
    ledger::open(&cluster);
    let weir = stage::plain_weir(&cluster);
    let (stop, done, length) = (AtomicBool::new(false), AtomicU64::new(0), Length::of(TRANSFERS));
    let address = weir.postgres;
    let books: Vec<_> = thread::scope(|scope| {
        let (stop, done) = (&stop, &done);
        let end = EndGuard(stop);
        let tellers: Vec<_> = (0..TELLERS)
            .map(|teller| scope.spawn(move || ledger::moves(address, teller, seed, stop, done)))
            .collect();
        let (begun, limit) = (Instant::now(), length.limit(TRANSFER_MAX) + wait::LONG);
        let mut turn = 0_u64;
        while length.goes_on(done.load(Ordering::Relaxed)) || done.load(Ordering::Relaxed) < 200 {
            turn += 1;
            stage::disturb(&mut cluster, turn);
            assert!(begun.elapsed() < limit, "hardly anything is moved");
        }
        drop(end);
        tellers.into_iter().map(|teller| teller.join().expect("no panic")).collect()
    });
    let mut all = ledger::Book::new();
    for book in books {
        all.extend(book.unwrap_or_else(|wrong| panic!("WEIR_TEST_SEED={seed}: {wrong}")));
    }
    let told = |what| all.values().filter(|(told, _)| *told == what).count();
    let [committed, failed, not_known] = [
        ledger::TransferOutcome::Committed,
        ledger::TransferOutcome::Failed,
        ledger::TransferOutcome::NotKnown,
    ]
    .map(told);
    eprintln!("{committed} committed, {failed} failed, of {not_known} nothing is known");
    let checked = ledger::check(&cluster, &all);
    assert!(checked.is_ok(), "WEIR_TEST_SEED={seed}: {}", checked.unwrap_err());
}
