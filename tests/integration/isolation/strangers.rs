//! Nothing of one client ever reaches another: beside a server.
//!
//! Clients of several users and tenants, with few server connections, do by chance all that can
//! leave a trace; what that is comes from the server's own catalogues (`found`). Each has a twin
//! that asks the same directly of a second server with the same contents (`contents.sql`). What
//! they hear has to be the same, but for what `said::excuse` lists and what `step::Marks` say.
//!
//! `WEIR_TEST_SEED` begins another run, `WEIR_TEST_STEPS` or `WEIR_TEST_SECONDS` makes it longer,
//! `WEIR_TEST_WRONGS` looks for more than the first fault. `make strangers` is a million steps.

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

use rig::postgres::Cluster;
use rig::wait;

use super::chosen;
use stage::Stage;
use world::World;

/// How long a run lasts where no number of steps is asked for.
const SECONDS: u64 = 20;
/// Clients, one step after another.
const CLIENTS: usize = 9;
const RACERS: usize = 12;
/// Clients that move sums.
const TELLERS: u64 = 16;

/// When a run ends.
struct End {
    until: Instant,
    steps: u64,
}

impl End {
    /// As the environment says.
    fn chosen() -> Self {
        let steps = chosen("WEIR_TEST_STEPS", 0);
        let seconds =
            if steps > 0 { u64::from(u32::MAX) } else { chosen("WEIR_TEST_SECONDS", SECONDS) };
        let until = Instant::now() + Duration::from_secs(seconds);
        Self { until, steps: if steps > 0 { steps } else { u64::MAX } }
    }

    /// How long it is at most until then.
    fn lasts(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now()) + Duration::from_secs(SECONDS)
    }

    fn is_reached(&self, steps: u64) -> bool {
        steps >= self.steps || Instant::now() >= self.until
    }
}

/// Every other run is without lanes: with few connections one that nobody uses is kept for a while,
/// so there are fewer steps.
fn lanes(seed: u64) -> &'static str {
    if seed.is_multiple_of(2) { "lanes.slow = \"60s\"" } else { "lanes.on = false" }
}

#[test]
fn a_client_hears_what_it_would_hear_without_all_the_others() {
    let seed = chosen("WEIR_TEST_SEED", 1);
    let pool = 1 + seed as usize % 3;
    let stage = Stage::new(pool, CLIENTS, lanes(seed));
    eprintln!("seed {seed}, pool of {pool}: {:?}", stage.found.counted());
    let mut world = World::new(&stage, CLIENTS, seed);
    let end = End::chosen();
    while !end.is_reached(world.steps) {
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
    let seed = chosen("WEIR_TEST_SEED", 1);
    let pool = 1 + seed as usize % 3;
    let stage = Stage::new(pool, RACERS, lanes(seed));
    let (steps, stop, end) = (AtomicU64::new(0), AtomicBool::new(false), End::chosen());
    let wrong: Vec<String> = thread::scope(|scope| {
        let (stage, steps, stop, end) = (&stage, &steps, &stop, &end);
        let racers: Vec<_> = (0..RACERS)
            .map(|number| scope.spawn(move || race::run(stage, number, seed, end, steps, stop)))
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
    let seed = chosen("WEIR_TEST_SEED", 1);
    let mut cluster = Cluster::start();
    ledger::open(&cluster);
    let weir = stage::plain_weir(&cluster);
    let (stop, done, end) = (AtomicBool::new(false), AtomicU64::new(0), End::chosen());
    let address = weir.postgres;
    let books: Vec<_> = thread::scope(|scope| {
        let (stop, done) = (&stop, &done);
        let tellers: Vec<_> = (0..TELLERS)
            .map(|teller| scope.spawn(move || ledger::moves(address, teller, seed, stop, done)))
            .collect();
        let (begun, limit) = (Instant::now(), end.lasts() + wait::LONG);
        let mut turn = 0_u64;
        while !end.is_reached(done.load(Ordering::Relaxed)) || done.load(Ordering::Relaxed) < 200 {
            turn += 1;
            stage::disturb(&mut cluster, turn);
            if begun.elapsed() >= limit {
                // Else they would be waited for without end.
                stop.store(true, Ordering::Relaxed);
                panic!("hardly anything is moved");
            }
        }
        stop.store(true, Ordering::Relaxed);
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
