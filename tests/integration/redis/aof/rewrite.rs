//! New bases beside the stream.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use rig::beside::EndGuard;
use rig::redis::Redis;
use rig::wait;

use super::scene::{Scene, digest, info, master};

/// Has a new base taken, and waits until it is in force.
fn rewrite(scene: &Scene) {
    let dir = scene.dir();
    let before = scene.last_base();
    let said = scene.weir.must_run(&["redis", "rewrite", dir.to_str().unwrap()]);
    assert!(said.contains("The Weir that runs"), "{said}");
    wait::until("the new base is in force", wait::LONG, || {
        scene.last_base() != before && !dir.join("weir.rewrite").exists()
    });
}

fn assert_restored(scene: &Scene, master: &Redis) {
    scene.wait_caught_up(master);
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), digest(master));
    let (code, said) = scene.verify();
    assert_eq!(code, Some(0), "{said}");
}

/// Writes transactions, in several databases, until it is told to stop.
fn write_on(master: &Redis, stop: &AtomicBool) {
    let mut client = master.client();
    let filler = "f".repeat(30_000);
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        client.line(&format!("SELECT {}", round % 3));
        client.send(b"MULTI\r\nINCR a\r\nLPUSH list x\r\nEXEC\r\n");
        (0..4).for_each(|_| drop(client.hear()));
        client.ask(&["SET", &format!("k{}", round % 50), &filler]);
    }
}

#[test]
fn a_new_base_takes_the_increments_place_while_the_master_is_written_to() {
    let master = master(&["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb"]);
    let scene = Scene::new(&master.url(), "increment-size = \"1MiB\"\nkeep = 2", "");
    scene.wait_caught_up(&master);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = EndGuard(&stop);
        scope.spawn(|| write_on(&master, &stop));
        for _ in 0..3 {
            scene.wait_more_durable(&master, 2 << 20);
            rewrite(&scene);
        }
        drop(end);
    });
    assert_restored(&scene, &master);
    assert_eq!(scene.status()["generations"], 3, "two older ones are kept");
    let scrape = scene.weir.metrics();
    assert_eq!(scrape.sum("weir_redis_aof_rewrites_total", &[("master", "m")]), 3.0);
    // Each older generation ends where it was parted, and a server starts from it.
    let dir = scene.append_dir();
    let mut older: Vec<_> =
        fs::read_dir(&dir).unwrap().flatten().map(|of| of.file_name()).collect();
    older.retain(|name| name.to_str().unwrap().starts_with("generation."));
    for name in older {
        let to = rig::places::directory();
        let to = to.path().join("restored");
        let of_master = scene.dir();
        let args = ["redis", "restore", of_master.to_str().unwrap(), "--at", "latest"];
        let more = ["--generation", name.to_str().unwrap(), "--to", to.to_str().unwrap()];
        scene.weir.must_run(&[&args[..], &more].concat());
        let dir = to.to_str().unwrap();
        let server = Redis::start_with(&["--appendonly", "yes", "--dir", dir]);
        super::scene::wait_loaded(&server);
        assert!(server.client().line("LLEN list").starts_with(':'));
    }
}

#[test]
fn a_new_base_comes_from_a_replica_and_the_master_does_not_fork() {
    let master = master(&["--repl-diskless-sync-delay", "0"]);
    let port = master.address.port().to_string();
    let replica = super::scene::master(&[
        "--replicaof",
        "127.0.0.1",
        &port,
        "--repl-diskless-sync-delay",
        "0",
    ]);
    let mut of_replica = replica.client();
    wait::until("it replicates", wait::LONG, || {
        info(&mut of_replica, "replication", "master_link_status") == "up"
    });
    let replicas = format!("replicas = [\"redis://127.0.0.1:1\", \"{}\"]", replica.url());
    let scene = Scene::new(&master.url(), "", &replicas);
    let mut client = master.client();
    client.line("SELECT 4");
    (0..100).for_each(|n| drop(client.line(&format!("SET k{n} v"))));
    scene.wait_caught_up(&master);
    // A replica that has not caught up yet is passed over.
    assert_eq!(client.line("WAIT 2 60000"), ":2");
    let forks = info(&mut client, "stats", "sync_full");
    // The stream goes on in the database that was selected before the base.
    rewrite(&scene);
    (0..10).for_each(|n| drop(client.line(&format!("APPEND k{n} w"))));
    assert_restored(&scene, &master);
    assert_eq!(info(&mut client, "stats", "sync_full"), forks);
    assert_eq!(info(&mut of_replica, "stats", "sync_full"), "1");
    // Where no replica can, the master does.
    drop(replica);
    rewrite(&scene);
    client.line("SET more 1");
    assert_restored(&scene, &master);
    assert_ne!(info(&mut client, "stats", "sync_full"), forks);
}

#[test]
fn increments_that_outgrow_their_base_bring_a_new_one_and_kills_cost_nothing() {
    let master = master(&["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb"]);
    let lines = "increment-size = \"1MiB\"\nrewrite = { min-size = \"1MiB\", percentage = 50 }";
    let mut scene = Scene::new(&master.url(), lines, "");
    scene.wait_caught_up(&master);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = EndGuard(&stop);
        scope.spawn(|| write_on(&master, &stop));
        let mut bases = 0;
        for round in 0..6_u64 {
            let base = scene.last_base();
            wait::until("a new base is in force", wait::LONG, || scene.last_base() != base);
            bases += 1;
            // Somewhere in the next one.
            scene.wait_more_durable(&master, 100_000 * round);
            scene.weir.kill();
            let (restored, _dir) = scene.restored();
            assert!(restored.client().line("INCR a").starts_with(':'));
            drop(restored);
            scene.weir.start_again();
        }
        assert_eq!(bases, 6);
        drop(end);
    });
    assert_restored(&scene, &master);
}

#[test]
fn a_disk_without_room_for_a_base_costs_neither_the_generation_nor_the_stream() {
    let master = master(&["--repl-diskless-sync-delay", "0"]);
    let mut client = master.client();
    let filler: String =
        (0..3_000_000).map(|_| char::from(rand::random_range(b'a'..=b'z'))).collect();
    (0..5).for_each(|n| drop(client.ask(&["SET", &format!("k{n}"), &filler])));
    let scene = Scene::on_small_disk(&master.url(), "", "32m");
    scene.wait_caught_up(&master);
    let (base, dir) = (scene.last_base(), scene.dir());
    scene.weir.must_run(&["redis", "rewrite", dir.to_str().unwrap()]);
    wait::until("it says that there is no room", wait::LONG, || {
        let words = scene.status()["rewrite"].clone();
        words.as_str().is_some_and(|words| words.contains("not enough"))
    });
    assert!(scene.weir.must_run(&["status"]).contains("no new base"));
    client.line("SET more 1");
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    assert_eq!(scene.last_base(), base);
    assert_restored(&scene, &master);
}
