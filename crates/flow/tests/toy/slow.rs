//! Clients that read slowly, or not at all.

use std::io::{BufRead as _, Read as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flow::service::Settings;

use crate::stand::{Client, ToyCluster, alone, key_of, memory, settings};

/// Much less in a second than a server sends.
const SLOWLY: usize = 20_000_000;

/// Reads so many bytes at most, and so many in a second; how many came.
fn read_slowly(socket: &mut impl std::io::Read, bytes: usize, a_second: usize) -> usize {
    let (since, mut read, mut buffer) = (Instant::now(), 0, vec![0; 200_000]);
    while read < bytes {
        let due = since + Duration::from_secs_f64(read as f64 / a_second as f64);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        match socket.read(&mut buffer) {
            Ok(n) if n > 0 => read += n,
            _ => break,
        }
    }
    read
}

#[test]
fn a_slow_reader_of_a_gibibyte_costs_the_others_no_more_than_the_patience() {
    alone(
        "slow::a_slow_reader_of_a_gibibyte_costs_the_others_no_more_than_the_patience",
        slow_reader,
    );
}

fn slow_reader() {
    const SIZE: usize = 1 << 30;
    let stand = ToyCluster::start(1, settings());
    let (same, zeros) = (key_of(0, "k"), key_of_zeros(0, SIZE));
    let mut clients: Vec<_> = (0..100).map(|_| stand.client()).collect();
    assert_eq!(clients[0].put(&same, "x"), "+ok");
    let before = memory();
    let done = AtomicBool::new(false);
    let most = std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // Who waits for much longer than the patience is told so instead.
                    assert_eq!(client.ask(format!("GET {same}\n")), "$1 x");
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
        }
        let reader = scope.spawn(|| {
            // Somebody may have been behind it on its lane: then it is cut off, as it must be.
            let mut read = 0;
            for _ in 0..50 {
                let mut slow = stand.client();
                slow.send(format!("GET {zeros}\n"));
                read = read_slowly(slow.0.get_mut(), SIZE, 3 * SLOWLY);
                if read >= SIZE {
                    break;
                }
            }
            done.store(true, Ordering::Relaxed);
            read
        });
        let mut most = 0;
        while !done.load(Ordering::Relaxed) {
            most = most.max(memory().saturating_sub(before));
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(reader.join().unwrap() >= SIZE, "it never had the whole of it");
        most
    });
    assert!(most < 64 << 20, "{most} bytes more");
}

/// Two clients ask the same lane, the first for a reply that never ends, as it were. What the
/// other hears, while `meanwhile` goes on with the first.
fn behind_no_end(request: &str, meanwhile: impl FnOnce(&ToyCluster, Client)) -> String {
    let lanes = flow::lanes::Limits { count: 1, ..settings().lanes };
    let stand = ToyCluster::start(1, Settings { lanes, ..settings() });
    // A day at 1 GB a second: if its end were waited for the answer would be late.
    let (key, zeros) = (key_of(0, "k"), key_of_zeros(0, 80 << 40));
    let (mut first, mut other) = (stand.client(), stand.client());
    assert_eq!(other.put(&key, "x"), "+ok");
    stand.servers[0].hang(true);
    first.send(format!("GET {zeros}\n"));
    stand.wait_for_in_flight(1);
    other.send(request.replace("KEY", &key));
    stand.wait_for_in_flight(2);
    stand.servers[0].hang(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(move || other.hear().unwrap());
        meanwhile(&stand, first);
        other.join().unwrap()
    })
}

#[test]
fn who_is_behind_a_slow_reader_is_not_behind_all_of_its_reply() {
    let slowly = |_: &ToyCluster, mut first: Client| {
        read_slowly(first.0.get_mut(), usize::MAX, SLOWLY);
    };
    assert_eq!(behind_no_end("GET KEY\n", slowly), "$1 x", "asked again");
    assert_eq!(behind_no_end("PUT KEY 1\ny", slowly), "-may have run", "not asked again");
}

/// A client reads nothing while it asks a lane for `count` times so many bytes, and another one is
/// behind that. What the other hears, and after how long.
fn behind_deaf(
    stand: &ToyCluster,
    deaf: &mut Client,
    count: usize,
    size: usize,
) -> (String, Duration) {
    let (key, zeros) = (key_of(0, "k"), key_of_zeros(0, size));
    let mut other = stand.client();
    assert_eq!(other.put(&key, "x"), "+ok");
    stand.servers[0].hang(true);
    deaf.send(format!("GET {zeros}\n").repeat(count));
    stand.wait_for_in_flight(count);
    other.send(format!("GET {key}\n"));
    stand.wait_for_in_flight(count + 1);
    let begun = Instant::now();
    stand.servers[0].hang(false);
    (other.hear().unwrap(), begun.elapsed())
}

/// Reads so many answers of so many bytes each.
fn hear_zeros(client: &mut Client, count: usize, size: usize) {
    for answer in 0..count {
        let mut line = String::new();
        client.0.read_line(&mut line).unwrap();
        let is_whole = line.trim().trim_start_matches('$').parse() == Ok(size);
        assert!(is_whole, "answer {answer} of {count} begins with {line:?}");
        let read = read_slowly(&mut (&mut client.0).take(size as u64), size, 20 * SLOWLY);
        assert_eq!(read, size, "answer {answer} of {count}");
    }
}

