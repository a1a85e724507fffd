//! Up to four commands of one client before two servers: every order in which they are taken, sent
//! and answered, with one disturbance at each step, beside a model of a server. Both for a client
//! that has nothing yet, and for one that tracks keys and so keeps its connections.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use script::{ALL, Input};
use world::World;

mod checks;
mod connections;
mod script;
mod server;
mod steps;
mod world;

/// Tries every order of the events of up to so many commands of these kinds; gives how many worlds
/// there were.
fn every_order(kinds: &[Input], steps: usize, tracks: bool) -> usize {
    let hashes = RandomState::new();
    let (mut seen, mut open) = (HashSet::new(), vec![World::new(tracks)]);
    while let Some(world) = open.pop() {
        if !seen.insert(hashes.hash_one(world.key())) {
            continue;
        }
        if world.is_at_rest() {
            world.check_rest();
        }
        open.extend(world.next(kinds, steps));
    }
    seen.len()
}

#[test]
fn every_order_of_events_of_three_commands_is_right() {
    let worlds: usize = [false, true].map(|tracks| every_order(&ALL, 3, tracks)).iter().sum();
    assert!(worlds > 30_000, "{worlds}");
}

#[test]
fn every_order_of_events_of_four_commands_of_a_few_kinds_is_right() {
    use Input::{Block, Cache, Exec, Multi, Reset, Set, TooLarge, Track, Watch};
    let mut worlds = 0;
    for kinds in [
        &[Watch, Multi, Set, TooLarge, Exec][..],
        &[Watch, Block, Multi, Set, Reset],
        &[Track, Cache, Multi, Set, Exec],
    ] {
        for tracks in [false, true] {
            worlds += every_order(kinds, 4, tracks);
        }
    }
    assert!(worlds > 30_000, "{worlds}");
}

#[test]
#[ignore = "minutes: make soak"]
fn every_order_of_events_of_four_commands_of_all_kinds_is_right() {
    let worlds: usize = [false, true].map(|tracks| every_order(&ALL, 4, tracks)).iter().sum();
    assert!(worlds > 1_000_000, "{worlds}");
}

#[test]
#[ignore = "minutes: make soak"]
fn every_order_of_events_of_five_commands_of_a_few_kinds_is_right() {
    use Input::{Exec, Multi, Ping, Reset, Set, TooLarge, Watch};
    let kinds = [Watch, Multi, Ping, Set, TooLarge, Exec, Reset];
    let worlds: usize = [false, true].map(|tracks| every_order(&kinds, 5, tracks)).iter().sum();
    assert!(worlds > 100_000, "{worlds}");
}
