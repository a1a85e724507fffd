//! Any `nutcracker.yml`: it is read or refused, each pool that is read has a server for a key, and
//! Weir's own configuration can be made of all.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use redis::migrate::{Server, nutcracker, toml};
use redis::placement::{Member, Ring, tagged};

fuzz_target!(|file: &[u8]| {
    let pools = nutcracker(file).unwrap_or_default();
    assert!(toml(Path::new("nutcracker.yml"), &pools).toml.contains("[redis]"));
    for pool in pools {
        let names: Vec<String> = pool.servers.iter().map(Server::placed_as).collect();
        let members: Vec<Member<'_>> = names
            .iter()
            .zip(&pool.servers)
            .map(|(name, server)| Member { name, weight: server.weight })
            .collect();
        let ring = Ring::new(pool.distribution, &members, &|_| true).expect("a server lives");
        let hash = pool.hash.of(tagged(file, pool.hash_tag));
        assert!(ring.server_of(hash) < members.len());
    }
});
