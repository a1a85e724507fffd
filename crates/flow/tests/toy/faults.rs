//! Servers that hang, die and take nothing: whoever asked is told the truth, others go on.

use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use flow::service::Settings;

use crate::stand::{Client, ToyCluster, alone, key_of, settings};

fn quick(timeout_ms: u64) -> Settings {
    Settings { timeout: Duration::from_millis(timeout_ms), ..settings() }
}

#[test]
fn a_server_that_hangs_keeps_nobody_else_waiting() {
    let stand = ToyCluster::start(1, quick(3000));
    let (hung, well) = (key_of(0, "a"), key_of(1, "b"));
    let (mut stuck, mut other) = (stand.client(), stand.client());
    assert_eq!(other.put(&well, "here"), "+ok");
    assert_eq!(stuck.put(&hung, "x"), "+ok");
    stand.servers[0].hang(true);
    let since = Instant::now();
    stuck.send(format!("PUT {hung} 1\nyGET {well}\nSUM {hung} {well}\nGET {well}\n"));
    for _ in 0..100 {
        assert_eq!(other.ask(format!("GET {well}\n")), "$4 here");
    }
    for expected in ["-may have run: late", "$4 here", "-may have run: late", "$4 here"] {
        assert_eq!(stuck.hear().unwrap(), expected);
    }
    assert!(since.elapsed() >= Duration::from_millis(3000));
    stand.servers[0].hang(false);
    // What comes late reaches nobody, and the lane is in step.
    for _ in 0..20 {
        assert_eq!(stuck.ask(format!("GET {hung}\n")), "$1 y");
    }
}

#[test]
fn a_server_that_dies_within_an_answer_closes_only_the_client_that_heard_of_it() {
    let stand = ToyCluster::start(1, settings());
    let (a, b) = (key_of(0, "a"), key_of(1, "b"));
    let (mut first, mut second, mut other) = (stand.client(), stand.client(), stand.client());
    assert_eq!(first.put(&a, &"x".repeat(1000)), "+ok");
    assert_eq!(first.put(&b, "b"), "+ok");
    stand.servers[0].dies_within.store(1, Ordering::Relaxed);
    first.send(format!("GET {a}\n"));
    assert_eq!(first.hear_to_end(), None, "half of an answer, and the end");
    assert_eq!(other.ask(format!("GET {b}\n")), "$1 b");
    assert_eq!(other.ask(format!("SUM {a}\n")), "+1000");

    // Half of an answer that waited for its turn was heard by nobody: it is asked again.
    stand.servers[1].hang(true);
    stand.servers[0].dies_within.store(1, Ordering::Relaxed);
    second.send(format!("GET {b}\nGET {a}\n"));
    while stand.servers[0].dies_within.load(Ordering::Relaxed) > 0 {
        std::thread::yield_now();
    }
    stand.servers[1].hang(false);
    assert_eq!(second.hear().unwrap(), "$1 b");
    assert_eq!(second.hear().unwrap().len(), "$1000 ".len() + 1000);
}

#[test]
fn a_read_that_breaks_each_connection_is_asked_again_once() {
    let stand = ToyCluster::start(1, settings());
    let (a, b) = (key_of(0, "a"), key_of(1, "b"));
    let mut client = stand.client();
    assert_eq!(client.put(&a, &"x".repeat(1000)), "+ok");
    assert_eq!(client.put(&b, "b"), "+ok");
    // What is heard of its answer waits for its turn.
    stand.servers[1].hang(true);
    stand.servers[0].dies_within.store(2, Ordering::Relaxed);
    client.send(format!("GET {b}\nGET {a}\n"));
    stand.wait_until(|| stand.servers[0].dies_within.load(Ordering::Relaxed) == 0);
    stand.wait_for_in_flight(1);
    stand.servers[1].hang(false);
    assert_eq!(client.hear().unwrap(), "$1 b");
    assert_eq!(client.hear().unwrap(), "-may have run");
    assert_eq!(client.ask(format!("GET {b}\n")), "$1 b");
}

