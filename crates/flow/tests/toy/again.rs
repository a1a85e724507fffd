//! A request whose server says that it is for another one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use flow::service::Settings;

use crate::stand::{Client, ToyCluster, key_of, settings};

fn joined(all: std::ops::Range<usize>) -> String {
    all.map(|n| format!("{n};")).collect()
}

#[test]
fn what_is_asked_elsewhere_stays_in_the_order_of_its_client() {
    let stand = ToyCluster::start(1, settings());
    let (here, there) = (&stand.servers[0], &stand.servers[1]);
    for round in 0..20 {
        stand.on_workers(move |fabric| fabric.service().learns.set(round % 4 < 2));
        let key = key_of(0, &format!("r{round}-"));
        let mut client = stand.client();
        let mut sent = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_micros(100 * round));
                here.hand_over(&key, there, 1);
            });
            for _ in 0..20 {
                let lines: String =
                    (sent..sent + 20).map(|n| format!("ADD {key} {n};\n")).collect();
                client.send(lines);
                sent += 20;
                if round % 2 == 0 {
                    client.hear().unwrap();
                    client.send(format!("ADD {key} {sent};\n"));
                    sent += 1;
                } else {
                    client.send("ID\n");
                }
            }
        });
        for _ in 0..if round % 2 == 0 { sent - 20 } else { sent + 20 } {
            let heard = client.hear().unwrap();
            assert!(heard.starts_with('+'), "round {round}: {heard}");
        }
        let value = there.value(&key).unwrap();
        assert_eq!(String::from_utf8(value), Ok(joined(0..sent)), "round {round}");
    }
}

/// A client whose first requests are with a server that hangs, and has handed their key over.
fn behind_a_server_that_hangs(stand: &ToyCluster, key: &str) -> Client {
    stand.on_workers(|fabric| fabric.service().learns.set(true));
    let (here, there) = (&stand.servers[0], &stand.servers[1]);
    here.hand_over(key, there, 1);
    here.hang(true);
    let mut client = stand.client();
    client.send((0..4).map(|n| format!("ADD {key} {n};\n")).collect::<String>());
    stand.wait_for_in_flight(4);
    client
}

/// Has a client ask one thing more, and waits until that is on its way.
fn ask_one_more(stand: &ToyCluster, key: &str, client: &mut Client) {
    client.send(format!("WATCH w\nADD {key} 4;\n"));
    stand.wait_until(|| stand.on_workers(|fabric| fabric.service().is_watched(b"w"))[0]);
}

#[test]
fn what_comes_later_waits_while_something_is_sent_on() {
    let stand = ToyCluster::start(1, settings());
    let key = key_of(0, "k");
    let mut client = behind_a_server_that_hangs(&stand, &key);
    // The first is to be sent on, once it is known that those behind it had no effect either.
    stand.servers[0].passes.store(1, Ordering::Relaxed);
    stand.wait_until(|| stand.servers[0].answered.load(Ordering::Relaxed) == 1);
    client.send(format!("ADD {key} 4;\n"));
    assert_eq!(stand.servers[1].value(&key), None);
    stand.servers[0].hang(false);
    (0..5).for_each(|_| assert_eq!(client.hear().unwrap(), "+ok"));
    let value = stand.servers[1].value(&key).unwrap();
    assert_eq!(String::from_utf8(value), Ok(joined(0..5)));
}

#[test]
fn what_comes_later_waits_where_another_client_has_learnt_of_the_move() {
    let stand = ToyCluster::start(1, settings());
    let key = key_of(0, "k");
    let mut client = behind_a_server_that_hangs(&stand, &key);
    let moved = key.clone();
    stand.on_workers(move |fabric| fabric.service().learn(moved.as_bytes(), 1));
    ask_one_more(&stand, &key, &mut client);
    stand.servers[0].hang(false);
    (0..6).for_each(|_| assert_eq!(client.hear().unwrap(), "+ok"));
    let value = stand.servers[1].value(&key).unwrap();
    assert_eq!(String::from_utf8(value), Ok(joined(0..5)));
}

#[test]
fn what_is_sent_on_twice_is_not_overtaken_either() {
    let stand = ToyCluster::start(1, settings());
    let (here, there) = (&stand.servers[0], &stand.servers[1]);
    let key = key_of(0, "k");
    here.hand_over(&key, there, 1);
    // It is there for nobody yet.
    there.send_away(&key, 0);
    there.hang(true);
    let mut client = stand.client();
    client.send(format!("ADD {key} 0;\nADD {key} 1;\n"));
    // The first is sent on, and its answer is ready: it is to be sent on once more.
    stand.wait_until(|| here.read.load(Ordering::Relaxed) == 2);
    there.passes.store(1, Ordering::Relaxed);
    stand.wait_until(|| there.read.load(Ordering::Relaxed) == 2);
    here.hand_over(&key, there, 1);
    there.hang(false);
    (0..2).for_each(|_| assert_eq!(client.hear().unwrap(), "+ok"));
    let value = stand.servers[1].value(&key).unwrap();
    assert_eq!(String::from_utf8(value), Ok(joined(0..2)));
}

