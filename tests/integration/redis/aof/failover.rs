//! A replica that becomes the master, and a second Weir with the same files.

use rig::redis::Redis;
use rig::wait;
use rig::weir::Setup;

use super::scene::{Relay, Scene, digest, info, master, table};

/// A replica of a master that has all of its data.
fn replica_of(master: &Redis) -> Redis {
    let port = master.address.port().to_string();
    let replica = super::scene::master(&["--replicaof", "127.0.0.1", &port]);
    let mut client = replica.client();
    wait::until("the replica has all", wait::LONG, || {
        info(&mut client, "replication", "master_link_status") == "up"
    });
    replica
}

fn assert_has_all(scene: &Scene, master: &Redis) {
    scene.wait_caught_up(master);
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), digest(master));
    let (code, said) = scene.verify();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_replica_that_becomes_the_master_is_followed_under_its_new_id_without_a_new_base() {
    let mut first = master(&["--repl-diskless-sync-delay", "0"]);
    let relay = Relay::to(first.address);
    let mut scene = Scene::new(&format!("redis://{}", relay.address), "", "");
    let mut client = first.client();
    client.line("SET before 1");
    scene.wait_caught_up(&first);
    let second = replica_of(&first);
    client.line("SET both 1");
    scene.wait_caught_up(&first);
    let mut client = second.client();
    wait::until("the replica has it", wait::LONG, || client.line("GET both") == "$1 1");
    let id = |client: &mut _| info(client, "replication", "master_replid");
    let id_before = id(&mut client);
    first.kill();
    assert_eq!(client.line("REPLICAOF NO ONE"), "+OK");
    assert_ne!(id(&mut client), id_before);
    relay.turn_to(second.address);
    client.line("SET after 1");
    assert_has_all(&scene, &second);
    // The new id is in the files: they alone say how to go on.
    scene.weir.kill();
    let file = std::fs::read(scene.last_increment()).unwrap();
    let named = format!("#WEIR id {}", id(&mut client));
    assert!(file.windows(named.len()).any(|part| part == named.as_bytes()), "{named}");
    client.line("SET while-away 1");
    scene.weir.start_again();
    assert_has_all(&scene, &second);
    assert_eq!(info(&mut client, "stats", "sync_full"), "0");
    assert_eq!(scene.status()["generations"], 1);
}

#[test]
fn two_processes_never_share_a_masters_files() {
    let master = master(&[]);
    let scene = Scene::new(&master.url(), "", "");
    scene.wait_caught_up(&master);
    let lines = table(&master.url(), "", "").replace("DIR", scene.files.to_str().unwrap());
    let (code, log) = Setup::new().table(&lines).prepare().start_in_vain();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("is in use by another Weir"), "{log}");
    master.client().line("SET more 1");
    assert_has_all(&scene, &master);
}