#[test]
fn a_write_that_may_have_run_is_not_sent_again_nor_is_what_is_behind_it() {
    let stand = ToyCluster::start(1, quick(10_000));
    let key = key_of(0, "k");
    let mut client = stand.client();
    assert_eq!(client.put(&key, "0"), "+ok");
    stand.servers[0].hang(true);
    let before = stand.servers[0].put_times(key.as_bytes());
    client.send(format!("PUT {key} 1\n1"));
    while stand.servers[0].put_times(key.as_bytes()) == before {
        std::thread::yield_now();
    }
    stand.servers[0].cut();
    stand.servers[0].hang(false);
    assert_eq!(client.hear().unwrap(), "-may have run");
    assert_eq!(stand.servers[0].put_times(key.as_bytes()), before + 1);
    assert_eq!(client.ask(format!("GET {key}\n")), "$1 1");
}

#[test]
fn a_read_is_asked_again_where_its_server_went_away() {
    let stand = ToyCluster::start(1, quick(10_000));
    let (a, b) = (key_of(0, "a"), key_of(1, "b"));
    let mut client = stand.client();
    assert_eq!(client.put(&a, "aa"), "+ok");
    assert_eq!(client.put(&b, "b"), "+ok");
    for _ in 0..10 {
        stand.servers[0].hang(true);
        client.send(format!("GET {a}\nGET {b}\nSUM {a} {b}\n"));
        std::thread::sleep(Duration::from_millis(10));
        stand.servers[0].cut();
        stand.servers[0].hang(false);
        for expected in ["$2 aa", "$1 b", "+3"] {
            assert_eq!(client.hear().unwrap(), expected);
        }
    }
}

#[test]
fn what_is_asked_again_is_asked_before_what_came_later() {
    let lanes = flow::lanes::Limits { count: 1, depth: 1, ..settings().lanes };
    let lane = flow::lane::Limits { depth: 1, ..settings().lane };
    let stand = ToyCluster::start(1, Settings { lanes, lane, ..settings() });
    let key = key_of(0, "k");
    let mut client = stand.client();
    for turn in 0..10 {
        assert_eq!(client.put(&key, "old"), "+ok");
        stand.servers[0].hang(true);
        // There is room for the first alone.
        client.send(format!("GET {key}\nPUT {key} 3\nnewGET {key}\n"));
        stand.wait_for_in_flight(1);
        stand.servers[0].cut();
        stand.servers[0].hang(false);
        for expected in ["$3 old", "+ok", "$3 new"] {
            assert_eq!(client.hear().unwrap(), expected, "turn {turn}");
        }
    }
}

#[test]
fn a_server_that_takes_no_bytes_costs_little_and_the_others_go_on() {
    alone("faults::a_server_that_takes_no_bytes_costs_little_and_the_others_go_on", deaf_server);
}

fn deaf_server() {
    let stand = ToyCluster::start(1, quick(5000));
    let (deaf, well) = (key_of(0, "a"), key_of(1, "b"));
    let (mut stuck, mut other) = (stand.client(), stand.client());
    assert_eq!(stuck.put(&deaf, "x"), "+ok");
    assert_eq!(other.put(&well, "b"), "+ok");
    stand.servers[0].is_deaf.store(true, Ordering::Relaxed);
    let before = crate::stand::memory();
    let mut writers: Vec<_> = (0..20).map(|_| stand.client()).collect();
    let value = "x".repeat(60_000);
    for writer in &mut writers {
        let socket = writer.0.get_ref();
        socket.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
        for _ in 0..50 {
            if !writer.try_send(format!("PUT {deaf} {}\n{value}", value.len())) {
                break;
            }
        }
    }
    for _ in 0..100 {
        assert_eq!(other.ask(format!("GET {well}\n")), "$1 b");
    }
    let more = crate::stand::memory().saturating_sub(before);
    assert!(more < 64 << 20, "{more}");
    for writer in &mut writers {
        // What the server had read before that it may have answered.
        let mut answers = std::iter::from_fn(|| writer.hear());
        assert!(answers.any(|answer| answer.starts_with("-")), "it is told so");
    }
    stand.servers[0].is_deaf.store(false, Ordering::Relaxed);
}

