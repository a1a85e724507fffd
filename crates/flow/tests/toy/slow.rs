//! Clients that read slowly, or not at all.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::stand::{LONG, Stand, alone, key_of, memory, settings};

/// Reads at 20 MB a second, up to so many bytes; how many came.
fn read_slowly(socket: &mut impl std::io::Read, bytes: usize) -> usize {
    let (since, mut read, mut buffer) = (Instant::now(), 0, vec![0; 200_000]);
    while read < bytes {
        let due = since + Duration::from_millis(read as u64 / 20_000);
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
    let stand = Stand::start(1, settings());
    let (same, zeros) = (key_of(0, "k"), key_of_zeros(0, SIZE));
    let mut clients: Vec<_> = (0..100).map(|_| stand.client()).collect();
    assert_eq!(clients[0].put(&same, "x"), "+ok");
    let before = memory();
    let (done, longest) = (AtomicBool::new(false), AtomicU64::new(0));
    let most = std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let since = Instant::now();
                    assert_eq!(client.ask(format!("GET {same}\n")), "$1 x");
                    longest.fetch_max(since.elapsed().as_millis() as u64, Ordering::Relaxed);
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
                read = read_slowly(slow.0.get_mut(), SIZE);
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
    let longest = Duration::from_millis(longest.into_inner());
    // The patience, and a busy machine.
    assert!(longest < settings().lane.patience + Duration::from_secs(2), "{longest:?}");
}

/// A key for so many bytes that the server makes up.
fn key_of_zeros(server: usize, size: usize) -> String {
    let fits = |n: &usize| crate::gateway::server_of(format!("zeros-{n}").as_bytes(), 2) == server;
    format!("zeros-{}", (size..).find(fits).unwrap())
}

#[test]
fn who_does_not_read_loses_only_itself() {
    alone("slow::who_does_not_read_loses_only_itself", no_reader);
}

fn no_reader() {
    let stand = Stand::start(1, settings());
    let (key, zeros) = (key_of(0, "k"), key_of_zeros(0, 256 << 20));
    let mut other = stand.client();
    assert_eq!(other.put(&key, "x"), "+ok");
    let before = memory();
    let mut deaf = stand.client();
    // Its answers stay where they are; a second request is behind the first on the lane.
    deaf.send(format!("GET {zeros}\nGET {key}\n"));
    let (since, mut asked) = (Instant::now(), 0);
    while since.elapsed() < Duration::from_secs(3) {
        let at = Instant::now();
        assert_eq!(other.ask(format!("GET {key}\n")), "$1 x");
        assert!(at.elapsed() < settings().lane.patience + Duration::from_secs(2));
        asked += 1;
    }
    assert!(asked > 100, "{asked}");
    assert!(memory().saturating_sub(before) < 64 << 20);
    deaf.0.get_ref().set_read_timeout(Some(LONG)).unwrap();
    let mut rest = Vec::new();
    let _ = deaf.0.read_to_end(&mut rest);
    assert!(rest.len() < 64 << 20, "it was cut off: {}", rest.len());
}
