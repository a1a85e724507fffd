//! Changes of settings, and the end, under load.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use flow::service::Settings;
use flow::workers::Drained;

use crate::stand::{Client, LONG, ToyCluster, key_of, settings};

/// Asks as fast as answers come until the connection ends; every answer is as expected, or the
/// last one says why there is none. `heard` counts them.
fn hammer(mut client: Client, number: usize, heard: &AtomicUsize) {
    let (a, b) = (key_of(0, &format!("a{number}-")), key_of(1, &format!("b{number}-")));
    for turn in 0.. {
        let value = format!("{number}:{turn}");
        let len = value.len();
        let sent = client.try_send(format!(
            "PUT {a} {len}\n{value}PUT {b} {len}\n{value}GET {a}\nSUM {a} {b}\n"
        ));
        if !sent {
            return;
        }
        for expected in ["+ok", "+ok", &format!("${len} {value}"), &format!("+{}", 2 * len)] {
            match client.hear() {
                None => return,
                Some(answer) if answer == "-draining" => return,
                Some(answer) => assert_eq!(answer, expected, "client {number}, turn {turn}"),
            }
            heard.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn settings_change_under_load_and_nobody_notices() {
    let stand = ToyCluster::start(2, settings());
    let (done, heard) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..20 {
            let (mut client, done, heard) = (stand.client(), &done, &heard);
            let key = key_of(number % 2, &format!("k{number}-"));
            scope.spawn(move || {
                assert_eq!(client.put(&key, "x"), "+ok");
                while !done.load(Ordering::Relaxed) {
                    client.send(format!("GET {key}\n").repeat(10));
                    for _ in 0..10 {
                        assert_eq!(client.hear().unwrap(), "$1 x");
                        heard.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for count in [1, 4, 2, 1, 3, 1] {
            let before = heard.load(Ordering::Relaxed);
            let lanes = flow::lanes::Limits { count, depth: 8, ..settings().lanes };
            stand.reload(&Settings { lanes, ..settings() });
            while heard.load(Ordering::Relaxed) < before + 2000 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn everybody_has_its_answers_when_it_stops() {
    let stand = ToyCluster::start(2, settings());
    let clients: Vec<_> = (0..20).map(|_| stand.client()).collect();
    let mut idle = stand.client();
    assert_eq!(idle.ask("ID\n").chars().next(), Some('+'));
    let heard: [AtomicUsize; 20] = Default::default();
    std::thread::scope(|scope| {
        for (number, (client, heard)) in clients.into_iter().zip(&heard).enumerate() {
            scope.spawn(move || hammer(client, number, heard));
        }
        stand.wait_until(|| heard.iter().all(|heard| heard.load(Ordering::Relaxed) > 20));
        let drained = stand.drain(LONG);
        assert_eq!(drained, Drained { cut: 0, panicked: 0, stuck: 0 });
    });
    assert_eq!(idle.hear(), None);
}

#[test]
fn who_waits_for_a_hung_server_is_told_when_it_stops() {
    let stand = ToyCluster::start(1, settings());
    let key = key_of(0, "k");
    let mut client = stand.client();
    assert_eq!(client.put(&key, "x"), "+ok");
    let server = stand.servers[0].clone();
    server.hang(true);
    client.send(format!("GET {key}\nGET {key}\n"));
    stand.wait_for_in_flight(2);
    let drained = stand.drain(LONG);
    server.hang(false);
    assert_eq!(drained.panicked + drained.stuck + drained.cut, 0);
    let heard: Vec<String> = std::iter::from_fn(|| client.hear()).collect();
    assert_eq!(heard, ["-draining", "-draining"]);
}