#[test]
fn a_server_that_is_not_there_is_told_of_at_once() {
    let stand = ToyCluster::start(1, settings());
    let (a, b) = (key_of(0, "a"), key_of(1, "b"));
    let mut client = stand.client();
    assert_eq!(client.put(&b, "b"), "+ok");
    stand.servers[0].leave();
    client.send(format!("GET {a}\nGET {b}\nHOLD {a}\nGET {b}\n"));
    for expected in ["-not sent: unreachable", "$1 b", "-not sent: unreachable", "$1 b"] {
        assert_eq!(client.hear().unwrap(), expected);
    }
}

#[test]
fn what_is_cancelled_is_answered_in_its_turn_and_the_client_goes_on() {
    let stand = ToyCluster::start(1, settings());
    let (a, b) = (key_of(0, "a"), key_of(1, "b"));
    let (mut client, mut other) = (stand.client(), stand.client());
    let id = client.ask("ID\n");
    assert_eq!(client.put(&a, "a"), "+ok");
    assert_eq!(client.put(&b, "b"), "+ok");
    stand.servers[0].hang(true);
    let before = stand.servers[1].answered.load(Ordering::Relaxed);
    client.send(format!("GET {a}\nGET {b}\nID\n"));
    stand.wait_until(|| stand.servers[1].answered.load(Ordering::Relaxed) > before);
    stand.wait_for_in_flight(1);
    assert_eq!(other.ask(format!("CANCEL {}\n", &id[1..])), "+ok");
    assert_eq!(client.hear().unwrap(), "-cancelled");
    // What was answered meanwhile is no longer waited for.
    assert_eq!(client.hear().unwrap(), "$1 b");
    assert_eq!(client.hear().unwrap(), id);
    stand.servers[0].hang(false);
    assert_eq!(client.ask(format!("GET {a}\n")), "$1 a");
}

#[test]
fn who_is_killed_hears_why_and_nothing_else() {
    let stand = ToyCluster::start(1, settings());
    let key = key_of(0, "k");
    let (mut client, mut other) = (stand.client(), stand.client());
    let id = client.ask("ID\n");
    assert_eq!(client.put(&key, "a"), "+ok");
    stand.servers[0].hang(true);
    client.send(format!("GET {key}\nPUT {key} 1\nb"));
    stand.wait_for_in_flight(2);
    assert_eq!(other.ask(format!("KILL {}\n", &id[1..])), "+ok");
    let heard: Vec<String> = std::iter::from_fn(|| client.hear()).collect();
    assert_eq!(heard, ["-killed", "-killed"]);
    stand.servers[0].hang(false);
    assert!(other.ask(format!("GET {key}\n")).starts_with("$1"));
}

#[test]
fn a_connection_that_was_held_and_broke_is_not_replaced_by_another() {
    let stand = ToyCluster::start(1, settings());
    let key = key_of(0, "k");
    let mut client = stand.client();
    assert_eq!(client.ask(format!("HOLD {key}\n")), "+held");
    assert_eq!(client.ask(format!("NAME {key} me\n")), "+ok");
    stand.servers[0].cut();
    let heard: Vec<String> = std::iter::from_fn(|| client.hear()).collect();
    assert_eq!(heard, ["-lost"], "its state is gone, and it is told so");
}

#[test]
fn who_sends_no_end_of_a_line_is_told_that_it_is_too_large() {
    let stand = ToyCluster::start(1, settings());
    let mut client = stand.client();
    let _ = client.try_send(vec![b'x'; 300 * 1024]);
    assert_eq!(client.hear().unwrap(), "-too large");
    assert_eq!(client.hear(), None);
}