/// One lane, and clients that may leave 64 MiB unread.
fn with_one_lane() -> ToyCluster {
    let lanes = flow::lanes::Limits { count: 1, ..settings().lanes };
    ToyCluster::start(1, Settings { lanes, spill: 64 << 20, ..settings() })
}

#[test]
fn who_is_behind_a_reply_that_is_kept_does_not_wait_for_its_reader() {
    let stand = with_one_lane();
    let mut deaf = stand.client();
    let size = size_of_zeros(0, 24 << 20);
    let (heard, after) = behind_deaf(&stand, &mut deaf, 1, size);
    assert_eq!(heard, "$1 x", "after {after:?}");
    hear_zeros(&mut deaf, 1, size);
}

#[test]
fn who_is_behind_many_replies_does_not_wait_for_the_patience_with_each() {
    let stand = with_one_lane();
    let mut deaf = stand.client();
    let size = size_of_zeros(0, 1 << 20);
    let (heard, after) = behind_deaf(&stand, &mut deaf, 40, size);
    assert_eq!(heard, "$1 x");
    assert!(after < settings().lane.patience * 15, "{after:?}");
    // It asks for more than it may leave unread, and loses nothing of it.
    deaf.send(format!("GET {}\n", key_of_zeros(0, size)).repeat(80));
    hear_zeros(&mut deaf, 120, size);
}

#[test]
fn what_reaches_nobody_is_not_read_to_its_end_while_others_wait() {
    let gone = |_: &ToyCluster, mut first: Client| {
        first.0.read_exact(&mut [0; 1_000_000]).unwrap();
    };
    assert_eq!(behind_no_end("GET KEY\n", gone), "$1 x");
}

#[test]
fn who_waits_for_its_own_answers_may_take_its_time() {
    let stand = ToyCluster::start(1, settings());
    let (key, zeros) = (key_of(0, "k"), key_of_zeros(0, 32 << 20));
    let mut client = stand.client();
    assert_eq!(client.put(&key, "x"), "+ok");
    client.send(format!("GET {zeros}\n").repeat(2));
    client.send(format!("GET {key}\n"));
    // Much longer than the patience, and each time it is not taken for the whole of it.
    for _ in 0..2 {
        let mut line = String::new();
        client.0.read_line(&mut line).unwrap();
        std::thread::sleep(settings().lane.patience * 2);
        let size: usize = line.trim().trim_start_matches('$').parse().unwrap();
        let read = read_slowly(&mut (&mut client.0).take(size as u64), size, SLOWLY);
        assert_eq!(read, size, "it was cut off");
    }
    assert_eq!(client.hear().unwrap(), "$1 x");
}

#[test]
fn who_leaves_its_own_answers_for_longer_than_the_timeout_has_them_all() {
    let timeout = Duration::from_millis(300);
    let stand = ToyCluster::start(1, Settings { timeout, ..settings() });
    let (key, size) = (key_of(0, "k"), size_of_zeros(0, 30_000));
    let mut client = stand.client();
    assert_eq!(client.put(&key, "x"), "+ok");
    // More than the way to it holds.
    client.send(format!("GET {}\n", key_of_zeros(0, size)).repeat(2000));
    for _ in 0..2 {
        std::thread::sleep(timeout * 5);
        hear_zeros(&mut client, 500, size);
    }
    std::thread::sleep(timeout * 5);
    client.send(format!("GET {key}\n"));
    hear_zeros(&mut client, 1000, size);
    assert_eq!(client.hear().unwrap(), "$1 x");
    // Once it has taken them, a server that is silent is told of as ever.
    stand.servers[0].hang(true);
    let heard = client.ask(format!("GET {key}\n"));
    stand.servers[0].hang(false);
    assert_eq!(heard, "-may have run: late");
}

/// A key for so many bytes that the server makes up.
fn key_of_zeros(server: usize, size: usize) -> String {
    format!("zeros-{}", size_of_zeros(server, size))
}

/// So many bytes, or a few more.
fn size_of_zeros(server: usize, size: usize) -> usize {
    let fits = |n: &usize| crate::gateway::server_of(format!("zeros-{n}").as_bytes(), 2) == server;
    (size..).find(fits).unwrap()
}

#[test]
fn who_does_not_read_loses_only_itself() {
    alone("slow::who_does_not_read_loses_only_itself", no_reader);
}

fn no_reader() {
    let lanes = flow::lanes::Limits { count: 1, ..settings().lanes };
    let stand = ToyCluster::start(1, Settings { lanes, ..settings() });
    let (key, zeros) = (key_of(0, "k"), key_of_zeros(0, 256 << 20));
    let (mut deaf, mut other) = (stand.client(), stand.client());
    assert_eq!(other.put(&key, "x"), "+ok");
    let before = memory();
    // Its answers stay where they are, and the other is behind them on the lane.
    stand.servers[0].hang(true);
    deaf.send(format!("GET {zeros}\nGET {key}\n"));
    stand.wait_for_in_flight(2);
    other.send(format!("GET {key}\n"));
    stand.wait_for_in_flight(3);
    stand.servers[0].hang(false);
    assert_eq!(other.hear().unwrap(), "$1 x");
    stand.wait_until(|| stand.figures()[0].clients == 1);
    assert!(memory().saturating_sub(before) < 64 << 20);
    let mut rest = Vec::new();
    let _ = deaf.0.read_to_end(&mut rest);
    assert!(rest.len() < 64 << 20, "it was cut off: {}", rest.len());
}
