//! Reads are spread over replicas.

use std::collections::BTreeMap;
use std::thread;

use rig::postgres::{Cluster, rows};
use rig::wait;
use rig::weir::Weir;

use super::scene::{client, weir};

/// Each server answers with its own port.
const ASK: &str = "SELECT inet_server_port()";

/// How often each port answered while so many clients asked so often at a time.
fn answers(weir: &Weir, clients: usize, reads: usize) -> BTreeMap<u16, usize> {
    let one = || {
        let mut client = client(weir).expect("it takes clients");
        let ask = |_| rows(&mut client, ASK).expect("a read")[0][0].as_deref()?.parse().ok();
        (0..reads).map(ask).collect::<Vec<Option<u16>>>()
    };
    let mut counts = BTreeMap::new();
    thread::scope(|scope| {
        let all: Vec<_> = (0..clients).map(|_| scope.spawn(one)).collect();
        for asked in all {
            for port in asked.join().expect("no panic").into_iter().flatten() {
                *counts.entry(port).or_default() += 1;
            }
        }
    });
    counts
}

#[test]
fn equal_replicas_take_equal_shares_of_the_reads_alone_and_under_load() {
    let primary = Cluster::start();
    let replicas = [primary.replica(), primary.replica()];
    replicas.iter().for_each(|replica| replica.catch_up(&primary));
    let weir = weir(&[&primary, &replicas[0], &replicas[1]], "");
    // Before the catalogue is known nothing is a proven read.
    wait::until("reads leave the primary", wait::LONG, || {
        let ports = answers(&weir, 1, 10);
        ports.len() == 2 && !ports.contains_key(&primary.address.port())
    });
    let asked = || {
        let metrics = weir.metrics();
        let of = |name| metrics.sum("weir_postgres_backend_asked_total", &[("backend", name)]);
        ["b", "c"].map(of)
    };

    let share = |clients: usize, reads: usize| {
        let before = asked();
        let counts = answers(&weir, clients, reads);
        let [b, c] = replicas.each_ref().map(|replica| counts.get(&replica.address.port()));
        let (b, c) = (b.copied().unwrap_or(0), c.copied().unwrap_or(0));
        assert_eq!(b + c, clients * reads, "the primary is left alone: {counts:?}");
        let after = asked();
        let counted = [after[0] - before[0], after[1] - before[1]];
        assert_eq!(counted, [b as f64, c as f64], "{clients} clients");
        b as f64 / (b + c) as f64
    };
    let alone = share(1, 200);
    assert!((0.45..=0.55).contains(&alone), "{alone}");
    // Under load whoever is quicker for a while takes more for that while, which may be long where
    // the machine is busy with something else.
    wait::until("the shares are equal under load", wait::LONG, || {
        (0.35..=0.65).contains(&share(40, 100))
    });
}
