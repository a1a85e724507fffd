//! Running out of file descriptors. A binary of its own, since the limit is the process's.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "suite/echo.rs"]
mod echo;

use std::time::{Duration, Instant};

use echo::{Server, round_trip};
use flow::progress::Timeouts;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn allow(descriptors: u64) {
    let limit = getrlimit(Resource::Nofile);
    let limit = Rlimit { current: Some(descriptors), ..limit };
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[test]
fn without_descriptors_accepting_rests_instead_of_spinning() {
    let server = Server::start(1, 1000, &Timeouts::default(), |endpoint| endpoint);
    let mut first = server.connect();
    round_trip(&mut first, b"a\n");
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    // Room for the client's end, none for the server's.
    let before = getrlimit(Resource::Nofile).current.unwrap();
    allow(open);
    let mut waits = server.connect();
    let errors = "weir_connections_accept_errors_total{listener=\"test\"}";
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1500) {
        round_trip(&mut first, b"others are served meanwhile\n");
        std::thread::sleep(Duration::from_millis(50));
    }
    allow(before);
    let count = server.metric(errors);
    assert!((1..100).contains(&count), "{count} attempts to accept");
    round_trip(&mut waits, b"served as soon as there is room\n");
}
