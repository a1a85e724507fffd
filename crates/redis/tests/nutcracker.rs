//! Every key lands where a real twemproxy sends it: nutcracker in front of servers that answer each
//! command with their own number.
//!
//! `WEIR_TEST_KEYS` is how many keys each combination of hash, distribution, names and tag tries.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "nutcracker/fake.rs"]
mod fake;
#[path = "nutcracker/keys.rs"]
mod keys;
#[path = "nutcracker/proxy.rs"]
mod proxy;

use std::time::{Duration, Instant};

use redis::placement::{Distribution, Hash, Member, Ring, default_name, tagged};

use fake::{Answer, Fake};
use keys::Keys;
use proxy::{Nutcracker, Pool};

/// How many keys a combination tries where nobody says otherwise.
const KEYS: usize = 3000;
/// How long nutcracker may take to do what it is asked.
const LIMIT: Duration = Duration::from_secs(30);
/// Neither sorted by name nor by the length of their names.
const NAMES: [&str; 5] = ["zeta", "a", "a-name-much-longer-than-the-rest", "B", "beta"];

fn keys_per_pool() -> usize {
    std::env::var("WEIR_TEST_KEYS").map_or(KEYS, |keys| keys.parse().expect("a number of keys"))
}

/// The ring that Weir makes for a pool, without the servers in `away`.
fn ring(pool: &Pool, addresses: &[String], away: Option<usize>) -> Ring {
    let names: Vec<_> = addresses.iter().map(|address| default_name(address)).collect();
    let members: Vec<_> = (0..addresses.len())
        .map(|place| Member {
            name: if pool.named { NAMES[place] } else { &names[place] },
            weight: pool.weights[place],
        })
        .collect();
    Ring::new(pool.distribution, &members, &|place| Some(place) != away).expect("servers live")
}

fn server_of(pool: &Pool, ring: &Ring, key: &[u8]) -> usize {
    ring.server_of(pool.hash.of(tagged(key, pool.tag)))
}

/// What a hash is tried with: each distribution, with names and without, and all kinds of tags.
fn pools(hash: Hash) -> Vec<Pool> {
    let unequal = [1, 2, 5, 3, 1];
    let variants = [
        (false, None, unequal),
        (true, None, unequal),
        (true, Some(*b"{}"), [1, 300, 7, 2, 90]),
        (false, Some(*b"$$"), [10; 5]),
    ];
    let mut pools = Vec::new();
    for distribution in [Distribution::Ketama, Distribution::Modula] {
        for (named, tag, weights) in variants {
            pools.push(Pool { hash, distribution, named, tag, weights, ejects: false });
        }
    }
    pools
}

/// Five servers: on ports of the kernel's choice, on memcached's, and on a Unix socket.
fn servers(directory: &std::path::Path) -> Vec<Fake> {
    let memcached = Fake::on_memcached_port(2).unwrap_or_else(|| {
        eprintln!("SKIPPED: port 11211 is taken everywhere, so another one stands for it");
        Fake::tcp(2)
    });
    vec![Fake::tcp(0), Fake::unix(1, directory), memcached, Fake::tcp(3), Fake::tcp(4)]
}

#[test]
fn a_key_goes_to_the_server_that_nutcracker_sends_it_to() {
    let Some(program) = proxy::installed() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let servers = servers(directory.path());
    let addresses: Vec<String> = servers.iter().map(|server| server.address.clone()).collect();
    let (began, mut combinations, mut tried) = (Instant::now(), 0, 0);
    for hash in Hash::ALL {
        let pools = pools(hash);
        let nutcracker = Nutcracker::start(&program, directory.path(), &pools, &addresses);
        for (place, pool) in pools.iter().enumerate() {
            let ring = ring(pool, &addresses, None);
            let mut client = nutcracker.client(place);
            combinations += 1;
            let keys: Vec<Vec<u8>> = Keys::new(place as u64).take(keys_per_pool()).collect();
            for keys in keys.chunks(1000) {
                for (key, answer) in keys.iter().zip(client.ask(keys)) {
                    let expected = Answer::Server(server_of(pool, &ring, key));
                    assert_eq!(answer, expected, "{pool:?} of {addresses:?}: {key:?}");
                    tried += 1;
                }
            }
        }
    }
    eprintln!("{tried} keys of {combinations} pools in {:?}", began.elapsed());
}

