//! What was told of each write is true, whatever is killed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::Rng as _;

use crate::stand::{Client, ToyCluster, key_of, settings};

/// How often a server misbehaves.
const FAULTS: u32 = 1_100;

/// What was told of writes, each with a key of its own.
#[derive(Default)]
struct WriteOutcomes {
    ok: Vec<String>,
    not_sent: Vec<String>,
    unknown: Vec<String>,
}

/// Writes in bursts until `done`, each key once, reads among them.
fn write(stand: &ToyCluster, number: usize, done: &AtomicBool) -> WriteOutcomes {
    let (mut told, mut turn) = (WriteOutcomes::default(), 0);
    let mut client: Option<Client> = None;
    while !done.load(Ordering::Relaxed) {
        let of = client.get_or_insert_with(|| stand.client());
        let (mut burst, mut keys) = (String::new(), Vec::new());
        for at in 0..rand::rng().random_range(1..12) {
            let key = key_of(at % 2, &format!("{number}-{turn}-{at}-"));
            if rand::rng().random_range(0..4) == 0 {
                burst.push_str(&format!("GET {key}\n"));
                keys.push(None);
            } else {
                // Large ones stay behind where a server takes no bytes.
                let size = if rand::rng().random_range(0..3) == 0 { 60_000 } else { 3 };
                burst.push_str(&format!("PUT {key} {size}\n{}", "x".repeat(size)));
                keys.push(Some(key));
            }
        }
        turn += 1;
        of.try_send(&burst);
        let mut is_gone = false;
        for key in keys {
            let answer = if is_gone { None } else { client.as_mut().and_then(Client::hear) };
            is_gone |= answer.is_none();
            let Some(key) = key else { continue };
            match answer.as_deref() {
                Some("+ok") => told.ok.push(key),
                Some(answer) if answer.starts_with("-not sent") => told.not_sent.push(key),
                Some(answer) if answer.starts_with("-may have run") => told.unknown.push(key),
                Some(other) => panic!("{key} is answered {other}"),
                None => told.unknown.push(key),
            }
        }
        if is_gone || rand::rng().random_range(0..100) == 0 {
            client = None;
        }
    }
    told
}

#[test]
fn no_write_runs_twice_none_is_lost_and_none_that_was_not_sent_ran() {
    let faults = std::env::var("WEIR_TEST_STEPS").ok().and_then(|text| text.parse().ok());
    let stand = ToyCluster::start(2, settings());
    let done = AtomicBool::new(false);
    let told: Vec<WriteOutcomes> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..16)
            .map(|number| {
                scope.spawn({
                    let (stand, done) = (&stand, &done);
                    move || write(stand, number, done)
                })
            })
            .collect();
        for _ in 0..faults.unwrap_or(FAULTS) {
            std::thread::sleep(Duration::from_millis(rand::rng().random_range(1..60)));
            let server = &stand.servers[rand::rng().random_range(0..2)];
            match rand::rng().random_range(0..5) {
                0 => server.dies_within.store(2, Ordering::Relaxed),
                1 => {
                    server.hang(true);
                    std::thread::sleep(Duration::from_millis(rand::rng().random_range(1..30)));
                    server.cut();
                    server.hang(false);
                }
                2 => {
                    server.is_deaf.store(true, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(rand::rng().random_range(1..200)));
                    server.cut();
                    server.is_deaf.store(false, Ordering::Relaxed);
                }
                _ => server.cut(),
            }
        }
        done.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let times = |key: &String| -> usize {
        stand.servers.iter().map(|server| server.put_times(key.as_bytes())).sum()
    };
    let (mut ok, mut not_sent, mut unknown) = (0, 0, 0);
    for told in &told {
        told.ok.iter().for_each(|key| assert_eq!(times(key), 1, "{key} was told as done"));
        told.not_sent.iter().for_each(|key| assert_eq!(times(key), 0, "{key}: not sent"));
        told.unknown.iter().for_each(|key| assert!(times(key) <= 1, "{key} ran twice"));
        ok += told.ok.len();
        not_sent += told.not_sent.len();
        unknown += told.unknown.len();
    }
    assert!(ok > 1000 && unknown > 10 && not_sent > 0, "{ok} {unknown} {not_sent}");
}