#[test]
fn what_waits_for_its_turn_is_bounded() {
    let stand = ToyCluster::start(1, Settings { waiting: 100_000, ..settings() });
    let (slow, quick) = (key_of(0, "a"), key_of(1, "b"));
    let (mut client, mut other) = (stand.client(), stand.client());
    assert_eq!(client.put(&quick, &"x".repeat(30_000)), "+ok");
    assert_eq!(client.put(&slow, "s"), "+ok");
    stand.servers[0].hang(true);
    let gets = format!("GET {quick}\n").repeat(10);
    client.send(format!("GET {slow}\n{gets}"));
    assert_eq!(client.hear().unwrap(), "-too much waits", "it alone is ended");
    assert_eq!(client.hear(), None);
    assert!(other.ask(format!("GET {quick}\n")).starts_with("$30000"));
    stand.servers[0].hang(false);
}

/// A client has sent half of a large value, behind a `GET` of a server that hangs.
fn amid_a_large_value(stand: &ToyCluster, key: &str) -> Client {
    let head = key_of(0, "head");
    stand.servers[0].hang(true);
    let (mut client, before) = (stand.client(), stand.servers[1].accepted.load(Ordering::Relaxed));
    client.send(format!("GET {head}\nPUT {key} 1000000\n{}", "x".repeat(500_000)));
    stand.wait_for_in_flight(1);
    stand.wait_until(|| stand.servers[1].accepted.load(Ordering::Relaxed) > before);
    client
}

#[test]
fn who_goes_in_the_middle_of_a_large_value_has_its_answers_and_leaves_nothing() {
    let stand = ToyCluster::start(1, settings());
    let key = key_of(1, "k");
    let mut client = amid_a_large_value(&stand, &key);
    client.0.get_ref().shutdown(Shutdown::Write).unwrap();
    stand.servers[0].hang(false);
    assert_eq!(client.hear().unwrap(), "-none");
    assert_eq!(client.hear(), None);
    drop(amid_a_large_value(&stand, &key));
    stand.servers[0].hang(false);
    stand.wait_until(|| stand.figures()[0].clients == 0);
    assert_eq!(stand.servers[1].put_times(key.as_bytes()), 0);
    assert_eq!(stand.client().ask(format!("GET {key}\n")), "-none");
}

#[test]
fn who_is_killed_in_the_middle_of_a_large_value_is_gone() {
    let stand = ToyCluster::start(1, settings());
    let key = key_of(1, "k");
    let mut other = stand.client();
    let id: u64 = other.ask("ID\n")[1..].parse().unwrap();
    let mut client = amid_a_large_value(&stand, &key);
    assert_eq!(other.ask(format!("KILL {}\n", id + 1)), "+ok");
    for _ in 0..2 {
        assert_eq!(client.hear().unwrap(), "-killed");
    }
    stand.wait_until(|| stand.figures()[0].clients == 1);
    stand.servers[0].hang(false);
}

/// A client whose large value its server has, and does not answer.
fn behind_a_large_value(stand: &ToyCluster, key: &str) -> Client {
    stand.servers[0].hang(true);
    let (mut client, before) = (stand.client(), stand.servers[0].put_times(key.as_bytes()));
    client.send(format!("PUT {key} 500000\n{}", "x".repeat(500_000)));
    stand.wait_until(|| stand.servers[0].put_times(key.as_bytes()) > before);
    client
}

#[test]
fn who_is_killed_does_not_wait_for_its_connection_to_be_given_back() {
    let stand = ToyCluster::start(1, settings());
    let mut other = stand.client();
    let id: u64 = other.ask("ID\n")[1..].parse().unwrap();
    let mut client = behind_a_large_value(&stand, &key_of(0, "k"));
    assert_eq!(other.ask(format!("KILL {}\n", id + 1)), "+ok");
    assert_eq!(client.hear().unwrap(), "-killed");
    stand.wait_until(|| stand.figures()[0].clients == 1);
    stand.servers[0].hang(false);
}

#[test]
fn who_was_told_that_an_answer_is_late_on_its_own_connection_goes_on() {
    let stand = ToyCluster::start(1, quick(300));
    let mut client = behind_a_large_value(&stand, &key_of(0, "k"));
    assert_eq!(client.hear().unwrap(), "-may have run: late");
    assert_eq!(client.ask(format!("GET {}\n", key_of(1, "b"))), "-none");
    stand.servers[0].hang(false);
}