#[test]
fn a_key_that_nobody_has_ends_with_the_servers_words() {
    let stand = ToyCluster::start(1, settings());
    let key = key_of(0, "k");
    stand.servers[0].hand_over(&key, &stand.servers[1], 1);
    // Each says that it is with the other.
    let nowhere = key_of(0, "none");
    stand.servers[1].hand_over(&nowhere, &stand.servers[0], 0);
    stand.servers[0].hand_over("unused", &stand.servers[1], 1);
    let mut client = stand.client();
    assert_eq!(client.ask(format!("ADD {key} a\n")), "+ok");
    assert_eq!(client.ask(format!("ADD {nowhere} a\n")), "+ok");
    stand.servers[0].send_away(&nowhere, 1);
    assert!(client.ask(format!("ADD {nowhere} a\n")).starts_with("-elsewhere"));
    assert_eq!(client.ask(format!("ADD {key} b\n")), "+ok");
}

#[test]
fn where_it_must_be_alone_it_is_asked_again_only_with_nothing_behind_it() {
    let stand = ToyCluster::start(1, settings());
    stand.on_workers(|fabric| fabric.service().heals_alone.set(true));
    let key = key_of(0, "k");
    stand.servers[0].hand_over(&key, &stand.servers[1], 1);
    let mut client = stand.client();
    assert_eq!(client.ask(format!("ADD {key} a;\n")), "+ok");
    stand.servers[0].hang(true);
    client.send(format!("ADD {key} b;\nGET {key}\n"));
    stand.wait_for_in_flight(2);
    stand.servers[0].hang(false);
    assert_eq!(client.hear().unwrap(), "-elsewhere 1");
    assert_eq!(client.hear().unwrap(), "-none");
    assert_eq!(client.ask(format!("ADD {key} c;\n")), "+ok");
    let values = stand.servers[1].value(&key);
    assert_eq!(values.as_deref(), Some(&b"a;c;"[..]));
}

#[test]
fn who_is_called_to_a_lane_and_has_to_wait_for_something_else_keeps_nobody_waiting() {
    let lanes = flow::lanes::Limits { count: 1, depth: 1, ..settings().lanes };
    let lane = flow::lane::Limits { depth: 1, ..settings().lane };
    let stand = ToyCluster::start(1, Settings { lanes, lane, ..settings() });
    stand.on_workers(|fabric| fabric.service().learn(b"third", 2));
    let (moved, head) = (key_of(0, "k"), key_of(1, "h"));
    stand.servers[0].hand_over(&moved, &stand.servers[1], 1);
    stand.servers.iter().for_each(|server| server.hang(true));
    let (mut client, mut other) = (stand.client(), stand.client());
    other.send("GET third\n");
    stand.wait_for_in_flight(1);
    // There is no room for its last one.
    client.send(format!("GET {head}\nADD {moved} a;\nGET third\n"));
    stand.wait_for_in_flight(3);
    // The second one is to be asked elsewhere, behind the answer to the first.
    stand.servers[0].hang(false);
    stand.wait_for_in_flight(2);
    stand.servers[2].hang(false);
    assert_eq!(other.hear().unwrap(), "-none");
    for _ in 0..10 {
        assert_eq!(other.ask("GET third\n"), "-none");
    }
    stand.servers[1].hang(false);
    for expected in ["-none", "+ok", "-none"] {
        assert_eq!(client.hear().unwrap(), expected);
    }
}

#[test]
fn what_was_overtaken_while_its_key_was_away_is_not_asked_again() {
    let stand = ToyCluster::start(1, settings());
    let (here, there) = (&stand.servers[0], &stand.servers[1]);
    let (key, other) = (key_of(0, "k"), key_of(0, "other"));
    here.hand_over(&key, there, 1);
    here.hang(true);
    let mut client = stand.client();
    client.send(format!("ADD {key} 0;\nADD {other} x\nADD {key} 1;\nADD {key} 2;\n"));
    stand.wait_until(|| here.read.load(Ordering::Relaxed) == 1);
    stand.wait_for_in_flight(4);
    // The first is sent away, the others are not.
    there.hand_over(&key, here, 0);
    here.hang(false);
    for expected in ["-not sent: overtaken", "+ok", "+ok", "+ok"] {
        assert_eq!(client.hear().unwrap(), expected);
    }
    assert_eq!(here.value(&key).as_deref(), Some(&b"1;2;"[..]));
    assert_eq!(there.value(&key), None);
    // What was sent behind it about something else is no reason.
    there.send_away(&key, 0);
    let away = key_of(0, "away");
    here.hand_over(&away, there, 1);
    client.send(format!("ADD {away} 0;\nADD {other} y\nADD {away} 1;\n"));
    (0..3).for_each(|_| assert_eq!(client.hear().unwrap(), "+ok"));
    assert_eq!(there.value(&away).as_deref(), Some(&b"0;1;"[..]));
}
