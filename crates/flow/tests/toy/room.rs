//! Connections that make room for others, and servers that are forgotten.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use flow::limit::Limit;
use flow::pool::Budget;
use flow::service::Settings;

use crate::stand::{ToyCluster, key_of, settings};

/// A stand whose one worker has so many connections to all servers together.
fn within(connections: usize, settings: Settings) -> ToyCluster {
    let stand = ToyCluster::start(1, settings);
    stand.on_workers(move |fabric| {
        let budget = Budget::new(Limit::new(connections));
        *fabric.service().budget.borrow_mut() = Some(budget);
    });
    stand
}

fn lanes(stand: &ToyCluster) -> usize {
    stand.figures().iter().map(|figures| figures.lanes).sum()
}

#[test]
fn lanes_that_nobody_uses_make_room_for_whoever_waits() {
    let stand = within(1, settings());
    let (mut ann, keys) = (stand.client(), [key_of(0, "a"), key_of(1, "a")]);
    let begun = Instant::now();
    for _ in 0..2 {
        for key in &keys {
            assert_eq!(ann.put(key, "x"), "+ok");
            assert!(lanes(&stand) <= 1);
        }
    }
    // Each was in use just before the other was wanted, so it stayed for a moment.
    assert!(begun.elapsed() >= Duration::from_secs(3));
    // One that no client may ask goes at once.
    stand.on_workers(|fabric| fabric.service().unwanted.set(Some(1)));
    let begun = Instant::now();
    assert_eq!(ann.put(&keys[0], "y"), "+ok");
    assert!(begun.elapsed() < Duration::from_secs(1));
    // A lane with something in flight stays, however long that takes.
    stand.servers[0].hang(true);
    let mut bob = stand.client();
    ann.send(format!("GET {}\n", keys[0]));
    stand.wait_for_in_flight(1);
    bob.send(format!("GET {}\n", keys[1]));
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(stand.servers[1].accepted.load(Ordering::SeqCst), 2);
    stand.servers[0].hang(false);
    assert_eq!(ann.hear().unwrap(), "$1 y");
    assert_eq!(bob.hear().unwrap(), "$1 x");
}

#[test]
fn lanes_end_that_nobody_has_used_for_long_and_that_is_a_break_for_who_wrote() {
    let mut settings = settings();
    settings.idle = Some(Duration::from_millis(200));
    let stand = ToyCluster::start(1, settings);
    let (mut ann, key) = (stand.client(), key_of(0, "a"));
    assert_eq!(ann.put(&key, "x"), "+ok");
    let breaks = |stand: &ToyCluster| stand.on_workers(|fabric| fabric.breaks(0))[0];
    let before = breaks(&stand);
    stand.wait_until(|| lanes(&stand) == 0);
    assert!(breaks(&stand) > before);
    assert_eq!(ann.ask(format!("GET {key}\n")), "$1 x");
}

#[test]
fn a_server_that_nobody_asks_any_more_is_forgotten_with_its_connections() {
    let stand = ToyCluster::start(1, settings());
    let (mut ann, key) = (stand.client(), key_of(0, "a"));
    assert_eq!(ann.put(&key, "x"), "+ok");
    assert_eq!(ann.ask(format!("HOLD {key}\n")), "+held");
    let is_forgotten = |stand: &ToyCluster| stand.on_workers(|fabric| fabric.forget(0))[0];
    assert!(!is_forgotten(&stand), "a client has a connection to it");
    assert_eq!(ann.ask(format!("FREE {key}\n")), "+free");
    stand.wait_until(|| is_forgotten(&stand));
    let left = |stand: &ToyCluster| stand.on_workers(|fabric| fabric.connections().len())[0];
    assert_eq!((lanes(&stand), left(&stand)), (0, 0));
    // Whoever asks it after all is served by new ones.
    assert_eq!(ann.ask(format!("GET {key}\n")), "$1 x");
}
