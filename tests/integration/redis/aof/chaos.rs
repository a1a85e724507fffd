//! Everything that can happen to Weir, the master and the files, at random, while clients write.
//!
//! `WEIR_TEST_SEED` begins another run, `WEIR_TEST_STEPS` makes it longer, and `WEIR_TEST_REDIS`
//! names another server's program. What happened how often is printed (`--nocapture`). A seed
//! brings the same troubles in the same order, and the same writes of each writer; how these fall
//! together is the machine's.

mod writers;

use std::collections::BTreeMap;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use rig::beside::EndGuard;
use rig::chance::{self, Length};
use rig::faults::{DiskOrder, FAIL_SYNCS, HOLD_SYNCS};
use rig::redis::Redis;
use rig::wait;
use tempfile::TempDir;

use super::scene::{Relay, Scene, digest, info, table, wait_loaded};
use writers::{DATABASES, FUNCTION, GONE, WRITERS, World, limit_memory, write_on};

/// How often troubles are made and what came of them is looked at.
const LOOKS: u64 = 20;
/// What the disk holds that the files are on.
const DISK: &str = "2g";

fn program() -> std::path::PathBuf {
    let other = std::env::var("WEIR_TEST_REDIS").ok();
    other.map_or_else(|| rig::places::need("redis-server"), Into::into)
}

fn server(args: &[&str]) -> Redis {
    let all = ["--enable-debug-command", "yes", "--repl-backlog-size", "64mb"];
    let all = [&all[..], &["--repl-diskless-sync-delay", "0"], args].concat();
    let server = Redis::start_as(&program(), &all);
    wait_loaded(&server);
    assert_eq!(server.client().line("DEBUG SET-ACTIVE-EXPIRE 0"), "+OK");
    server
}

/// A server started from a copy of the files as they are, which is a master from then on.
fn started_from(scene: &Scene) -> (Redis, TempDir) {
    let copy = scene.copy();
    let server = server(&["--appendonly", "yes", "--dir", copy.path().to_str().unwrap()]);
    (server, copy)
}

/// Every write that was confirmed is in what a server has.
fn assert_confirmed(world: &World, server: &Redis, after: &str) {
    let mut client = server.client();
    for (writer, confirmed) in world.confirmed.iter().enumerate() {
        let heard = client.line(&format!("GET n{writer}"));
        let found: u64 = heard.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        let confirmed = *confirmed.lock().unwrap();
        assert!(found >= confirmed, "{found} of {confirmed} confirmed, after {after}");
    }
}

/// Has what is past its time expire, which is a write.
fn expire(master: &Redis) {
    let mut client = master.client();
    wait::until("what was to expire has", wait::LONG, || {
        (0..DATABASES).all(|database| {
            client.line(&format!("SELECT {database}"));
            (0..GONE).all(|n| client.line(&format!("EXISTS gone{n}")) == ":0")
        })
    });
}

/// A server started from the files has what the master has.
fn assert_same(world: &World, scene: &Scene, master: &Redis, after: &str) {
    let _quiet = world.quiet.write().unwrap();
    // Whoever looks must not have anything evicted.
    assert_eq!(master.client().line("CONFIG SET maxmemory 0"), "+OK");
    expire(master);
    scene.wait_caught_up(master);
    let (restored, _dir) = started_from(scene);
    assert_eq!(digest(&restored), digest(master), "after {after}");
    let functions = |server: &Redis| server.client().line("FUNCTION DUMP");
    assert_eq!(functions(&restored), functions(master), "after {after}");
    assert_confirmed(world, &restored, after);
    let (code, said) = scene.verify();
    assert_eq!(code, Some(0), "after {after}: {said}");
    limit_memory(master);
}

/// The master is gone: a server that is started from the files takes its place.
fn replace(
    world: &World,
    scene: &mut Scene,
    relay: &Relay,
    master: &mut (Redis, TempDir),
    is_both: bool,
) {
    if is_both {
        scene.weir.kill();
    }
    master.0.kill();
    let _quiet = world.quiet.write().unwrap();
    let next = started_from(scene);
    assert_confirmed(world, &next.0, "the master's end");
    assert_eq!(next.0.client().line("CONFIG SET appendonly no"), "+OK");
    limit_memory(&next.0);
    *world.master.lock().unwrap() = next.0.address;
    relay.turn_to(next.0.address);
    if is_both {
        scene.weir.start_again();
    }
    *master = next;
    // A master that never had a replica counts no offset before that has its data set.
    scene.wait_link_to(&master.0);
}