#[test]
fn keys_of_an_ejected_server_go_where_nutcracker_sends_them() {
    let Some(program) = proxy::installed() else { return };
    for distribution in [Distribution::Ketama, Distribution::Modula] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut servers = servers(directory.path());
        let addresses: Vec<String> = servers.iter().map(|server| server.address.clone()).collect();
        let pool = Pool {
            hash: Hash::Fnv1a64,
            distribution,
            named: distribution == Distribution::Ketama,
            tag: None,
            weights: [1, 2, 5, 3, 1],
            ejects: true,
        };
        let nutcracker =
            Nutcracker::start(&program, directory.path(), std::slice::from_ref(&pool), &addresses);
        let (before, after) = (ring(&pool, &addresses, None), ring(&pool, &addresses, Some(3)));
        let keys: Vec<Vec<u8>> = Keys::new(7).take(keys_per_pool().min(20_000)).collect();
        let lost = keys.iter().find(|key| server_of(&pool, &before, key) == 3).expect("a key");
        let mut client = nutcracker.client(0);
        let answered = client.ask(&keys);
        for (key, answer) in keys.iter().zip(answered) {
            assert_eq!(answer, Answer::Server(server_of(&pool, &before, key)), "{pool:?}: {key:?}");
        }

        drop(servers.remove(3));
        let deadline = Instant::now() + LIMIT;
        while !matches!(client.ask(std::slice::from_ref(lost))[..], [Answer::Server(of)] if of != 3)
        {
            assert!(Instant::now() < deadline, "nutcracker ejects a server that is gone");
        }
        for (key, answer) in keys.iter().zip(client.ask(&keys)) {
            assert_eq!(answer, Answer::Server(server_of(&pool, &after, key)), "{pool:?}: {key:?}");
        }
    }
}

/// Lines behind a pool that is whole, which nutcracker takes or refuses.
const LINES: [&str; 43] = [
    "",
    "  hash: md5",
    "  hash: sha1",
    "  hash: MD5",
    "  hash_tag: \"{}\"",
    "  hash_tag: '{'",
    "  hash_tag: {}",
    "  hash_tag: \u{e9}",
    "  distribution: random",
    "  distribution: jump",
    "  timeout: 0400",
    "  timeout: -1",
    "  timeout: 4s",
    "  timeout: 2147483647",
    "  timeout: 2147483648",
    "  backlog: 1 # one",
    "  backlog: '1'",
    "  preconnect: yes",
    "  preconnect: \"true\"",
    "  tcpkeepalive: true",
    "  redis:",
    "  redis: ''",
    "  redis: true\n  redis_auth: a b",
    "  redis_auth: a",
    "  redis: false\n  redis: false",
    "  redis_db: 7",
    "  client_connections: 7",
    "  server_connections: 0",
    "  server_retry_timeout: 0",
    "  server_failure_limit: 0",
    "  servers_: 0",
    "    - b:2:1",
    "    - b:2:1 b",
    "    - b:2:0",
    "    - b:2",
    "    - b:65536:1",
    "    - ::1:2:1",
    "    - /b:1",
    "    - /b:c:1",
    "    - a:1:2",
    "    - b:2:1 a:1",
    "    - b:2:1 a:1 c",
    "    - - b:2:1",
];

#[test]
fn a_file_that_nutcracker_refuses_is_refused() {
    let Some(program) = proxy::installed() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("nutcracker.yml");
    let pool = "p:\n  listen: 127.0.0.1:2\n  servers:\n    - a:1:1\n";
    let other = "q:\n  listen: 127.0.0.1:2\n  servers:\n    - a:1:1";
    let wholes = LINES.map(|lines| format!("{pool}{lines}\n")).into_iter().chain([
        String::new(),
        "p: {}\n".to_owned(),
        "p:\n  listen: 127.0.0.1:2\n".to_owned(),
        "p:\n  listen: 127.0.0.1:0\n  servers:\n    - a:1:1\n".to_owned(),
        "p:\n  listen: /a 1000\n  servers:\n    - a:1:1\n".to_owned(),
        "p:\n  servers:\n    - a:1:1\n  listen: /a 0600\n".to_owned(),
        format!("{pool}{other}\n"),
        format!("{pool}{}\n", other.replace(":2", ":3")),
        format!("{pool}{}\n", other.replace(":2", ":3").replace('q', "p")),
    ]);
    for text in wholes {
        std::fs::write(&file, &text).expect("a file");
        let mut test = std::process::Command::new(&program);
        let output = test.arg("-t").arg("-c").arg(&file).output().expect("nutcracker starts");
        let ours = redis::migrate::nutcracker(text.as_bytes());
        assert_eq!(ours.is_ok(), output.status.success(), "{ours:?} {output:?}\n{text}");
    }
}
