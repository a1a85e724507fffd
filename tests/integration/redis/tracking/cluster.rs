//! Nodes of a Cluster, which have keys of others now and then.

use std::sync::atomic::{AtomicBool, AtomicU64};

use rig::beside::EndGuard;
use rig::redis::{Redis, RedisClient, RedisCluster};
use rig::wait;
use rig::weir::Weir;

use super::super::scene::{client, weir};
use super::several::{WriteCounters, keep, told, write_some};
use super::{LOST, tracking};

fn three(has_replicas: bool) -> (RedisCluster, Weir) {
    let cluster = RedisCluster::start(3, has_replicas, &[]);
    let weir = weir(&[&cluster.nodes[0]], "distribution = \"cluster\"", "");
    (cluster, weir)
}

/// A key's slot, and the node that has it at first.
fn home_of(cluster: &RedisCluster, key: &str) -> (u16, usize) {
    let slot = cluster.nodes[0].client().ask(&["CLUSTER", "KEYSLOT", key]);
    let slot = slot[1..].parse().expect("a number");
    (slot, usize::from(slot) * 3 / 16384)
}

/// A client that tracks once Weir knows the nodes.
fn tracking_all(weir: &Weir, how: &str) -> RedisClient {
    let mut beside = client(weir);
    let mut reaches =
        |n: u32| beside.try_ask(&["SET", &format!("k{n}"), "0"]).is_ok_and(|of| of == b"+OK\r\n");
    wait::until("the nodes are known", wait::LONG, || (0..20).all(&mut reaches));
    tracking(weir, how)
}

fn is_told(client: &mut RedisClient, key: &str) -> bool {
    told(client).iter().any(|keys| keys.split(' ').any(|word| word == key))
}

#[test]
fn a_client_is_told_of_keys_whichever_node_has_them() {
    let (cluster, weir) = three(false);
    let mut refused = client(&weir);
    assert!(refused.line("HELLO 3").starts_with('%'));
    let words = "-ERR weir: before a Cluster, whose keys move, CLIENT TRACKING takes BCAST";
    for how in ["", " OPTIN", " OPTOUT NOLOOP"] {
        assert_eq!(refused.line(&format!("CLIENT TRACKING ON{how}")), words);
    }
    assert!(refused.line("CLIENT TRACKINGINFO").contains("$3 off"));

    let mut of = tracking_all(&weir, "BCAST PREFIX k");
    let mut writes = client(&weir);
    let (slot, home) = home_of(&cluster, "k1");
    for (turn, to) in [1, 2, 0].map(|by| (home + by) % 3).into_iter().enumerate() {
        let from = (home + turn) % 3;
        told(&mut of);
        for key in ["k1", "k2", "k3"] {
            assert_eq!(writes.ask(&["SET", key, "x"]), "+OK");
            assert!(is_told(&mut of, key), "{key}");
        }
        assert_eq!(writes.line("SET other x"), "+OK");
        assert!(told(&mut of).is_empty());
        cluster.migrate(slot, from, to);
        assert!(is_told(&mut of, "k1"), "it is not where it was");
        // It is read where it is, by the connection that is there already.
        assert_eq!(of.line("GET k1"), "$1 x");
        assert_eq!(of.line("MGET k1 k2 k3 none"), "*4 $1 x $1 x $1 x _");
        assert_eq!(of.ask(&["APPEND", "k1", "y"]), ":2");
        assert!(is_told(&mut of, "k1"));
        for line in ["MULTI", "GET k1", "EXEC"] {
            of.line(line);
        }
    }
    assert!(of.line("CLIENT INFO").contains("flags=t "));
}

#[test]
fn nothing_is_kept_that_was_overwritten_while_slots_move() {
    let (cluster, weir) = three(false);
    drop(tracking_all(&weir, "BCAST"));
    let (written, is_over) = ([const { AtomicU64::new(0) }; 50], AtomicBool::new(false));
    let written: &WriteCounters = &written;
    let homes: Vec<(u16, usize)> =
        (0..50).map(|key| home_of(&cluster, &format!("k{key}"))).collect();
    std::thread::scope(|scope| {
        let end = EndGuard(&is_over);
        for of in (0..3).map(|_| tracking(&weir, "BCAST")) {
            scope.spawn(|| keep(of, written, &is_over));
        }
        let moving = scope.spawn(|| {
            for (key, (slot, home)) in homes.iter().enumerate().take(20) {
                let to = (home + 1 + key % 2) % 3;
                cluster.migrate(*slot, *home, to);
                let moved = format!("-MOVED {slot} {}", cluster.nodes[to].address);
                wait::until("all nodes know it", wait::LONG, || {
                    let said = |node: &Redis| node.client().line(&format!("GET k{key}")) == moved;
                    cluster.nodes.iter().filter(|node| said(node)).count() == 2
                });
            }
        });
        let (mut writer, mut turn) = (client(&weir), 0_u64);
        while !moving.is_finished() || turn < 60 {
            turn += 1;
            write_some(&mut writer, turn, written);
        }
        drop(end);
    });
}

#[test]
fn a_client_that_tracks_is_closed_where_another_node_takes_over() {
    let (cluster, weir) = three(true);
    let mut of = tracking_all(&weir, "BCAST");
    let mut replica = cluster.nodes[3].client();
    assert_eq!(replica.line("CLUSTER FAILOVER"), "+OK");
    let mut writes = client(&weir);
    wait::until("it is the primary", wait::LONG, || {
        writes.line("MSET k0 1 k1 1 k2 1 k3 1 k4 1 k5 1");
        replica.line("ROLE").starts_with("*3 $6 master")
    });
    of.patience(wait::LONG);
    let heard = std::iter::from_fn(|| Some(of.hear())).find(|said| !said.starts_with('>'));
    assert_eq!(heard.as_deref(), Some(LOST));
    assert!(of.is_closed());
    drop(tracking_all(&weir, "BCAST"));
}