fn append(path: &Path, bytes: &[u8]) {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

/// Takes all room on the disk until that is noticed, and gives it back.
fn fill_disk(scene: &Scene) {
    let full = |scene: &Scene| scene.weir.log().matches("the disk is full").count();
    let (before, ballast) = (full(scene), scene.files.join("ballast"));
    let mut file = std::fs::File::create(&ballast).unwrap();
    let mut piece = vec![0; 1 << 20];
    while !piece.is_empty() {
        // To the last byte.
        if std::io::Write::write_all(&mut file, &piece).is_err() {
            piece.truncate(piece.len() / 2);
        }
    }
    wait::until("it is noticed that the disk is full", wait::LONG, || {
        full(scene) > before || scene.status()["trouble"].is_string()
    });
    std::fs::remove_file(&ballast).unwrap();
    wait::until("it goes on", wait::LONG, || scene.status()["link"] == "following");
}

/// Makes some trouble; gives what it was.
fn trouble(
    world: &World,
    scene: &mut Scene,
    relay: &Relay,
    master: &mut (Redis, TempDir),
    chance: &mut StdRng,
) -> &'static str {
    match chance.random_range(0..11_u32) {
        0 => {
            relay.cut();
            "a cut of the link"
        }
        1 | 2 => {
            scene.weir.kill();
            scene.weir.start_again();
            "a kill of Weir"
        }
        3 => {
            scene.weir.kill();
            if let Some(path) = scene.last_increment_now() {
                append(&path, b"*3\r\n$3\r\nSET\r\n$4\r\ntorn\r\n$99\r\nab");
            }
            scene.weir.start_again();
            "a torn file"
        }
        4 | 5 => {
            std::fs::write(scene.dir().join("weir.rewrite"), "").unwrap();
            "a new base"
        }
        6 => {
            let order = DiskOrder::give(&scene.dir(), FAIL_SYNCS);
            wait::until("a sync has failed", wait::LONG, || scene.status()["link"] == "stopped");
            drop(order);
            scene.weir.kill();
            scene.weir.start_again();
            "a failed sync"
        }
        7 => {
            fill_disk(scene);
            "a full disk"
        }
        8 => {
            let order = DiskOrder::give(&scene.dir(), HOLD_SYNCS);
            wait::until("the disk stands still", wait::LONG, || {
                scene.status()["not_durable_bytes"].as_u64() > Some(0)
            });
            drop(order);
            "a disk that stood still"
        }
        9 => {
            replace(world, scene, relay, master, false);
            "a kill of the master"
        }
        _ => {
            replace(world, scene, relay, master, true);
            "a kill of both"
        }
    }
}

/// What happened how often.
#[derive(Debug, Default)]
struct Counted {
    looks: u64,
    /// Of one master, the most of those that were looked at.
    evicted: u64,
    expired: u64,
    troubles: BTreeMap<&'static str, u64>,
}

/// Makes trouble and looks what came of it, again and again.
fn trouble_on(
    world: &World,
    scene: &mut Scene,
    relay: &Relay,
    master: &mut (Redis, TempDir),
    seed: u64,
) -> Counted {
    let length = Length::of(LOOKS);
    let (mut chance, mut counted) = (StdRng::seed_from_u64(seed), Counted::default());
    while length.goes_on(counted.looks) {
        let mut last = format!("WEIR_TEST_SEED={seed}, look {}", counted.looks + 1);
        for _ in 0..chance.random_range(1..4) {
            let durable = scene.status()["durable"].as_u64().unwrap_or(0);
            wait::until("something is written", wait::LONG, || {
                scene.status()["durable"].as_u64() != Some(durable)
            });
            let what = trouble(world, scene, relay, master, &mut chance);
            *counted.troubles.entry(what).or_default() += 1;
            last = format!("{last}, {what}");
        }
        assert_same(world, scene, &master.0, &last);
        counted.looks += 1;
        let count = |field| info(&mut master.0.client(), "stats", field).parse().unwrap_or(0);
        counted.evicted = counted.evicted.max(count("evicted_keys"));
        counted.expired = counted.expired.max(count("expired_keys"));
    }
    counted
}

#[test]
fn whatever_happens_what_was_confirmed_is_there_and_the_files_are_the_master() {
    let seed = chance::seed();
    let mut master = (server(&[]), rig::places::directory());
    assert!(master.0.client().ask(&["FUNCTION", "LOAD", FUNCTION]).starts_with('$'));
    let relay = Relay::to(master.0.address);
    let lines = "increment-size = \"1MiB\"\naccept-keys = 0\nask-every = \"200ms\"\n\
                 rewrite = { min-size = \"4MiB\" }";
    let url = format!("redis://{}", relay.address);
    let mut scene = Scene::with_faults_on(DISK, &table(&url, lines, ""));
    limit_memory(&master.0);
    scene.wait_caught_up(&master.0);
    let world = World::new(master.0.address);
    let counted = std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (world, seed) = (&world, seed.wrapping_mul(100).wrapping_add(writer as u64 + 1));
            scope.spawn(move || write_on(world, writer, seed));
        }
        // Whatever is found wrong ends the writers.
        let _stopping = EndGuard(&world.stop);
        trouble_on(&world, &mut scene, &relay, &mut master, seed)
    });
    let confirmed: u64 = world.confirmed.iter().map(|of| *of.lock().unwrap()).sum();
    println!("seed {seed}: {counted:?}, writes {:?}, up to {confirmed} confirmed", world.done());
    let is_whole = counted.looks >= LOOKS;
    assert!(!is_whole || counted.evicted > 0 && counted.expired > 0, "{counted:?}");
    assert!(confirmed > 0, "{counted:?}");
}
