//! Torn and damaged files, servers that ran with them, and a disk that fails or stands still.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;

use rig::faults::{DiskOrder, FAIL_SYNCS, HOLD_SYNCS};
use rig::redis::Redis;
use rig::wait;

use super::scene::{Scene, digest, info, master, wait_loaded};

/// A master whose keys are on the disk, and Weir killed.
fn killed() -> (Redis, Scene) {
    let master = master(&[]);
    let mut scene = Scene::new(&master.url(), "", "");
    let mut client = master.client();
    for n in 0..200 {
        client.line(&format!("SET k{n} v{n}"));
        if n % 20 == 0 {
            assert_eq!(client.line("WAIT 1 60000"), ":1");
        }
    }
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    scene.weir.kill();
    (master, scene)
}

fn append(scene: &Scene, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(scene.last_increment()).unwrap();
    file.write_all(bytes).unwrap();
}

fn assert_goes_on(scene: &mut Scene, master: &Redis, full_syncs: &str) {
    scene.weir.start_again();
    master.client().line("SET more 1");
    scene.wait_caught_up(master);
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), digest(master));
    assert_eq!(info(&mut master.client(), "stats", "sync_full"), full_syncs);
}

#[test]
fn a_torn_tail_is_cut_and_the_stream_goes_on_from_there() {
    let (master, mut scene) = killed();
    append(&scene, b"*3\r\n$3\r\nSET\r\n$4\r\ntorn\r\n$5\r\nab");
    let (code, said) = scene.verify();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("torn off behind"), "{said}");
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), digest(&master), "a server starts from it, too");
    assert_goes_on(&mut scene, &master, "1");
    scene.weir.kill();
    let file = OpenOptions::new().write(true).open(scene.last_increment()).unwrap();
    file.set_len(file.metadata().unwrap().len() - 7).unwrap();
    assert_goes_on(&mut scene, &master, "1");
    scene.weir.kill();
    append(&scene, &[0; 4096]);
    assert_goes_on(&mut scene, &master, "1");
}

#[test]
fn a_damaged_middle_is_told_and_a_new_base_comes_beside_it() {
    let (master, mut scene) = killed();
    let path = scene.last_increment();
    let content = fs::read(&path).unwrap();
    let at = content.windows(4).position(|part| part == b"v100").unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"w", at as u64).unwrap();
    let (code, said) = scene.verify();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("DAMAGED at byte"), "{said}");
    assert_goes_on(&mut scene, &master, "2");
    assert!(scene.append_dir().join("pinned.1.manifest").exists());
    assert!(path.exists(), "nothing of it is removed");
}

#[test]
fn files_that_a_server_has_written_to_are_never_gone_on_with() {
    let (master, mut scene) = killed();
    let dir = scene.dir().to_str().unwrap().to_owned();
    let path = scene.last_increment();
    let server = Redis::start_with(&["--appendonly", "yes", "--dir", &dir]);
    wait_loaded(&server);
    assert_eq!(server.client().line("GET k199"), "$4 v199");
    // Nothing written: nothing has changed.
    drop(server);
    assert_goes_on(&mut scene, &master, "1");
    scene.weir.kill();
    let args = ["--appendonly", "yes", "--appendfsync", "always", "--dir", &dir];
    let server = Redis::start_with(&args);
    wait_loaded(&server);
    assert_eq!(server.client().line("SET promoted 1"), "+OK");
    drop(server);
    assert_goes_on(&mut scene, &master, "2");
    scene.weir.wait_log("a server has run with it since");
    let kept = fs::read(&path).unwrap();
    assert!(kept.windows(8).any(|part| part == b"promoted"), "what it wrote is kept");
    assert!(scene.append_dir().join("pinned.1.manifest").exists());
}

#[test]
fn a_disk_that_stands_still_stalls_no_client_and_confirms_nothing() {
    let master = master(&[]);
    let scene = Scene::with_faults(&master.url(), "");
    let mut client = master.client();
    // So that no base waits for the disk any more.
    wait::until("the stream has come to the disk", wait::LONG, || {
        client.line("SET a 1");
        scene.status()["durable"].as_u64() > Some(0)
    });
    let order = DiskOrder::give(&scene.dir(), HOLD_SYNCS);
    for n in 0..100 {
        assert_eq!(client.line(&format!("SET k{n} v")), "+OK");
    }
    assert_eq!(client.line("WAIT 1 300"), ":0");
    // A master may begin its stream up to a second after its base.
    wait::until("it is seen", wait::LONG, || {
        let status = scene.status();
        let seconds = status["not_durable_seconds"].as_f64();
        status["not_durable_bytes"].as_u64() > Some(0) && seconds > Some(0.0)
    });
    assert_eq!(client.line("WAIT 1 100"), ":0");
    drop(order);
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    wait::until("nothing waits", wait::LONG, || scene.status()["not_durable_bytes"] == 0);
}

#[test]
fn after_a_sync_that_failed_nothing_is_confirmed_before_a_restart_and_a_new_base() {
    let master = master(&[]);
    let mut scene = Scene::with_faults(&master.url(), "");
    let mut client = master.client();
    client.line("SET a 1");
    scene.wait_caught_up(&master);
    let order = DiskOrder::give(&scene.dir(), FAIL_SYNCS);
    client.line("SET b 1");
    assert_eq!(client.line("WAIT 1 300"), ":0");
    wait::until("it says so", wait::LONG, || scene.status()["link"] == "stopped");
    drop(order);
    assert_eq!(client.line("WAIT 1 300"), ":0");
    assert_eq!(info(&mut client, "replication", "connected_slaves"), "0");
    assert!(scene.weir.must_run(&["status"]).contains("could not sync"));
    scene.weir.kill();
    assert_goes_on(&mut scene, &master, "2");
    assert_eq!(client.line("SET c 1"), "+OK");
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    // One that fails as Weir starts is kept in mind just so.
    scene.weir.kill();
    let order = DiskOrder::give(&scene.dir(), FAIL_SYNCS);
    scene.weir.start_again();
    wait::until("it says so again", wait::LONG, || scene.status()["link"] == "stopped");
    drop(order);
    scene.weir.kill();
    assert_goes_on(&mut scene, &master, "3");
}

#[test]
fn a_manifest_that_is_gone_takes_nothing_with_it() {
    for is_emptied in [false, true] {
        let (master, mut scene) = killed();
        let (manifest, path) =
            (scene.append_dir().join("appendonly.aof.manifest"), scene.last_increment());
        let before = fs::read_to_string(&manifest).unwrap();
        fs::remove_file(&manifest).unwrap();
        if is_emptied {
            fs::write(&manifest, "").unwrap();
        }
        assert_goes_on(&mut scene, &master, "2");
        scene.weir.wait_log("its manifest is gone");
        assert!(path.exists(), "nothing of it is removed");
        let pinned = fs::read_to_string(scene.append_dir().join("pinned.1.manifest")).unwrap();
        let files = |text: &str| -> Vec<String> {
            text.lines().filter(|line| line.starts_with("file ")).map(str::to_owned).collect()
        };
        assert_eq!(files(&pinned), files(&before));
    }
}

#[test]
fn an_increment_that_is_gone_is_told_and_a_new_base_comes_beside() {
    let (master, mut scene) = killed();
    fs::remove_file(scene.last_increment()).unwrap();
    // What a server was writing when it died says nothing.
    fs::write(scene.append_dir().join("temp-appendonly.aof.manifest"), "file a").unwrap();
    assert_goes_on(&mut scene, &master, "2");
    scene.weir.wait_log("is missing");
    assert!(scene.append_dir().join("pinned.1.manifest").exists());
}
